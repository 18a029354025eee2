"""Codex: approvals, questions and messages through an app-server on a Unix socket."""
import base64, glob, json, os, queue, signal, socket, struct, subprocess, sys, threading, time, uuid
from common import *

QUIET = {"configWarning", "remoteControl/status/changed", "deprecationNotice", "item/agentMessage/delta", "thread/tokenUsage/updated", "account/rateLimits/updated", "mcpServer/startupStatus/updated"}


class Client:
    """One WebSocket connection; every message kept with its time."""

    def __init__(self, path, name="probe", experimental=True, initialize=True):
        self.name, self.heard, self.count, self.closed = name, [], 0, False
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(f"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode())
        data = b""
        while b"\r\n\r\n" not in data:
            data += self.socket.recv(4096)
        self.rest = data.split(b"\r\n\r\n", 1)[1]
        self.status = data.split(b"\r\n", 1)[0].decode()
        threading.Thread(target=self.listen, daemon=True).start()
        if initialize:
            self.hello = self.ask("initialize", {"clientInfo": {"name": name, "title": name, "version": "1"}, "capabilities": {"experimentalApi": experimental}})
            self.tell({"method": "initialized"})

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
                if first & 15 == 1:
                    self.heard.append((time.monotonic() - START, json.loads(body)))
        except (EOFError, OSError):
            self.closed = True

    def tell(self, value):
        body = json.dumps(value).encode()
        mask = os.urandom(4)
        head = bytes([0x81])
        head += bytes([0x80 | len(body)]) if len(body) < 126 else bytes([0x80 | 126]) + struct.pack(">H", len(body)) if len(body) < 65536 else bytes([0x80 | 127]) + struct.pack(">Q", len(body))
        self.socket.sendall(head + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(body)))

    def find(self, fits, after=0):
        for _, message in self.heard[after:]:
            if fits(message):
                return message
        return None

    def ask(self, method, params, seconds=20):
        self.count += 1
        id = f"{self.name}-{self.count}"
        self.tell({"id": id, "method": method, "params": params})
        reply = until(f"{method} is answered", lambda: self.find(lambda m: m.get("id") == id and "method" not in m), seconds)
        return (reply or {}).get("result", reply)

    def event(self, method, after=0, seconds=20):
        return until(f"{self.name} hears {method}", lambda: self.find(lambda m: m.get("method") == method, after), seconds)

    def mark(self):
        return len(self.heard)

    def show(self, after=0, limit=500):
        for at, message in self.heard[after:]:
            if message.get("method") not in QUIET:
                print(f"   {at:7.3f} {self.name} < {short(message, limit)}")

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


class Server:
    def __init__(self, listen=None):
        self.path = listen or f"{HOME}/s-{uuid.uuid4().hex[:6]}.sock"
        self.log = open(f"{HOME}/server.log", "ab")
        began = time.monotonic()
        self.process = subprocess.Popen(["codex", "app-server", "--listen", "unix://" + self.path], cwd=WORK, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True)
        until("the socket is there", lambda: os.path.exists(self.path), 20)
        until("it takes connections", self.open, 20)
        say(f"server pid {self.process.pid}, socket after {1000 * (time.monotonic() - began):.0f} ms, link to", short(os.path.realpath(self.path)))

    def open(self):
        try:
            s = socket.socket(socket.AF_UNIX); s.connect(self.path); s.close()
            return True
        except OSError:
            return False

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill(); self.process.wait()
        real = os.path.realpath(self.path)
        for path in (real, real.replace(".sock", ".lock")):
            if path.startswith("/tmp") and os.path.exists(path):
                os.remove(path)


def text(words):
    return [{"type": "text", "text": words, "text_elements": []}]


POLICY = os.environ.get("POLICY", "untrusted")


def thread(client, policy=None, **more):
    made = client.ask("thread/start", {"cwd": WORK, "approvalPolicy": policy or POLICY, "sandbox": "workspace-write", **more})
    try:
        return made["thread"]["id"]
    except (TypeError, KeyError):
        say("thread/start", short(made)); raise


