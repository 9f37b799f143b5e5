"""A kernel's access to Spark: its own door into the driver's JVM."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol


class DoorError(Exception):
    """The driver's JVM refused a request; the message is what it said."""


class Door(NamedTuple):
    """One door: the environment by which a kernel finds it, and how to close it. `close` never raises."""

    env: dict[str, str]
    close: Callable[[], None]


class Doors(Protocol):
    """Opens doors. For use by one thread."""

    def open(self) -> Door:
        """Opens a door. Raises DoorError."""
        ...

    def close(self) -> None:
        """Disconnects; the JVM goes on."""
        ...
