"""Pi in RPC mode on a named pipe: words, steering, aborts, and the dialogs of an extension."""
import glob, json, os, signal, subprocess, sys, time, uuid
from common import *


class Kept:
    def __init__(self, extra=()):
        base = f"{HOME}/run-{uuid.uuid4().hex[:6]}"
        os.makedirs(base)
        os.mkfifo(base + "/in")
        end = os.open(base + "/in", os.O_RDWR)
        self.out, self.err = base + "/out", base + "/err"
        self.process = subprocess.Popen(["pi", "--mode", "rpc", *extra], stdin=end, stdout=open(self.out, "wb"), stderr=open(self.err, "wb"), cwd=WORK, start_new_session=True)
        os.close(end)
        os.remove(base + "/in")
        self.pid, self.mark = self.process.pid, 0

    def write(self, value):
        line = value if isinstance(value, bytes) else (json.dumps(value) + "\n").encode()
        end = os.open(f"/proc/{self.pid}/fd/0", os.O_WRONLY | os.O_NONBLOCK)
        wrote = os.write(end, line)
        os.close(end)
        if wrote != len(line):
            say(f"short write: {wrote} of {len(line)}")

    def said(self):
        return [l for l in lines(self.out) if isinstance(l, dict)]

    def find(self, fits):
        return next((l for l in self.said()[self.mark:] if fits(l)), None)

    def ask(self, type, seconds=20, **more):
        id = "r-" + uuid.uuid4().hex[:6]
        self.write({"id": id, "type": type, **more})
        return until(f"{type} is answered", lambda: self.find(lambda l: l.get("id") == id), seconds)

    def settled(self, seconds=20):
        return until("at rest", lambda: self.find(lambda l: l.get("type") in ("agent_settled",)) or (not (self.ask("get_state") or {}).get("data", {}).get("isStreaming")), seconds)

    def next(self):
        self.mark = len(self.said())

    def kinds(self):
        return [l.get("type") + (":" + l["message"]["role"] if "message" in l and isinstance(l["message"], dict) and l.get("type") == "message_end" else "") for l in self.said()[self.mark:] if l.get("type") != "message_update"]


def file_of(kept):
    return (kept.ask("get_state") or {}).get("data", {})


def record(path):
    for line in lines(path or ""):
        if isinstance(line, dict) and line.get("type") == "message" and line["message"]["role"] != "system":
            print("     |", short({"id": line.get("id"), **line["message"]}, 240))


def words():
    kept = Kept()
    at = time.monotonic()
    state = kept.ask("get_state", 30)
    say(f"get_state after {time.monotonic() - at:.2f} s ->", short(state, 900))
    say("stdout before it:", short(kept.said()[:2], 300), "fd 0", os.readlink(f"/proc/{kept.pid}/fd/0"), "title", (read(f"/proc/{kept.pid}/cmdline") or "").split("\0")[:3])
    kept.next()
    say("prompt ->", short(kept.ask("prompt", message="one [[tool:sleep 2]] [[say:first]]")))
    time.sleep(1)
    say("prompt while at work ->", short(kept.ask("prompt", message="two")))
    say("steer ->", short(kept.ask("steer", message="steered [[say:steered]]")))
    say("follow_up ->", short(kept.ask("follow_up", message="followed [[say:followed]]")))
    say("prompt streamingBehavior steer ->", short(kept.ask("prompt", message="steered by prompt [[say:sp]]", streamingBehavior="steer")))
    until("over", lambda: not kept.ask("get_state")["data"]["isStreaming"], 20)
    time.sleep(1)
    say(kept.kinds())
    path = file_of(kept).get("sessionFile")
    record(path)
    kept.next()
    say("steer at rest ->", short(kept.ask("steer", message="at rest [[say:ar]]")))
    time.sleep(1.5)
    say("after it", kept.kinds(), short(kept.ask("get_state"), 500))
    kept.next()
    say("the next prompt ->", short(kept.ask("prompt", message="three [[say:third]]")))
    time.sleep(2)
    say(kept.kinds()); record(path)
    kept.next()
    kept.ask("prompt", message="four [[tool:sleep 30]] [[say:x]]")
    time.sleep(1.2)
    at = time.monotonic()
    say("abort ->", short(kept.ask("abort")), f"{time.monotonic() - at:.2f} s", kept.kinds())
    say("abort at rest ->", short(kept.ask("abort")))
    for bad in (b"rubbish\n", b"\n", b'{"type":"nothing","id":"n"}\n'):
        kept.next(); kept.write(bad); time.sleep(0.5)
        say(bad, "->", short(kept.said()[kept.mark:], 300), "alive", kept.process.poll() is None)
    kept.next()
    if os.path.exists(f"/proc/{kept.pid}"):
        big = json.dumps({"id": "big", "type": "prompt", "message": "big " + "x" * 60_000 + " [[say:got]]"}) + "\n"
        kept.write(big.encode())
        until("big answered", lambda: kept.find(lambda l: l.get("id") == "big"), 8)
        say("60 kB ->", short(kept.find(lambda l: l.get("id") == "big")))
    os.kill(kept.pid, signal.SIGTERM)
    say("SIGTERM: exit", kept.process.wait(10), short(read(kept.err) or "", 300))
    again = Kept(["--session", path])
    say("resumed:", short(again.ask("get_state", 30), 500))
    say(short(again.ask("prompt", message="five [[say:fifth]]")))
    time.sleep(2)
    record(path)
    again.process.kill(); again.process.wait()


