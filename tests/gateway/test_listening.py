"""Where a tcp mapping may listen: not on a port that a service of the machine holds where a client may mean it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from brickyard.clusters.v1.ports import held
from brickyard.machine.listening import CannotListen, bound, bound_alone
from brickyard.nodes.carrier.__main__ import Routes
from brickyard.nodes.carrier.routes import Route, Socket, Tcp

LOOPBACKS = ("127.0.0.1", "::1")


@pytest.fixture(params=["127.0.0.1", "::1", "0.0.0.0", "::"])  # noqa: S104 - what a service of the machine may do
def service(request: pytest.FixtureRequest) -> Iterator[int]:
    """The port of a service of the machine."""
    try:
        listener = bound(request.param, 0)
    except CannotListen:
        pytest.skip(f"this machine has no {request.param}")
    with listener:
        listener.listen()
        yield listener.getsockname()[1]


@pytest.mark.parametrize("address", LOOPBACKS)
async def test_a_port_that_a_service_holds_on_any_loopback_is_refused(service: int, address: str) -> None:
    with pytest.raises(CannotListen):
        bound_alone(address, service)
    assert held(address, service)
    assert await Routes().tell([Route(Tcp(address, service), Socket("/nowhere"))]) != [""]


@pytest.mark.parametrize("address", LOOPBACKS)
def test_a_free_port_is_given_and_can_be_taken_again_at_the_other_loopback(address: str) -> None:
    try:
        made = bound_alone(address, 0)
    except CannotListen:
        pytest.skip(f"this machine has no {address}")
    port = made.getsockname()[1]
    made.close()
    with bound_alone(address, port) as again:
        again.listen()
    assert not held(address, port)
