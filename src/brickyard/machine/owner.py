"""The process that a server ends with: usually a test run, which may be killed before it can stop what it started."""

from __future__ import annotations

import asyncio
import os

LOOK_S = 1.0  # polling interval where the kernel does not report another process's end


async def ended(pid: int) -> None:
    """Returns once no such process runs."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):  # not Linux, or forbidden by a container
        while _there(pid):  # noqa: ASYNC110 - nobody sets an event when another process ends
            await asyncio.sleep(LOOK_S)
        return
    loop, gone = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(fd, gone.set)  # readable once the process has ended, whether or not its parent has reaped it
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