def rollout(id):
    found = glob.glob(f"{HOME}/.codex/sessions/**/*{id}.jsonl", recursive=True)
    return lines(found[0]) if found else []


def said(id, limit=300):
    for line in rollout(id):
        payload = line.get("payload", {})
        kind = payload.get("type")
        if kind in ("user_message", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output", "task_started", "task_complete", "turn_aborted", "agent_message", "item_completed"):
            print("     |", line.get("type"), short(payload, limit))


def request(client, after=0, seconds=20):
    return until(f"{client.name} is asked", lambda: client.find(lambda m: "id" in m and "method" in m, after), seconds)


def approval():
    """V5: a private server, one command, its ids, replay to another client, accept."""
    server = Server()
    a = Client(server.path, "a")
    say("initialize ->", short(a.hello))
    id = thread(a)
    began = a.ask("turn/start", {"threadId": id, "input": text("go [[tool:touch codex-1]] [[say:done]]")})
    say("turn/start ->", short(began, 400))
    ask = request(a)
    say("request", short(ask, 1800))
    calls = [l["payload"] for l in rollout(id) if l.get("payload", {}).get("type") in ("function_call", "custom_tool_call")]
    say("rollout's open call", short(calls, 500))
    if ask and calls:
        say("itemId == call_id:", ask["params"].get("itemId") == calls[-1].get("call_id"))
    b = Client(server.path, "b")
    say("thread/read by b ->", short(b.ask("thread/read", {"threadId": id}), 900))
    time.sleep(0.3)
    say("b is asked without thread/resume:", bool(b.find(lambda m: "id" in m and "method" in m)))
    at = time.monotonic()
    mark = b.mark()
    resumed = b.ask("thread/resume", {"threadId": id})
    say(f"thread/resume -> {len(json.dumps(resumed))} bytes", short({k: v for k, v in resumed.items() if k != 'thread'}, 700))
    replay = request(b, mark, 5)
    say(f"replayed {1000 * (time.monotonic() - at):.0f} ms after it was sent; same:", replay == ask, short(replay, 200))
    order = [m.get("method") or f"reply {m.get('id')}" for _, m in b.heard[mark:]]
    say("order b heard", order)
    mark_a, mark_b = a.mark(), b.mark()
    b.tell({"id": replay["id"], "result": {"decision": "accept"}})
    until("made", lambda: exists("codex-1"))
    until("turn over", lambda: a.find(lambda m: m.get("method") == "turn/completed", mark_a))
    a.show(mark_a, 400)
    say("--- b"); b.show(mark_b, 200)
    mark_b = b.mark()
    b.tell({"id": replay["id"], "result": {"decision": "decline"}})
    time.sleep(0.7)
    say("a second answer to the settled id: b hears", short([m for _, m in b.heard[mark_b:]], 400))
    said(id)
    server.end()


def decisions():
    """Each decision for a command, and what the rollout says."""
    server = Server()
    a = Client(server.path, "a")
    for n, decision in enumerate(["decline", "acceptForSession", "nonsense", None, {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["touch"]}}]):
        name = f"dec-{n}"
        id = thread(a)
        mark = a.mark()
        a.ask("turn/start", {"threadId": id, "input": text(f"go [[tool:touch {name}]] [[say:done]]")})
        ask = request(a, mark, 8)
        if not ask:
            say("--", decision, "no ask"); a.show(mark, 200); continue
        say("--", short(decision) if decision else "JSON-RPC error", "offered", short(ask["params"].get("availableDecisions"), 400))
        mark = a.mark()
        if decision is None:
            a.tell({"id": ask["id"], "error": {"code": -32000, "message": "no"}})
        else:
            a.tell({"id": ask["id"], "result": {"decision": decision}})
        done = a.event("turn/completed", mark, 8)
        say("made", exists(name), "turn", short((done or {}).get("params", {}).get("turn", {}), 250))
        say("item/completed statuses", [m["params"]["item"].get("status") for _, m in a.heard[mark:] if m.get("method") == "item/completed" and m["params"]["item"]["type"] == "commandExecution"], "rules", {p: read(p) for p in glob.glob(HOME + "/.codex/rules/*")})
        say("heard", [m.get("method") for _, m in a.heard[mark:] if m.get("method") not in QUIET])
        for line in rollout(id):
            payload = line.get("payload", {})
            if payload.get("type") in ("function_call_output", "turn_aborted"):
                print("     |", short(payload, 300))
    server.end()


