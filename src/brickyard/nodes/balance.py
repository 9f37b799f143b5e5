"""Asks agents to call another server when this one has clearly more of them than its share, as when a server joins.

An agent moves in the way it does when its server is killed, so it misses nothing. There is a limited number of moves in a round.
"""

from __future__ import annotations

import time

from brickyard.domain.clock import Monotonic
from brickyard.domain.node import ServerAddress
from brickyard.plan.balance import moves
from brickyard.store.membership import ALONE, Members

ROUND_S = 5.0  # longer than it takes until the others' numbers show the last round
CALLS_S = 15.0  # an agent that was silent for this long calls another server, or none
AGAIN_S = 60.0  # an agent that did not move may be unable to reach the other server


class Balance:
    """One per server."""

    def __init__(
        self,
        *,
        members: Members = ALONE,
        monotonic: Monotonic = time.monotonic,
    ) -> None:
        self._members = members
        self._monotonic = monotonic
        self._calls: dict[str, float] = {}  # agent -> when it last called
        self._asked: dict[str, float] = {}  # agent -> when it was asked to move
        self._round_s = float("-inf")
        self._moves: dict[int, int] = {}  # how many more agents are to move in this round, by server
        self._addresses: dict[int, ServerAddress] = {}

    def agents(self) -> int:
        """How many agents call this server. For any thread."""
        since = self._monotonic() - CALLS_S
        return sum(at > since for at in list(self._calls.values()))

    def called(self, instance_id: str) -> ServerAddress | None:
        """Records a report of the agent. Returns the server that it should call from now on, or None to stay."""
        now = self._calls[instance_id] = self._monotonic()
        if now - self._round_s >= ROUND_S:
            self._begin_round(now)
        if not self._moves or instance_id in self._asked:
            return None
        number = max(self._moves, key=self._moves.__getitem__)
        self._moves[number] -= 1
        if not self._moves[number]:
            del self._moves[number]
        self._asked[instance_id] = now
        del self._calls[instance_id]
        return self._addresses[number]

    def _begin_round(self, now: float) -> None:
        self._round_s, self._moves = now, {}
        self._calls = {agent: at for agent, at in self._calls.items() if now - at < CALLS_S}
        self._asked = {agent: at for agent, at in self._asked.items() if now - at < AGAIN_S}
        own = self._members.number
        serving = {each.number: each for each in self._members.servers() if each.serves and not each.hangs}
        if own in serving and len(serving) > 1:
            agents = {number: each.about.agents for number, each in serving.items()} | {own: self.agents()}
            self._moves = moves(agents, own)
            self._addresses = {number: each.about.address for number, each in serving.items()}

    def forget(self, instance_id: str) -> None:
        """Drops the instance, which is gone."""
        self._calls.pop(instance_id, None)
        self._asked.pop(instance_id, None)
