"""Ends the execution contexts and Spark Connect sessions of users who may no longer run code on the cluster. For one event loop.

Drivers report who has some. Whatever may take a right away wakes this: a change of identities or grants on any server, or a
report that names other users. Each server looks after the drivers whose agents report to it. What a server that is killed leaves
undone, the next one does when the agent reports there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple, Protocol

import structlog

from brickyard.access import Acl, Authorizer
from brickyard.access.objects import of_cluster
from brickyard.access.principals import active_principal
from brickyard.domain import nodeops
from brickyard.domain.access import ObjectKind, Permission, Principal
from brickyard.domain.cluster import Cluster, Instance
from brickyard.domain.errors import PermissionDenied
from brickyard.domain.node import Phase
from brickyard.domain.nodeops import AgentRefused, AgentUnreachable, WithdrawContexts
from brickyard.domain.periodic import Periodic
from brickyard.nodes.calls import NodeCalls
from brickyard.plan.attach import driver_instance, finishing_driver
from brickyard.store.changeset import Changes
from brickyard.store.store import Store
from brickyard.store.tx import Tx

PACE_S = 0.25  # between two looks, while changes come
RETRY_S = 2.0  # after something was withdrawn, or a driver did not answer
LOOK_S = 60.0  # without a change

log = structlog.get_logger(__name__)


class Lost(NamedTuple):
    """A user who may no longer run code on a driver, and why."""

    driver: Instance
    user: str
    reason: str


def code_refusal(tx: Tx, authorizer: Authorizer, user_name: str, cluster: Cluster) -> str:
    """Why the user may not run code on the cluster now; "" if they may."""
    principal = active_principal(tx, user_name)
    return _refusal(user_name, principal, authorizer.acl(tx, of_cluster(cluster), of=principal))


def _refusal(user_name: str, principal: Principal | None, acl: Acl) -> str:
    if principal is None:
        return f"{user_name} is no longer an active user of the workspace."
    try:
        acl.require(principal, Permission.CAN_ATTACH_TO, to="run code on")
    except PermissionDenied as error:
        return error.message
    return ""


class Reported(Protocol):
    """What the agents of this server report: `AgentService`."""

    def users(self) -> Mapping[str, tuple[str, ...]]:
        """Who has contexts or sessions, by instance."""
        ...


class Withdrawal(Periodic):
    """One per server."""

    def __init__(self, *, store: Store, authorizer: Authorizer, nodes: NodeCalls, agents: Reported) -> None:
        super().__init__(every_s=LOOK_S, pace_s=PACE_S, database=store)
        self._store = store
        self._authorizer = authorizer
        self._nodes = nodes
        self._agents = agents
        store.on_commit(self._committed)
        store.on_gap(self.wake)

    def _committed(self, changes: Changes) -> None:
        if changes.takes_from(ObjectKind.CLUSTER):
            self.wake()

    async def run_once(self) -> None:
        """Withdraw what there is to withdraw.

        Race: a call that was allowed a moment ago may begin a session while the others of its user are ended. Then the driver
        reports nothing new, so whoever lost something is looked at once more."""
        users = self._agents.users()
        lost = await self._store.read(lambda tx: self._lost(tx, users), background=True) if users else ()
        await asyncio.gather(*(self._withdraw(each) for each in lost))
        self.every_s = RETRY_S if lost else LOOK_S

    def _lost(self, tx: Tx, users: Mapping[str, tuple[str, ...]]) -> list[Lost]:
        known: dict[str, Principal | None] = {}
        found: list[Lost] = []
        for instance_id, names in users.items():
            node = tx.instances.get(instance_id)
            cluster = tx.clusters.get(node.cluster_id) if node is not None else None
            driver = None
            if node is not None and cluster is not None:
                driver = driver_instance(cluster, [node]) or finishing_driver(cluster, [node])
            if cluster is None or driver is None or driver.status.phase is not Phase.READY:
                continue
            acl = self._authorizer.acl(tx, of_cluster(cluster))
            for name in names:
                if name not in known:
                    known[name] = active_principal(tx, name)
                if why := _refusal(name, known[name], acl):
                    found.append(Lost(driver, name, why))
        return found

    async def _withdraw(self, lost: Lost) -> None:
        asked = WithdrawContexts(user=lost.user, reason=lost.reason)
        try:
            ended = await self._nodes.ask(lost.driver, nodeops.CONTEXTS_WITHDRAW, asked)
        except (AgentUnreachable, AgentRefused) as error:
            log.warning("contexts_not_ended", cluster_id=lost.driver.cluster_id, user=lost.user, why=str(error))
            return
        log.info("contexts_ended", cluster_id=lost.driver.cluster_id, user=lost.user, contexts=len(ended.context_ids))