def race(rounds=12):
    """V6: two clients answer one request at once, one accepts, one declines."""
    server = Server()
    a, b = Client(server.path, "a"), Client(server.path, "b")
    tally = {}
    for n in range(rounds):
        id = thread(a)
        mark_a, mark_b = a.mark(), b.mark()
        a.ask("turn/start", {"threadId": id, "input": text(f"go [[tool:touch race-{n}]] [[say:done]]")})
        ask = request(a, mark_a)
        b.ask("thread/resume", {"threadId": id})
        other = request(b, mark_b)
        first, second = (a, b) if n % 2 else (b, a)
        first.tell({"id": ask["id"], "result": {"decision": "accept"}})
        second.tell({"id": other["id"], "result": {"decision": "decline"}})
        a.event("turn/completed", mark_a, 8)
        resolved = [len([m for _, m in c.heard[mark:] if m.get("method") == "serverRequest/resolved"]) for c, mark in ((a, mark_a), (b, mark_b))]
        errors = [m for c, mark in ((a, mark_a), (b, mark_b)) for _, m in c.heard[mark:] if "error" in m]
        key = f"made={exists(f'race-{n}')} resolved={resolved} errors={errors}"
        tally[key] = tally.get(key, 0) + 1
        if n == 0:
            say("resolved frame", short(a.find(lambda m: m.get("method") == "serverRequest/resolved")))
    say("accept first, decline second:", short(tally))
    server.end()


def leaves():
    """The asking client leaves; a resumed client leaves; the thread's unload."""
    server = Server()
    a = Client(server.path, "a")
    id = thread(a)
    a.ask("turn/start", {"threadId": id, "input": text("go [[tool:touch left]] [[say:done]]")})
    ask = request(a)
    a.close()
    time.sleep(1)
    b = Client(server.path, "b")
    say("after the starter left:", short(b.ask("thread/read", {"threadId": id})["thread"]["status"]))
    b.ask("thread/resume", {"threadId": id})
    replay = request(b)
    say("replayed", bool(replay))
    b.close()
    c = Client(server.path, "c")
    time.sleep(0.5)
    say("after b left unanswered:", short(c.ask("thread/read", {"threadId": id})["thread"]["status"]))
    c.ask("thread/resume", {"threadId": id})
    replay = request(c)
    say("ids", ask["id"], replay["id"])
    c.tell({"id": replay["id"], "result": {"decision": "accept"}})
    c.event("serverRequest/resolved", 0, 5)
    c.close()
    until("made", lambda: exists("left"), 10)
    d = Client(server.path, "d")
    for after in (1, 5, 15, 30, 50, 62, 70):
        while time.monotonic() - START < 0:
            pass
        time.sleep(max(0, after - getattr(leaves, "spent", 0)))
        leaves.spent = after
        say(f"{after} s after everyone left:", short(d.ask("thread/read", {"threadId": id})["thread"]["status"]), "loaded", short(d.ask("thread/loaded/list", {})))
    say("server alive", server.process.poll() is None)
    server.end()


