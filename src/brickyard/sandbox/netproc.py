"""The network process of an instance: makes the instance's network namespace and is the only way into and out of it.

Runs as `python -I -S netproc.py PLAN`, with the standard library only and a socket to the agent (`network.py` documents the
protocol). It forwards bytes from hostile code without looking at them. The agent decides which connections may leave.

With `switchboard` in the plan, it makes the user namespace that owns all these networks, sends it, and ends.
"""

# ruff: noqa: PTH100, PTH120, PTH123 - pathlib costs start-up time, which every node pays
from __future__ import annotations

import array
import contextlib
import ctypes
import errno
import json
import os
import queue
import signal
import socket
import struct
import sys
import threading

sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # appended last: neighbours share names with standard library modules
import netlink  # type: ignore[import-not-found]  # neighbours: this file runs outside of the package
from relay import GIVEN, carry, reset, serve, unix_listener  # type: ignore[import-not-found]

TYPE_CHECKING = False  # importing `typing` costs start-up time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
PR_SET_PDEATHSIG = 1
SO_ORIGINAL_DST = 80
MAX_OUT = 256  # outgoing connections at a time; more wait
MAX_IN, MAX_LOOKUPS = 128, 64
DIAL_S, LOOKUP_S = 20.0, 5.0
STACK = 192 << 10
MESSAGE = 4096
COMMON_PORTS = (80, 443)  # the only ports that lead out if the kernel cannot redirect

libc = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def die_with_parent(parent: int) -> None:
    check(libc.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0), "cannot ask for the parent's death signal")
    if os.getppid() != parent:
        raise OSError(errno.ESRCH, "the agent is gone")


def enter(namespace: int, kind: int) -> None:
    check(libc.setns(namespace, kind), "cannot enter a namespace")


# ── the switchboard ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def make_switchboard(control: socket.socket) -> None:
    """Makes a user namespace with the same ids inside as outside: all ids if allowed, otherwise only our own."""
    made, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.close(go[1])  # so that it ends when we end
        os.write(made[1], b"1" if libc.unshare(CLONE_NEWUSER) == 0 else b"0")
        os.read(go[0], 1)
        os._exit(0)
    try:
        if os.read(made[0], 1) != b"1":
            raise OSError(errno.EPERM, "this user may not make user namespaces")
        map_numbers(child)
        fd = os.open(f"/proc/{child}/ns/user", os.O_RDONLY)
        send(control, {"ready": ""}, [fd])
    finally:
        os.close(go[1])
        os.waitpid(child, 0)


def map_numbers(child: int) -> None:
    for name, own in (("uid_map", os.getuid()), ("gid_map", os.getgid())):
        with open(f"/proc/self/{name}") as handle:
            ranges = [line.split() for line in handle]
        whole = "".join(f"{inside} {inside} {count}\n" for inside, _, count in ranges)
        try:
            write(f"/proc/{child}/{name}", whole)
        except OSError:
            if name == "gid_map":
                write(f"/proc/{child}/setgroups", "deny")
            write(f"/proc/{child}/{name}", f"{own} {own} 1\n")


def write(path: str, text: str) -> None:
    with open(path, "w") as handle:
        handle.write(text)


# ── messages ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def send(control: socket.socket, message: dict[str, Any], fds: list[int]) -> None:
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    control.sendmsg([json.dumps(message).encode()], rights)


def receive(control: socket.socket) -> tuple[bytes, list[int]]:
    data, fds, _, _ = socket.recv_fds(control, MESSAGE, 1)
    return data, list(fds)


