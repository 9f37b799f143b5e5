"""Logs one line for every call that changes something: who, what, which object and the outcome. Never what was sent."""

from __future__ import annotations

import msgspec
import structlog

from brickyard.api.edge.delivering import Delivering
from brickyard.api.edge.registry import Answer
from brickyard.domain.caller import Caller
from brickyard.domain.errors import ApiError
from brickyard.features.audit.rules import names

ANONYMOUS = Caller(user_name="", user_id="", is_admin=False, token_id="")

_log = structlog.get_logger(__name__)


class Call:
    """What is known about a call when it is answered."""

    def __init__(self) -> None:
        self.caller = ANONYMOUS
        self.request: msgspec.Struct | None = None
        self.delivering: Delivering | None = None
        self.status = 0  # of its answer, once that has been sent
        self.error_code = ""

    @property
    def client_is_gone(self) -> bool:
        """Whether it is known to have disconnected before its answer was sent."""
        return self.delivering is not None and self.delivering.lost

    async def settle(self, *, lost: bool) -> None:
        """Tell the handler what became of its answer."""
        if self.delivering is not None:
            await self.delivering.settle(lost=lost)

    def objects(self, answer: Answer) -> dict[str, str]:
        """The objects that it and its answer name."""
        return {**names(answer if isinstance(answer, msgspec.Struct) else None), **names(self.request)}

    def log(
        self, operation: str, answer: Answer, failure: ApiError | None, *, status: int, seconds: float, request_id: str
    ) -> None:
        """Writes the line, whatever the outcome. For a refused call it includes the error code."""
        objects = self.objects(answer)
        error = {"error_code": failure.error_code} if failure is not None else {}
        _log.info(
            "request",
            user=self.caller.user_name,
            operation=operation,
            object=" ".join(f"{name}={value}" for name, value in objects.items()),
            status=status,
            **error,
            ms=round(seconds * 1000, 1),
            request_id=request_id,
        )
