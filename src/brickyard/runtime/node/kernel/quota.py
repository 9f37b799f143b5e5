"""Has Python refuse to write to the workspace's files while they take more than they may (`dbfs_gb`).

Everything that Python itself opens is seen here, whichever module does it. Programs and libraries in C that write all the same
are ended by the agent (agent/watching/watch.py).
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Iterable
from subprocess import CalledProcessError
from typing import Any

from ..trees import OVER_QUOTA, over_quota

WRITING = os.O_WRONLY | os.O_RDWR
WHAT_TO_DO = "Delete some, or ask an administrator to raise dbfs_gb"


def guard_files(mark: str, roots: Iterable[str]) -> None:
    """From now on, opening a file below `roots` for writing raises OSError (EDQUOT) while the file `mark` exists. Nothing undoes
    this. Opening for reading, renaming, truncating (os.truncate) and removing go on."""
    tops = tuple(os.path.join(os.path.realpath(root), "") for root in roots)  # noqa: PTH118 - plain strings throughout

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or not arguments[2] & WRITING:
            return
        path = arguments[0]
        if not isinstance(path, int) and os.path.exists(mark) and os.path.realpath(os.fsdecode(path)).startswith(tops):  # noqa: PTH110
            raise OSError(errno.EDQUOT, f"Disk quota exceeded: {OVER_QUOTA}. {WHAT_TO_DO}", path)

    sys.addaudithook(look)


def explain_kill(error: BaseException) -> None:
    """Says why a program may have been killed, if it may have been for this."""
    if isinstance(error, CalledProcessError) and error.returncode == -signal.SIGKILL and over_quota(os.environ):
        print(f"Programs that go on writing while {OVER_QUOTA} are killed. {WHAT_TO_DO}.", file=sys.stderr)
