"""How Claude Code and Codex name the tools of an MCP server to the model, and how long a call may take."""
import http.server, json, os, subprocess, sys, threading, time
from common import *

HERE = os.path.dirname(os.path.abspath(__file__))
SERVER = ["/usr/bin/python3", HERE + "/mcp_server.py"]


class Capture(http.server.BaseHTTPRequestHandler):
    """Writes down the tools of a request and refuses it."""
    seen = []

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        found = [json.dumps(t)[:420] for t in body.get("tools", []) if "list_sessions" in json.dumps(t)]
        Capture.seen.append((self.path, len(body.get("tools", [])), found))
        self.send_response(400); self.send_header("content-length", "2"); self.end_headers(); self.wfile.write(b"{}")

    def do_GET(self):
        self.send_response(404); self.send_header("content-length", "0"); self.end_headers()

    def log_message(self, *words):
        pass


def capture():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 4011), Capture)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def codex(extra=(), prompt="hello"):
    words = ["codex", "exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox",
             "-c", f'mcp_servers.agentctl.command="{SERVER[0]}"', "-c", f'mcp_servers.agentctl.args=["{SERVER[1]}"]', *extra, prompt]
    return Program(words, stdin=subprocess.DEVNULL)


def claude(prompt="hello", env=None):
    config = json.dumps({"mcpServers": {"agentctl": {"command": SERVER[0], "args": SERVER[1:]}}})
    return Program(["claude", "-p", "--output-format", "stream-json", "--verbose", "--mcp-config", config, "--allowedTools", "mcp__agentctl__list_sessions", "--", prompt], env=env, stdin=subprocess.DEVNULL)


def codex_names():
    capture()
    run = codex(("-c", 'model_providers.fake.base_url="http://127.0.0.1:4011/v1"'))
    say("exit", run.ended(30))
    for seen in Capture.seen:
        say(short(seen, 1200))


def codex_result():
    """What the model is given of a tool's result."""
    import glob
    run = codex((), 'go [[call:mcp__agentctl/list_sessions {"seconds": 0}]] [[say:done]]')
    say("exit", run.ended(60))
    for path in glob.glob(HOME + "/.codex/sessions/**/*.jsonl", recursive=True):
        for line in lines(path):
            if line.get("payload", {}).get("type") in ("function_call", "function_call_output"):
                say(short(line["payload"], 500))


def codex_time():
    for name in ("mcp__agentctl/list_sessions", "mcp__agentctl__list_sessions"):
        run = codex((), f"go [[call:{name} {{\"seconds\": 1}}]] [[say:done]]")
        say("exit", run.ended(60))
        run.show(0, 300)
    at = time.monotonic()
    run = codex((), 'go [[call:%s {"seconds": 200}]] [[say:done]]' % os.environ.get("NAME", "mcp__agentctl/list_sessions"))
    say("exit", run.ended(260), f"after {time.monotonic() - at:.0f} s")
    run.show(0, 300)


def claude_names():
    capture()
    run = claude(env={"ANTHROPIC_BASE_URL": "http://127.0.0.1:4011"})
    say("exit", run.ended(60))
    for seen in Capture.seen[:3]:
        say(short(seen, 900))


def claude_time():
    run = claude('go [[call:mcp__agentctl__list_sessions {"seconds": 1}]] [[say:done]]')
    say("exit", run.ended(60))
    run.show(0, 250, ("system",))
    at = time.monotonic()
    run = claude('go [[call:mcp__agentctl__list_sessions {"seconds": 200}]] [[say:done]]')
    say("exit", run.ended(260), f"after {time.monotonic() - at:.0f} s")
    run.show(0, 250, ("system",))


if __name__ == "__main__":
    main({"codex_names": codex_names, "codex_result": codex_result, "codex_time": codex_time, "claude_names": claude_names, "claude_time": claude_time})
