"""Protects PySpark's ports on loopback, which processes of other clusters can reach (network = shared).

PySpark waits without a time limit for a peer's first message, the secret, and serves one peer after the other. Here, a peer must
first prove itself: before anything reads from it or waits for it, its first bytes must arrive in time and be the secret.
"""

from __future__ import annotations

import contextlib
import hmac
import select
import socket
import socketserver
import threading
from collections import OrderedDict
from typing import Any

PATIENCE_S = 10.0
WAITING = 64
LOOPBACK = "127.0.0.1"


def proves(peer: socket.socket, secret: bytes) -> bool:
    """Whether the first bytes arrive in time and equal the secret. They stay in the socket's buffer."""
    try:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, len(secret))  # `poll` waits for this many bytes, or for the end
        poll = select.poll()
        poll.register(peer, select.POLLIN)
        if not poll.poll(PATIENCE_S * 1000):
            return False
        found = peer.recv(len(secret), socket.MSG_PEEK | socket.MSG_DONTWAIT)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
        return hmac.compare_digest(found, secret)
    except OSError:
        return False


class Waiting:
    """Peers that have not proved themselves yet. At the limit, a new peer replaces the one that has waited longest."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._peers: OrderedDict[int, socket.socket] = OrderedDict()

    def add(self, peer: socket.socket) -> None:
        with self._lock:
            self._peers[id(peer)] = peer
            oldest = self._peers.popitem(last=False)[1] if len(self._peers) > WAITING else None
        if oldest is not None:
            with contextlib.suppress(OSError):
                oldest.shutdown(socket.SHUT_RDWR)  # the thread that waits for this peer sees its end

    def remove(self, peer: socket.socket) -> None:
        with self._lock:
            self._peers.pop(id(peer), None)

    def proves(self, peer: socket.socket, secret: bytes) -> bool:
        try:
            return proves(peer, secret)
        finally:
            self.remove(peer)


def bound_accumulators() -> None:
    """Makes the port for accumulator updates serve its peers in parallel, each after it has proved itself; and bind to an
    address, since without a sandbox the machine may not know the name `localhost`."""
    from pyspark import accumulators

    kind = getattr(accumulators, "AccumulatorTCPServer", None) or accumulators.AccumulatorServer  # from Spark 4.1 on; older
    waiting = Waiting()

    def serve(server: Any, peer: socket.socket, address: Any) -> None:
        try:
            if waiting.proves(peer, server.auth_token.encode()):
                server.finish_request(peer, address)
        except Exception:
            server.handle_error(peer, address)
        finally:
            server.shutdown_request(peer)

    def process_request(server: Any, peer: socket.socket, address: Any) -> None:
        waiting.add(peer)
        threading.Thread(target=serve, args=(server, peer, address), name="accumulators", daemon=True).start()

    def server_bind(server: Any) -> None:
        server.server_address = (LOOPBACK, server.server_address[1])
        socketserver.TCPServer.server_bind(server)

    kind.server_bind = server_bind
    kind.process_request = process_request
