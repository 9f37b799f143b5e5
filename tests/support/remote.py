"""`brickyard ui --workspace` in this process, and a stand-in for a workspace of Databricks."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import requests

from brickyard.remote.lacking import ADDITIONS, VALIDATION
from brickyard.remote.process import serve
from brickyard.remote.token import TokenFile
from brickyard.remote.workspace import About
from tests.support.certificates import Files
from tests.support.patience import PATIENCE_S


class RemoteUi:
    """`link` logs one browser in."""

    def __init__(self) -> None:
        self.told: list[tuple[About, str]] = []

    @property
    def link(self) -> str:
        return self.told[-1][1]

    @property
    def url(self) -> str:
        return self.link.partition("/login")[0]

    def browser(self) -> requests.Session:
        """A client that has followed the link, and sends what changes something as the page does."""
        client = requests.Session()
        client.trust_env = False
        assert client.get(self.link, allow_redirects=False, timeout=PATIENCE_S).status_code == 303
        found = client.get(f"{self.url}/login/session", timeout=PATIENCE_S).json()
        client.headers["X-CSRF-Token"] = found["csrf_token"]
        return client


@contextlib.contextmanager
def remote_ui(url: str, token_file: Path) -> Iterator[RemoteUi]:
    """Runs it until the block ends."""
    ui, ready, listening = RemoteUi(), threading.Event(), socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(100)
    running: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
    failed: list[BaseException] = []

    def opened(about: About, link: str) -> None:
        ui.told.append((about, link))
        ready.set()

    async def main() -> None:
        running.append((asyncio.get_running_loop(), asyncio.Event()))
        try:
            await serve(url, TokenFile(token_file), listening, opened=opened, stop=running[0][1])
        except BaseException as error:
            failed.append(error)
        ready.set()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    try:
        assert ready.wait(PATIENCE_S)
        if failed:
            raise failed[0]
        yield ui
    finally:
        with contextlib.suppress(RuntimeError):  # it has ended by itself
            running[0][0].call_soon_threadsafe(running[0][1].set)
        thread.join(PATIENCE_S)
        listening.close()


class Heard(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


_MISSING = re.compile("|".join(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(each)) for each in ADDITIONS if each != VALIDATION))
_OURS = re.compile(r"/v1/.*|/openapi\.json|/api/2\.1/clusters/logs/.*|/api/2\.1/runtimes/.*|/login.*|/spark-ui/.*|/ports/.*")


class StandIn:
    """Answers as a workspace of Databricks, where Brickyard does as well: our additions are missing, and fields of requests that
    are ours are ignored. Behind it is a Brickyard. `answers` replaces answers, by path."""

    def __init__(self, behind: str) -> None:
        self.behind = behind
        self.heard: list[Heard] = []
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.url = ""

    def answer(self, heard: Heard) -> tuple[int, dict[str, str], bytes]:
        self.heard.append(heard)
        path = heard.path.partition("?")[0]
        if path in self.answers:
            return self.answers[path]
        if _MISSING.fullmatch(path) or _OURS.fullmatch(path):
            missing = {"error_code": "ENDPOINT_NOT_FOUND", "message": f"No API found for '{heard.method} {path}'"}
            return 404, {"content-type": "application/json"}, json.dumps(missing).encode()
        body = heard.body
        if re.fullmatch(r"/api/2\.\d/clusters/(create|edit)", path) and body:
            known = {name: value for name, value in json.loads(body).items() if name not in (VALIDATION, "expected_spec")}
            body = json.dumps(known).encode()
        sent = {name: value for name, value in heard.headers.items() if name in ("authorization", "content-type", "accept")}
        got = requests.request(heard.method, self.behind + heard.path, headers=sent, data=body, timeout=PATIENCE_S)
        more = {"set-cookie": "DBAUTH=secret; Path=/", "x-databricks-org-id": "1"}
        return got.status_code, {"content-type": got.headers.get("content-type", "text/plain"), **more}, got.content


@contextlib.contextmanager
def standing_in(behind: str, *, certificate: Files | None = None) -> Iterator[StandIn]:
    """Runs a stand-in until the block ends; over https with a certificate."""
    found = StandIn(behind)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, sent, content = found.answer(Heard(self.command, self.path, headers, body))
            self.send_response(status)
            for name, value in {**sent, "content-length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _any

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_port}"
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.cert, certificate.key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        found.url = found.url.replace("http:", "https:")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
