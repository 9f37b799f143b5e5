"""Commands whose calls are traced: what the server needs to add them, with their Spark jobs, to the trace."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from brickyard.agent.host import HostError
from brickyard.domain.decoding import converter
from brickyard.domain.nodeops import MAX_TRACED_JOBS, CommandTrace, OfCommand, SparkJobTrace

MOST = 1_000  # commands that run or whose status was not asked for
_OVER = frozenset(("Finished", "Error", "Cancelled"))
_TRACEPARENT = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
Call = Callable[..., Awaitable[dict[str, Any]]]


class _Ran(msgspec.Struct):
    """The node host's answer. Users' code may shape it."""

    began_ms: int
    ended_ms: int
    jobs: list[SparkJobTrace] = []


_to_ran = converter(_Ran)


class CommandTraces:
    """`call`: an operation of the node host."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._known: OrderedDict[str, str] = OrderedDict()  # by command

    def begun(self, command_id: str, traceparent: str) -> None:
        """A server has had a command executed. `traceparent`: "" if that is not traced."""
        if _TRACEPARENT.fullmatch(traceparent):
            self._known[command_id] = traceparent
            if len(self._known) > MOST:
                self._known.popitem(last=False)

    async def of(self, asked: OfCommand, status: object) -> CommandTrace | None:
        """Once, when the command is over."""
        if not self._known or status not in _OVER or (traceparent := self._known.pop(asked.command_id, "")) == "":
            return None
        try:
            ran = _to_ran(await self._call("command_trace", context_id=asked.context_id, command_id=asked.command_id))
        except (HostError, msgspec.ValidationError):  # the command's results count more than its trace
            return None
        return CommandTrace(
            traceparent=traceparent,
            status=str(status),
            began_ms=ran.began_ms,
            ended_ms=ran.ended_ms,
            jobs=ran.jobs[:MAX_TRACED_JOBS],
        )
