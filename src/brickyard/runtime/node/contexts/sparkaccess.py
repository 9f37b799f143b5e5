"""A kernel's access to Spark: its own connection to the driver's JVM."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol


class SparkAccessError(Exception):
    """The driver's JVM refused a request; the message is what it said."""


class SparkAccess(NamedTuple):
    """One kernel's access: the environment variables by which the kernel finds it, and how to close it. `close` never raises."""

    env: dict[str, str]
    close: Callable[[], None]


class SparkAccessProvider(Protocol):
    """Gives each kernel an access of its own. For use by one thread."""

    def open(self) -> SparkAccess:
        """Opens one kernel's access. Raises SparkAccessError."""
        ...

    def close(self) -> None:
        """Disconnects; the JVM goes on."""
        ...
