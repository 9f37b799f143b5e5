"""The build of the web page beside other work: `background` begins one and returns, `stop` ends it.

It is a process of its own session, with the lowest priority, and writes to LOG, whose first line names it. Whoever needs the page
meanwhile (`./dev ui`, `./dev up`) waits for its lock; `./dev down` ends it. It may be killed at any moment: the next one who
needs the page builds it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = HERE / "build.py"
LOG = HERE.parent / ".venv" / "web-page.log"
_FIRST_LINE = re.compile(r"Process (\d+) builds the web page\.")
_NICEST = 19


def is_locked() -> bool:
    """Whether a build runs. A program that a killed one has started counts: it still writes."""
    folder = os.open(HERE, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(folder)
    return False


def begin() -> None:
    """Begins a build unless one runs, and says where its log is."""
    if is_locked():
        print(f"The web page is being built already (log: {shown()}).", file=sys.stderr, flush=True)
        return
    with LOG.open("w") as log:
        subprocess.Popen(
            [sys.executable, str(BUILD), "in-background"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    print(f"The web page is being built in the background, for about a minute (log: {shown()}).", file=sys.stderr, flush=True)


def settle() -> None:
    """Lets this process go after all others, and writes the first line of the log, by which `stop` finds it."""
    os.nice(_NICEST)
    print(f"Process {os.getpid()} builds the web page.", file=sys.stderr, flush=True)


def stop() -> None:
    """Ends the build that runs in the background, with the programs that it has started."""
    try:
        with LOG.open(errors="replace") as file:
            named = _FIRST_LINE.match(file.readline())
    except OSError:
        return
    if named is None or not is_locked() or not _is_build(pid := int(named[1])):
        return
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGTERM)
        print("Ended the build of the web page; ./dev ui and ./dev up build it when it is needed.", file=sys.stderr)


def _is_build(pid: int) -> bool:
    """Whether that process is a build in the background: its number may have passed to another one."""
    shows = ["ps", "-o", "command=", "-p", str(pid)]
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[1:3] == [os.fsencode(BUILD), b"in-background"]
    with contextlib.suppress(OSError):
        found = subprocess.run(shows, capture_output=True, text=True, check=False).stdout
        return found.strip().endswith(f"{BUILD} in-background")
    return False


def shown() -> str:
    """The log's path as it can be typed in here."""
    return os.path.relpath(LOG) if Path.cwd() in LOG.parents else str(LOG)
