"""Why processes of a cluster's nodes were killed, for the errors of commands.

Spark knows only that a Python worker or an executor is gone. The agents know more, and each node notes it where the
driver can read it.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

NOTED_S = 4.0  # an agent may notice so much later than Spark that the kernel has killed a process
CLOCKS_S = 5.0  # that the clocks of two nodes may differ by
LOOK_S = 0.1
_NOTES = "killed-processes"
_LIMIT = 2_000  # bytes of a note: programs of the cluster can write there too


class KilledProcesses:
    """The notes of all nodes of a cluster, in `shared`: a directory that all of them see."""

    def __init__(self, shared: Path) -> None:
        self._notes = shared / _NOTES

    def note(self, host: str, why: str) -> None:
        """Notes why a process of the node `host` was killed. The last one of each node stays."""
        with contextlib.suppress(OSError):  # it only explains an error
            self._notes.mkdir(parents=True, exist_ok=True)
            draft = self._notes / f".{host}"
            draft.write_text(why)
            draft.replace(self._notes / host)

    def since(self, began_s: float, *, patience_s: float = NOTED_S) -> str:
        """Returns the newest reason since `began_s` (time.time()), with its node; waits for one; "" if there is none."""
        deadline = time.monotonic() + patience_s
        while not (found := self._newest(began_s - CLOCKS_S)) and time.monotonic() < deadline:
            time.sleep(LOOK_S)
        return found

    def _newest(self, after_s: float) -> str:
        with contextlib.suppress(OSError):
            entries = [each for each in os.scandir(self._notes) if not each.name.startswith(".")]
            found, host = max(((each.stat().st_mtime, each.name) for each in entries), default=(0.0, ""))
            if found > after_s:
                return f"{_read(self._notes / host)} (node {host})"
        return ""


def _read(file: Path) -> str:
    """Raises OSError."""
    handle = os.open(str(file), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        return os.read(handle, _LIMIT).decode(errors="replace")
    finally:
        os.close(handle)
