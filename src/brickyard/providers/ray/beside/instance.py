"""The actor: one instance on a machine that Ray has chosen. Ray gets this class by value, so it uses the standard library and Ray
alone."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

LINGER_S = 20.0  # an actor whose agent has ended keeps its name for so long, so that a server hears why; then its room is free
TEXT = 4096  # bytes kept of what the agent writes to stderr before it dies
NOTICE = signal.SIGUSR1  # see `agent/run.py`


class Instance:
    """Starts the agent as its child, and ends with it. The agent asks for a signal at the death of the *thread* that started it
    (that is what PR_SET_PDEATHSIG means), so this thread lives as long as the agent does."""

    def __init__(self, unit: bytes, python: str) -> None:
        self._python = python
        self._said = b""
        self._child: subprocess.Popen[bytes] | None = None
        self._result: dict[str, Any] | None = None
        self._ending = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over: asyncio.Event | None = None
        self._changing = threading.Lock()
        threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
        threading.Thread(target=self._live, args=(unit,), daemon=True).start()

    async def started(self) -> dict[str, Any]:
        """Answers as soon as the actor is on a machine."""
        import ray  # noqa: PLC0415 - only the machine's Ray will do

        return {"ending": self._ending, "node": ray.get_runtime_context().get_node_id()}

    async def ended(self) -> dict[str, Any]:
        """Answers when the agent has ended: with its exit code, and the last that it said."""
        self._loop = asyncio.get_running_loop()
        if self._over is None:
            self._over = asyncio.Event()
        if self._result is None:  # otherwise `_live` finds the event above, and sets it
            await self._over.wait()
        return self._result or {}

    async def end(self, _reason: str) -> None:
        """Begins to end the agent, which ends its node and removes its files."""
        self._begin_to_end()

    async def leave(self) -> None:
        """Tells the agent that its machine is about to be taken away. May be repeated: an agent hears it once it has a node."""
        with self._changing:
            child = self._child
            if child is not None and self._result is None and not self._ending and _hears(child.pid):
                child.send_signal(NOTICE)

    def _begin_to_end(self) -> None:
        with self._changing:
            self._ending = True
            if self._child is not None and self._result is None:
                self._child.send_signal(signal.SIGTERM)

    def _live(self, unit: bytes) -> None:
        try:
            code = self._run(unit)
        except OSError as error:
            code, self._said = 127, f"cannot start {self._python or sys.executable}: {error}".encode()
        with self._changing:
            said, python = self._said.decode(errors="replace"), self._python or sys.executable
            self._result = {"code": code, "said": said, "python": python, "ending": self._ending}
        if self._loop is not None and self._over is not None:
            self._loop.call_soon_threadsafe(self._over.set)
        time.sleep(1.0 if self._ending else LINGER_S)
        os._exit(0)  # Ray then frees the actor's name and room

    def _run(self, unit: bytes) -> int:
        import ray  # noqa: PLC0415 - only the machine's Ray will do

        document = json.loads(unit)
        document["host"] = document.get("host") or ray.util.get_node_ip_address()
        env = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}  # Ray's token may be among them
        if self._python:
            env.pop("PYTHONPATH", None)  # of the worker's Python, which may be another
        command = [self._python or sys.executable, "-m", "brickyard.agent", "--unit", "-", "--with-parent"]
        with self._changing:
            if self._ending:
                return 0
            child = subprocess.Popen(
                command, cwd="/", env=env, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            )
            self._child = child
        reader = threading.Thread(target=self._read, args=(child,), daemon=True)
        reader.start()
        try:
            assert child.stdin is not None  # noqa: S101 - it is a pipe
            with child.stdin as pipe:
                pipe.write(json.dumps(document).encode())
        except BrokenPipeError:
            pass  # it has ended already, and says why
        code = child.wait()
        reader.join(1.0)  # what the agent has left behind may hold its stderr open
        return code

    def _read(self, child: subprocess.Popen[bytes]) -> None:
        assert child.stderr is not None  # noqa: S101 - it is a pipe
        for line in child.stderr:
            self._said = (self._said + line)[-TEXT:]


def _end_with(raylet: int) -> None:
    """Ends this process, and with it the agent, when its raylet has ended. Ray's own workers end once process 1 is their parent,
    which it never becomes below a process that adopts orphans: a user's systemd, or the first process of some containers."""
    while os.getppid() == raylet:
        time.sleep(1.0)
    os._exit(1)


def _hears(pid: int) -> bool:
    """Whether an agent listens to the notice yet: before, the signal would end it."""
    try:
        with open(f"/proc/{pid}/status") as file:  # noqa: PTH123 - few imports in an actor
            caught = next(line for line in file if line.startswith("SigCgt:")).split()[1]
    except (OSError, StopIteration):
        return False
    return bool(int(caught, 16) >> (NOTICE - 1) & 1)
