"""The node host's side of one kernel: its process and the two Jupyter channels that commands need."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, NamedTuple

import zmq
from jupyter_client.session import Session

from ..trees import OVER_QUOTA, over_quota
from ..wire import GROUP_KEY, POOL_KEY, USER_KEY, WIDGETS_KEY
from .asking import Answerer, serve
from .process import KernelDirectories, Process, Starter
from .sparkaccess import SparkAccess, SparkAccessError, SparkAccessProvider

START = Path(__file__).resolve().parents[1] / "start.py"
ANSWER_POLL_S = 0.1
MAX_MESSAGE = 64 * 1024 * 1024  # bytes; larger messages are dropped unread
LOG_TAIL = 4000  # characters
_PORTS = {"shell_port": 1, "iopub_port": 2, "stdin_port": 3, "control_port": 4, "hb_port": 5}


class KernelDied(Exception):
    """The process has ended; the message says how. `error` is the name of the error that the running command gets."""

    error = "PythonProcessDied"


class AccessLost(KernelDied):
    """The context's user may no longer run code here; the message says why."""

    error = "PermissionDenied"


class Event(NamedTuple):
    """One message. `kind` is Jupyter's msg_type, or "oversized"; `parent` is the id of the request it belongs to."""

    channel: str  # "shell" or "iopub"
    kind: str
    parent: str
    content: dict[str, Any]


def pool_of(context_id: str) -> str:
    """Returns the pool of a context's Spark jobs, by which java/JobPools.java knows it."""
    return f"context-{context_id}"


def not_started(how: str, log: str) -> str:
    """Says why a process could not start. The first line, which some clients show alone, has its last words."""
    last = log.rpartition("\n")[2].rstrip(". ")
    return f"The Python process could not start: {how}{f': {last}' if last else ''}.\n{log}".rstrip()


class KernelFactory:
    """What all kernels of a node share. Call `start` on `thread`, which lives as long as the kernels: the system kills them when
    the thread that started them ends."""

    def __init__(
        self,
        *,
        python: str,
        node_dir: Path,
        env: dict[str, str],
        access: SparkAccessProvider,
        thread: Executor,
        starter: Starter,
    ) -> None:
        self._starter = starter
        self._python = python
        self._node_dir = node_dir
        self._env = env
        self._access = access
        self._thread = thread
        self._zmq = zmq.Context()

    def start(self, *, hold: bool = False, after: KernelDirectories | None = None) -> Kernel:
        """Starts a process; it is usable once `connect` has returned. Raises OSError, SparkAccessError.

        With `hold`, it does everything possible without a driver and then waits for `proceed`. `after`: the directories of the
        context's last process, which has ended.
        """
        directories = self._starter.directories(self._node_dir) if after is None else self._starter.again(after, self._node_dir)
        key = secrets.token_hex(32)
        info = {"transport": "ipc", "ip": "k", "key": key, "signature_scheme": "hmac-sha256", **_PORTS}
        (directories.directory / "connection.json").write_text(json.dumps(info))
        opened = self._access.open()
        argv = [self._python, str(START), "kernel", str(directories.inside), str(self._starter.parent)]
        argv += [str(self._node_dir / "work"), *(["hold"] if hold else [])]
        env = {**self._env, **opened.env, **_own_env(directories)}
        ours, theirs = socket.socketpair() if hold else (None, None)
        try:
            with (directories.root / "log").open("wb") as log:
                stdin = theirs.fileno() if theirs is not None else subprocess.DEVNULL
                process = self._starter.start(directories, argv, env, node_dir=self._node_dir, stdin=stdin, log=log)
        except OSError:
            opened.close()
            if ours is not None:
                ours.close()
            raise
        finally:
            if theirs is not None:
                theirs.close()
        return Kernel(process=process, directories=directories, line=ours, key=key.encode(), factory=self, access=opened)

    def socket(self, kind: int) -> zmq.Socket[bytes]:
        return self._zmq.socket(kind)

    def disconnect(self, access: SparkAccess) -> None:
        """Closes a kernel's access to Spark on the thread that starts kernels, or never if that is about to end with the JVM."""
        with contextlib.suppress(RuntimeError):
            self._thread.submit(access.close)

    def close(self) -> None:
        """Frees what kernels share. All kernels must have been ended."""
        self._access.close()
        self._zmq.destroy(linger=0)


