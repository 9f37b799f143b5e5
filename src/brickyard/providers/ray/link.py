"""Runs the process that speaks with Ray (`beside/`), starts it again when it ends, and carries calls to it."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import subprocess
import sys
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as LateError
from pathlib import Path
from typing import IO, Any, Protocol

import msgspec
import structlog

from brickyard.machine.installing import command
from brickyard.providers import bootstrap
from brickyard.providers.base import InvalidError, SetupError, TransientError

log = structlog.get_logger(__name__)

CALL_S = 10.0  # Ray answers in milliseconds; while its head is dead it does not answer at all
CONNECT_S = 30.0
LATE_S = 2.0
PAUSES_S = (0.5, 5.0)  # before the process is started again
LOG_LIMIT = 4 << 20
_HERE = Path(__file__).parent
_PROGRAM = "import sys; sys.path.append(sys.argv.pop()); from beside.main import main; sys.exit(main())"


class _Line(msgspec.Struct, kw_only=True):
    id: int = 0
    answer: Any = None
    error: str | None = None
    kind: str = ""
    news: str = ""
    message: str = ""
    setup: bool = False
    nodes: list[dict[str, Any]] = []


_decode_line = msgspec.json.Decoder(_Line).decode


class Machines(Protocol):
    """Who keeps Ray's machines: the provider."""

    def learn(self, nodes: list[dict[str, Any]]) -> None:
        """These are there now. Called on the link's thread whenever they have changed."""
        ...


