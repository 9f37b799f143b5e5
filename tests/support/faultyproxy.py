"""A proxy before an HTTP server on loopback that breaks some of the exchanges, as networks and busy servers do."""

from __future__ import annotations

import contextlib
import http.client
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from tests.support.patience import PATIENCE_S

FAULTS = ("refused", "dropped", "busy", "cut", "lost")
_BUSY = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
_HOPS = ("connection", "transfer-encoding", "content-length", "keep-alive")


class FaultyProxy(ThreadingHTTPServer):
    """Breaks each `every`-th exchange, with the faults in turn; 0: none.

    refused: the connection ends before anything is read. dropped: after the request, which nobody has seen. busy: 503. cut: half
    of the answer's body, if its type begins with `cuttable`. lost: the request has had its effect, and no answer comes; not for
    POST, unless `repeated` says that the client may repeat it.
    """

    daemon_threads = True

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), _Exchange)
        self.target = urlsplit(target).netloc
        self.every, self.repeated, self.cuttable = 0, False, ""
        self.made: Counter[str] = Counter()  # how often each fault
        self._lock, self._exchanges = threading.Lock(), 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_port}"

    def next_fault(self) -> str:
        with self._lock:
            self._exchanges += 1
            if not self.every or self._exchanges % self.every:
                return ""
            fault = FAULTS[sum(self.made.values()) % len(FAULTS)]
            self.made[fault] += 1
            return fault

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone is no error here."""


def read_body(request: BaseHTTPRequestHandler) -> bytes:
    """The body of a request, also of one in chunks: a rest of it would be taken for the next request."""
    if request.headers.get("Transfer-Encoding") != "chunked":
        return request.rfile.read(int(request.headers.get("Content-Length") or 0))
    found = b""
    while size := int(request.rfile.readline(), 16):
        found += request.rfile.read(size)
        request.rfile.readline()
    request.rfile.readline()
    return found


class _Exchange(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FaultyProxy

    def _pass_on(self) -> None:
        fault = self.server.next_fault()
        if fault == "refused":
            self._end()
            return
        body = read_body(self)
        if fault == "dropped":
            self._end()
        elif fault == "busy":
            self._answer(503, {"Content-Type": "application/xml"}, b"" if self.command == "HEAD" else _BUSY)
        else:
            self._forward(body, fault)

    def _forward(self, body: bytes, fault: str) -> None:
        upstream = http.client.HTTPConnection(self.server.target, timeout=PATIENCE_S)
        with contextlib.closing(upstream):
            headers = {
                key: value
                for key, value in self.headers.items()
                if key.lower() not in ("connection", "expect", "transfer-encoding")
            }
            upstream.request(self.command, self.path, body, headers)
            answer = upstream.getresponse()
            content = answer.read()
        if fault == "lost" and (self.server.repeated or self.command != "POST"):
            self._end()
            return
        kept = {key: value for key, value in answer.getheaders() if key.lower() not in _HOPS}
        length = answer.getheader("Content-Length") if self.command == "HEAD" else None
        if answer.getheader("Transfer-Encoding") == "chunked":
            content, kept["Transfer-Encoding"] = b"%x\r\n%b\r\n0\r\n\r\n" % (len(content), content), "chunked"
        cut = fault == "cut" and len(content) > 1 and answer.getheader("Content-Type", "").startswith(self.server.cuttable)
        self._answer(answer.status, kept, content, length=length, cut=cut)

    def _answer(self, status: int, headers: dict[str, str], body: bytes, *, length: str | None = None, cut: bool = False) -> None:
        self.send_response_only(status)
        for key, value in headers.items():
            self.send_header(key, value)
        if "Transfer-Encoding" not in headers:
            self.send_header("Content-Length", length or str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if cut else body)
        if cut:
            self._end()

    def _end(self) -> None:
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass_on


@contextlib.contextmanager
def faulty(target: str) -> Iterator[FaultyProxy]:
    """Serves until the end, without faults at first."""
    with FaultyProxy(target) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()
