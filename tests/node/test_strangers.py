"""The port for accumulators' updates, by the names that PySpark's lines have for it."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import sys
import threading
import types
from typing import Any

import pytest

from brickyard.runtime.node.kernel import strangers
from tests.support.patience import PATIENCE_S

SECRET = "s3cret"


class Echo(socketserver.StreamRequestHandler):
    """Says what a peer sends after the secret."""

    def handle(self) -> None:
        self.rfile.read(len(SECRET))
        self.wfile.write(self.rfile.read(1))


@pytest.mark.parametrize("name", ["AccumulatorServer", "AccumulatorTCPServer"])  # until Spark 4.0, since Spark 4.1
def test_peers_are_served_once_they_have_proved_themselves(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    kind = type(name, (socketserver.TCPServer,), {"auth_token": SECRET})
    accumulators: Any = types.ModuleType("pyspark.accumulators")
    setattr(accumulators, name, kind)
    pyspark: Any = types.ModuleType("pyspark")
    pyspark.accumulators = accumulators
    monkeypatch.setitem(sys.modules, "pyspark", pyspark)
    monkeypatch.setitem(sys.modules, "pyspark.accumulators", accumulators)
    strangers.bound_accumulators()
    with kind(("127.0.0.1", 0), Echo) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            silent, wrong, good = (socket.create_connection(server.server_address, timeout=PATIENCE_S) for _ in range(3))
            with silent, wrong, good:
                wrong.sendall(b"x" * len(SECRET) + b"!")
                good.sendall(SECRET.encode() + b"!")
                assert good.recv(1) == b"!", "beside one that says nothing"
                with contextlib.suppress(ConnectionResetError):  # what it sent was not read
                    assert wrong.recv(1) == b""
        finally:
            server.shutdown()
