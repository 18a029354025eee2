"""OpenClaw: approvals of commands through the gateway."""
import base64, json, os, signal, socket, struct, subprocess, sys, threading, time
from common import *

PORT, TOKEN = 18789, "probe-token-0123456789abcdef0123456789abcdef"


def settings(exec_):
    model = {"id": "fake-1", "name": "Fake One", "reasoning": False, "input": ["text"], "cost": {"input": 3, "output": 15, "cacheRead": 0.3, "cacheWrite": 3.75}, "contextWindow": 128000, "maxTokens": 4096}
    return {"gateway": {"mode": "local", "port": PORT, "bind": "loopback", "auth": {"mode": "token", "token": TOKEN}},
            "logging": {"file": HOME + "/openclaw-gateway.log"}, "discovery": {"mdns": {"mode": "off"}}, "update": {"checkOnStart": False}, "tools": {"exec": exec_},
            "agents": {"defaults": {"workspace": HOME + "/ws", "model": {"primary": "fake/fake-1"}, "skipBootstrap": True, "heartbeat": {"every": "0m"}}},
            "models": {"mode": "replace", "providers": {"fake": {"baseUrl": "http://127.0.0.1:4010/v1", "apiKey": "fake-key", "api": "openai-completions", "models": [model]}}}}


class Client:
    def __init__(self, scopes, name="cli", mode="cli", caps=()):
        self.heard, self.count, self.rest, self.closed = [], 0, b"", False
        self.socket = socket.create_connection(("127.0.0.1", PORT), 5)
        self.socket.settimeout(None)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode())
        data = b""
        while b"\r\n\r\n" not in data:
            more = self.socket.recv(4096)
            if not more:
                raise OSError("closed")
            data += more
        self.rest = data.split(b"\r\n\r\n", 1)[1]
        threading.Thread(target=self.listen, daemon=True).start()
        self.hello = self.ask("connect", {"minProtocol": 4, "maxProtocol": 4, "role": "operator", "caps": list(caps), "scopes": scopes, "auth": {"token": TOKEN},
                                          "client": {"id": name, "version": "0.0.1", "platform": "linux", "mode": mode}}, 30)

    def take(self, n):
        while len(self.rest) < n:
            more = self.socket.recv(65536)
            if not more:
                raise EOFError
            self.rest += more
        data, self.rest = self.rest[:n], self.rest[n:]
        return data

    def listen(self):
        try:
            while True:
                first, second = self.take(2)
                size = second & 127
                if size == 126:
                    size = struct.unpack(">H", self.take(2))[0]
                elif size == 127:
                    size = struct.unpack(">Q", self.take(8))[0]
                body = self.take(size)
                if first & 15 == 9:
                    self.frame(0x8A, body)
                if first & 15 == 1:
                    self.heard.append((time.monotonic() - START, json.loads(body)))
        except (EOFError, OSError):
            self.closed = True

    def frame(self, first, body):
        head = bytes([first]) + (bytes([0x80 | len(body)]) if len(body) < 126 else bytes([0x80 | 126]) + struct.pack(">H", len(body)))
        mask = os.urandom(4)
        self.socket.sendall(head + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(body)))

    def ask(self, method, params, seconds=20):
        self.count += 1
        id = str(self.count)
        self.frame(0x81, json.dumps({"type": "req", "id": id, "method": method, "params": params}).encode())
        reply = until(f"{method} is answered", lambda: next((m for _, m in self.heard if m.get("type") == "res" and m.get("id") == id), None), seconds)
        return reply and (reply.get("payload") if reply.get("ok") else {"error": reply.get("error")})

    def event(self, name, seconds=20, after=0):
        return until(f"event {name}", lambda: next((m for _, m in self.heard[after:] if m.get("event") == name), None), seconds)

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)


ENV = {"OPENCLAW_NO_RESPAWN": "1", "NO_COLOR": "1", "NO_UPDATE_NOTIFIER": "1", "OPENCLAW_DISABLE_BONJOUR": "1", "OPENCLAW_STATE_DIR": HOME + "/.openclaw"}
READ = ["operator.read", "operator.write"]
CAPS = json.loads(os.environ.get("CAPS", "[\"exec-approvals\"]"))
# Without a device only an administrator sees the approvals of runs that another client began.
SCOPES = ["operator.read", "operator.write", "operator.approvals", "operator.admin"]


def up(exec_):
    write(HOME + "/.openclaw/openclaw.json", json.dumps(settings(exec_)))
    run = Program(["openclaw", "gateway", "run", "--port", str(PORT), "--bind", "loopback"], env=ENV, cwd=HOME + "/ws", stdin=subprocess.DEVNULL)
    def open():
        try:
            client = Client(READ)
            return client if client.hello and "error" not in client.hello else None
        except OSError:
            return None
    client = until("the gateway lets us in", open, 150)
    say("gateway up, pid", run.pid)
    if not client:
        run.show()
    return run, client


def begin(client, label, words):
    made = client.ask("sessions.create", {"label": label, "message": words})
    say("sessions.create", short({k: (made or {}).get(k) for k in ("sessionId", "key", "runId", "error")}))
    return made


def row(client, id):
    rows = (client.ask("sessions.list", {"limit": 100}) or {}).get("sessions", [])
    found = next((r for r in rows if r.get("sessionId") == id), {})
    return {k: found.get(k) for k in ("hasActiveRun", "status", "waiting", "pendingApproval", "approval") if k in found}


