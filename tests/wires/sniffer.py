"""Reads what passes over this machine's loopback, as somebody between two machines would."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator

_ALL_IP = 0x0003
_SO_RCVBUFFORCE = 33  # Linux; the module socket has no name for it
_LIMIT = 512 << 20


class Heard:
    """Payloads of TCP packets by (source, source port, target, target port)."""

    def __init__(self, wanted: Callable[[str, int, str, int], bool]) -> None:
        self._wanted = wanted
        self._lock = threading.Lock()
        self._size = 0
        self.streams: dict[tuple[str, int, str, int], bytearray] = {}

    def take(self, frame: bytes) -> None:
        if frame[12:14] != b"\x08\x00" or frame[23] != socket.IPPROTO_TCP:
            return
        ip = frame[14:]
        begin, length = (ip[0] & 15) * 4, struct.unpack(">H", ip[2:4])[0]
        tcp = ip[begin : length or None]
        source, target = socket.inet_ntoa(ip[12:16]), socket.inet_ntoa(ip[16:20])
        ports = struct.unpack(">HH", tcp[:4])
        if self._wanted(source, ports[0], target, ports[1]):
            with self._lock:
                payload = tcp[(tcp[12] >> 4) * 4 :]
                self._size += len(payload)
                assert self._size < _LIMIT
                self.streams.setdefault((source, ports[0], target, ports[1]), bytearray()).extend(payload)

    def size(self, wanted: Callable[[str, int, str, int], bool]) -> int:
        with self._lock:
            return sum(len(data) for stream, data in self.streams.items() if wanted(*stream))

    def holds(self, text: bytes) -> bool:
        with self._lock:
            return any(text in data for data in self.streams.values())


@contextlib.contextmanager
def listening(wanted: Callable[[str, int, str, int], bool]) -> Iterator[Heard]:
    """Hears every wanted packet meanwhile. Raises PermissionError for users who may not."""
    heard, over = Heard(wanted), threading.Event()
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_IP)) as raw:
        raw.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 64 << 20)  # more than the system's limit: no packet is missed
        raw.bind(("lo", 0))
        raw.settimeout(0.2)

        def loop() -> None:
            while not over.is_set():
                with contextlib.suppress(TimeoutError):
                    frame, address = raw.recvfrom(1 << 17)
                    if address[2] != socket.PACKET_OUTGOING:  # loopback shows each packet twice
                        heard.take(frame)

        thread = threading.Thread(target=loop)
        thread.start()
        try:
            yield heard
        finally:
            over.set()
            thread.join()
