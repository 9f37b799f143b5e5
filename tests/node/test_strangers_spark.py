"""A node whose ports on loopback strangers reach: processes of other clusters on the machine's own network (network = shared)."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator

import psutil
import pytest

from tests.node.node import HOST, Node
from tests.support.patience import PATIENCE_S, until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

FLOOD = 16 << 20
IDLE = 100  # at each port: more than are let wait
ACCUMULATE = "total = sc.accumulator(0); sc.parallelize(range(9), 2).foreach(lambda n: total.add(n)); total.value"
SERVED = "list(sc._jvm.PythonRDD.collectAndServe(sc.parallelize([1])._jrdd.rdd()))[0]"


def ports(process: psutil.Process) -> set[int]:
    """Those that it listens on."""
    return {each.laddr.port for each in process.net_connections("tcp") if each.status == psutil.CONN_LISTEN}


def sent(port: int) -> int:
    """How many bytes of a message without an end the port takes in."""
    count, chunk = 0, b"x" * (1 << 16)
    with socket.create_connection((HOST, port), timeout=PATIENCE_S) as stranger, contextlib.suppress(ConnectionError):
        while count < FLOOD:
            count += stranger.send(chunk)
    return count


@contextlib.contextmanager
def idle(found: list[int]) -> Iterator[list[socket.socket]]:
    """Connections that say nothing."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection((HOST, port))) for port in found for _ in range(IDLE)]


def ended(stranger: socket.socket) -> bool:
    stranger.setblocking(False)
    try:
        return stranger.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


@pytest.mark.any_runtime
def test_strangers_neither_fill_the_memory_nor_delay_what_runs(new_node: Callable[[], Node]) -> None:
    node = new_node()
    node.prepare("single")
    node.become("single", cores=2)
    node.wait_phase("ready")
    accumulators = int(node.run("sc._accumulatorServer.server_address[1]"))
    first = ports(node.jvm())
    assert len(first) >= 4, "Spark's own two, the node host's, the kernel's"
    assert {port: count for port in {*first, accumulators} if (count := sent(port)) >= FLOOD} == {}

    with idle([*first, accumulators]) as strangers:  # a job that had to wait for them would wait for ever
        assert node.run(ACCUMULATE) == "36"
        assert node.run("spark.range(7).count()", context="another") == "7", "which has a port of its own"
        until(lambda: all(map(ended, strangers[-IDLE:])), "who says nothing is not sent away")

    port = int(node.run(SERVED))
    with socket.create_connection((HOST, port)) as stranger:
        stranger.sendall(b"\x7f\xff\xff\xff")  # the length of the secret that follows
        until(lambda: ended(stranger), "the stranger is not sent away")
    assert node.run("spark.range(5).count()") == "5"
