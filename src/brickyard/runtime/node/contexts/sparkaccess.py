"""A kernel's access to Spark: its own connection to the driver's JVM."""

from __future__ import annotations

from typing import Protocol


class SparkAccessError(Exception):
    """The driver's JVM refused a request; the message is what it said."""


class SparkAccess(Protocol):
    """One kernel's access."""

    @property
    def env(self) -> dict[str, str]:
        """The environment variables by which the kernel finds it."""
        ...

    def own(self, user: str, pool: str) -> None:
        """Tells Spark whose the kernel is, and the pool of its jobs, unless the kernel does. Raises SparkAccessError."""
        ...

    def close(self) -> None:
        """Ends it, with everything that is held through it. Never raises."""
        ...


class SparkAccessProvider(Protocol):
    """Gives each kernel an access of its own. For use by one thread."""

    def open(self) -> SparkAccess:
        """Opens one kernel's access. Raises SparkAccessError."""
        ...

    def close(self) -> None:
        """Disconnects; the JVM goes on."""
        ...
