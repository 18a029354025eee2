"""Claude Code: hooks that answer, and the stream protocol of a kept session."""
import glob, json, os, shlex, signal, subprocess, sys, time, uuid
from common import *

HOOK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "claude_hook.py")
HOOKS = HOME + "/hooks"
MODE = os.environ.get("MANUAL", "manual")


def command(name, mode):
    return f"/usr/bin/python3 {shlex.quote(HOOK)} {name} {shlex.quote(mode)} {shlex.quote(HOOKS + '/x')}"


def settings(name="ours", mode="wait", event="PermissionRequest", timeout=60, **more):
    return {"hooks": {event: [{"matcher": "*", "hooks": [{"type": "command", "command": command(name, mode), "timeout": timeout}]}]}, **more}


def decision(behavior, **more):
    return json.dumps({"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": behavior, **more}}})


def user(value):
    write(HOME + "/.claude/settings.json", json.dumps(value))


def fresh():
    for path in glob.glob(HOOKS + "/*"):
        os.remove(path)
    user({})
    os.makedirs(HOOKS, exist_ok=True)


def once(prompt, ours=None, extra=(), mode=MODE, quiet=False):
    fresh_id = str(uuid.uuid4())
    argv = ["claude", "-p", "--output-format", "stream-json", "--verbose", "--session-id", fresh_id]
    if mode:
        argv += ["--permission-mode", mode]
    if ours is not None:
        path = HOME + "/run/settings.json"
        write(path, json.dumps(ours))
        argv += ["--settings", path]
    argv += list(extra)
    program = Program(argv, stdin=subprocess.PIPE)
    program.id = fresh_id
    if prompt is not None:
        program.process.stdin.write(prompt.encode())
        program.process.stdin.close()
    return program


def seen(name="ours", number=1, seconds=30):
    path = f"{HOOKS}/{number}-{name}.json"
    def whole():
        text = read(path)
        try:
            return json.loads(text) if text else None
        except ValueError:
            return None
    return until(f"hook {number}-{name} was called", whole, seconds)


def answer(text, name="ours", number=1):
    write(f"{HOOKS}/{number}-{name}.answer.tmp", text)
    os.rename(f"{HOOKS}/{number}-{name}.answer.tmp", f"{HOOKS}/{number}-{name}.answer")


def transcript(session):
    found = glob.glob(f"{HOME}/.claude/projects/*/{session}.jsonl")
    return lines(found[0]) if found else []


def talk(session, limit=700):
    """The conversation lines of a transcript, short."""
    for line in transcript(session):
        if not isinstance(line, dict) or line.get("type") not in ("user", "assistant", "attachment", "system", "queue-operation"):
            continue
        kept = {k: v for k, v in line.items() if k not in ("apiBlockIndex", "requestRef", "requestedModel", "promptCacheRequested", "effort", "perTurnEffort", "madeBy", "turnOrigin", "turnPosition", "toolInputStreamMs", "parentUuid", "promptId", "sourceToolAssistantUUID", "cwd", "sessionId", "version", "gitBranch", "userType", "entrypoint", "requestId", "slug", "isSidechain", "timestamp")}
        if line["type"] == "attachment" and (line.get("attachment", {}).get("type") == "prompt_snapshot" or "hook" not in json.dumps(line.get("attachment", {}).get("type", "")) and "queue" not in json.dumps(line.get("attachment", {}))):
            continue
        if "message" in kept:
            kept["message"] = kept["message"].get("content")
        print("     |", short(kept, limit))


def record(pid):
    return read(f"{HOME}/.claude/sessions/{pid}.json")


def result(program, seconds=40):
    line = program.wait_line("result", lambda v: v.get("type") == "result", seconds=seconds)
    if line:
        say("result", short({k: line.get(k) for k in ("subtype", "is_error", "result", "permission_denials", "num_turns", "terminal_reason", "stop_reason", "errors")}))
    say("exit", program.ended(20))
    for _, value in program.errors:
        say("stderr", short(str(value), 300))
    return line


