// Calls every tool of `agentctl mcp` with the official TypeScript client, which checks each result against the
// tool's outputSchema. Run by .ci/mcp, in a home and pid namespace of its own. Prints one line.
//   node client.mjs AGENTCTL SDK-DIRECTORY WORK-DIRECTORY
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";

const [agentctl, sdk, work] = process.argv.slice(2);
const require = createRequire(`${sdk}/`);
const load = async (name) => import(pathToFileURL(require.resolve(`@modelcontextprotocol/sdk/${name}`)).href);
const { Client } = await load("client/index.js");
const { StdioClientTransport } = await load("client/stdio.js");

const connect = async (...args) => {
    const client = new Client({ name: "check", version: "1" });
    const env = { HOME: process.env.HOME, PATH: process.env.PATH, AGENTCTL_NO_DAEMON: "1" };
    const transport = new StdioClientTransport({ command: agentctl, args: ["mcp", ...args], env, cwd: work });
    await client.connect(transport);
    return client;
};
const called = new Set();
const call = async (client, name, args = {}) => {
    called.add(name);
    const result = await client.callTool({ name, arguments: args });
    const [sentence, json] = result.content[0].text.split("\n");
    assert.match(sentence, /data/);
    assert.deepEqual(JSON.parse(json), result.structuredContent);
    return result;
};
const ok = async (client, name, args) => {
    const result = await call(client, name, args);
    assert.equal(result.isError, false, JSON.stringify(result));
    return result.structuredContent;
};

const reader = await connect();
assert.equal((await reader.listTools()).tools.length, 5);
assert.equal((await call(reader, "stop", { ids: ["x"] })).structuredContent.error.code, "refused");
await reader.close();

const client = await connect("--allow-control");
const { tools } = await client.listTools();
assert.ok(tools.every((tool) => tool.inputSchema && tool.outputSchema && tool.annotations));
const prompt = "Build it [[permit:touch made-ts]] [[say:done]]";
const { id } = await ok(client, "launch", { adapter: "demo", prompt, cwd: work, keep: true });
assert.equal((await ok(client, "wait_for", { ids: [id], until: "waiting" })).reached, true);
assert.equal((await ok(client, "list_sessions")).sessions[0].id, id);
const { asks } = await ok(client, "list_asks", { session: id });
await ok(client, "answer", { ask: asks[0].id, reply: "allow" });
assert.equal((await ok(client, "wait_for", { ids: [id], until: "idle" })).reached, true);
assert.ok(existsSync(`${work}/made-ts`));
await ok(client, "send", { id, text: "more [[say:second]]" });
await ok(client, "wait_for", { ids: [id], until: "idle" });
assert.equal((await ok(client, "read_log", { id, last: 1 })).messages[0].text, "second");
assert.equal((await ok(client, "get_session", { id })).status, "idle");
const many = await Promise.all(Array.from({ length: 200 }, () => ok(client, "list_sessions")));
assert.ok(many.every((listed) => listed.sessions.length === 1));

const stop = new AbortController();
const waiting = client.callTool(
    { name: "wait_for", arguments: { ids: [id], until: "stopped" } }, undefined, { signal: stop.signal });
stop.abort("enough");
await assert.rejects(waiting);
await assert.rejects(client.callTool({ name: "get_session", arguments: {} }));
assert.equal((await call(client, "get_session", { id: "nosuchsession" })).structuredContent.error.code, "session_not_found");
await ok(client, "stop", { ids: [id] });
assert.deepEqual([...called].sort(), tools.map((tool) => tool.name).sort());
await client.close();
const { version } = JSON.parse(readFileSync(`${sdk}/node_modules/@modelcontextprotocol/sdk/package.json`));
console.log(`mcp: TypeScript client ${version}: ${tools.length} tools, 200 calls at once, results keep to their schemas`);
