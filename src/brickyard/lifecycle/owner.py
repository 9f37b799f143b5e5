"""The process that a server ends with: a test run, mostly, which may be killed before it can stop what it has started."""

from __future__ import annotations

import asyncio
import os

LOOK_S = 1.0  # where the kernel does not tell of another process's end


async def ended(pid: int) -> None:
    """Return when no such process runs (any more)."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):  # not Linux, or a container's rules against it
        while _there(pid):  # noqa: ASYNC110 - nobody sets an event when another process ends
            await asyncio.sleep(LOOK_S)
        return
    loop, gone = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(fd, gone.set)  # readable once the process has ended, whether or not its parent has taken note
    try:
        await gone.wait()
    finally:
        loop.remove_reader(fd)
        os.close(fd)


def _there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
