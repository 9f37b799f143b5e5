"""Logs one line for every call that changes something: who, what, which object and the outcome. Never what was sent."""

from __future__ import annotations

import msgspec
import structlog

from brickyard.api.edge.registry import Answer
from brickyard.domain.errors import ApiError
from brickyard.services.caller import Caller

ANONYMOUS = Caller(user_name="", user_id="", is_admin=False, token_id="")
# Fields that name an object, in requests and answers. Other fields may hold secrets: conf, commands, tokens.
_NAMES = (
    "cluster_id", "context_id", "command_id", "instance_pool_id", "run_id", "token_id", "instance_id", "path", "source_path",
    "destination_path", "handle", "id", "scope", "key",
)  # fmt: skip
MOST_TEXT = 300  # characters of a client-chosen name

_log = structlog.get_logger(__name__)


class Call:
    """What is known about a call when it is answered."""

    def __init__(self) -> None:
        self.caller = ANONYMOUS
        self.request: msgspec.Struct | None = None

    def log(
        self, operation: str, answer: Answer, failure: ApiError | None, *, status: int, seconds: float, request_id: str
    ) -> None:
        """Writes the line, whatever the outcome. For a refused call it includes the error code."""
        made = answer if isinstance(answer, msgspec.Struct) else None
        names = {**_names(made), **_names(self.request)}
        error = {"error_code": failure.error_code} if failure is not None else {}
        _log.info(
            "request",
            user=self.caller.user_name,
            operation=operation,
            object=" ".join(f"{name}={value}" for name, value in names.items()),
            status=status,
            **error,
            ms=round(seconds * 1000, 1),
            request_id=request_id,
        )


def _names(struct: msgspec.Struct | None) -> dict[str, str]:
    values = ((name, getattr(struct, name, None)) for name in _NAMES)
    return {name: str(value)[:MOST_TEXT] for name, value in values if isinstance(value, str | int) and value != ""}
