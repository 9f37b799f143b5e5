"""What contexts refuse."""

from __future__ import annotations


class ContextError(Exception):
    """An operation cannot be done. `code` is NOT_FOUND, LIMIT, DEAD or INVALID."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def no_context(context_id: str) -> ContextError:
    return ContextError(
        "NOT_FOUND", f"Execution context {context_id} does not exist: it was destroyed, or its cluster restarted."
    )
