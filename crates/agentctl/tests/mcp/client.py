"""Calls every tool of `agentctl mcp` with the official Python client, which checks each result against the tool's
outputSchema. Run by .ci/mcp, in a home and pid namespace of its own. Prints one line.

    python client.py AGENTCTL WORK-DIRECTORY
"""

import asyncio
import json
import os
import sys
from importlib.metadata import version

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

agentctl, work = sys.argv[1:]


def field(result, *names):
    """Returns a field of a result: its name differs between versions of the client."""
    for name in names:
        if hasattr(result, name):
            return getattr(result, name)
    raise AttributeError(names)


async def call(client, name, **arguments):
    result = await client.call_tool(name, arguments)
    document = field(result, "structured_content", "structuredContent")
    sentence, text = result.content[0].text.split("\n")
    assert "data" in sentence, sentence
    assert json.loads(text) == document
    return bool(field(result, "is_error", "isError")), document


async def ok(client, name, **arguments):
    failed, document = await call(client, name, **arguments)
    assert not failed, document
    return document


async def main():
    env = {"HOME": os.environ["HOME"], "PATH": os.environ["PATH"], "AGENTCTL_NO_DAEMON": "1"}
    server = StdioServerParameters(command=agentctl, args=["mcp", "--allow-control"], env=env, cwd=work)
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        tools = (await session.list_tools()).tools
        names = {tool.name for tool in tools}
        assert all(field(tool, "output_schema", "outputSchema") for tool in tools)
        prompt = "Build it [[permit:touch made-py]] [[say:done]]"
        launched = await ok(session, "launch", adapter="demo", prompt=prompt, cwd=work, keep=True)
        one = launched["id"]
        assert (await ok(session, "wait_for", ids=[one], until="waiting"))["reached"]
        assert (await ok(session, "list_sessions"))["sessions"][0]["id"] == one
        asks = (await ok(session, "list_asks", session=one))["asks"]
        await ok(session, "answer", ask=asks[0]["id"], reply="allow")
        assert (await ok(session, "wait_for", ids=[one], until="idle"))["reached"]
        assert os.path.exists(f"{work}/made-py")
        await ok(session, "send", id=one, text="more [[say:second]]")
        await ok(session, "wait_for", ids=[one], until="idle")
        assert (await ok(session, "read_log", id=one, last=1))["messages"][0]["text"] == "second"
        assert (await ok(session, "get_session", id=one))["status"] == "idle"
        many = await asyncio.gather(*(ok(session, "list_sessions") for _ in range(200)))
        assert all(len(listed["sessions"]) == 1 for listed in many)
        failed, document = await call(session, "get_session", id="nosuchsession")
        assert failed and document["error"]["code"] == "session_not_found", document
        await ok(session, "stop", ids=[one])
        print(
            f"mcp: Python client {version('mcp')}: {len(names)} tools, 200 calls at once, "
            "results keep to their schemas"
        )


asyncio.run(main())
