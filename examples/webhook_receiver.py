"""A receiver of notifications: it checks each signature with a library of Standard Webhooks.

pip install standardwebhooks
python examples/webhook_receiver.py webhook.key 8090
"""

import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

#: The ids of what was received; yours are rows, written with what you make of the message.
seen: set[str] = set()


class Receiver(BaseHTTPRequestHandler):
    """Takes notifications at any path."""

    webhook: Webhook

    def do_POST(self) -> None:
        """Take one, and answer 2xx, also to what came before."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            notification = self.webhook.verify(body, headers)
        except WebhookVerificationError:
            self.send_error(401)
            return
        message_id = headers["webhook-id"]
        if message_id not in seen:
            seen.add(message_id)
            print(notification["type"], notification["data"]["title"], flush=True)
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing of requests: only notifications are of interest."""


if __name__ == "__main__":
    # While a secret is replaced, the sender signs with both; the receiver needs one of them.
    Receiver.webhook = Webhook(Path(sys.argv[1]).read_text(encoding="ascii").split()[0])
    HTTPServer(("127.0.0.1", int(sys.argv[2])), Receiver).serve_forever()
