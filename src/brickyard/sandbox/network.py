"""The agent's view of a node's network: a process (`netproc.py`) that owns a network namespace, controlled over a socket.

Messages are JSON, one per packet, with at most one descriptor each.

| network process -> agent | |
|---|---|
| `{"ready": LIMITS}` + namespace | the network exists; LIMITS says what part of the internet is unreachable, or "" |
| `{"failed": WHY}` | the network could not be made |
| `{"dial": N, "kind": "tcp" or "udp", "host", "port"}` | a process of the node wants an outgoing connection |
| `{"done": ID, "error"?}` | the answer to `open` and `join` |

| agent -> network process | |
|---|---|
| `{"dialled": N}` + socket | connected; without a socket: forbidden, or nobody answers |
| `{"open": PORT, "id"}` | make the socket `PORT` in the directory of ways lead to that port of the node |
| `{"join": WAYS, "peer": ADDRESS, "id"}` | connect to the node with that address |
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from brickyard.machine import files
from brickyard.machine.addresses import RANGE, NetworkError, forbidden, in_range, is_own, resolvers
from brickyard.sandbox import launcher
from brickyard.sandbox.view import View

START_S, CALL_S, DIAL_S = 20.0, 20.0, 15.0
NETPROC = Path(__file__).with_name("netproc.py")

Kind = Literal["isolated", "shared"]
Mode = Literal["auto", "isolated", "shared"]


class Allowed(msgspec.Struct, frozen=True):
    """What this machine allows. `reason` says why it does not allow more."""

    kind: Kind
    reason: str = ""

    @property
    def text(self) -> str:
        return self.kind if self.kind == "isolated" else f"shared: {self.reason}"


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a network."""

    address: str  # the node's address
    ways: str  # directory of the sockets that lead into the network
    switchboard: int  # descriptor of the user namespace that owns the network
    internet: bool = True
    allow: tuple[str, ...] = ()  # ADDRESS:PORT on this machine that may be reached anyway


# ── processes ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def command(python: str, control: int, **plan: Any) -> list[str]:
    """Returns the command line of a network process; this same thread must start it."""
    return [python, "-I", "-S", str(NETPROC), json.dumps({"control": control, "parent": os.getpid(), **plan})]


def _described(plan: Plan) -> dict[str, Any]:
    try:
        found = resolvers(Path("/etc/resolv.conf").read_text())
    except OSError:
        found = []
    listed = [*plan.allow, *(f"{host}:53" for host in found)] if plan.internet else list(plan.allow)
    return {
        "address": plan.address, "ways": plan.ways, "switchboard": plan.switchboard, "internet": plan.internet,
        "range": str(RANGE), "allow": listed, "resolvers": found if plan.internet else [],
    }  # fmt: skip


def make_switchboard(python: str = sys.executable) -> int:
    """Makes a switchboard and returns its descriptor. Raises NetworkError."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        line = command(python, theirs.fileno(), make_switchboard=True)
        with _spawned(line, [theirs.fileno()]):
            theirs.close()
            return _ready(ours)[1]


def _empty_directory(path: Path) -> None:
    files.remove_tree(path)
    path.mkdir(mode=0o700, parents=True)


@contextlib.contextmanager
def _spawned(line: Sequence[str], fds: Sequence[int]) -> Any:
    try:
        process = subprocess.Popen(line, env={}, cwd="/", stdin=subprocess.DEVNULL, pass_fds=fds, start_new_session=True)
    except OSError as error:
        raise NetworkError(str(error)) from error
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _ready(control: socket.socket) -> tuple[str, int]:
    """Reads the network process's first message: limits and a descriptor. Raises NetworkError."""
    control.settimeout(START_S)
    try:
        data, fds, _, _ = socket.recv_fds(control, 4096, 1)
    except OSError as error:
        raise NetworkError(f"the network process does not answer: {error}") from error
    answer = json.loads(data or b"{}")
    if "ready" not in answer or not fds:
        raise NetworkError(str(answer.get("failed") or "the network process has ended"))
    return str(answer["ready"]), fds[0]


