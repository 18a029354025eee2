#!/usr/bin/python3
"""A hook that writes down what it is given, waits for an answer file, and gives that answer.

argv: NAME MODE. Files in $HOME/hooks: <n>-NAME.json (what it saw), <n>-NAME.answer (bytes to print; its
first line may be `exit N`). MODE `wait`, or the answer itself."""
import json, os, sys, time, signal
name, mode = sys.argv[1], sys.argv[2]
home = os.environ.get("HOME_OF_PROBE") or os.path.dirname(os.path.dirname(os.path.abspath(sys.argv[3])))
folder = home + "/hooks"
os.makedirs(folder, exist_ok=True)
began = time.time()
given = sys.stdin.read()
stat = open("/proc/self/stat").read().rsplit(")", 1)[1].split()
parent = open(f"/proc/{os.getppid()}/cmdline").read().replace("\0", " ")[:300]
number = 1
while True:
    try:
        path = f"{folder}/{number}-{name}.json"
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        break
    except FileExistsError:
        number += 1
event = json.loads(given) if given.strip().startswith("{") else {"raw": given}
transcript = event.get("transcript_path") or ""
try:
    text = open(transcript).read()
except OSError:
    text = ""
agent = os.environ.get("CLAUDE_PID", "")
try:
    record = open(f"{os.environ.get('CLAUDE_CONFIG_DIR', os.environ['HOME'] + '/.claude')}/sessions/{agent}.json").read()
except OSError:
    record = None
calls = [l for l in text.splitlines() if '"tool_use"' in l and '"assistant"' in l]
seen = {"at": began, "pid": os.getpid(), "ppid": os.getppid(), "pgrp": int(stat[2]), "session": int(stat[3]), "tty": stat[4],
        "cwd": os.getcwd(), "parent": parent, "given": event,
        "env": {k: v for k, v in os.environ.items() if "CLAUDE" in k or k in ("AI_AGENT", "PWD", "PATH")},
        "fds": {f: os.readlink(f"/proc/self/fd/{f}") for f in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{f}")},
        "tool_use_lines_in_transcript": len(calls), "record": record, "signals": []}


def put():
    with open(path + ".tmp", "w") as file:
        json.dump(seen, file)
    os.rename(path + ".tmp", path)


def noted(number, _):
    seen["signals"].append([number, time.time() - began])
    put()
    if number == signal.SIGTERM and "stay" not in mode:
        sys.exit(0)


for number_ in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
    signal.signal(number_, noted)
put()
if mode.startswith("wait"):
    answer = path[:-5] + ".answer"
    while not os.path.exists(answer):
        time.sleep(0.01)
    text = open(answer).read()
else:
    text = mode
code = 0
if text.startswith("exit "):
    first, _, text = text.partition("\n")
    code = int(first.split()[1])
if code == 2:
    sys.stderr.write(text)
else:
    sys.stdout.write(text)
sys.stdout.flush()
seen["left"] = time.time() - began
put()
sys.exit(code)
