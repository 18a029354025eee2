#!/usr/bin/env python3
"""A receiver of agentctl's webhooks: checks the signature, forgets doubles, prints one line per event.

    WEBHOOK_SECRET=whsec_... ./webhook-receiver.py [port]

It needs Python 3.8 or later and nothing else. Put it behind TLS before you let it out of your machine;
on this machine, name it in the configuration with allow_private = true.
"""

import base64
import hashlib
import hmac
import json
import os
import sys
import time
from collections import OrderedDict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LARGEST = 1 << 20  # bytes of one event
TOLERANCE = 300  # seconds between the sender's clock and ours
REMEMBERED = 10_000  # ids


def key_of(secret):
    """After whsec_ the key is in base64; any other secret is the key itself."""
    if secret.startswith("whsec_"):
        return base64.b64decode(secret[len("whsec_"):])
    return secret.encode()


def is_genuine(key, headers, body, now):
    """The signature covers id, time and body, so that nothing old or changed passes."""
    message_id = headers.get("webhook-id", "")
    sent_at = headers.get("webhook-timestamp", "")
    if not sent_at.isdigit() or abs(now - int(sent_at)) > TOLERANCE:
        return False
    signed = f"{message_id}.{sent_at}.".encode() + body
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    # There may be several, for instance while a secret is changed.
    given = headers.get("webhook-signature", "").split()
    return any(hmac.compare_digest(f"v1,{expected}", one) for one in given)


class Receiver(BaseHTTPRequestHandler):
    key = b""
    seen = OrderedDict()

    def do_POST(self):
        length = self.headers.get("content-length", "")
        if not length.isdigit() or int(length) > LARGEST:
            return self.answer(413)
        body = self.rfile.read(int(length))
        if not is_genuine(self.key, self.headers, body, time.time()):
            return self.answer(401)
        message_id = self.headers["webhook-id"]
        # Delivery is at least once: the same event has the same id.
        if message_id not in self.seen:
            self.seen[message_id] = True
            if len(self.seen) > REMEMBERED:
                self.seen.popitem(last=False)
            event = json.loads(body)
            late = " (late)" if event["late"] else ""
            print(event["at"], event["type"], event["adapter"], event["session_id"],
                  event["exit_status"], late, flush=True)
        # Take it first, work on it afterwards: the sender waits ten seconds.
        self.answer(204)

    def answer(self, status):
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        """The event is the log."""


def main():
    secret = os.environ.get("WEBHOOK_SECRET")
    if not secret:
        sys.exit("set WEBHOOK_SECRET to the secret of the configuration")
    Receiver.key = key_of(secret)
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8787
    server = ThreadingHTTPServer(("127.0.0.1", port), Receiver)
    print(f"listening on http://127.0.0.1:{server.server_port}/", file=sys.stderr, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