def interrupt():
    server = Server()
    a, b = Client(server.path, "a"), Client(server.path, "b")
    id = thread(a)
    turn = a.ask("turn/start", {"threadId": id, "input": text("go [[tool:touch intr]] [[say:done]]")})["turn"]["id"]
    ask = request(a)
    mark = a.mark()
    say("turn/interrupt with an ask open ->", short(b.ask("turn/interrupt", {"threadId": id, "turnId": turn})))
    a.event("turn/completed", mark, 5)
    a.show(mark, 300)
    mark = a.mark()
    a.tell({"id": ask["id"], "result": {"decision": "accept"}})
    time.sleep(0.7)
    say("accept afterwards: made", exists("intr"), short([m for _, m in a.heard[mark:]], 200))
    say("turn/start to go on ->", short(a.ask("turn/start", {"threadId": id, "input": text("again [[say:yes]]")}), 200))
    a.event("turn/completed", mark, 5)
    said(id, 220)
    server.end()


def messages():
    """turn/start at rest, at work; turn/steer with good and stale ids; receipts."""
    server = Server()
    a, b = Client(server.path, "a"), Client(server.path, "b")
    id = thread(a, "never", **{})
    turn = a.ask("turn/start", {"threadId": id, "input": text("one [[tool:sleep 2]] [[say:first]]")})["turn"]["id"]
    time.sleep(1)
    say("turn/steer by b, not subscribed, good id ->", short(b.ask("turn/steer", {"threadId": id, "expectedTurnId": turn, "input": text("steered words [[say:steered]]")})))
    say("turn/steer with clientUserMessageId ->", short(b.ask("turn/steer", {"threadId": id, "expectedTurnId": turn, "clientUserMessageId": "0f0f-our-id", "input": text("steered twice [[say:steered2]]")})))
    say("turn/steer, stale id ->", short(b.ask("turn/steer", {"threadId": id, "expectedTurnId": "01a00000-0000-7000-8000-000000000000", "input": text("stale")})))
    at = a.mark()
    a.event("turn/completed", at, 10)
    a.show(at, 350)
    say("turn/steer at rest ->", short(b.ask("turn/steer", {"threadId": id, "expectedTurnId": turn, "input": text("too late")})))
    say("rollout"); said(id, 260)
    mark = a.mark()
    say("turn/start at rest by b, not subscribed ->", short(b.ask("turn/start", {"threadId": id, "clientUserMessageId": "0f0f-our-id-2", "input": text("two [[tool:sleep 2]] [[say:second]]")}), 300))
    time.sleep(0.8)
    say("turn/start while at work ->", short(b.ask("turn/start", {"threadId": id, "input": text("three [[say:third]]")}), 300))
    time.sleep(4)
    a.show(mark, 260)
    say("rollout"); said(id, 260)
    say("status", short(b.ask("thread/read", {"threadId": id})["thread"]["status"]))
    server.end()


def question():
    """requestUserInput in plan mode."""
    server = Server()
    a = Client(server.path, "a")
    id = thread(a, "never")
    q = {"questions": [{"id": "colour", "header": "Colour", "question": "Which colour?", "options": [{"label": "Red", "description": "r"}, {"label": "Blue", "description": "b"} ] } ] }
    call = json.dumps(q).replace("]}]", "] } ]")
    plan = {"mode": "plan", "settings": {"model": "fake-codex-1", "reasoning_effort": None, "developer_instructions": None}}
    mark = a.mark()
    say("turn/start in plan mode ->", short(a.ask("turn/start", {"threadId": id, "collaborationMode": plan, "input": text(f"go [[call:request_user_input {call}]] [[say:done]]")}), 300))
    ask = request(a, mark, 8)
    say("request", short(ask, 1500))
    if not ask:
        a.show(mark, 300)
        server.end(); return
    calls = [l["payload"] for l in rollout(id) if l.get("payload", {}).get("type") == "function_call"]
    say("itemId == call_id:", ask["params"].get("itemId"), calls and calls[-1].get("call_id"))
    b = Client(server.path, "b")
    say("status", short(b.ask("thread/read", {"threadId": id})["thread"]["status"]))
    b.ask("thread/resume", {"threadId": id})
    replay = request(b, 0, 5)
    say("replayed to b", bool(replay))
    mark = a.mark()
    (b if replay else a).tell({"id": ask["id"], "result": {"answers": {"colour": {"answers": ["Blue"]}}}})
    a.event("turn/completed", mark, 8)
    a.show(mark, 300)
    said(id, 300)
    server.end()