def find_switchboard(root: Path) -> int:
    """Returns a descriptor of the switchboard that agents of instances in `root` hold, or -1 if there is none."""
    needle = f"{root}/".encode()
    for name in os.listdir("/proc") if sys.platform == "linux" else ():  # noqa: PTH208 - only names are needed
        try:
            if not name.isdigit() or needle not in (line := Path("/proc", name, "cmdline").read_bytes()):
                continue
            words = line.split(b"\0")
            if b"brickyard.agent" in words and b"--switchboard" in words:
                return os.open(f"/proc/{name}/fd/{int(words[words.index(b'--switchboard') + 1])}", os.O_RDONLY | os.O_CLOEXEC)
        except (OSError, ValueError, IndexError):
            continue  # it has just ended, or belongs to somebody else
    return -1


def allowed(walls: launcher.Sandbox, *, python: str = sys.executable) -> Allowed:
    """Returns what this machine allows, found by trying. Never raises."""
    try:
        with tempfile.TemporaryDirectory(prefix="brickyard-") as place:
            os.close(probe(Path(place, "ways"), walls, python=python))
    except (NetworkError, OSError) as error:
        return Allowed("shared", str(error))
    return Allowed("isolated")


def probe(place: Path, walls: launcher.Sandbox, *, python: str = sys.executable) -> int:
    """Tries everything that nodes will need, with two networks in the directory `place`. Returns a switchboard. Raises
    NetworkError.

    Takes about 0.2 s.
    """
    if sys.platform != "linux":
        raise NetworkError("network namespaces exist only on Linux.")
    if walls.kind == "none":
        raise NetworkError("nodes run without a sandbox.")
    switchboard = make_switchboard(python)
    try:
        with contextlib.ExitStack() as stack:
            _try(stack, place, walls, switchboard, python)
    except BaseException:
        os.close(switchboard)
        raise
    finally:
        files.remove_tree(place)
    return switchboard


def _try(stack: contextlib.ExitStack, place: Path, walls: launcher.Sandbox, switchboard: int, python: str) -> None:
    controls, namespaces = [], []
    for number in (1, 2):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        stack.enter_context(ours)
        ways = place / str(number)
        ways.mkdir(mode=0o700, parents=True)
        plan = _described(Plan(address=str(RANGE[number]), ways=str(ways), switchboard=switchboard))
        stack.enter_context(_spawned(command(python, theirs.fileno(), **plan), [theirs.fileno(), switchboard]))
        theirs.close()
        controls.append(ours)
    for control in controls:
        namespaces.append(_ready(control)[1])
        stack.callback(os.close, namespaces[-1])
    asked: list[dict[str, Any]] = [{"join": str(place / "2"), "peer": str(RANGE[2])}, {"open": 1}]
    for number, each in enumerate(asked):
        controls[0].send(json.dumps({**each, "id": number}).encode())
        answer = json.loads(controls[0].recv(4096) or b'{"error": "the network process has ended"}')
        if answer.get("error"):
            raise NetworkError(answer["error"])
    line = walls.command([], view=View(), network=(switchboard, namespaces[0]))
    try:
        done = subprocess.run(
            line, env={}, capture_output=True, timeout=START_S, check=False, pass_fds=(switchboard, namespaces[0])
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NetworkError(str(error)) from error
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"the launcher ended with {done.returncode}"]
        raise NetworkError(lines[-1].removeprefix("sandbox: ")[:300])


# ── one network, on the event loop ──────────────────────────────────────────────────────────────────────────────────────────


class NetworkOwner(Protocol):
    """Who has made a network: `agent.networks.Networks`."""

    def network_ended(self, network: Network) -> None:
        """Its process has ended unexpectedly: the node is cut off."""
        ...


