"""Questions of contexts that only the workspace's server can answer: the agent passes them on (docs/dev/node.md, "Node host
protocol"). This process has no way to a server, and no credential."""

from __future__ import annotations

import threading
from typing import Any

from ..protocol import Channel

_FIELDS = ("names", "value", "language", "error_code", "message")
PATIENCE_S = 45.0  # an agent gives up after it has tried every server


class Questions:
    """Every method may be called from any thread."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._last = 0
        self._waiting: dict[int, tuple[threading.Event, dict[str, Any]]] = {}

    def ask(self, context_id: str, **question: str) -> dict[str, Any]:
        """Returns the agent's answer: `names`, or `value` (base64) and `language`, or `error_code` and `message`. `question`:
        `scope` and `key`, or `notebook`."""
        arrived = threading.Event()
        answer: dict[str, Any] = {}
        with self._lock:
            self._last += 1
            number = self._last
            self._waiting[number] = (arrived, answer)
        try:
            self._channel.send({"event": "ask", "ask": number, "context_id": context_id, **question})
            if not arrived.wait(PATIENCE_S):
                text = f"The workspace's server has not answered within {PATIENCE_S:g} s."
                return {"error_code": "TEMPORARILY_UNAVAILABLE", "message": text}
            return answer
        finally:
            with self._lock:
                del self._waiting[number]

    def answered(self, message: dict[str, Any]) -> None:
        """Takes an answer of the agent."""
        with self._lock:
            found = self._waiting.get(int(message["ask"]))
        if found is not None:
            arrived, answer = found
            answer.update({name: message[name] for name in _FIELDS if message.get(name)})
            arrived.set()
