"""What becomes of the contexts of a user who may no longer run code: on the server that their driver's agent reports to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from brickyard.access import Authorizer
from brickyard.clusters.attach import withdrawal
from brickyard.clusters.attach.withdrawal import Withdrawal
from brickyard.domain.access import Grant, ObjectKind, Permission, Place, Principal
from brickyard.domain.identity import ADMINS_ID, GroupRow
from brickyard.domain.node import Role
from brickyard.domain.nodeops import AgentUnreachable
from brickyard.nodes.calls import NodeCalls
from brickyard.nodes.tokens import InstanceTokens
from brickyard.store.sharing import Always
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from brickyard.testing.builders import cluster, instance, up
from tests.support.databases import both_databases
from tests.support.patience import PATIENCE_S
from tests.support.people import enter, lock_out
from tests.support.postgres import Postgres

OWNER = Principal(user_name="someone@example.com", user_id="1", is_admin=False)
ADMIN = Principal(user_name="root@example.com", user_id="2", is_admin=True)
GRANTED = Principal(user_name="granted@example.com", user_id="3", is_admin=False)
MEMBER = Principal(user_name="member@example.com", user_id="4", is_admin=False)
ALL = (OWNER, ADMIN, GRANTED, MEMBER)
CLUSTER = up(cluster())
DRIVER = instance(CLUSTER, role=Role.DRIVER, endpoint="http://driver")
PLACE = Place(ObjectKind.CLUSTER, CLUSTER.cluster_id)


def before(tx: Tx) -> None:
    """Everybody may run code on the cluster, each for another reason."""
    tx.clusters.insert(CLUSTER)
    tx.instances.insert(DRIVER)
    enter(tx, *ALL)
    tx.groups.put(GroupRow(group_id="10", display_name="team"))
    tx.groups.put(GroupRow(group_id="11", display_name="inner"))
    tx.groups.add("10", ["11"])
    tx.groups.add("11", [MEMBER.user_id])
    tx.grants.put(PLACE, [Grant("10", Permission.CAN_RESTART), Grant(GRANTED.user_id, Permission.CAN_ATTACH_TO)])


class Agent:
    """A driver's agent: its contexts, and what it was asked to end."""

    def __init__(self) -> None:
        self.users = {each.user_name for each in ALL}
        self.ended: list[tuple[str, str]] = []
        self.silent = 0  # so many calls find nobody

    async def call(self, endpoint: str, token: str, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        assert (method, path) == ("POST", "/v1/withdrawn")
        if self.silent:
            self.silent -= 1
            raise AgentUnreachable("nobody answers", sent=False)
        assert body is not None
        self.users.remove(body["user"])
        self.ended.append((body["user"], body["reason"]))
        return {"context_ids": ["c"]}

    async def close(self) -> None: ...


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.01)


class Reported:
    """What the agent's reports say."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def users(self) -> dict[str, tuple[str, ...]]:
        return {DRIVER.instance_id: tuple(sorted(self._agent.users))}


async def played(here: Store, there: Store, change: Callable[[Tx], object], *, silent: int = 0) -> list[tuple[str, str]]:
    """What the server `here`, to which the agent reports, ends when `there` has committed the change."""
    agent = Agent()
    works = Withdrawal(
        store=here,
        authorizer=Authorizer(),
        nodes=NodeCalls(client=agent, tokens=InstanceTokens(key=b"k" * 32)),
        agents=Reported(agent),
    )
    await here.write(before)
    running = asyncio.create_task(works.run())
    try:
        works.wake()  # as when an agent reports: everybody may stay
        agent.silent = silent
        await there.write(change)
        await until(lambda: agent.ended)
        return agent.ended
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


CHANGES: dict[str, tuple[Callable[[Tx], object], Principal, str]] = {
    "deactivated": (lambda tx: lock_out(tx, OWNER), OWNER, "no longer an active user"),
    "no administrator any more": (
        lambda tx: tx.groups.remove(ADMINS_ID, [ADMIN.user_id]),
        ADMIN,
        "CAN_ATTACH_TO",
    ),
    "the grant is gone": (lambda tx: tx.grants.put(PLACE, [Grant("10", Permission.CAN_RESTART)]), GRANTED, "CAN_ATTACH_TO"),
    "the group's grant is gone": (
        lambda tx: tx.grants.put(PLACE, [Grant(GRANTED.user_id, Permission.CAN_ATTACH_TO)]), MEMBER, "CAN_ATTACH_TO",
    ),
    "the inner group is gone": (lambda tx: tx.groups.delete("11"), MEMBER, "CAN_ATTACH_TO"),
}  # fmt: skip


@both_databases
@pytest.mark.parametrize("case", CHANGES)
def test_whoever_may_no_longer_run_code(store: Store, case: str) -> None:
    change, who, why = CHANGES[case]
    ((user, reason),) = asyncio.run(played(store, store, change))
    assert user == who.user_name
    assert why in reason


def test_another_server_takes_the_right_away(postgres: Postgres) -> None:
    url = postgres.new_database()
    here, there = Store.open(url, sharing=Always(alone=False)), Store.open(url, sharing=Always(alone=False))
    try:
        ((user, _),) = asyncio.run(played(here, there, CHANGES["deactivated"][0]))
        assert user == OWNER.user_name
    finally:
        here.close()
        there.close()


def test_a_driver_that_does_not_answer_is_asked_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(withdrawal, "RETRY_S", 0.01)
    assert len(asyncio.run(played(store, store, CHANGES["deactivated"][0], silent=2))) == 1
