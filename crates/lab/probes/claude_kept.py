"""Claude Code kept open: stream-json on a named pipe, permissions over stdio."""
import fcntl, glob, json, os, signal, subprocess, sys, time, uuid
from common import *
from claude import settings, decision, user, fresh, seen, answer, transcript, talk, record, HOOKS, MODE

ASK = '[[call:AskUserQuestion {"questions":[{"question":"Which colour?","header":"Colour","multiSelect":false,"options":[{"label":"Red","description":"r"},{"label":"Blue","description":"b"}]},{"question":"Which sizes?","header":"Size","multiSelect":true,"options":[{"label":"S","description":"s"},{"label":"L","description":"l"}]}] }]]'


class Kept:
    """An agent whose stdin is a pipe that it holds itself, and whose stdout is a file."""

    def __init__(self, extra=(), prompt_tool=True, mode=MODE, session=None, resume=None):
        self.id = resume or session or str(uuid.uuid4())
        base = f"{HOME}/run-{uuid.uuid4().hex[:6]}"
        os.makedirs(base)
        self.fifo, self.out = base + "/in", base + "/out"
        os.mkfifo(self.fifo)
        end = os.open(self.fifo, os.O_RDWR)
        try:
            fcntl.fcntl(end, 1031, 1 << 20)
        except OSError as error:
            say("pipe size:", error)
        argv = ["claude", "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose", "--replay-user-messages"]
        argv += ["--resume", resume] if resume else ["--session-id", self.id]
        argv += ["--permission-mode", mode] if mode else []
        argv += ["--permission-prompt-tool", "stdio"] if prompt_tool else []
        argv += list(extra)
        self.process = subprocess.Popen(argv, stdin=end, stdout=open(self.out, "wb"), stderr=open(base + "/err", "wb"), cwd=WORK, start_new_session=True)
        self.pid, self.err = self.process.pid, base + "/err"
        os.close(end)
        self.mark = 0

    def write(self, value):
        """As another process does: through the agent's own descriptor."""
        line = value if isinstance(value, bytes) else (json.dumps(value) + "\n").encode()
        end = os.open(f"/proc/{self.pid}/fd/0", os.O_WRONLY | os.O_NONBLOCK)
        wrote = os.write(end, line)
        os.close(end)
        if wrote != len(line):
            say(f"short write: {wrote} of {len(line)}")

    def user(self, text, id=None):
        line = {"type": "user", "message": {"role": "user", "content": text}}
        if id:
            line["uuid"] = id
        self.write(line)

    def said(self):
        return [l for l in lines(self.out) if isinstance(l, dict)]

    def find(self, fits, after=None):
        for line in self.said()[self.mark if after is None else after:]:
            if fits(line):
                return line
        return None

    def wait(self, what, fits, seconds=20):
        return until(what, lambda: self.find(fits), seconds)

    def asked(self, seconds=20):
        return self.wait("can_use_tool", lambda l: l.get("type") == "control_request" and l["request"].get("subtype") == "can_use_tool", seconds)

    def result(self, seconds=20):
        line = self.wait("result", lambda l: l.get("type") == "result", seconds)
        if line:
            say("result", short({k: line.get(k) for k in ("subtype", "is_error", "result", "num_turns", "terminal_reason", "permission_denials")}))
        return line

    def next(self):
        self.mark = len(self.said())

    def respond(self, id, response):
        self.write({"type": "control_response", "response": {"subtype": "success", "request_id": id, "response": response}})

    def control(self, subtype, **more):
        id = "c-" + uuid.uuid4().hex[:6]
        self.write({"type": "control_request", "request_id": id, "request": {"subtype": subtype, **more}})
        line = self.wait(subtype, lambda l: l.get("type") == "control_response" and l["response"].get("request_id") == id, 10)
        say(subtype, "->", short(line, 500))
        return line

    def show(self, limit=500, after=None):
        for line in self.said()[self.mark if after is None else after:]:
            if line.get("subtype") != "init":
                print("     <", short(line, limit))
        if read(self.err):
            print("     stderr", short(read(self.err), 400))

    def status(self):
        found = json.loads(record(self.pid) or "{}")
        return {k: found.get(k) for k in ("status", "waitingFor", "kind", "entrypoint")}

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def start_to_end():
    """Whole life: silence, prompt, ask, allow, second turn, end_session."""
    fresh()
    kept = Kept()
    time.sleep(3)
    say("before any line: stdout lines", len(kept.said()), "record", short(record(kept.pid) or "none"))
    id = str(uuid.uuid4())
    kept.user("first [[tool:touch kept-1]] [[say:one]]", id)
    ask = kept.asked()
    at = time.monotonic()
    waiting = until("record says waiting", lambda: kept.status() if kept.status()["status"] == "waiting" else None, 5)
    say(f"record says {waiting} {1000 * (time.monotonic() - at):.0f} ms after the frame was read")
    kept.show(1400)
    say("transcript holds the call:", any("tool_use" in json.dumps(l) for l in transcript(kept.id)))
    say("fd 0:", os.readlink(f"/proc/{kept.pid}/fd/0"), "fd 1:", os.readlink(f"/proc/{kept.pid}/fd/1"), "flags", (read(f"/proc/{kept.pid}/fdinfo/0") or "").split()[:6])
    os.remove(kept.fifo)
    say("name removed, fd 0:", os.readlink(f"/proc/{kept.pid}/fd/0"))
    kept.next()
    at = time.monotonic()
    kept.respond(ask["request_id"], {"behavior": "allow", "updatedInput": ask["request"]["input"]})
    until("made", lambda: exists("kept-1"))
    say(f"tool ran after {1000 * (time.monotonic() - at):.0f} ms")
    kept.result()
    kept.show(600)
    say("after the turn", kept.status())
    kept.next()
    kept.respond(ask["request_id"], {"behavior": "deny", "message": "late"})
    time.sleep(1)
    say("late answer: lines after it", len(kept.said()) - kept.mark, kept.status())
    kept.user("second [[say:two]]", str(uuid.uuid4()))
    kept.result()
    kept.next()
    kept.control("end_session")
    say("exit", kept.process.wait(15), "record", record(kept.pid))
    talk(kept.id, 400)
    kept.end()