def hook_allow():
    """What the hook is given, what it sees of the machine, and an allow."""
    fresh()
    run = once("go [[tool:touch made-1]] [[say:done]]", settings())
    it = seen()
    init = run.find(lambda v: v.get("subtype") == "init")
    say("init.permissionMode", init and init.get("permissionMode"), "agent pid", run.pid)
    say("hook saw", short(it, 4000))
    say("record while waiting", short(record(run.pid) or "none"))
    say("transcript at hook start has tool_use lines:", it["tool_use_lines_in_transcript"], "now:", sum(1 for l in transcript(run.id) if isinstance(l, dict) and l.get("type") == "assistant" and "tool_use" in json.dumps(l)))
    at = time.monotonic()
    answer(decision("allow"))
    until("file made", lambda: exists("made-1"))
    say(f"tool ran {1000 * (time.monotonic() - at):.0f} ms after the answer file")
    result(run)
    talk(run.id)


def hook_minimal():
    """For old versions: is the hook called in -p, is its allow taken, what does it get."""
    fresh()
    run = once("go [[tool:touch minimal]] [[say:end]]", settings(mode=decision("allow")))
    result(run)
    it = seen(seconds=0.1)
    say("hook called", bool(it), "made", exists("minimal"), short((it or {}).get("given", {}), 700), short({k: v for k, v in ((it or {}).get("env") or {}).items() if k != "PATH"}, 500))


def hook_deny():
    for more, label in (({"message": "not today"}, "deny"), ({"message": "not today", "interrupt": True}, "deny+interrupt")):
        fresh()
        run = once("go [[tool:touch denied]] [[say:after the denial]]", settings())
        seen()
        answer(decision("deny", **more))
        say("--", label)
        result(run)
        say("made:", exists("denied"))
        talk(run.id)