class Agent:
    """Requests to the agent: connections on the machine's own network."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self._lock = threading.Lock()
        self._waiting: dict[int, queue.SimpleQueue[int]] = {}
        self._last = 0

    def tell(self, message: dict[str, Any], fds: list[int] | None = None) -> None:
        with self._lock:
            send(self.control, message, fds or [])

    def dial(self, kind: str, host: str, port: int) -> socket.socket | None:
        """Returns a connected socket, or None if no connection can be made."""
        answer: queue.SimpleQueue[int] = queue.SimpleQueue()
        with self._lock:
            self._last += 1
            number = self._last
            self._waiting[number] = answer
            send(self.control, {"dial": number, "kind": kind, "host": host, "port": port}, [])
        try:
            fd = answer.get(timeout=DIAL_S)
        except queue.Empty:
            fd = -1
        with self._lock:
            self._waiting.pop(number, None)
        while fd < 0 and not answer.empty():  # the answer came just as we gave up
            fd = answer.get()
        return socket.socket(fileno=fd) if fd >= 0 else None

    def dialled(self, number: int, fds: list[int]) -> None:
        with self._lock:
            answer = self._waiting.get(number)
            if answer is not None:
                answer.put(fds[0] if fds else -1)
                return
        for fd in fds:
            os.close(fd)


# ── the namespace ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def make_namespace(plan: dict[str, Any]) -> None:
    """Enters a new network with one address, from which nothing is reachable yet."""
    check(libc.unshare(CLONE_NEWNET), "cannot make a network namespace")
    for name, value in (("ip_forward", "1"), ("conf/all/rp_filter", "0"), ("conf/default/rp_filter", "0")):
        with contextlib.suppress(FileNotFoundError):
            write(f"/proc/sys/net/ipv4/{name}", value)
    link = netlink.Netlink()
    link.up("lo")
    link.add_address("lo", plan["address"])
    link.add_route(plan["range"], device="", kind=netlink.UNREACHABLE)
    if plan["internet"]:
        link.add_route("0.0.0.0/0", device="lo", kind=netlink.LOCAL, source=plan["address"])
    else:
        for host, _ in addresses(plan):
            if not host.startswith("127."):
                link.add_route(f"{host}/32", device="lo", kind=netlink.LOCAL, source=plan["address"])
    link.close()


def addresses(plan: dict[str, Any]) -> list[tuple[str, int]]:
    """Returns what is always let through: places allowed by name."""
    pairs = [place.rpartition(":") for place in plan["allow"]]
    return [(host, int(port)) for host, _, port in pairs]


def join(plan: dict[str, Any], ways: str, peer: str) -> None:
    """Connects to the network of the node with the address `peer`, whose network process serves `ways`."""
    own = plan["address"]
    home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    other = ask_namespace(ways)
    try:
        here, there = "cluster", f"n{os.urandom(5).hex()}"
        link = netlink.Netlink()
        link.make_pair(here, there, other)
        link.up(here)
        link.add_route(f"{peer}/32", device=here, source=own)
        link.add_route(plan["range"], device=here, gateway=peer, source=own)
        link.close()
        enter(other, CLONE_NEWNET)
        try:
            link = netlink.Netlink()
            link.up(there)
            link.add_route(f"{own}/32", device=there, source=peer)
            link.close()
        finally:
            enter(home, CLONE_NEWNET)
    finally:
        os.close(other)
        os.close(home)


def ask_namespace(ways: str) -> int:
    directory = os.open(ways, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            client.settimeout(DIAL_S)
            client.connect(f"/proc/self/fd/{directory}/join")  # the full path may exceed the limit for socket paths
            _, fds = receive(client)
    finally:
        os.close(directory)
    if not fds:
        raise OSError(errno.ECONNREFUSED, "the other node does not give its network away")
    return fds[0]


# ── connections ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def original(connection: socket.socket) -> tuple[str, int]:
    """Returns the original destination of a redirected connection."""
    data = connection.getsockopt(socket.SOL_IP, SO_ORIGINAL_DST, 16)
    return socket.inet_ntoa(data[4:8]), struct.unpack(">H", data[2:4])[0]


def let_out(agent: Agent, plan: dict[str, Any]) -> str:
    """Serves outgoing connections. Returns a message for users about what cannot leave, or "" if everything can."""
    room = threading.Semaphore(MAX_OUT)

    def leave(where: Callable[[socket.socket], tuple[str, int]]) -> Callable[[socket.socket], None]:
        def handle(connection: socket.socket) -> None:
            outside = agent.dial("tcp", *where(connection))
            if outside is None:
                reset(connection)
            else:
                carry(connection, outside)

        return handle

    def listen(host: str, port: int) -> socket.socket:
        return socket.create_server((host, port), backlog=128)

    for host, port in addresses(plan):
        if host.startswith("127.") or not plan["internet"]:
            serve(listen(host, port), leave(lambda connection: connection.getsockname()[:2]), room)
    for resolver in plan["resolvers"]:
        threading.Thread(target=answer_lookups, args=(agent, resolver), daemon=True).start()
    if not plan["internet"]:
        return ""
    try:
        door = listen("127.0.0.1", 0)
        netlink.redirect_all_tcp(door.getsockname()[1], but=["127.0.0.0/8", plan["range"]])
        serve(door, leave(original), room)
    except OSError as error:
        for port in COMMON_PORTS:
            serve(listen("0.0.0.0", port), leave(lambda connection: connection.getsockname()[:2]), room)  # noqa: S104 - deliberately every address of the namespace
        return f"ports {' and '.join(map(str, COMMON_PORTS))} only: the kernel cannot redirect connections ({error.strerror})"
    return ""


def answer_lookups(agent: Agent, resolver: str) -> None:
    """Answers DNS lookups over UDP at the address of the machine's resolver. TCP lookups go the way of all connections."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((resolver, 53))
    room = threading.Semaphore(MAX_LOOKUPS)

    def look_up(question: bytes, client: Any) -> None:
        try:
            outside = agent.dial("udp", resolver, 53)
            if outside is not None:
                with outside:
                    outside.settimeout(LOOKUP_S)
                    outside.send(question)
                    server.sendto(outside.recv(65535), client)
        except OSError:
            pass  # the client asks again
        finally:
            room.release()

    while True:
        try:
            question, client = server.recvfrom(4096)
        except OSError:
            continue
        if room.acquire(blocking=False):  # otherwise the datagram is lost, as datagrams can be
            threading.Thread(target=look_up, args=(question, client), daemon=True).start()


