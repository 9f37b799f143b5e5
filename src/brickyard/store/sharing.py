"""Whether a database is shared with other servers at the moment."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Sharing(Protocol):
    """Whether this server shares its database with others."""

    @property
    def alone(self) -> bool:
        """Whether no other server changes the database, so that reads may be cached until this one changes it. For any thread."""
        ...


class Always(NamedTuple):
    """A sharing that never changes."""

    alone: bool
