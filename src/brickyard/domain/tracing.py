"""What the parts of a server need to take part in a trace (docs/tracing.md). `server/tracing.py` implements it.

A server without `tracing_endpoint` has none: the parts hold None, and pay one comparison.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Protocol

from brickyard.domain.nodeops import CommandTrace

Attributes = dict[str, str | int]


class Span(Protocol):
    """One timed step of a trace. Attributes hold ids, names of operations and codes; never what was sent or answered."""

    def set(self, attributes: Attributes) -> None: ...

    def failed(self, error_type: str) -> None:
        """Marks the step as failed. `error_type`: a code or the name of a class."""
        ...


class Tracing(Protocol):
    """Makes spans. No method waits for a collector, or raises."""

    def request(self, name: str, headers: Iterable[tuple[bytes, bytes]], attributes: Attributes) -> AbstractContextManager[Span]:
        """A call of a client, whose trace it continues if its headers name one."""
        ...

    def child(
        self, name: str, attributes: Attributes, *, calls: bool = False, late: bool = False
    ) -> AbstractContextManager[None]:
        """A step of what runs here. None if that is not traced. `calls`: another process does it. `late`: also after that has
        ended, for what it has begun."""
        ...

    def caused(self, key: str, name: str, attributes: Attributes) -> AbstractContextManager[None]:
        """A step for an object that a traced call has changed lately. None for others."""
        ...

    def remember(self, keys: Iterable[str]) -> None:
        """What is done for these objects from now on belongs to the current trace, for a while."""
        ...

    def traceparent(self) -> str:
        """The current span as a header of W3C Trace Context; "" if nothing is traced."""
        ...

    def command(self, ran: CommandTrace, attributes: Attributes) -> None:
        """A command that has run on a node, and its Spark jobs."""
        ...