def file_change():
    server = Server()
    a = Client(server.path, "a")
    for decision in ("accept", "decline", "cancel"):
        id = thread(a)
        patch = "*** Begin Patch\n*** Add File: patched-%s.txt\n+hello\n*** End Patch\n" % decision
        mark = a.mark()
        a.ask("turn/start", {"threadId": id, "input": text("go [[call:exec_command %s]] [[say:done]]" % json.dumps({"cmd": "apply_patch <<'EOF'\n" + patch + "EOF\n"}))})
        ask = until("asked or over", lambda: a.find(lambda m: ("id" in m and "method" in m) or m.get("method") == "turn/completed", mark), 8)
        say("--", decision, short(ask, 900))
        if ask and "id" in ask:
            item = a.find(lambda m: m.get("method") == "item/started" and m["params"]["item"].get("id") == ask["params"].get("itemId"), mark)
            say("item", short(item, 700))
            mark = a.mark()
            a.tell({"id": ask["id"], "result": {"decision": decision}})
            done = a.event("turn/completed", mark, 8)
            over = a.find(lambda m: m.get("method") == "item/completed" and m["params"]["item"].get("id") == ask["params"].get("itemId"), mark)
            say("item/completed status", short((over or {}).get("params", {}).get("item", {}).get("status")))
            say("turn", short((done or {}).get("params", {}).get("turn", {}).get("status")), "made", exists(f"patched-{decision}.txt"))
        else:
            a.show(mark, 260)
        said(id, 260)
    server.end()


def escalation():
    """on-request: the model asks to leave the sandbox."""
    server = Server()
    a = Client(server.path, "a")
    id = thread(a, "on-request")
    call = json.dumps({"cmd": "touch esc-1", "sandbox_permissions": "require_escalated", "justification": "needs the world"})
    mark = a.mark()
    a.ask("turn/start", {"threadId": id, "input": text(f"go [[call:exec_command {call}]] [[say:done]]")})
    ask = request(a, mark, 8)
    say("request", short(ask, 1500))
    if ask:
        a.tell({"id": ask["id"], "result": {"decision": "accept"}})
        a.event("turn/completed", mark, 8)
        say("made", exists("esc-1"))
    call = json.dumps({"permissions": {"network": {"enabled": True}}, "reason": "net please"})
    id = thread(a, "on-request")
    mark = a.mark()
    a.ask("turn/start", {"threadId": id, "input": text(f"go [[call:request_permissions {call}]] [[say:done]]")})
    ask = until("asked or over", lambda: a.find(lambda m: ("id" in m and "method" in m) or m.get("method") == "turn/completed", mark), 8)
    say("request_permissions", short(ask, 1000))
    said(id, 300)
    server.end()