class Link:
    """`call` may be made from any thread."""

    def __init__(self, *, python: str, directory: Path, config: dict[str, Any], machines: Machines) -> None:
        self._python = python
        self._directory = directory
        self._config = config
        self._machines = machines
        self._lock = threading.Lock()
        self._ids = itertools.count(1)
        self._pending: dict[int, Future[Any]] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._ready = False
        self._why = "its process is starting"
        self._setup_error = ""
        self._tried = threading.Event()  # the first attempt has succeeded or failed
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="ray", daemon=True)

    @property
    def pid(self) -> int:
        """Of the process; 0 if there is none."""
        return self._process.pid if self._process is not None else 0

    def open(self) -> str:
        """Starts the process, and waits for the first attempt to reach Ray. Returns why it failed, or "". Raises SetupError if
        no attempt will ever succeed."""
        self._thread.start()
        self._tried.wait(CONNECT_S + LATE_S)
        if self._setup_error:
            self.close()
            raise SetupError(self._setup_error)
        return "" if self._ready else self._why

    def call(self, name: str, /, **values: Any) -> Any:
        """One call. Raises InvalidError, or TransientError if Ray cannot be asked now."""
        future: Future[Any] = Future()
        number = next(self._ids)
        with self._lock:
            process = self._process
            if not self._ready or process is None:
                raise TransientError(f"Ray cannot be used now: {self._why}")
            self._pending[number] = future
            line = msgspec.json.encode({"id": number, "call": name, "with": values}) + b"\n"
            try:
                _write(process, line)
            except OSError as error:
                self._pending.pop(number, None)
                raise TransientError(f"Ray cannot be used now: its process has ended ({error})") from error
        try:
            return future.result(CALL_S)
        except LateError as error:
            self._end(process, f"it has not answered {name} for {CALL_S:.0f} s; is Ray's head alive?")
            raise TransientError(f"Ray has not answered {name} within {CALL_S:.0f} s") from error
        finally:
            self._pending.pop(number, None)

    def close(self) -> None:
        """Ends the process. Instances stay."""
        self._closing.set()
        with self._lock:
            process = self._process
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()  # its end
        if self._thread.is_alive():
            self._thread.join(CALL_S)

    # -- the process ---------------------------------------------------------------------------------------------------------

    def _keep(self) -> None:
        """Runs one process after another until `close`."""
        pause_s = PAUSES_S[0]
        while not self._closing.is_set():
            try:
                was_ready = self._run_once()
            except OSError as error:
                was_ready = False
                self._down(f"{self._python} cannot be started: {error.strerror or error}", setup=True)
            except Exception as error:  # of any kind: nothing else would start the next one
                was_ready = False
                log.exception("ray_failed")
                self._down(f"{type(error).__name__}: {error}")
            self._tried.set()
            pause_s = PAUSES_S[0] if was_ready else min(pause_s * 2, PAUSES_S[1])
            self._closing.wait(pause_s)

    def _run_once(self) -> bool:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._directory / "ray.log"
        if path.exists() and path.stat().st_size > LOG_LIMIT:
            path.replace(path.with_suffix(".log.1"))
        errors = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            process = subprocess.Popen(
                [self._python, "-P", "-c", _PROGRAM, str(_HERE)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=self._directory,
                env=_environment(),
                start_new_session=True,  # so that a signal for the server's terminal does not reach it
            )
        finally:
            os.close(errors)
        with self._lock:
            self._process = process
        _write(process, msgspec.json.encode(self._config) + b"\n")
        watchdog = threading.Timer(CONNECT_S, self._end, (process, f"Ray was not reached within {CONNECT_S:.0f} s"))
        watchdog.daemon = True
        watchdog.start()
        ready = self._read(process, watchdog)
        watchdog.cancel()
        code = process.wait()
        if not self._closing.is_set():
            self._down(self._why if not ready or self._why else f"its process has ended (exit code {code})")
            if ready:
                log.warning("ray_process_ended", code=code, why=self._why)
        self._close_pipes(process)
        return ready

    def _read(self, process: subprocess.Popen[bytes], watchdog: threading.Timer) -> bool:
        """Until the process ends. Returns whether it ever reached Ray."""
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        ready = False
        for data in process.stdout:
            line = _decode_line(data)
            if line.news == "ready":
                ready = True
                watchdog.cancel()
                self._up()
            elif line.news == "failed":
                self._down(line.message, setup=line.setup)
            elif line.news == "nodes":
                self._machines.learn(line.nodes)
            elif (future := self._pending.get(line.id)) is not None:
                _settle(future, line)
        return ready

    def _up(self) -> None:
        with self._lock:
            self._ready, self._why = True, ""
        self._tried.set()

    def _down(self, why: str, *, setup: bool = False) -> None:
        with self._lock:
            if not self._tried.is_set() and setup:
                self._setup_error = why
            self._ready, self._why = False, why or self._why or "its process has ended"
            pending = list(self._pending.values())
        for future in pending:
            if not future.done():
                with contextlib.suppress(Exception):  # settled at this moment
                    future.set_exception(TransientError(f"Ray cannot be used now: {self._why}"))

    def _end(self, process: subprocess.Popen[bytes], why: str) -> None:
        """Ends a process that hangs; another is started."""
        with self._lock:
            if self._process is not process or process.poll() is not None:
                return
            self._ready, self._why = False, why
        process.kill()

    @staticmethod
    def _close_pipes(process: subprocess.Popen[bytes]) -> None:
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def interpreter(chosen: str) -> str:
    """The interpreter that has Ray. Raises SetupError."""
    if chosen:
        return chosen
    if importlib.util.find_spec("ray") is None:
        raise SetupError(
            f"provider ray needs Ray, which {sys.executable} does not have. Name an interpreter of this machine that has the "
            f"cluster's version of Ray, as python in [ray], or install it: {command('ray>=2.60')}"
        )
    return sys.executable


def _environment() -> dict[str, str]:
    env = bootstrap.environment(os.environ)
    return {**env, "RAY_USAGE_STATS_ENABLED": "0", "PYTHONUNBUFFERED": "1"}


def _write(process: subprocess.Popen[bytes], line: bytes) -> None:
    pipe: IO[bytes] | None = process.stdin
    assert pipe is not None  # noqa: S101 - it is a pipe
    pipe.write(line)
    pipe.flush()


def _settle(future: Future[Any], line: _Line) -> None:
    if future.done():
        return
    if line.error is None:
        future.set_result(line.answer)
    elif line.kind == "invalid":
        future.set_exception(InvalidError(line.error))
    else:
        future.set_exception(TransientError(f"Ray: {line.error}"))
