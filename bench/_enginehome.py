"""What agents call in benchmarks of engines: a server that knows every instance, gives no work, and notes who has called."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from bench._harness import until

SERVER_TOKEN = "s" * 32
HOLD_S = 20.0


class Home:
    """`came`: instance id -> when its agent first reported."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.came: dict[str, float] = {}

    def wait(self, instance_id: str, patience_s: float = 120.0) -> float:
        """When that agent first reported. Raises RuntimeError."""
        until(lambda: instance_id in self.came, f"the agent of {instance_id} has called", patience_s=patience_s, every_s=0.005)
        return self.came[instance_id]


@contextlib.contextmanager
def home() -> Iterator[Home]:
    """Runs one."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            made.came.setdefault(body["instance_id"], time.monotonic())
            self._answer()

        def do_GET(self) -> None:
            time.sleep(HOLD_S)  # the long poll
            self._answer()

        def _answer(self) -> None:
            body = json.dumps({"server_token": SERVER_TOKEN, "known": True}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(OSError):  # the agent has ended meanwhile
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """An agent has ended in the middle of a call."""

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    made = Home(f"http://127.0.0.1:{server.server_address[1]}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