EXTENSION = """
export default function (pi: any) {
  pi.on("tool_call", async (event: any, ctx: any) => {
    if (event.toolName !== "bash") return;
    const ok = await ctx.ui.confirm("Allow?", "Run " + event.input.command);
    if (!ok) return { block: true, reason: "the person said no" };
    const how = await ctx.ui.select("How?", ["fast", "slow"]);
    pi.appendEntry?.("chosen", { how });
  });
}
"""


def extension():
    write(HOME + "/.pi/agent/extensions/asks.ts", EXTENSION)
    kept = Kept()
    if not kept.ask("get_state", 15):
        say("exit", kept.process.poll(), short(read(kept.err) or "", 900)); return
    kept.next()
    say("prompt with streamingBehavior at rest ->", short(kept.ask("prompt", message="zero [[say:z]]", streamingBehavior="steer")))
    time.sleep(1)
    kept.next()
    say(short(kept.ask("prompt", message="go [[tool:touch pi-ext]] [[say:done]]")))
    asked = until("a dialog", lambda: kept.find(lambda l: l.get("type") == "extension_ui_request" and l.get("method") == "confirm"), 10)
    say("dialog", short(asked))
    say("state while it waits", short(kept.ask("get_state"), 500))
    if asked:
        kept.write({"type": "extension_ui_response", "id": "nobody", "confirmed": True})
        time.sleep(0.5)
        say("an unknown id: made", exists("pi-ext"))
        kept.write({"type": "extension_ui_response", "id": asked["id"], "confirmed": True})
        second = until("the second dialog", lambda: kept.find(lambda l: l.get("type") == "extension_ui_request" and l.get("method") == "select"), 5)
        say("select", short(second))
        kept.write({"type": "extension_ui_response", "id": second["id"], "value": "slow"})
        until("made", lambda: exists("pi-ext"), 5)
        say("made", exists("pi-ext"))
        kept.write({"type": "extension_ui_response", "id": asked["id"], "confirmed": False})
        time.sleep(1)
        kept.next()
        kept.ask("prompt", message="again [[tool:touch pi-no]] [[say:done]]")
        asked = until("a dialog", lambda: kept.find(lambda l: l.get("type") == "extension_ui_request" and l.get("method") == "confirm"), 10)
        say("abort with a dialog open ->", short(kept.ask("abort", 5)))
        time.sleep(0.5)
        say(kept.kinds()[-6:])
    record(file_of(kept).get("sessionFile"))
    kept.process.kill(); kept.process.wait()
    os.remove(HOME + "/.pi/agent/extensions/asks.ts")


if __name__ == "__main__":
    main({"words": words, "extension": extension})