class Ways:
    """Unix sockets in the current directory, each leading to a port of this node. Beside each is one that gives connections away:
    whoever carries much does so itself, instead of through this process. It limits their number itself, too."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._open: set[int] = set()

    def open(self, port: int) -> None:
        """Opens a socket named after the port number. Opening it again changes nothing. Each has its own maximum: users' programs
        behind one port must not keep others from Spark's."""
        if port not in self._open:
            room = threading.Semaphore(MAX_IN)
            serve(unix_listener(str(port), socket.SOCK_STREAM), lambda connection: self._enter(connection, port), room)
            giving = unix_listener(f"{port}{GIVEN}", socket.SOCK_SEQPACKET)
            serve(giving, lambda connection: self._give(connection, port), threading.Semaphore(MAX_IN))
            self._open.add(port)

    def _enter(self, connection: socket.socket, port: int) -> None:
        inside = self._connected(port)
        if inside is None:
            connection.close()
        else:
            carry(connection, inside)

    def _give(self, connection: socket.socket, port: int) -> None:
        with connection:
            inside = self._connected(port)
            if inside is not None:
                with inside:
                    socket.send_fds(connection, [b"{}"], [inside.fileno()])

    def _connected(self, port: int) -> socket.socket | None:
        """A connection to that port of the node's address, or of the node's loopback: many programs listen only there."""
        for host in (self._address, "127.0.0.1"):
            try:
                inside = socket.create_connection((host, port), timeout=5.0)
            except OSError:
                continue
            inside.settimeout(None)
            inside.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return inside
        return None


def give_namespace(connection: socket.socket) -> None:
    """Sends the namespace to another node's network process. Only processes of this directory's owner, like ours, can connect."""
    with connection:
        namespace = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        socket.send_fds(connection, [b"{}"], [namespace])
        os.close(namespace)


def obey(agent: Agent, plan: dict[str, Any], ways: Ways) -> None:
    """Follows the agent's requests until the agent is gone."""
    while True:
        data, fds = receive(agent.control)
        if not data:
            return
        asked = json.loads(data)
        if "dialled" in asked:
            agent.dialled(asked["dialled"], fds)
            continue
        try:
            if "open" in asked:
                ways.open(int(asked["open"]))
            else:
                join(plan, asked["join"], asked["peer"])
            agent.tell({"done": asked["id"]})
        except (OSError, ValueError) as error:
            agent.tell({"done": asked["id"], "error": str(error)})


def main() -> None:
    plan = json.loads(sys.argv[1])
    control = socket.socket(fileno=plan["control"])
    try:
        die_with_parent(plan["parent"])
        if plan.get("make_switchboard"):
            make_switchboard(control)
            return
        os.umask(0o077)
        os.chdir(plan["ways"])
        enter(plan["switchboard"], CLONE_NEWUSER)
        os.close(plan["switchboard"])
        die_with_parent(plan["parent"])  # again, because a change of credentials clears it
        make_namespace(plan)
        threading.stack_size(STACK)
        agent = Agent(control)
        limits = let_out(agent, plan)
        serve(unix_listener("join", socket.SOCK_SEQPACKET), give_namespace, threading.Semaphore(MAX_IN))
        namespace = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        agent.tell({"ready": limits}, [namespace])
        os.close(namespace)
        obey(agent, plan, Ways(plan["address"]))
    except OSError as error:
        with contextlib.suppress(OSError):
            send(control, {"failed": str(error)}, [])
    os._exit(0)


if __name__ == "__main__":
    main()
