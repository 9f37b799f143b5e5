"""Where the code that runs comes from."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from ..cells import resolved


class Frame:
    """A notebook whose cells run. `own`: it is the context's own one, not included by `%run`. `digest`: of its source. `after`:
    how many of its cells have begun."""

    def __init__(self, path: str, arguments: Mapping[str, str], *, own: bool, digest: str, after: int = 0) -> None:
        self.path, self.arguments, self.own, self.digest, self.after = path, dict(arguments), own, digest, after


class Place:
    """The notebook of this context, and those that it includes while they run."""

    def __init__(self) -> None:
        self.path = ""  # the notebook's path in the workspace; "": unknown, as in contexts of the API
        self.task_values: Mapping[str, Mapping[str, Any]] | None = None  # of other tasks of the run; None: this is no task
        self._frames: list[Frame] = []

    @property
    def depth(self) -> int:
        """How many notebooks run, each within a cell of the one before."""
        return len(self._frames)

    def of(self, path: str) -> str:
        """Returns the path in the workspace that the notebook whose code runs means. Raises ValueError."""
        return resolved(path, self._frames[-1].path if self._frames else self.path)

    @contextlib.contextmanager
    def running(self, frame: Frame) -> Iterator[None]:
        if frame.own:
            self.path = frame.path
        self._frames.append(frame)
        try:
            yield
        finally:
            self._frames.pop()

    def rest(self) -> dict[str, Any]:
        """What another process needs to go on with the notebooks that run (`Notebooks.notebook_magic`); nothing if none does."""
        if not self._frames:
            return {}
        return {"frames": [vars(frame) for frame in self._frames], "values": self.task_values}
