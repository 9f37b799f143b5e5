"""What a kernel is given to reach Spark: a door of its own into the driver's JVM."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol


class DoorError(Exception):
    """The driver's JVM does not do as it is asked; the message says what it said."""


class Door(NamedTuple):
    """One door: the environment by which a kernel finds it, and what shuts it. `close` never raises."""

    env: dict[str, str]
    close: Callable[[], None]


class Doors(Protocol):
    """Opens doors. For one thread."""

    def open(self) -> Door:
        """Raises DoorError."""
        ...

    def close(self) -> None:
        """Leave; the JVM goes on."""
        ...