def hook_other_outputs():
    for label, text in (("empty output, exit 0", ""), ("exit 1", "exit 1\nbroken"), ("exit 2 with stderr", "exit 2\nblocked by me"),
                        ("rubbish", "hello"), ("wrong event", decision("allow").replace("PermissionRequest", "PreToolUse")),
                        ("unknown behavior", decision("maybe")),
                        ("two lines", decision("allow") + "\n" + decision("deny")),
                        ("updatedInput", decision("allow", updatedInput={"command": "touch edited", "description": "x"})),
                        ("always", decision("allow", updatedPermissions=[{"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "touch other:*"}], "behavior": "allow", "destination": "localSettings"}]))):
        fresh()
        for name in ("other", "edited"):
            if exists(name):
                os.remove(f"{WORK}/{name}")
        run = once("go [[tool:touch other]] [[say:end]]", settings())
        seen()
        answer(text)
        say("--", label)
        result(run)
        say("made other:", exists("other"), "edited:", exists("edited"), "local settings:", read(WORK + "/.claude/settings.local.json"))
        talk(run.id, 400)


def hook_killed():
    for label, sent in (("SIGKILL", signal.SIGKILL), ("SIGTERM", signal.SIGTERM)):
        fresh()
        run = once("go [[tool:touch killed]] [[say:end]]", settings())
        it = seen()
        say("--", label, "to the hook", it["pid"], "parent of hook", it["ppid"], "agent", run.pid)
        os.kill(it["pid"], sent)
        result(run)
        say("made:", exists("killed"))
        talk(run.id, 500)


def hook_timeout():
    fresh()
    run = once("go [[tool:touch late]] [[say:end]]", settings(mode="wait-stay", timeout=3))
    seen()
    at = time.monotonic()
    result(run)
    say(f"{time.monotonic() - at:.1f} s; made:", exists("late"), "signals to the hook", short(seen()["signals"]), "hook alive:", os.path.exists(f"/proc/{seen()['pid']}"))
    talk(run.id, 500)


def long_timeouts():
    """Whether very long timeouts are honoured."""
    for seconds in (86400 * 24, 86400 * 25, 86400 * 365, 0, -1, 0.5):
        fresh()
        run = once("go [[tool:touch long]] [[say:end]]", settings(timeout=seconds))
        it = seen(seconds=12)
        time.sleep(2)
        say("timeout", seconds, "hook called", bool(it), "waits after 2 s:", not run.find(lambda v: v.get("type") == "result"), "stderr", [short(str(e), 200) for _, e in run.errors])
        if it:
            answer(decision("deny", message="x"))
        run.ended(10)
        run.kill()


def agent_ends():
    """What becomes of the hook when the agent is ended."""
    for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        fresh()
        run = once("go [[tool:touch gone]] [[say:end]]", settings(mode="wait-stay"))
        it = seen()
        os.kill(run.pid, sent)
        code = run.ended(20)
        time.sleep(1.5)
        now = seen()
        alive = os.path.exists(f"/proc/{it['pid']}")
        say(f"signal {sent}: agent exit {code}; hook alive {alive}, its parent now", (read(f"/proc/{it['pid']}/stat") or "- - - -").rsplit(')')[-1].split()[1:2], "signals to the hook", now["signals"])
        if alive:
            os.kill(it["pid"], signal.SIGKILL)


def two_hooks():
    """A hook of the user's beside ours: who wins, and whether both run at once."""
    allow, deny = decision("allow"), decision("deny", message="theirs says no")
    cases = [("theirs allows at once, ours waits", allow, "wait", None), ("theirs denies at once, ours waits", deny, "wait", None),
             ("theirs empty at once, ours waits then allows", "", "wait", allow), ("theirs denies at once, ours allows at once", deny, allow, None),
             ("theirs allows at once, ours denies at once", allow, decision("deny", message="ours says no"), None),
             ("theirs waits 3 s then denies, ours allows at once", "wait", allow, "theirs-deny")]
    for label, theirs, ours, later in cases:
        fresh()
        if exists("two"):
            os.remove(f"{WORK}/two")
        user(settings("theirs", theirs))
        run = once("go [[tool:touch two]] [[say:end]]", settings("ours", ours))
        say("--", label)
        a, b = seen("theirs"), seen("ours")
        if a and b:
            say("started", f"{1000 * (b['at'] - a['at']):.0f} ms apart")
        time.sleep(1.5)
        say("after 1.5 s: made", exists("two"), "result there:", bool(run.find(lambda v: v.get("type") == "result")))
        if later == "theirs-deny":
            time.sleep(1.5)
            answer(deny, "theirs")
        elif ours == "wait":
            answer(later or decision("deny", message="ours late"), "ours")
        result(run)
        say("made:", exists("two"), "ours:", short((seen('ours') or {}).get("signals", [])), "left", (seen("ours") or {}).get("left"))
        for line in run.lines:
            if isinstance(line[1], dict) and line[1].get("type") == "user":
                print("     |", short(line[1].get("message", {}).get("content"), 300))


def modes():
    """The permission mode of -p without a flag, and what asks in each."""
    for mode in (None, "manual", "default", "acceptEdits", "auto", "plan", "dontAsk"):
        fresh()
        run = once("go [[tool:touch mode-x]] [[call:Write {\"file_path\": \"%s/w.txt\", \"content\": \"x\"}]] [[say:end]]" % WORK, settings(mode=decision("deny", message="no")), mode=mode)
        line = run.wait_line("init", lambda v: v.get("subtype") == "init", seconds=10)
        say("--", mode, "init says", line and line.get("permissionMode"))
        result(run)
        say("hook calls:", [json.loads(read(p)).get("given", {}).get("tool_name") for p in sorted(glob.glob(HOOKS + "/*-ours.json"))])


def question_and_plan():
    """AskUserQuestion and ExitPlanMode in plain -p with a hook."""
    ask = '[[call:AskUserQuestion {"questions":[{"question":"Which colour?","header":"Colour","multiSelect":false,"options":[{"label":"Red","description":"r"},{"label":"Blue","description":"b"}]}] }]]'
    plan = '[[call:ExitPlanMode {"plan":"# The plan\\nstep one"}]]'
    for label, prompt, mode, extra in (("question", ask, MODE, ()), ("plan", plan, "plan", ()), ):
        fresh()
        run = once("go " + prompt + " [[say:end]]", settings(), mode=mode, extra=extra)
        it = seen(seconds=8)
        say("--", label, "hook given", short((it or {}).get("given", "never called"), 1500))
        if it:
            answer(decision("allow"))
        result(run)
        talk(run.id, 600)


def subagent_ask():
    fresh()
    inner = "inner [[tool:touch sub-made]] [[say:inner done]]"
    prompt = "go [[call:Agent %s]] [[say:end]]" % json.dumps({"description": "d", "prompt": inner, "subagent_type": "general-purpose"})
    run = once(prompt, settings())
    it = seen()
    if it:
        say("hook given", short(it["given"], 1500))
        say("session's own open calls in main transcript", it["tool_use_lines_in_transcript"])
        for path in glob.glob(f"{HOME}/.claude/projects/*/{run.id}/subagents/*.jsonl"):
            say("subagent file", short(path), "tool_use lines", sum(1 for l in lines(path) if isinstance(l, dict) and l.get("type") == "assistant" and "tool_use" in json.dumps(l)))
        answer(decision("allow"))
    result(run)
    say("made", exists("sub-made"))


def parallel_hooks():
    """Two background subagents in one -p run that ask at the same time."""
    fresh()
    inner = lambda n: json.dumps({"description": "d", "prompt": f"inner [[tool:touch ph-{n}]] [[say:inner {n}]]", "subagent_type": "general-purpose", "run_in_background": True})
    run = once(f"go [[call:Agent {inner(1)}]] [[call:Agent {inner(2)}]] [[say:end]]", settings())
    a, b = seen(number=1), seen(number=2)
    say("both alive", [os.path.exists(f"/proc/{h['pid']}") for h in (a, b) if h], "commands", [h["given"]["tool_input"]["command"] for h in (a, b) if h], "agents", [h["given"].get("agent_id") for h in (a, b) if h])
    say("result line already there:", bool(run.find(lambda v: v.get("type") == "result")), "process alive", run.process.poll() is None, short(record(run.pid) or "none", 120))
    answer(decision("deny", message="no"), number=2)
    answer(decision("allow"), number=1)
    until("made", lambda: exists("ph-1") or exists("ph-2"), 10)
    say("made", exists("ph-1"), exists("ph-2"))
    result(run)


def tmux(*words):
    return subprocess.run(["tmux", "-S", HOME + "/tmux", "-f", "/dev/null", *words], capture_output=True, text=True).stdout


def screen():
    return tmux("capture-pane", "-p", "-t", "t")


def typed(words):
    tmux("set-buffer", words)
    tmux("paste-buffer", "-p", "-d", "-t", "t")
    until("it is shown", lambda: words[:10] in screen(), 10)
    time.sleep(0.3)
    tmux("send-keys", "-t", "t", "Enter")


def terminal():
    """A hook beside the dialog of a terminal: who is told when the other one answers."""
    fresh()
    path = HOME + "/run/settings.json"
    write(path, json.dumps(settings()))
    id = str(uuid.uuid4())
    tmux("new-session", "-d", "-s", "t", "-x", "120", "-y", "40", f"cd {WORK} && exec claude --permission-mode {MODE} --session-id {id} --settings {path}")
    def pid():
        found = glob.glob(HOME + "/.claude/sessions/*.json")
        return found and json.loads(read(found[0]) or "{}").get("pid")
    agent = until("a live record", pid, 40)
    if not agent:
        print(screen()); return
    state = lambda: {k: json.loads(record(agent) or "{}").get(k) for k in ("status", "waitingFor")}
    until("idle", lambda: state()["status"] == "idle", 20)
    time.sleep(1)
    typed("one [[tool:touch term-1]] [[say:end one]]")
    it = seen()
    say("hook started; record then", short(json.loads(it["record"] or "{}").get("status")), "now", state(), "tool_use in the transcript then", it["tool_use_lines_in_transcript"])
    until("the dialog", lambda: "Do you want" in screen(), 10)
    say("dialog is shown", state())
    time.sleep(1.5)  # a key within the first moments of the dialog is ignored
    say("1.5 s later", state())
    at = time.time()
    tmux("send-keys", "-t", "t", "1")
    until("made", lambda: exists("term-1"), 10)
    say(f"answered in the terminal: tool ran after {time.time() - at:.2f} s, record", state(), "hook alive", os.path.exists(f"/proc/{it['pid']}"), "signals", seen()["signals"])
    until("idle", lambda: state()["status"] == "idle", 10)
    time.sleep(3)
    say("turn over: hook alive", os.path.exists(f"/proc/{it['pid']}"), "signals", seen()["signals"])
    answer(decision("deny", message="too late"))
    time.sleep(1)
    typed("two [[tool:touch term-2]] [[say:end two]]")
    it = seen(number=2)
    until("the dialog", lambda: "Do you want" in screen(), 10)
    answer(decision("allow"), number=2)
    until("made", lambda: exists("term-2"), 10)
    time.sleep(1)
    say("answered by the hook: dialog gone", "Do you want" not in screen(), [l.strip() for l in screen().splitlines() if "hook" in l.lower()])
    typed("three [[tool:touch term-3]] [[say:end three]]")
    it = seen(number=3)
    until("the dialog", lambda: "Do you want" in screen(), 10)
    time.sleep(1.5)
    tmux("send-keys", "-t", "t", "Escape")
    time.sleep(1.5)
    say("Escape in the terminal: record", state(), "hook alive", os.path.exists(f"/proc/{it['pid']}"), "signals", seen(number=3)["signals"])
    answer(decision("allow"), number=3)
    time.sleep(1.5)
    say("the hook allows afterwards: made", exists("term-3"))
    talk(id, 330)


def wiped():
    """The settings file, and the whole run folder, removed while the agent runs."""
    import shutil
    fresh()
    run = once("go [[tool:touch wiped-1]] [[tool:touch wiped-2]] [[say:end]]", settings())
    seen()
    shutil.rmtree(HOME + "/run")
    time.sleep(3)
    answer(decision("allow"))
    second = seen(number=2, seconds=10)
    say("after the folder was wiped the hook is called again:", bool(second))
    if second:
        answer(decision("allow"), number=2)
    result(run)
    say("made", exists("wiped-1"), exists("wiped-2"))


def inline():
    """--settings takes JSON text as well as a file."""
    fresh()
    run = once("go [[tool:touch inline]] [[say:end]]", None, extra=["--settings", json.dumps(settings(mode=decision("allow")))])
    result(run)
    say("made", exists("inline"), "hook called", bool(glob.glob(HOOKS + "/1-ours.json")))
    fresh()
    run = once("go [[tool:touch inline2]] [[say:end]]", settings("file", "wait-0"), extra=["--settings", json.dumps(settings("text", decision("allow")))])
    it = seen("text", seconds=8)
    say("two --settings flags: the last was used", bool(it), "the first", bool(glob.glob(HOOKS + "/1-file.json")))
    if glob.glob(HOOKS + "/1-file.json"):
        answer("", "file")
    result(run)


def disable_all():
    """disableAllHooks and allowManagedHooksOnly of the user's settings."""
    fresh()
    user({"disableAllHooks": True})
    run = once("go [[tool:touch noh]] [[say:end]]", settings(mode=decision("allow")))
    result(run)
    say("disableAllHooks in the user's settings: hook called", bool(glob.glob(HOOKS + "/1-ours.json")), "made", exists("noh"))


def pre_tool_use():
    """PreToolUse beside: what it is given, and `ask` in -p with our PermissionRequest hook."""
    fresh()
    both = settings()
    pre = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "ask", "permissionDecisionReason": "because"}}
    both["hooks"]["PreToolUse"] = settings("pre", json.dumps(pre), "PreToolUse")["hooks"]["PreToolUse"]
    run = once("go [[tool:echo harmless]] [[say:end]]", both)
    it = seen("pre")
    say("PreToolUse given", short((it or {}).get("given", {}), 900))
    asked = seen("ours", seconds=6)
    say("PermissionRequest after `ask`", short((asked or {}).get("given", "not called"), 900))
    if asked:
        answer(decision("allow"))
    result(run)


def permission_denied_paths():
    """A hook for a tool whose rule in the settings is deny, ask, or allow."""
    for rule in ("deny", "ask", "allow"):
        fresh()
        user({"permissions": {rule: ["Bash(touch ruled:*)", "Bash(touch ruled)"]}})
        run = once("go [[tool:touch ruled]] [[say:end]]", settings(mode=decision("allow")))
        result(run)
        say("-- rule", rule, "hook called", bool(glob.glob(HOOKS + "/1-ours.json")), "made", exists("ruled"))
        if exists("ruled"):
            os.remove(f"{WORK}/ruled")


if __name__ == "__main__":
    main({name: value for name, value in list(globals().items()) if callable(value) and getattr(value, "__module__", "") == "__main__"
          and name not in ("command", "settings", "decision", "user", "fresh", "once", "seen", "answer", "transcript", "talk", "record", "result", "tmux", "screen", "typed")})
