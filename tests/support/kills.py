"""Has the kernel kill a process before one of its changes."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

from sqlalchemy import Engine, event


def killed_at(number: int, act: Callable[[], object]) -> bool:
    """Does it in a process that is killed before its change of that number; returns whether it was."""
    pid = os.fork()
    if pid == 0:
        left = number

        def count(*_: object) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        changes = ("os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.symlink")
        sys.addaudithook(lambda name, _: count() if name in changes else None)
        event.listen(Engine, "commit", count)
        try:
            act()
            os._exit(0)
        except BaseException as error:
            print(error, file=sys.stderr)
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)