def history(client, key, limit=400):
    told = client.ask("chat.history", {"sessionKey": key, "limit": 20}) or {}
    if "messages" not in told:
        say("chat.history", short(told))
    for message in told.get("messages", []):
        print("     |", short({k: message.get(k) for k in ("role", "content", "toolName", "isError", "stopReason", "errorMessage") if k in message}, limit))


def over(client, id):
    until("the run is over", lambda: row(client, id).get("hasActiveRun") is False and row(client, id).get("status"), 60)


def refusals():
    """Runs that cannot ask: begun without the scope, or with no approver connected."""
    run, client = up(json.loads(os.environ.get("EXEC", '{"security":"allowlist","ask":"always","host":"gateway"}')))
    made = begin(client, "begun without the scope", "go [[tool:touch claw-1]] [[say:done]]")
    over(client, made["sessionId"])
    say("-- begun by a client without operator.approvals: made", os.path.exists(HOME + "/ws/claw-1"))
    history(client, made["key"])
    starter = Client(READ + ["operator.approvals"], caps=CAPS)
    say("hello", short(starter.hello.get("auth"), 300))
    made = begin(starter, "starter leaves", "go [[delay:2]] [[tool:touch claw-0]] [[say:done]]")
    starter.close()
    over(client, made["sessionId"])
    say("-- begun with the scope, no approver connected: made", os.path.exists(HOME + "/ws/claw-0"))
    history(client, made["key"])
    run.kill()


def approvals():
    run, client = up(json.loads(os.environ.get("EXEC", '{"security":"allowlist","ask":"always","host":"gateway"}')))
    starter, approver = Client(READ + ["operator.approvals"], caps=CAPS), Client(SCOPES, caps=CAPS)
    made = begin(starter, "with approver", "go [[tool:touch claw-2]] [[say:done]]")
    asked = approver.event("exec.approval.requested", 120)
    say("event", short(asked, 2500))
    if not asked:
        say("heard", [m.get("event") or m.get("method") or m.get("id") for _, m in approver.heard][-20:], "closed", approver.closed, client.closed)
        history(approver, made["key"])
    say("row meanwhile", row(client, made["sessionId"]))
    listed = approver.ask("exec.approval.list", {})
    say("exec.approval.list ->", short(listed, 2000))
    say("the same without the scope ->", short(client.ask("exec.approval.list", {})))
    if asked:
        id = asked["payload"]["id"]
        say("approval.get ->", short(approver.ask("approval.get", {"id": id}), 1400))
        mark = len(approver.heard)
        say("approval.resolve allow-once ->", short(approver.ask("approval.resolve", {"id": id, "kind": "exec", "decision": "allow-once"}), 900))
        until("made", lambda: os.path.exists(HOME + "/ws/claw-2"), 10)
        say("made", os.path.exists(HOME + "/ws/claw-2"))
        say("events", [short(m, 600) for _, m in approver.heard[mark:] if "approval" in str(m.get("event"))])
        say("resolve again, deny ->", short(approver.ask("approval.resolve", {"id": id, "kind": "exec", "decision": "deny"}), 800))
        say("exec.approval.resolve again, deny ->", short(approver.ask("exec.approval.resolve", {"id": id, "decision": "deny"}), 500))
        say("exec.approval.resolve again, the same ->", short(approver.ask("exec.approval.resolve", {"id": id, "decision": "allow-once"}), 500))
        say("unknown id ->", short(approver.ask("approval.resolve", {"id": "nothing", "kind": "exec", "decision": "deny"}), 400))
        over(client, made["sessionId"])
        history(client, made["key"])
    mark = len(approver.heard)
    made = begin(starter, "denied", "go [[tool:touch claw-3]] [[say:done]]")
    asked = approver.event("exec.approval.requested", 30, mark)
    if asked:
        say("a decision that is not offered ->", short(approver.ask("approval.resolve", {"id": asked["payload"]["id"], "kind": "exec", "decision": "perhaps"}), 300))
        say("exec.approval.resolve deny ->", short(approver.ask("exec.approval.resolve", {"id": asked["payload"]["id"], "decision": "deny"}), 500))
        over(client, made["sessionId"])
        history(client, made["key"])
    mark = len(approver.heard)
    made = begin(starter, "approvers leave", "go [[tool:touch claw-4]] [[say:done]]")
    asked = approver.event("exec.approval.requested", 30, mark)
    if asked:
        approver.close()
        starter.close()
        time.sleep(4)
        say("4 s after every approver left: row", row(client, made["sessionId"]))
        again = Client(SCOPES, caps=CAPS)
        say("another approver lists ->", short(again.ask("exec.approval.list", {}), 600))
        say("aborting the run ->", short(again.ask("sessions.abort", {"key": made["key"]})))
        time.sleep(2)
        say("list after the abort ->", short(again.ask("exec.approval.list", {}), 400))
        say("resolve after the abort ->", short(again.ask("approval.resolve", {"id": asked["payload"]["id"], "kind": "exec", "decision": "allow-once"}), 700))
        time.sleep(2)
        say("made", os.path.exists(HOME + "/ws/claw-4"), "row", row(client, made["sessionId"]))
        history(client, made["key"], 300)
    run.kill()


if __name__ == "__main__":
    main({"refusals": refusals, "approvals": approvals})
