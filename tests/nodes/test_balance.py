"""A server that has more agents than its share sends some of them to other servers, each once and few at a time."""

from __future__ import annotations

from typing import Any

from brickyard.domain.node import ServerAddress
from brickyard.nodes.balance import AGAIN_S, CALLS_S, ROUND_S, Balance
from brickyard.store.servers import SILENT_S, About, Server, Stopping
from tests.support.members import SetMembers


class Workspace:
    """What one server knows of all of them, and a clock."""

    def __init__(self, **others: int) -> None:
        self.now = 1000.0
        self.all = [server(1, 0), *(server(int(name[1:]), agents) for name, agents in others.items())]
        self.balance = Balance(members=SetMembers(number=1, alone=False, living=self.all), monotonic=lambda: self.now)

    def calls(self, count: int) -> dict[str, ServerAddress]:
        """That many agents report; which of them were sent where."""
        sent = {f"i-{n}": self.balance.called(f"i-{n}") for n in range(count)}
        return {agent: where for agent, where in sent.items() if where is not None}


def server(number: int, agents: int, **change: Any) -> Server:
    about = About(address=ServerAddress(url=f"http://server-{number}"), agents=agents)
    return Server(**{"number": number, "about": about, "started_ms": 0, "session": number, **change})


def test_a_server_that_joins_gets_its_share_and_every_agent_is_asked_once() -> None:
    there = Workspace()
    assert not there.calls(20)
    there.all.append(server(2, 0))
    there.now += ROUND_S
    sent = there.calls(20)
    assert len(sent) == 10
    assert set(sent.values()) == {ServerAddress(url="http://server-2")}
    assert there.balance.agents() == 10
    assert not there.calls(20), "it stays with this round"
    there.now += ROUND_S
    again = there.calls(20)  # none has moved, perhaps because they cannot
    assert not set(again) & set(sent)
    there.now += AGAIN_S
    there.calls(20)
    there.now += ROUND_S
    assert set(there.calls(20)) & set(sent)


def test_agents_that_have_left_do_not_count() -> None:
    there = Workspace(s2=4)
    there.calls(20)
    there.now += CALLS_S + 1
    assert there.balance.agents() == 0
    assert not there.calls(5)


def test_nobody_is_sent_to_a_server_that_stops_or_hangs_or_has_gone() -> None:
    there = Workspace()
    there.calls(20)
    unfit: list[dict[str, Any]] = [{"stopping": Stopping.YES}, {"silent_ms": int(SILENT_S * 1000) + 1}, {"session": 0}]
    there.all += [server(number, 0, **change) for number, change in enumerate(unfit, 2)]
    there.now += ROUND_S
    assert not there.calls(20)


def test_what_is_gone_is_forgotten() -> None:
    there = Workspace()
    there.calls(3)
    there.balance.forget("i-0")
    assert there.balance.agents() == 2
