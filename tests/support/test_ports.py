"""Ports that no other process of the tests gets."""

from __future__ import annotations

import json
import socket
import subprocess
import sys

import pytest

from tests.support import ports
from tests.support.ports import free_port

FIVE = "import json; from tests.support import ports; ports._RANGE = range({0}, {0} + 20); "
FIVE += "print(json.dumps([ports.free_port() for _ in range(5)]), flush=True); input()"


@pytest.fixture(autouse=True)
def first(monkeypatch: pytest.MonkeyPatch) -> int:
    """The first of the ports that may be given: twenty, since others run tests on this machine too."""
    first = free_port()
    monkeypatch.setattr(ports, "_RANGE", range(first, first + 20))
    monkeypatch.setattr(ports, "_ours", set())
    return first


def test_two_processes_get_different_ports(first: int) -> None:
    own = {free_port() for _ in range(5)}
    argv = [sys.executable, "-c", FIVE.format(first)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        theirs = set(json.loads(other.stdout.readline()))
        own |= {free_port() for _ in range(3)}
    assert len(own) == 8
    assert own.isdisjoint(theirs)


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])  # noqa: S104 - what a service of the machine may do
def test_a_port_where_something_listens_is_not_given(address: str, first: int) -> None:
    with socket.create_server((address, first)):
        assert first not in {free_port() for _ in range(10)}