def stdio():
    """The same server on stdin and stdout: one client only."""
    run = Program(["codex", "app-server"])
    run.send({"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "p", "version": "1"}}})
    run.wait_line("initialize", lambda v: v.get("id") == 1)
    run.send({"id": 2, "method": "thread/start", "params": {"cwd": WORK, "approvalPolicy": POLICY, "sandbox": "workspace-write"}})
    made = run.wait_line("thread/start", lambda v: v.get("id") == 2)
    id = made["result"]["thread"]["id"]
    run.send({"id": 3, "method": "turn/start", "params": {"threadId": id, "input": text("go [[tool:touch over-stdio]] [[say:done]]")}})
    ask = run.wait_line("asked", lambda v: "requestApproval" in v.get("method", ""))
    say("request", short(ask, 700))
    run.send({"id": ask["id"], "result": {"decision": "accept"}})
    run.wait_line("turn over", lambda v: v.get("method") == "turn/completed")
    say("made", exists("over-stdio"), "links", os.readlink(f"/proc/{run.pid}/fd/0"))
    run.process.stdin.close()
    say("stdin closed: exit", run.ended(10))
    run.kill()


def resume_settings():
    """Whether thread/resume by a second client changes policy or model of the loaded thread."""
    server = Server()
    a, b = Client(server.path, "a"), Client(server.path, "b")
    id = thread(a)
    a.ask("turn/start", {"threadId": id, "input": text("go [[tool:touch rs-1]] [[tool:touch rs-2]] [[say:done]]")})
    ask = request(a)
    before = len(rollout(id))
    b.ask("thread/resume", {"threadId": id})
    time.sleep(0.5)
    say("lines of the rollout before and after resume", before, len(rollout(id)))
    replay = request(b)
    mark = b.mark()
    b.tell({"id": replay["id"], "result": {"decision": "accept"}})
    second = until("second ask", lambda: b.find(lambda m: "id" in m and "method" in m, mark), 8)
    say("the second command of the same turn is asked of b too:", bool(second), "and of a:", bool(a.find(lambda m: m.get("id") == (second or {}).get("id") and "method" in m)))
    say("thread/unsubscribe ->", short(b.ask("thread/unsubscribe", {"threadId": id})))
    a.tell({"id": second["id"], "result": {"decision": "accept"}})
    until("made", lambda: exists("rs-2"), 8)
    say("made", exists("rs-1"), exists("rs-2"))
    server.end()


def launch_and_leave():
    """The launcher starts thread and turn, then leaves at once; the link to the socket is removed."""
    server = Server()
    a = Client(server.path, "a")
    id = thread(a)
    a.ask("turn/start", {"threadId": id, "input": text("go [[delay:1]] [[tool:touch lal]] [[say:done]]")})
    a.close()
    real = os.path.realpath(server.path)
    os.remove(server.path)
    time.sleep(2.5)
    b = Client(real, "b")
    say("after the link was removed, by the target:", short(b.ask("thread/read", {"threadId": id})["thread"]["status"]))
    b.ask("thread/resume", {"threadId": id})
    replay = request(b)
    b.tell({"id": replay["id"], "result": {"decision": "accept"}})
    b.event("turn/completed", 0, 8)
    say("made", exists("lal"))
    say("listening:", subprocess.run(["grep", os.path.basename(real), "/proc/net/unix"], capture_output=True, text=True).stdout.strip())
    os.kill(server.process.pid, signal.SIGTERM)
    say("SIGTERM at rest: exit", server.process.wait(10), "socket left", os.path.exists(real))
    if os.path.exists(real):
        os.remove(real)


def tmux(*words):
    return subprocess.run(["tmux", "-S", HOME + "/tmux", "-f", "/dev/null", *words], capture_output=True, text=True).stdout


def typed(words):
    tmux("set-buffer", words)
    tmux("paste-buffer", "-p", "-d", "-t", "t")
    until("it is shown", lambda: words[:12] in tmux("capture-pane", "-p", "-t", "t"), 10)
    time.sleep(0.3)
    tmux("send-keys", "-t", "t", "Enter")


def shared():
    """V7: a terminal whose thread lives in the user's own server; we answer, the terminal answers, we leave."""
    config = HOME + "/.codex/config.toml"
    write(config, read(config).replace("daemon_auto_start = false", "daemon_auto_start = true"))
    tmux("new-session", "-d", "-s", "t", "-x", "120", "-y", "40", f"cd {WORK} && exec codex")
    control = HOME + "/.codex/app-server-control/app-server-control.sock"
    until("the control socket", lambda: os.path.exists(control), 60)
    def connected():
        try:
            return Client(control, "us")
        except OSError:
            return None
    us = until("it takes connections", connected, 30)
    say("initialize ->", short(us.hello), "mode of the socket", oct(os.stat(os.path.realpath(control)).st_mode), "its folder", oct(os.stat(os.path.dirname(os.path.realpath(control))).st_mode))
    ids = until("the terminal's thread", lambda: (us.ask("thread/loaded/list", {}) or {}).get("data"), 30)
    say("loaded", short(ids))
    id = ids[0]
    until("prompt", lambda: "fake-codex" in tmux("capture-pane", "-p", "-t", "t"), 20)
    time.sleep(1)
    call = json.dumps({"cmd": "touch /tmp/../$HOME/shared-1 || true", "sandbox_permissions": "require_escalated", "justification": "needs it"})
    typed(f"go [[call:exec_command {call}]] [[say:done]]")
    until("waiting", lambda: "waitingOnApproval" in json.dumps(us.ask("thread/read", {"threadId": id})), 20)
    say("status", short(us.ask("thread/read", {"threadId": id})["thread"]["status"]))
    time.sleep(0.5)
    say("screen", [l.strip() for l in tmux("capture-pane", "-p", "-t", "t").splitlines() if l.strip()][-12:])
    us.ask("thread/resume", {"threadId": id})
    ask = request(us, 0, 5)
    say("replayed", short(ask, 700))
    us.tell({"id": ask["id"], "result": {"decision": "accept"}})
    say("resolved", bool(us.event("serverRequest/resolved", 0, 5)))
    us.event("turn/completed", 0, 10)
    time.sleep(1)
    say("made", os.path.exists(HOME + "/shared-1"), "screen", [l.strip() for l in tmux("capture-pane", "-p", "-t", "t").splitlines() if l.strip()][-6:])
    say("-- now the terminal answers while we are subscribed")
    mark = us.mark()
    typed(f"again [[call:exec_command {call.replace('shared-1', 'shared-2')}]] [[say:done]]")
    ask = request(us, mark, 15)
    say("we are asked", bool(ask))
    at = time.monotonic()
    until("the dialog", lambda: "proceed" in tmux("capture-pane", "-p", "-t", "t"), 15)
    say(f"the dialog is shown {time.monotonic() - at:.1f} s after the request")
    tmux("send-keys", "-t", "t", "y")
    say("resolved seen by us", short(us.event("serverRequest/resolved", mark, 8)))
    us.tell({"id": ask["id"], "result": {"decision": "decline"}})
    us.event("turn/completed", mark, 10)
    say("made", os.path.exists(HOME + "/shared-2"))
    say("-- a message from us while it rests")
    mark = us.mark()
    say("turn/start ->", short(us.ask("turn/start", {"threadId": id, "clientUserMessageId": "ours-1", "input": text("from outside [[say:heard you]]")}), 200))
    us.event("turn/completed", mark, 10)
    time.sleep(1)
    say("screen", [l.strip() for l in tmux("capture-pane", "-p", "-t", "t").splitlines() if l.strip()][-7:])
    say("unsubscribe ->", short(us.ask("thread/unsubscribe", {"threadId": id})))
    us.close()
    tmux("send-keys", "-t", "t", "-l", "/quit"); time.sleep(0.4); tmux("send-keys", "-t", "t", "Enter")
    until("the terminal is gone", lambda: not tmux("list-sessions"), 10)
    late = Client(control, "late")
    for _ in range(9):
        state = late.ask("thread/read", {"threadId": id})
        say("after the terminal quit:", short((state or {}).get("thread", {}).get("status", state)))
        if "notLoaded" in json.dumps(state):
            break
        time.sleep(10)
    real = os.path.realpath(control)
    for path in (real, real + ".lock"):
        if os.path.exists(path):
            os.remove(path)


if __name__ == "__main__":
    main({name: value for name, value in list(globals().items()) if callable(value) and getattr(value, "__module__", "") == "__main__"
          and name not in ("Client", "Server", "text", "thread", "rollout", "said", "request", "tmux", "typed")})
