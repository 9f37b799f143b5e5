"""Where the code that runs comes from."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ..cells import resolved


class Place:
    """The notebook of this context, and those that it includes while they run."""

    def __init__(self) -> None:
        self.path = ""  # the notebook's path in the workspace; "": unknown, as in contexts of the API
        self.in_task = False  # whether the code is a task of a run
        self._included: list[str] = []

        self.runs_cells = False  # whether a notebook's cells run within a command

    @property
    def depth(self) -> int:
        """How many notebooks are being included, one by the other."""
        return len(self._included)

    def of(self, path: str) -> str:
        """Returns the path in the workspace that the notebook whose code runs means. Raises ValueError."""
        return resolved(path, self._included[-1] if self._included else self.path)

    @contextlib.contextmanager
    def including(self, path: str) -> Iterator[None]:
        self._included.append(path)
        try:
            yield
        finally:
            self._included.pop()
