"""A collector of traces: it takes OTLP over HTTP on loopback, and has what was sent."""

from __future__ import annotations

import contextlib
import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.patience import until


class Sent:
    """One span."""

    def __init__(self, span: Any, resource: dict[str, Any]) -> None:
        self.name = str(span.name)
        self.trace_id, self.span_id, self.parent_id = span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()
        self.attributes = _values(span.attributes)
        self.kind = int(span.kind)  # 1 internal, 2 server, 3 client
        self.failed = span.status.code == 2
        self.began_ns, self.ended_ns = span.start_time_unix_nano, span.end_time_unix_nano
        self.resource = resource

    def __repr__(self) -> str:
        return f"{self.name} {self.attributes}"


def _values(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}


class Collector:
    """`raw`: the bodies. Clear `open`, and it holds requests until it is set."""

    def __init__(self) -> None:
        self.raw: list[bytes] = []
        self.spans: list[Sent] = []
        self.held = threading.Event()
        self.open = threading.Event()
        self.open.set()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if not collector.open.is_set():
                    collector.held.set()
                    collector.open.wait(60)
                collector.take(self.path, gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Tests look at `spans`."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def take(self, path: str, body: bytes) -> None:
        assert path == "/v1/traces"
        self.raw.append(body)
        for group in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = _values(group.resource.attributes)
            self.spans.extend(Sent(span, resource) for scope in group.scope_spans for span in scope.spans)

    def one(self, name: str, **attributes: Any) -> Sent:
        """Waits for a span. `attributes`: with `_` for dots."""

        def look() -> Sent | None:
            for each in list(self.spans):
                given = {key.replace(".", "_"): value for key, value in each.attributes.items()}
                if each.name == name and attributes.items() <= given.items():
                    return each
            return None

        return until(look, lambda: f"no span {name} {attributes} in {self.spans}")

    def close(self) -> None:
        self.open.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextlib.contextmanager
def collecting() -> Iterator[Collector]:
    made = Collector()
    try:
        yield made
    finally:
        made.close()
