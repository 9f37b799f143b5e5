"""Where the gateway reports the statements that it runs, such as to the history of queries."""

from __future__ import annotations

from typing import Protocol

from brickyard.domain.statements import Statement, StatementOutcome


class StatementObserver(Protocol):
    """Learns of each statement once when it begins and once when it ends. Methods are called in the server's event loop and
    return at once: what takes longer is queued. If the server is killed, a statement that has begun there has no end, unless
    another server goes on with it."""

    def began(self, statement: Statement) -> None:
        """Called before the statement is sent to the driver."""
        ...

    def went_on(self, statement: Statement) -> None:
        """Called when this server goes on with a statement that another one has begun. Its text is not known."""
        ...

    def left(self, statement: Statement) -> None:
        """Called when another server goes on with it."""
        ...

    def ended(self, statement: Statement, outcome: StatementOutcome) -> None:
        """Called when its whole result was read from the driver, when it failed, or when it was canceled or closed."""
        ...


class Unobserved:
    """Where no history is kept."""

    def began(self, statement: Statement) -> None:
        """Does nothing."""

    def went_on(self, statement: Statement) -> None:
        """Does nothing."""

    def left(self, statement: Statement) -> None:
        """Does nothing."""

    def ended(self, statement: Statement, outcome: StatementOutcome) -> None:
        """Does nothing."""
