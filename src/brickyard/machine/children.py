"""Child processes to which we speak in JSON lines: one message a line, over stdin and stdout. Their stderr is for people."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import signal
import sys
from asyncio.subprocess import PIPE, SubprocessStreamProtocol
from collections.abc import Mapping, Sequence
from typing import Protocol, Self

import msgspec

LINE = 1 << 20  # bytes of the longest line from a child
TAIL_LINES, TAIL_CHARACTERS = 10, 2_000  # what is kept of its stderr: the last lines, and of each its beginning
KILL_S = 3.0  # a process that waits for dead storage cannot be killed
SURVIVOR_S = 0.3  # for the rest of its output: what it has started may outlive it and hold its pipes open
_CHUNK = 64 << 10  # bytes
_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONPATH")


class ErrorListener(Protocol):
    """Hears what a child writes to stderr."""

    def error_line(self, line: str) -> None: ...


def program(module: str, *arguments: str, python: str = sys.executable) -> list[str]:
    """The command that runs a module of ours."""
    return [python, "-P", "-m", module, *arguments]


def environment() -> dict[str, str]:
    """What a program of ours needs of our own environment, which may hold credentials."""
    return {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}


class _Pipes(SubprocessStreamProtocol):
    """A child's pipes. `exited` is set once it has ended: some versions of Python wait in `Process.wait` also for what it has
    started, if that holds its pipes open."""

    def __init__(self, longest: int) -> None:
        super().__init__(limit=longest, loop=asyncio.get_running_loop())
        self.exited = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self.exited.set()


class Child:
    """One child process, in a session of its own, from `start` to `end`.

    Its program has to end at the end of its stdin. So it never outlives us: our end of the pipe closes even if we are killed.
    """

    def __init__(self, transport: asyncio.SubprocessTransport, pipes: _Pipes, errors: ErrorListener | None) -> None:
        """Use `start`."""
        assert pipes.stdin and pipes.stdout and pipes.stderr  # noqa: S101 - all three are pipes
        self._transport = transport
        self._exited = pipes.exited
        self._stdin, self._stdout, self._stderr = pipes.stdin, pipes.stdout, pipes.stderr
        self._errors = errors
        self._listening = asyncio.create_task(self._listen())
        self.tail: collections.deque[str] = collections.deque(maxlen=TAIL_LINES)  # of stderr, unless somebody else hears that

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        fds: Sequence[int] = (),
        longest: int = LINE,
        errors: ErrorListener | None = None,
    ) -> Self:
        """Starts a child, which inherits `fds`. Its environment is `env`, by default `environment()`. Raises OSError."""
        env = environment() if env is None else dict(env)
        transport, pipes = await asyncio.get_running_loop().subprocess_exec(
            lambda: _Pipes(longest), *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=env, cwd="/", start_new_session=True,
            pass_fds=fds,
        )  # fmt: skip
        return cls(transport, pipes, errors)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.end()

    @property
    def pid(self) -> int:
        return self._transport.get_pid()

    @property
    def exit_code(self) -> int | None:
        """Negative for a signal; None while it runs."""
        return self._transport.get_returncode()

    @property
    def last_words(self) -> str:
        """The last line that it wrote to stderr. Await `ended` first."""
        return self.tail[-1][:300] if self.tail else "no message"

    async def send(self, message: object) -> None:
        """Raises ConnectionError if it has ended. Cancelling does not take the message back."""
        line = msgspec.json.encode(message) + b"\n"
        try:
            self._stdin.write(line)
            await self._stdin.drain()
        except RuntimeError as error:  # the transport is closed
            raise BrokenPipeError(str(error)) from error

    async def line(self) -> bytes:
        """Returns the next line that it writes; b"" after the last one. Raises ValueError for one that is too long: what is read
        of it is dropped."""
        return await self._stdout.readline()

    def close_input(self) -> None:
        self._stdin.close()

    async def ended(self) -> int:
        """Waits until it has ended, and its last words have been heard. Returns its exit code."""
        await self._exited.wait()
        await asyncio.wait([self._listening], timeout=SURVIVOR_S)
        return self.exit_code or 0

    async def end(self, *, grace_s: float = 0.0) -> None:
        """Ends it, by SIGTERM if it ends within `grace_s` then, otherwise by SIGKILL to its whole session. Returns once it has
        ended, or after KILL_S."""
        self._stdin.close()
        if grace_s and self.exit_code is None:
            with contextlib.suppress(ProcessLookupError):
                self._transport.send_signal(signal.SIGTERM)
            await self._wait(grace_s)
        if self.exit_code is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            await self._wait(KILL_S)
        await asyncio.wait([self._listening], timeout=SURVIVOR_S)
        self._listening.cancel()
        self._transport.close()  # the event loop may close after this
        await asyncio.gather(self._listening, return_exceptions=True)

    async def _wait(self, patience_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await self._exited.wait()

    async def _listen(self) -> None:
        rest = b""
        while data := await self._stderr.read(_CHUNK):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._hear(line)
            rest = rest[-TAIL_CHARACTERS:]
        if rest:
            self._hear(rest)

    def _hear(self, line: bytes) -> None:
        text = line.decode(errors="replace")
        if self._errors is not None:
            self._errors.error_line(text)
        elif text.strip():
            self.tail.append(text.strip()[:TAIL_CHARACTERS])
