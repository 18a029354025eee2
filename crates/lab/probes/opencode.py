"""OpenCode: permissions, questions and messages through a server."""
import base64, glob, json, os, signal, sqlite3, subprocess, sys, threading, time, urllib.error, urllib.parse, urllib.request, uuid
from common import *

PASSWORD = "probe-secret"
DATABASE = HOME + "/.local/share/opencode/opencode.db"
ASK_ALL = os.environ.get("ASK_ALL", '{"*":"ask"}')


class Server:
    def __init__(self, env=None, argv=("serve", "--hostname", "127.0.0.1", "--port", "0"), password=PASSWORD):
        began = time.monotonic()
        self.password = password
        given = {**(env or {}), **({"OPENCODE_SERVER_PASSWORD": password} if password else {})}
        self.program = Program(["opencode", *argv], env=given, stdin=subprocess.DEVNULL)
        line = until("it says its address", lambda: next((str(l) for _, l in self.program.lines if "http://" in str(l)), None), 40)
        self.base = line[line.index("http://"):].strip() if line else None
        say(f"server pid {self.program.pid} after {time.monotonic() - began:.1f} s:", line)

    def call(self, method, path, body=None, password=None, seconds=15, directory=WORK, user="opencode", raw=False):
        mark = "&" if "?" in path else "?"
        url = self.base + path + (f"{mark}directory={urllib.parse.quote(directory)}" if directory else "")
        request = urllib.request.Request(url, method=method, data=None if body is None else json.dumps(body).encode())
        request.add_header("content-type", "application/json")
        password = self.password if password is None else password
        if password:
            request.add_header("authorization", "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode())
        try:
            with urllib.request.urlopen(request, timeout=seconds) as reply:
                text = reply.read().decode()
                status = reply.status
        except urllib.error.HTTPError as error:
            text, status = error.read().decode(), error.code
        except Exception as error:
            return None, repr(error)
        try:
            return status, json.loads(text)
        except ValueError:
            return status, text

    def session(self, **more):
        status, made = self.call("POST", "/session", {"title": "probe", **more})
        return made["id"]

    def prompt(self, id, words, **more):
        return self.call("POST", f"/session/{id}/prompt_async", {"parts": [{"type": "text", "text": words}], **more})

    def pending(self, kind="permission", seconds=60):
        return until(f"a {kind} is asked", lambda: (self.call("GET", f"/{kind}")[1] or None), seconds)

    def rest(self, id, seconds=15):
        return until("at rest", lambda: id not in (self.call("GET", "/session/status")[1] or {}), seconds)

    def events(self):
        """Listens to the event stream; returns the list that grows."""
        heard = []
        def listen():
            request = urllib.request.Request(self.base + "/event?directory=" + urllib.parse.quote(WORK))
            request.add_header("authorization", "Basic " + base64.b64encode(f"opencode:{self.password}".encode()).decode())
            try:
                for line in urllib.request.urlopen(request, timeout=120):
                    if line.startswith(b"data: "):
                        heard.append((time.monotonic() - START, json.loads(line[6:])))
            except Exception:
                pass
        threading.Thread(target=listen, daemon=True).start()
        return heard

    def end(self):
        self.program.kill()


def messages(id, limit=300):
    rows = sqlite3.connect(f"file:{DATABASE}?mode=ro", uri=True).execute("select m.id, m.data, group_concat(p.data, ' || ') from message m left join part p on p.message_id = m.id where m.session_id = ? group by m.id order by m.id", [id])
    for mid, data, parts in rows:
        data = json.loads(data)
        print("     |", mid, data.get("role"), "finish", data.get("finish"), "error", short(data.get("error") or "", 120), short(parts or "", limit))


def permission():
    server = Server({"OPENCODE_PERMISSION": ASK_ALL})
    heard = server.events()
    id = server.session()
    say("session", id, "prompt_async ->", server.prompt(id, "go [[tool:touch oc-1]] [[say:done]]"))
    asked = server.pending()
    say("GET /permission ->", short(asked, 1500))
    say("status", short(server.call("GET", "/session/status")))
    for label, password, user in (("without a password", "", "opencode"), ("wrong password", "x", "opencode"), ("wrong user", None, "root")):
        say(label, short(server.call("GET", "/permission", password=password, user=user) if password != "" else unauthorised(server)))
    say("GET /permission without directory", short(server.call("GET", "/permission", directory=None), 200), "of another directory", short(server.call("GET", "/permission", directory="/tmp"), 200))
    first = asked[0]["id"]
    at = time.monotonic()
    say("reply of another directory ->", server.call("POST", f"/permission/{first}/reply", {"reply": "once"}, directory="/tmp"))
    say("reply nonsense ->", short(server.call("POST", f"/permission/{first}/reply", {"reply": "perhaps"}), 300))
    say("reply once ->", server.call("POST", f"/permission/{first}/reply", {"reply": "once"}))
    until("made", lambda: exists("oc-1"))
    say(f"tool ran {1000 * (time.monotonic() - at):.0f} ms later")
    say("reply again ->", short(server.call("POST", f"/permission/{first}/reply", {"reply": "reject"})))
    say("reply to an unknown id ->", short(server.call("POST", "/permission/per_nothing/reply", {"reply": "once"})))
    server.rest(id)
    say("events", [(e.get("type"), short(e.get("properties", {}), 300)) for _, e in heard if "permission" in e.get("type", "")])
    messages(id)
    for reply in ({"reply": "reject", "message": "not like this"}, {"reply": "reject"}, {"reply": "always"}):
        id = server.session()
        server.prompt(id, "go [[tool:touch oc-2]] [[say:after it]]")
        asked = server.pending()
        say("--", reply, "always would store", asked[0].get("always"), "->", server.call("POST", f"/permission/{asked[0]['id']}/reply", reply))
        server.rest(id)
        say("made", exists("oc-2")); messages(id, 400)
    id = server.session()
    server.prompt(id, "go [[tool:touch oc-3]] [[say:x]]")
    time.sleep(3)
    say("after `always`, another touch asks:", short(server.call("GET", "/permission")[1], 200), "made", exists("oc-3"))
    server.end()


def unauthorised(server):
    kept, server.password = server.password, ""
    answer = server.call("GET", "/permission")
    server.password = kept
    return answer


def race(rounds=15):
    server = Server({"OPENCODE_PERMISSION": ASK_ALL})
    tally = {}
    for n in range(rounds):
        id = server.session()
        server.prompt(id, f"go [[tool:touch ocr-{n}]] [[say:done]]")
        asked = until("asked", lambda: [p for p in (server.call("GET", "/permission")[1] or []) if p["sessionID"] == id], 15)
        if not asked:
            continue
        replies = {}
        threads = [threading.Thread(target=lambda w=w: replies.__setitem__(w, server.call("POST", f"/permission/{asked[0]['id']}/reply", {"reply": w}))) for w in ("once", "reject")]
        for t in threads if n % 2 else reversed(threads):
            t.start()
        for t in threads:
            t.join()
        server.rest(id)
        key = f"once {replies['once'][0]} reject {replies['reject'][0]} made {exists(f'ocr-{n}')}"
        tally[key] = tally.get(key, 0) + 1
    say(tally)
    server.end()


def question():
    server = Server()
    id = server.session()
    q = {"questions": [{"question": "Which colour?", "header": "Colour", "options": [{"label": "Red", "description": "r"}, {"label": "Blue", "description": "b"}]},
                       {"question": "Which sizes?", "header": "Size", "multiple": True, "options": [{"label": "S", "description": "s"}, {"label": "L", "description": "l"}]}]}
    call = json.dumps(q).replace("]}", "] }").replace("]]", "] ]")
    server.prompt(id, f"go [[call:question {call}]] [[say:done]]")
    asked = server.pending("question", 40)
    say("GET /question ->", short(asked, 1500))
    if not asked:
        messages(id); server.end(); return
    que = asked[0]["id"]
    say("reply with too few ->", short(server.call("POST", f"/question/{que}/reply", {"answers": [["Blue"]]}), 300))
    say("still open:", bool(server.call("GET", "/question")[1]))
    say("reply, a text that is no option, and two ->", short(server.call("POST", f"/question/{que}/reply", {"answers": [["my own words"], ["S", "L"]]}), 300))
    server.rest(id)
    messages(id, 700)
    id = server.session()
    server.prompt(id, f"go [[call:question {call}]] [[say:done]]")
    asked = server.pending("question", 40)
    say("reject ->", short(server.call("POST", f"/question/{asked[0]['id']}/reject"), 300))
    server.rest(id)
    messages(id, 500)
    server.end()


def words():
    """V9: messages at rest and at work; ids chosen by the caller; a repeated message id."""
    server = Server()
    say("POST /session with an id ->", short(server.call("POST", "/session", {"id": "ses_0123456789abcdefghijklmnop", "title": "chosen"}), 300))
    say("POST /api/session with an id ->", short(server.call("POST", "/api/session", {"id": "ses_1123456789abcdefghijklmnop", "title": "chosen"}), 300))
    id = server.session()
    own = "msg_" + "f" * 26
    say("prompt_async with messageID ->", server.prompt(id, "first [[say:one]]", messageID=own))
    server.rest(id)
    time.sleep(1)
    messages(id)
    say("the same messageID again ->", server.prompt(id, "first [[say:one]]", messageID=own))
    time.sleep(2)
    server.rest(id)
    messages(id)
    id = server.session()
    say("busy: first ->", server.prompt(id, "long [[tool:sleep 3]] [[say:long done]]"))
    time.sleep(1.5)
    say("status", short(server.call("GET", "/session/status")[1]))
    say("busy: second, in a tool ->", server.prompt(id, "second words [[say:second done]]"))
    time.sleep(2); server.rest(id); time.sleep(1)
    messages(id)
    id = server.session()
    server.prompt(id, "think [[delay:3]] [[say:thought]]")
    time.sleep(1.5)
    say("busy: second, in a model call ->", server.prompt(id, "second words [[say:second done]]"))
    time.sleep(2); server.rest(id); time.sleep(1)
    messages(id)
    id = server.session()
    say("empty text ->", short(server.prompt(id, "")))
    say("unknown session ->", short(server.prompt("ses_nothing", "x")))
    say("directory of the request differs ->", short(server.call("POST", f"/session/{id}/prompt_async", {"parts": [{"type": "text", "text": "elsewhere [[say:e]]"}]}, directory="/tmp")))
    time.sleep(2)
    messages(id)
    say("a message of 900 kB ->", short(server.prompt(id, "big " + "x" * 900_000 + " [[say:big]]")))
    time.sleep(2); server.rest(id)
    messages(id, 60)
    server.end()


def abort():
    server = Server({"OPENCODE_PERMISSION": ASK_ALL})
    heard = server.events()
    id = server.session()
    server.prompt(id, "go [[tool:touch oca]] [[say:x]]")
    asked = server.pending()
    say("abort with a permission open ->", server.call("POST", f"/session/{id}/abort"))
    time.sleep(0.7)
    say("status", short(server.call("GET", "/session/status")), "permissions", short(server.call("GET", "/permission"), 200))
    say("reply afterwards ->", short(server.call("POST", f"/permission/{asked[0]['id']}/reply", {"reply": "once"}), 300), "made", exists("oca"))
    time.sleep(1)
    say("made", exists("oca"), "permissions", short(server.call("GET", "/permission"), 200), "status", short(server.call("GET", "/session/status")))
    messages(id)
    say([(e.get("type"), short(e.get("properties", {}), 140)) for _, e in heard if e.get("type", "").split(".")[0] in ("permission", "question") or e.get("type") in ("session.idle", "session.error")])
    say("SIGTERM at rest:", (os.kill(server.program.pid, signal.SIGTERM), server.program.ended(10))[1])
    server.end()


def stale():
    """A permission that is still listed after an abort: what each reply does."""
    server = Server({"OPENCODE_PERMISSION": ASK_ALL})
    for n, reply in enumerate(("once", "once", "reject", "once")):
        id = server.session()
        server.prompt(id, f"go [[tool:touch stale-{n}]] [[say:x]]")
        asked = until("asked", lambda: [p for p in (server.call("GET", "/permission")[1] or []) if p["sessionID"] == id], 60)
        if not asked:
            continue
        server.call("POST", f"/session/{id}/abort")
        server.rest(id)
        time.sleep(n * 0.7)
        listed = [p["id"] for p in server.call("GET", "/permission")[1]]
        answer = server.call("POST", f"/permission/{asked[0]['id']}/reply", {"reply": reply})
        time.sleep(1.5)
        say(reply, "after the abort ->", short(answer, 120), "was listed", asked[0]["id"] in listed, "the tool ran", exists(f"stale-{n}"), "status", short(server.call("GET", "/session/status")[1]))
    id = server.session()
    server.prompt(id, "go [[tool:touch stale-r]] [[say:x]]")
    asked = until("asked", lambda: [p for p in (server.call("GET", "/permission")[1] or []) if p["sessionID"] == id], 60)
    say("reject, then abort ->", server.call("POST", f"/permission/{asked[0]['id']}/reply", {"reply": "reject"}), server.call("POST", f"/session/{id}/abort"))
    time.sleep(1)
    say("left in the list", short(server.call("GET", "/permission")[1]))
    server.end()


def first_call():
    """How soon after the start the first call is answered, and with which delay."""
    for n in range(5):
        server = Server()
        at = time.monotonic()
        status = server.call("GET", "/session/status", seconds=30)
        say(f"first call {time.monotonic() - at:.2f} s", short(status))
        say("RSS", [l for l in (read(f"/proc/{server.program.pid}/status") or "").splitlines() if l.startswith("VmRSS")])
        say("environ readable:", PASSWORD in (read(f"/proc/{server.program.pid}/environ") or ""))
        server.end()


def two_asks():
    """A subagent's permission, and its session id."""
    server = Server({"OPENCODE_PERMISSION": '{"bash":"ask"}'})
    id = server.session()
    inner = json.dumps({"description": "d", "prompt": "inner [[tool:touch oc-sub]] [[say:inner]]", "subagent_type": "general"})
    server.prompt(id, f"go [[call:task {inner}]] [[say:x]]")
    asked = server.pending()
    say("parent", id, "ask", short(asked, 600))
    say("status", short(server.call("GET", "/session/status")))
    if asked:
        say(server.call("POST", f"/permission/{asked[0]['id']}/reply", {"reply": "once"}))
        server.rest(id)
        say("made", exists("oc-sub"))
    server.end()


if __name__ == "__main__":
    main({name: value for name, value in list(globals().items()) if callable(value) and getattr(value, "__module__", "") == "__main__" and name not in ("Server", "messages", "unauthorised")})
