"""What all probes share: processes with pipes, waiting for facts, and short printing."""
import json, os, subprocess, sys, threading, time

HOME = os.environ["HOME"]
WORK = HOME + "/ws/a"
START = time.monotonic()


def say(*words):
    """Prints one fact with the time since the start."""
    print(f"{time.monotonic() - START:7.3f}", *words, flush=True)


def short(value, limit=900):
    """JSON or text, cut to a readable length, without the home's path."""
    text = value if isinstance(value, str) else json.dumps(value)
    text = text.replace(HOME, "~").strip()
    return text if len(text) <= limit else text[:limit] + f"…(+{len(text) - limit})"


def until(what, condition, seconds=30):
    """Waits for a condition; returns its value, or None with a line that says so."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.005)
    say(f"TIMEOUT after {seconds} s: {what}")
    return None


class Program:
    """A child with a pipe on stdin and every stdout line kept with its time."""

    def __init__(self, argv, env=None, cwd=WORK, stdin=subprocess.PIPE, quiet=False):
        self.lines, self.errors, self.quiet = [], [], quiet
        self.process = subprocess.Popen(argv, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        cwd=cwd, env={**os.environ, **(env or {})}, start_new_session=True)
        self.pid = self.process.pid
        for stream, kept in ((self.process.stdout, self.lines), (self.process.stderr, self.errors)):
            threading.Thread(target=self.read, args=(stream, kept), daemon=True).start()

    def read(self, stream, kept):
        for line in stream:
            text = line.decode("utf-8", "replace").rstrip("\n")
            try:
                value = json.loads(text)
            except ValueError:
                value = text
            kept.append((time.monotonic() - START, value))

    def send(self, value):
        line = value if isinstance(value, bytes) else (json.dumps(value) + "\n").encode()
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def find(self, fits, after=0):
        for _, value in self.lines[after:]:
            if isinstance(value, dict) and fits(value):
                return value
        return None

    def wait_line(self, what, fits, after=0, seconds=30):
        return until(what, lambda: self.find(fits, after), seconds)

    def ended(self, seconds=30):
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def show(self, after=0, limit=500, skip=()):
        for at, value in self.lines[after:]:
            if isinstance(value, dict) and (value.get("type") in skip or value.get("method") in skip):
                continue
            print(f"   {at:7.3f} < {short(value, limit)}")
        for at, value in self.errors:
            print(f"   {at:7.3f} stderr {short(str(value), 300)}")


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None


def lines(path):
    found = []
    for line in (read(path) or "").splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            found.append(line)
    return found


def exists(name):
    return os.path.exists(os.path.join(WORK, name))


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def main(cases):
    """Runs the named cases, or all."""
    for name in sys.argv[1:] or list(cases):
        print(f"== {name}", flush=True)
        try:
            cases[name]()
        except Exception:  # a probe reports and goes on
            import traceback
            traceback.print_exc()
