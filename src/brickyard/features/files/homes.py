"""Homes in the workspace's tree, `/Users/NAME`: every user has one, and what an earlier user of a name has left is not the next
one's."""

from __future__ import annotations

import contextlib
import datetime
import itertools

from brickyard.access.objects import HOMES, path_of
from brickyard.domain.access import ObjectKind
from brickyard.domain.clock import Clock
from brickyard.domain.errors import InvalidParameterValue
from brickyard.features.files.arguments import parts_of
from brickyard.features.files.errors import translated
from brickyard.storage.safetree import SafeTree
from brickyard.store.tx import Tx

_MOST_NAME = 200  # bytes of the name that the moved directory keeps


def home_of(user_name: str) -> tuple[str, ...] | None:
    """The names of the path of a user's home; None if the name cannot be that of a directory."""
    with contextlib.suppress(InvalidParameterValue):
        if parts_of("/".join(("", HOMES, user_name))) == (HOMES, user_name):
            return HOMES, user_name
    return None


class FormerHomes:
    """Moves away what deleted users have left, and makes the homes of new ones. One per server."""

    def __init__(self, *, tree: SafeTree, clock: Clock) -> None:
        self._tree = tree
        self._clock = clock

    def make_tops(self) -> None:
        """Makes what every workspace has: `/Shared` and `/Users`. Blocks. A full disk is no error."""
        for parts in (("Shared",), (HOMES,)):
            with contextlib.suppress(OSError):
                self._tree.make_directories(parts)

    def make(self, user_name: str) -> None:
        """Makes a user's home unless it exists. Blocks. A full disk is no error: the home is made when the user first comes."""
        with contextlib.suppress(OSError):
            if (home := home_of(user_name)) is not None:
                self._tree.make_directories(home)

    def retire(self, tx: Tx, user_name: str) -> None:
        """Moves a home of that name to `/Users/NAME (until DATE)`, which only administrators reach, without what was granted on
        it. Call it within the transaction that creates the user: before that there may be another one of the name, and afterwards
        the new one may be at work. May be repeated. Raises ApiError."""
        if (home := home_of(user_name)) is None:
            return
        with translated(path_of(home)), contextlib.suppress(FileNotFoundError):
            if not self._tree.stat(home).is_dir:
                return
            until = datetime.datetime.fromtimestamp(self._clock.now_ms() / 1000, datetime.UTC).date()
            short = user_name.encode()[:_MOST_NAME].decode(errors="ignore")
            for number in itertools.count(1):
                with contextlib.suppress(FileExistsError):
                    name = f"{short} (until {until})" if number == 1 else f"{short} (until {until}, {number})"
                    self._tree.move(home, (HOMES, name), replace=False)
                    break
        tx.grants.remove_below(ObjectKind.WORKSPACE_PATH, path_of(home))
