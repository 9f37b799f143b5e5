"""How the rest of the server writes into the audit log what is no call of the API, such as the begin of a session."""

from __future__ import annotations

from typing import Protocol

from brickyard.domain.caller import Caller


class Note(Protocol):
    """`AuditLog.note`."""

    def __call__(self, operation: str, caller: Caller, *, address: str = "", **objects: str) -> None: ...


def unnoted(operation: str, caller: Caller, *, address: str = "", **objects: str) -> None:
    """Where there is no audit log."""
