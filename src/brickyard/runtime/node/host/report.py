"""A node's reports to its agent."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..protocol import Channel

if TYPE_CHECKING:
    from ..documents import FailureDocument


class Report:
    """Tells the agent what has changed, and only that. A failure is final: nothing is sent after it."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._told: dict[str, Any] = {}
        self._lock = threading.Lock()
        self.failed = False

    def tell(self, **fields: Any) -> None:
        with self._lock:
            changed = {key: value for key, value in fields.items() if self._told.get(key) != value}
            if changed and not self.failed:
                self._told.update(changed)
                self._channel.status(**changed)

    def fail(self, failure: FailureDocument) -> None:
        with self._lock:
            if not self.failed:
                self.failed = True
                self._channel.status(phase="failed", failure=dict(failure), message=failure["message"])

    def told(self, field: str) -> Any:
        """Returns the last value sent for a field, or None."""
        return self._told.get(field)

    def ask_metastore(self, number: int, request: Mapping[str, Any]) -> None:
        self._channel.send({"event": "metastore", "ask": number, "request": request})

    def log(self, line: str) -> None:
        self._channel.log(line)

    @property
    def ready(self) -> bool:
        return self._told.get("phase") in ("ready", "retiring", "retired")
