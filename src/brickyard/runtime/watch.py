"""Runs a long command and reports that it is still running."""

from __future__ import annotations

import collections
import contextlib
import ctypes
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence

LOOK_EVERY_S = 0.5
ENDS_S = 3.0  # after SIGTERM
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


class CommandFailed(Exception):
    """A command failed; the message has its last lines."""


def run_watched(
    command: Sequence[str],
    *,
    watch: Callable[[int, Sequence[str]], None],
    environment: Mapping[str, str] | None = None,
    limit_s: float,
    look_every_s: float = LOOK_EVERY_S,
) -> None:
    """Runs `command` to its end. Passes its process id and new lines to `watch` twice a second, or as often as `look_every_s`
    says. Raises CommandFailed, and what `watch` raises.

    The command has its own process group, which is told to end (SIGTERM) and then killed when this gives up. On Linux the command
    also ends when this process is killed.
    """
    process = subprocess.Popen(
        list(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env=None if environment is None else dict(environment), start_new_session=True, preexec_fn=_end_with_parent,  # noqa: PLW1509 - prctl only
    )  # fmt: skip
    assert process.stdout is not None  # noqa: S101 - requested above; for the type checker
    lines: collections.deque[str] = collections.deque(maxlen=20)
    deadline, rest = time.monotonic() + limit_s, b""
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while True:
                new: list[str] = []
                if selector.select(look_every_s):
                    chunk = os.read(process.stdout.fileno(), 65_536)
                    if not chunk:
                        break
                    *whole, rest = (rest + chunk.replace(b"\r", b"\n")).split(b"\n")
                    new = [text for line in whole if (text := _plain(line))]
                    lines.extend(new)
                watch(process.pid, new)
                if time.monotonic() > deadline:
                    raise CommandFailed(f"{command[0]} did not end within {limit_s:.0f} s")
        if process.wait() != 0:
            tail = "\n".join(lines)
            raise CommandFailed(f"{os.path.basename(command[0])} failed with exit code {process.returncode}:\n{tail}")  # noqa: PTH119 - a command's name, not a path
    finally:
        if process.poll() is None:
            for number in (signal.SIGTERM, signal.SIGKILL):  # a launcher ends at the first, with all that it has started
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(ENDS_S)
                    break
            process.wait()


def _end_with_parent() -> None:
    """Runs in the child: has the kernel kill it when the thread that waits for it is gone."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def _plain(line: bytes) -> str:
    """Makes a line readable: for JSON progress, its message or error."""
    text = line.decode(errors="replace").strip()
    if text.startswith("{"):
        with contextlib.suppress(ValueError):
            said = json.loads(text)
            return str(said.get("message", said.get("error", text)))
    return text[:300]