def _own_env(directories: KernelDirectories) -> dict[str, str]:
    """Returns the environment variables for one kernel's directories."""
    return {
        "IPYTHONDIR": str(directories.inside / "ipython"), "JUPYTER_RUNTIME_DIR": str(directories.inside),
        "CONTEXT_PACKAGES": str(directories.packages),
    }  # fmt: skip


class Kernel:
    """One kernel. Its channels are for one thread at a time; `interrupt` and `poll` may be called from any thread."""

    def __init__(
        self,
        *,
        process: Process,
        directories: KernelDirectories,
        line: socket.socket | None,  # on which a kernel waits for its driver, and then asks questions; None: it does neither
        key: bytes,
        factory: KernelFactory,
        access: SparkAccess,
    ) -> None:
        self._process = process
        self._directories = directories
        self._directory = directories.directory
        self._line = line
        self._waits = line is not None
        self._factory, self._access = factory, access
        self._session = Session(key=key, username="brickyard")
        self._metadata: dict[str, str] = {}  # of its context, with every command
        self._sockets: dict[str, Any] = {}
        self._poller = zmq.Poller()
        self._fd = -1

    def proceed(self) -> None:
        """Tells a waiting kernel that there is a driver. Does nothing for a kernel that does not wait."""
        waits, self._waits = self._waits, False
        if waits and self._line is not None:
            with contextlib.suppress(OSError):  # it has ended; `connect` will notice
                self._line.sendall(b"go\n")

    def belong(self, context_id: str, user: str, answerer: Callable[[], Answerer]) -> None:
        """The kernel is that context's and user's from now on, and its questions are answered. May be repeated. Raises
        KernelDied."""
        if not self._metadata:
            self._metadata = {USER_KEY: user, POOL_KEY: pool_of(context_id)}
            try:
                self._access.own(user, self._metadata[POOL_KEY])
            except SparkAccessError as error:
                raise KernelDied(str(error)) from error
        line, self._line = self._line, None
        if line is not None:
            threading.Thread(target=serve, args=(line, answerer()), name="kernel-questions", daemon=True).start()

    def connect(self, *, timeout_s: float, wanted: Callable[[], bool]) -> None:
        """Waits until the kernel answers on both channels. Raises KernelDied, also after the time limit or if it is no longer
        `wanted`."""
        # The directory's path may exceed the limit for socket paths; a path through the descriptor is always short.
        self._fd = os.open(str(self._directory), os.O_RDONLY | os.O_DIRECTORY)
        deadline = time.monotonic() + timeout_s
        while not (self._directory / "k-2").exists():
            self._check_start(deadline, timeout_s, wanted)
            time.sleep(0.02)
        for channel, kind, number in (("shell", zmq.DEALER, 1), ("iopub", zmq.SUB, 2)):
            socket = self._factory.socket(kind)
            socket.linger = 0
            socket.rcvhwm = 0  # the kernel limits what it sends; dropping a message here could lose the last one
            if kind == zmq.SUB:
                socket.subscribe(b"")
            socket.connect(f"ipc:///proc/self/fd/{self._fd}/k-{number}")
            self._sockets[channel] = socket
            self._poller.register(socket, zmq.POLLIN)
        heard: set[str] = set()
        while heard != {"shell", "iopub"}:
            # A subscription takes a moment to arrive, and earlier answers are lost: ask again until both channels answer.
            self._check_start(deadline, timeout_s, wanted)
            self._session.send(self._sockets["shell"], "kernel_info_request")
            pause = time.monotonic() + 0.5
            while heard != {"shell", "iopub"} and time.monotonic() < pause:
                event = self.receive(0.1)
                if event is not None:
                    heard.add(event.channel)
        self._shut_in()

    def _shut_in(self) -> None:
        """Both sides have what they need, so nobody else may find the key or the sockets."""
        for path in [self._directory / "connection.json", *self._directory.glob("k-*")]:
            with contextlib.suppress(OSError):
                path.unlink()

    def _check_start(self, deadline: float, timeout_s: float, wanted: Callable[[], bool]) -> None:
        if not wanted():
            raise KernelDied("The context was destroyed while its Python process started.")
        if self.poll() is not None:
            raise KernelDied(not_started(self.how_it_ended(), self.log_tail()))
        if time.monotonic() > deadline:
            raise KernelDied(f"The Python process was not ready within {timeout_s:.0f} s.\n{self.log_tail()}".rstrip())

    def execute(self, code: str, command_id: str, widgets: Mapping[str, str]) -> str:
        """Sends code, and the chosen values of widgets; returns the request's id, which all its messages name as their parent."""
        metadata = {**self._metadata, GROUP_KEY: command_id, WIDGETS_KEY: dict(widgets)}
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False, "stop_on_error": False,
                   "user_expressions": {}}  # fmt: skip
        message: Any = self._session.send(self._sockets["shell"], "execute_request", content, metadata=metadata)
        return str(message["header"]["msg_id"])

    def receive(self, timeout_s: float) -> Event | None:
        """Returns the next message of either channel, output before answers, or None if none arrives in time."""
        ready = dict(self._poller.poll(int(timeout_s * 1000)))
        for channel in ("iopub", "shell"):
            if self._sockets[channel] in ready:
                return self._read(channel)
        return None

    def _read(self, channel: str) -> Event | None:
        frames: list[bytes] = self._sockets[channel].recv_multipart()
        if sum(len(frame) for frame in frames) > MAX_MESSAGE:
            return Event(channel, "oversized", "", {})
        try:
            _identities, body = self._session.feed_identities(frames)
            message = self._session.deserialize(body)
        except (ValueError, KeyError, TypeError, RecursionError):
            return None  # code in the kernel can write to its own socket; malformed messages are ignored
        parent = (message.get("parent_header") or {}).get("msg_id", "")
        content = message.get("content")
        return Event(channel, str(message["header"]["msg_type"]), parent, content if isinstance(content, dict) else {})

    def await_answer(self, request: str, timeout_s: float) -> Event | None:
        """Returns the answer to a request, or None if none comes in time. Drops all other messages."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and self.poll() is None:
            event = self.receive(ANSWER_POLL_S)
            if event is not None and event.channel == "shell" and event.parent == request:
                return event
        return None

    def poll(self) -> int | None:
        """Returns the exit status, or None while it runs."""
        return self._process.poll()

    def interrupt(self) -> None:
        """Sends SIGINT to the kernel and to everything that its code has started."""
        self._process.interrupt()

    def how_it_ended(self) -> str:
        """Says how the process ended, for users."""
        status = self.poll()
        if status is None:
            return "it still runs"
        if status == -signal.SIGKILL:
            quota = f"it went on writing while {OVER_QUOTA}, or because " if over_quota(os.environ) else ""
            return f"it was killed (SIGKILL), most often because {quota}the node ran out of memory or of processes"
        if status < 0:
            try:
                return f"it was ended by signal {signal.Signals(-status).name}"
            except ValueError:
                return f"it was ended by signal {-status}"
        return f"it exited with status {status}"

    def death_notice(self) -> str:
        """Says how the process of a context ended, with the end of its log."""
        tail = self.log_tail()
        said = f"\nIts last words:\n{tail}" if tail else ""
        return f"The Python process of this context died: {self.how_it_ended()}. Its variables are gone.{said}"

    def log_tail(self) -> str:
        """The end of what the process wrote outside of commands."""
        try:
            with (self._directories.root / "log").open("rb") as stream:
                stream.seek(max(0, os.fstat(stream.fileno()).st_size - LOG_TAIL))
                return stream.read().decode("utf-8", "replace").strip()
        except OSError:
            return ""

    def end(self, *, keep: bool = False) -> KernelDirectories:
        """Kills the process and everything that it started, and removes its directories unless they are to be kept."""
        self._process.kill()
        self._process.wait()
        line, self._line = self._line, None
        if line is not None:
            line.close()
        for channel in self._sockets.values():
            channel.close(linger=0)
        self._sockets.clear()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        if not keep:
            shutil.rmtree(str(self._directories.root), ignore_errors=True)
        self._factory.disconnect(self._access)
        return self._directories