class Network:
    """One network, from `start` to `stop`."""

    def __init__(self, *, plan: Plan, python: str, owner: NetworkOwner | None = None) -> None:
        self._plan = plan
        self._python = python
        self._owner = owner
        self._process: asyncio.subprocess.Process | None = None
        self._control: socket.socket | None = None
        self._namespace = -1
        self._started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._last_id = 0
        self._joined = ""
        self.over = False  # its process ended unexpectedly
        self._tasks: set[asyncio.Task[None]] = set()
        described = _described(plan)
        self._allow = tuple(described["allow"])
        self._described = described

    @property
    def descriptors(self) -> tuple[int, int]:
        """Returns the descriptors of switchboard and namespace, for the launcher. Await `start` first."""
        return self._plan.switchboard, self._namespace

    async def start(self) -> str:
        """Makes the network. Returns what part of the internet is unreachable, or "". Raises NetworkError."""
        await asyncio.to_thread(_empty_directory, Path(self._plan.ways))
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        self._control = ours
        with theirs:
            line = command(self._python, theirs.fileno(), **self._described)
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *line, env={}, cwd="/", stdin=subprocess.DEVNULL, pass_fds=(theirs.fileno(), self._plan.switchboard)
                )
            except OSError as error:
                raise NetworkError(f"the network process cannot be started: {error}") from error
        asyncio.get_running_loop().add_reader(ours, self._receive)
        try:
            async with asyncio.timeout(START_S):
                return await asyncio.shield(self._started)
        except TimeoutError as error:
            raise NetworkError("the network process does not answer") from error

    async def open(self, port: int) -> str:
        """Returns the path of a Unix socket that leads to that port of the node. Raises NetworkError."""
        await self._call({"open": port})
        return f"{self._plan.ways}/{port}"

    async def join(self, peer: str) -> None:
        """Connects to the node with that address. Raises NetworkError."""
        if self._joined == peer:
            return
        if self._joined or not in_range(peer):
            raise NetworkError(f"a node of this network cannot be connected to {peer}. Restart the cluster.")
        await self._call({"join": str(Path(self._plan.ways).parent / peer), "peer": peer})
        self._joined = peer

    async def stop(self) -> None:
        """Ends the network. Processes that still run in its namespace are cut off."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        self._close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.to_thread(files.remove_tree, Path(self._plan.ways))

    async def _call(self, asked: dict[str, Any]) -> None:
        self._last_id += 1
        number = self._last_id
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(CALL_S):
                await self._send({**asked, "id": number})
                await future
        except TimeoutError as error:
            raise NetworkError("the network process does not answer") from error
        finally:
            self._waiting.pop(number, None)

    async def _send(self, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
        """Sends a message. Raises NetworkError if the process is gone."""
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        while self._control is not None:
            try:
                self._control.sendmsg([json.dumps(message).encode()], rights)
            except BlockingIOError:
                await asyncio.sleep(0.01)
            except OSError:
                break
            else:
                return
        raise NetworkError("the network process has ended")

    def _receive(self) -> None:
        control = self._control
        if control is None:
            return
        try:
            data, fds, _, _ = socket.recv_fds(control, 4096, 1)
        except BlockingIOError:
            return
        except OSError:
            data, fds = b"", []
        if not data:
            self._ended()
            return
        message = json.loads(data)
        if "ready" in message and not self._started.done():
            self._namespace = fds[0]
            self._started.set_result(str(message["ready"]))
        elif "failed" in message and not self._started.done():
            self._started.set_exception(NetworkError(str(message["failed"])))
        elif "dial" in message:
            task = asyncio.create_task(self._dial(message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif (future := self._waiting.get(message.get("done", 0))) is not None and not future.done():
            error = message.get("error")
            future.set_exception(NetworkError(str(error))) if error else future.set_result(None)

    async def _dial(self, asked: dict[str, Any]) -> None:
        """Connects on the machine's own network, if that is allowed, and hands the connection over."""
        host, port, udp = str(asked["host"]), int(asked["port"]), asked["kind"] == "udp"
        with contextlib.suppress(NetworkError):
            if forbidden(host, port, allow=self._allow, internet=self._plan.internet, own=is_own):
                await self._send({"dialled": asked["dial"]})
                return
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM if udp else socket.SOCK_STREAM) as outside:
                outside.setblocking(False)
                try:
                    async with asyncio.timeout(DIAL_S):
                        await asyncio.get_running_loop().sock_connect(outside, (host, port))
                    outside.setblocking(True)
                except OSError:  # includes TimeoutError
                    await self._send({"dialled": asked["dial"]})
                    return
                await self._send({"dialled": asked["dial"]}, [outside.fileno()])

    def _ended(self) -> None:
        ours = self._process is not None
        self.over = True
        self._close()
        error = NetworkError("the node's network process has ended")
        waiting: list[asyncio.Future[Any]] = [*self._waiting.values(), self._started]
        for future in waiting:
            if not future.done():
                future.set_exception(error)
        if ours and self._owner is not None:
            self._owner.network_ended(self)

    def _close(self) -> None:
        control, self._control = self._control, None
        if control is not None:
            asyncio.get_running_loop().remove_reader(control)
            control.close()
        if self._namespace >= 0:
            os.close(self._namespace)
            self._namespace = -1