def allow_without_input():
    """Whether `updatedInput` may be left out, and other shapes of an answer."""
    for label, response in (("allow, no updatedInput", {"behavior": "allow"}), ("deny, no message", {"behavior": "deny"}), ("deny + interrupt", {"behavior": "deny", "message": "stop it", "interrupt": True}),
                            ("unknown behavior", {"behavior": "perhaps"}), ("allow + always", "suggest"), ("error response", None)):
        fresh()
        if exists("shape"):
            os.remove(f"{WORK}/shape")
        kept = Kept()
        kept.user("go [[tool:touch shape]] [[say:end]]")
        ask = kept.asked()
        say("--", label)
        if not ask:
            kept.show(); kept.end(); continue
        kept.next()
        if response == "suggest":
            say("suggestions", short(ask["request"].get("permission_suggestions")))
            rules = [{"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "touch shape:*"}], "behavior": "allow", "destination": "session"}]
            response = {"behavior": "allow", "updatedInput": ask["request"]["input"], "updatedPermissions": rules}
        if response is None:
            kept.write({"type": "control_response", "response": {"subtype": "error", "request_id": ask["request_id"], "error": "no"}})
        else:
            kept.respond(ask["request_id"], response)
        kept.result(10)
        say("made", exists("shape"), kept.status())
        for line in kept.said()[kept.mark:]:
            if line.get("type") in ("user", "control_cancel_request"):
                print("     <", short(line, 400))
        kept.end()


def words():
    """V1: echo of our uuid, a repeated uuid, a line in the middle of a turn, with and without a tool."""
    fresh()
    kept = Kept()
    id = str(uuid.uuid4())
    kept.user("alpha [[say:A]]", id)
    kept.result()
    say("echo of alpha:", short(kept.find(lambda l: l.get("type") == "user" and l.get("uuid") == id) or "none"))
    kept.next()
    kept.user("alpha [[say:A]]", id)
    time.sleep(2.5)
    say("repeat of the same uuid, same process: new lines", short(kept.said()[kept.mark:], 900), kept.status())
    kept.next()
    second = str(uuid.uuid4())
    kept.user("beta [[tool:sleep 2]] [[say:B]]")
    time.sleep(1.2)
    say("at work", kept.status())
    kept.user("gamma mid-turn, in a tool [[say:G]]", second)
    kept.result()
    time.sleep(2)
    say("mid-turn in a tool:")
    kept.show(450)
    kept.next()
    third = str(uuid.uuid4())
    kept.user("delta [[delay:3]] [[say:D]]")
    time.sleep(1)
    kept.user("epsilon mid-turn, in a model call [[say:E]]", third)
    kept.result()
    time.sleep(4)
    say("mid-turn in a model call:")
    kept.show(450)
    kept.next()
    say("transcript")
    talk(kept.id, 330)
    kept.control("end_session")
    say("exit", kept.process.wait(15))
    kept.end()
    again = Kept(resume=kept.id)
    again.user("alpha [[say:A again]]", id)
    line = until("result or replay", lambda: again.find(lambda l: l.get("type") in ("result",)), 6)
    say("resumed, the old uuid again: result", short((line or {}).get("result", "none")), again.status())
    again.show(450)
    again.next()
    again.user("zeta [[say:Z]]", str(uuid.uuid4()))
    again.result()
    say("uuids in the transcript:", short([(l.get("uuid") or "")[:8] + ":" + short(l["message"].get("content"), 40) for l in transcript(kept.id) if isinstance(l, dict) and l.get("type") == "user"], 1500), "ours", id[:8], second[:8], third[:8])
    again.end()


def interrupts():
    fresh()
    kept = Kept()
    kept.user("i1 [[tool:touch never]] [[say:x]]")
    ask = kept.asked()
    say("status with the ask", kept.status())
    kept.next()
    kept.control("interrupt")
    kept.result(8)
    time.sleep(0.5)
    say("interrupt while an ask is open:", kept.status())
    kept.show(500)
    kept.next()
    kept.respond(ask["request_id"], {"behavior": "allow", "updatedInput": ask["request"]["input"]})
    time.sleep(1.5)
    say("an allow after it: made", exists("never"))
    kept.next()
    kept.user("i2 [[hang]]")
    until("busy", lambda: kept.status()["status"] == "busy", 5)
    time.sleep(0.7)
    kept.control("interrupt")
    kept.result(8)
    say("interrupt in a model call:", kept.status())
    kept.next()
    kept.user("i3 [[tool:tail -f /dev/null]] [[say:x]]")
    ask = kept.asked(4)
    if ask:
        kept.respond(ask["request_id"], {"behavior": "allow", "updatedInput": ask["request"]["input"]})
    time.sleep(1.5)
    at = time.monotonic()
    kept.control("interrupt")
    kept.result(8)
    say(f"interrupt in a tool took {time.monotonic() - at:.2f} s", kept.status(), "sleep left:", subprocess.run(["pgrep", "-fc", "^tail -f /dev/null"], capture_output=True, text=True).stdout.strip())
    kept.next()
    kept.control("interrupt")
    say("interrupt at rest: lines", short(kept.said()[kept.mark:], 300), kept.status())
    kept.user("i4 [[say:still here]]")
    kept.result(8)
    talk(kept.id, 260)
    kept.end()


def questions():
    fresh()
    kept = Kept()
    kept.user("q " + ASK + " [[say:end]]")
    ask = kept.asked()
    say("frame", short(ask, 2500))
    time.sleep(0.3)
    say(kept.status())
    if ask:
        kept.next()
        given = {**ask["request"]["input"], "answers": {"Which colour?": "Blue", "Which sizes?": "S, L"}}
        kept.respond(ask["request_id"], {"behavior": "allow", "updatedInput": given})
        kept.result()
        talk(kept.id, 700)
    kept.end()
    kept = Kept()
    kept.user("q " + ASK + " [[say:end]]")
    ask = kept.asked()
    if ask:
        kept.respond(ask["request_id"], {"behavior": "allow", "updatedInput": {**ask["request"]["input"], "answers": {"Which colour?": "a free text answer"}}})
        kept.result()
        talk(kept.id, 500)
    kept.end()


def plans():
    fresh()
    kept = Kept(mode="plan")
    kept.user('p [[call:ExitPlanMode {"plan":"# The plan\\nstep one"}]] [[tool:touch planned]] [[say:end]]')
    ask = kept.asked()
    say("frame", short(ask, 2000))
    say("transcript's call", [short(l["message"]["content"], 500) for l in transcript(kept.id) if isinstance(l, dict) and l.get("type") == "assistant"])
    say("plan files", [short(p) + ": " + short(read(p)) for p in glob.glob(HOME + "/.claude/plans/*")])
    time.sleep(0.3)
    say(kept.status())
    if ask:
        kept.next()
        kept.respond(ask["request_id"], {"behavior": "allow", "updatedInput": ask["request"]["input"]})
        second = kept.asked(5)
        say("after the allow, next ask", short(second, 400))
        if second:
            kept.respond(second["request_id"], {"behavior": "allow", "updatedInput": second["request"]["input"]})
        kept.result()
        say("mode changes", [short(l, 200) for l in kept.said() if "permissionMode" in l])
        talk(kept.id, 500)
    kept.end()


def with_hooks():
    """V2: our hook and the user's hook in kept mode, with and without the prompt tool."""
    for label, tool, ours, theirs in (("stdio, our hook waits", True, "wait", None), ("stdio, our hook allows", True, decision("allow"), None), ("stdio, user's hook allows", True, None, decision("allow")),
                                      ("stdio, user's hook denies", True, None, decision("deny", message="theirs")),
                                      ("no prompt tool, our hook waits", False, "wait", None)):
        fresh()
        if exists("kh"):
            os.remove(f"{WORK}/kh")
        if theirs is not None:
            user(settings("theirs", theirs))
        extra = []
        if ours is not None:
            write(HOME + "/run/settings.json", json.dumps(settings("ours", ours)))
            extra = ["--settings", HOME + "/run/settings.json"]
        kept = Kept(extra=extra, prompt_tool=tool)
        kept.user("go [[tool:touch kh]] [[say:end]]")
        say("--", label)
        until("something", lambda: glob.glob(HOOKS + "/1-*.json") or kept.find(lambda l: l.get("type") in ("control_request", "result")), 15)
        time.sleep(1.5)
        ask = kept.find(lambda l: l.get("type") == "control_request")
        say("hook called:", [os.path.basename(p) for p in glob.glob(HOOKS + "/*.json")], "frame:", bool(ask), "record", kept.status(), "made", exists("kh"))
        if label == "stdio, our hook waits" and ask:
            kept.respond(ask["request_id"], {"behavior": "allow", "updatedInput": ask["request"]["input"]})
            kept.result(8)
            time.sleep(1)
            it = seen("ours")
            say("answered over stdio while the hook waits: made", exists("kh"), "hook alive", os.path.exists(f"/proc/{it['pid']}"), "signals", it["signals"])
            answer(decision("deny"), "ours")
            kept.next()
            if os.path.exists(f"{HOOKS}/2-ours.json"):
                os.remove(f"{HOOKS}/2-ours.json")
            os.remove(f"{WORK}/kh")
            kept.user("again [[tool:touch kh]] [[say:end]]")
            ask = kept.asked(6)
            it = seen("ours", 2, 5)
            say("second ask: frame", bool(ask), "hook", bool(it))
            if it:
                kept.next()
                answer(decision("allow"), "ours", 2)
                kept.result(8)
                say("answered by the hook while the frame is open: made", exists("kh"))
                for line in kept.said()[kept.mark:]:
                    print("     <", short(line, 300))
        elif tool is False and seen("ours", seconds=1):
            say("record while our hook waits", kept.status())
            answer(decision("allow"), "ours")
            kept.result(8)
            say("made", exists("kh"))
            kept.next()
            kept.user("q " + ASK + " [[say:end]]")
            it = seen("ours", 2, 6)
            say("question without the prompt tool: hook", short((it or {}).get("given", "not called"), 300))
            kept.show(300)
        else:
            kept.result(5)
            say("made", exists("kh"))
            for line in kept.said():
                if line.get("type") in ("control_request", "control_cancel_request", "user"):
                    print("     <", short(line, 260))
        kept.end()


def pipes():
    """What a tool of the agent sees of the pipe, and what a bad line does."""
    fresh()
    kept = Kept(extra=["--allowedTools", "Bash"])
    kept.user("go [[tool:ls -l /proc/self/fd /proc/$CLAUDE_PID/fd/0; (exec 9>/proc/$CLAUDE_PID/fd/0 && echo opened for writing)]] [[say:end]]")
    kept.result()
    talk(kept.id, 1200)
    for bad in (b"rubbish\n", b"{\"type\":\"nonsense\"}\n", b"\n", b"{\"type\":\"user\"}\n", b'{"type":"control_response","response":{"subtype":"success","request_id":"nobody","response":{"behavior":"allow"}}}\n'):
        kept.next()
        try:
            kept.write(bad)
        except OSError as error:
            say("write:", error)
            break
        time.sleep(1)
        say("line", bad, "-> alive", kept.process.poll() is None, "exit", kept.process.poll(), short(kept.said()[kept.mark:], 300), short(read(kept.err) or "", 200))
        if kept.process.poll() is not None:
            kept = Kept()
            time.sleep(2)
    kept.next()
    big = "big " + "x" * 900_000 + " [[say:got it]]"
    kept.user(big)
    kept.result(20)
    say("900 kB line: recorded", any(isinstance(l, dict) and l.get("type") == "user" and len(json.dumps(l)) > 900_000 for l in transcript(kept.id)))
    kept.end()


def parallel():
    """Two subagents that ask at once."""
    fresh()
    kept = Kept()
    inner = lambda n: json.dumps({"description": "d", "prompt": f"inner [[tool:touch par-{n}]] [[say:inner {n}]]", "subagent_type": "general-purpose", "run_in_background": True})
    kept.user(f"go [[call:Agent {inner(1)}]] [[call:Agent {inner(2)}]] [[say:end]]")
    until("two asks", lambda: len([l for l in kept.said() if l.get("type") == "control_request"]) >= 2, 15)
    asks = [l for l in kept.said() if l.get("type") == "control_request"]
    for line in asks:
        print("     <", short(line, 900))
    say("record", kept.status())
    for line in reversed(asks):
        kept.respond(line["request_id"], {"behavior": "allow", "updatedInput": line["request"]["input"]})
    until("both made", lambda: exists("par-1") and exists("par-2"), 10)
    say("made", exists("par-1"), exists("par-2"))
    time.sleep(1)
    say([short(l.get("subtype") or l.get("type"), 60) for l in kept.said()])
    kept.end()


def pipe_race(rounds=12):
    """Two writers answer one request: the order of the echoes on stdout, and what was done."""
    import threading
    fresh()
    kept = Kept()
    tally = {}
    for n in range(rounds):
        kept.next()
        kept.user(f"r{n} [[tool:touch pr-{n}]] [[say:end]]")
        ask = kept.asked(15)
        if not ask:
            continue
        words = [{"behavior": "allow", "updatedInput": ask["request"]["input"]}, {"behavior": "deny", "message": "no"}]
        threads = [threading.Thread(target=kept.respond, args=(ask["request_id"], w)) for w in (words if n % 2 else reversed(words))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        kept.result(15)
        time.sleep(0.2)
        echoes = [l["response"]["response"]["behavior"] for l in kept.said()[kept.mark:] if l.get("type") == "control_response"]
        key = f"echoes {echoes} made {exists(f'pr-{n}')}"
        tally[key] = tally.get(key, 0) + 1
    say(tally)
    kept.end()


def nonce():
    """Whether fields of ours in an answer are echoed, so that the echo names the answerer."""
    fresh()
    kept = Kept()
    for n, line in enumerate(({"agentctl": "inner-1"}, None)):
        kept.next()
        kept.user(f"n{n} [[tool:touch nonce-{n}]] [[say:end]]")
        ask = kept.asked(15)
        good = {"behavior": "allow", "updatedInput": ask["request"]["input"]}
        frame = {"type": "control_response", "response": {"subtype": "success", "request_id": ask["request_id"], "response": {**good, **(line or {})}}}
        if line is None:
            frame["uuid"] = "outer-2"
            frame["response"]["agentctl"] = "middle-2"
            frame["response"]["response"]["toolUseID"] = ask["request"]["tool_use_id"]
        kept.write(frame)
        kept.result(10)
        say("made", exists(f"nonce-{n}"), "echo", short(kept.find(lambda l: l.get("type") == "control_response"), 500))
    kept.end()


def echo_without_replay():
    """Whether answers are echoed without --replay-user-messages."""
    fresh()
    base = HOME + "/run-plain"
    os.makedirs(base, exist_ok=True)
    run = Program(["claude", "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose", "--permission-mode", MODE, "--permission-prompt-tool", "stdio"])
    run.send({"type": "user", "message": {"role": "user", "content": "go [[tool:touch ewr]] [[say:end]]"}, "uuid": str(uuid.uuid4())})
    ask = run.wait_line("asked", lambda v: v.get("type") == "control_request")
    run.send({"type": "control_response", "response": {"subtype": "success", "request_id": ask["request_id"], "response": {"behavior": "allow", "updatedInput": ask["request"]["input"]}}})
    run.wait_line("result", lambda v: v.get("type") == "result")
    say("types on stdout", [v.get("type") for _, v in run.lines if isinstance(v, dict)])
    run.process.stdin.close()
    say("stdin closed: exit", run.ended(15))
    run.kill()


def forged():
    """What else a line in the pipe may do."""
    fresh()
    kept = Kept()
    kept.user("hello [[say:hi]]")
    kept.result()
    for mode in ("acceptEdits", "bypassPermissions", "auto"):
        kept.next()
        kept.control("set_permission_mode", mode=mode)
    kept.control("set_permission_mode", mode="acceptEdits")
    kept.next()
    kept.user("go [[tool:touch forged]] [[say:end]]")
    kept.result(8)
    say("acceptEdits by a line: made", exists("forged"))
    kept.control("initialize", hooks=None)
    kept.control("mcp_status")
    kept.control("get_session_cost")
    kept.control("nonsense")
    kept.end()


def question_hook():
    """A question in kept mode with our hook beside the frame: answered by the hook."""
    fresh()
    write(HOME + "/run/settings.json", json.dumps(settings("ours", "wait")))
    kept = Kept(extra=["--settings", HOME + "/run/settings.json"])
    kept.user("q " + ASK + " [[say:end]]")
    it = seen("ours", seconds=10)
    say("hook given", short((it or {}).get("given", "not called"), 1200))
    say("frame", bool(kept.asked(5)), kept.status())
    if it:
        answer(decision("allow", updatedInput={**it["given"]["tool_input"], "answers": {"Which colour?": "Blue", "Which sizes?": "S"}}), "ours")
        kept.result(8)
        say("said", [short(l["message"]["content"], 300) for l in kept.said() if l.get("type") == "user" and "tool_result" in json.dumps(l)])
        say("cancelled", bool(kept.find(lambda l: l.get("type") == "control_cancel_request")))
    kept.next()
    kept.user("q2 " + ASK + " [[say:end]]")
    it = seen("ours", 2, 10)
    if it:
        answer(decision("allow"), "ours", 2)
        kept.result(5)
        say("allow without answers:", [short(l["message"]["content"], 300) for l in kept.said()[kept.mark:] if l.get("type") == "user" and "tool_result" in json.dumps(l)], kept.status())
    kept.end()


def plan_file():
    """The plan written into its file first, as the program tells the model to."""
    fresh()
    kept = Kept(mode="plan")
    kept.user("hello [[say:hi]]")
    kept.result()
    path = None
    for line in transcript(kept.id):
        if isinstance(line, dict) and line.get("attachment", {}).get("type") == "plan_mode":
            path = line["attachment"].get("planFilePath")
            say("attachment", short({k: v for k, v in line["attachment"].items() if k != "text"}, 300))
    say("plan file", short(path or "none"))
    if path:
        kept.next()
        kept.user("p [[call:Write %s]] [[call:ExitPlanMode {}]] [[say:end]]" % json.dumps({"file_path": path, "content": "# The plan\nstep one"}))
        ask = kept.asked()
        say("frame", short(ask, 900))
        time.sleep(0.5)
        say("transcript's call", [short(l["message"]["content"], 400) for l in transcript(kept.id) if isinstance(l, dict) and l.get("type") == "assistant" and "ExitPlanMode" in json.dumps(l["message"]["content"])])
        if ask:
            kept.next()
            kept.respond(ask["request_id"], {"behavior": "deny", "message": "think again"})
            kept.result(8)
            say("denied:", [short(l["message"]["content"], 300) for l in kept.said()[kept.mark:] if l.get("type") == "user"])
    kept.end()


if __name__ == "__main__":
    main({name: value for name, value in list(globals().items()) if callable(value) and getattr(value, "__module__", "") == "__main__" and name != "Kept"})
