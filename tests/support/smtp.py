"""An SMTP server for tests, on this machine: enough of the protocol for `smtplib`."""

from __future__ import annotations

import socketserver
import threading
from typing import Any


class Smtp(socketserver.ThreadingTCPServer):
    """Takes everything except for nobody@..., and nothing while it is `full`."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Session)
        self.port: int = self.server_address[1]
        self.messages: list[str] = []
        self.recipients: list[list[str]] = []
        self.full = False
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self) -> Smtp:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.shutdown()
        self.server_close()


class _Session(socketserver.StreamRequestHandler):
    server: Any

    def handle(self) -> None:
        recipients: list[str] = []
        self._say("220 here")
        for line in self.rfile:
            word = line.decode().strip()
            if word.upper().startswith("RCPT TO:"):
                address = word.partition("<")[2].partition(">")[0]
                if address.startswith("nobody@"):
                    self._say("550 no such user")
                    continue
                recipients.append(address)
            elif word.upper() == "DATA":
                if self.server.full:
                    self._say("452 no room")
                    continue
                self._say("354 go on")
                lines = iter(self.rfile.readline, b".\r\n")
                self.server.messages.append(b"".join(lines).decode())
                self.server.recipients.append(recipients)
            elif word.upper() == "QUIT":
                self._say("221 bye")
                return
            self._say("250 ok")

    def _say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())
