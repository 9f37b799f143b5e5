"""Tells drivers' agents whose Spark Connect sessions are whose, before the first call of each passes.

A driver knows the name that a client gives, not the user whose token its calls bear. The agent reports the users, as it does with
those of execution contexts (`withdrawal.py`), and outlives this server: so what a user runs can be ended when the user loses
access, though no call is attached to it and whatever became of the server that passed the call on.
"""

from __future__ import annotations

from brickyard.clusters.attach.connectclients import Session
from brickyard.domain import nodeops
from brickyard.domain.access import ObjectKind
from brickyard.domain.cluster import Instance
from brickyard.domain.errors import InvalidState, TemporarilyUnavailable
from brickyard.domain.nodeops import AgentRefused, AgentUnreachable, UseSession
from brickyard.nodes.calls import NodeCalls
from brickyard.store.changeset import Changes
from brickyard.store.store import Store

MAX_TOLD = 10_000


class SessionUsers:
    """One per server, for one event loop."""

    def __init__(self, *, store: Store, nodes: NodeCalls) -> None:
        self._nodes = nodes
        self._told: set[tuple[str, int, str, Session]] = set()
        store.on_commit(self._committed)
        store.on_gap(self._forget)

    async def tell(self, driver: Instance, session: Session, user_name: str) -> None:
        """Tells the driver's agent that the user's calls go to the session, unless it knows. Raises TemporarilyUnavailable, and
        InvalidState if the driver is no longer of that start of the cluster."""
        generation = driver.node_generation
        key = (driver.instance_id, generation, user_name, session)
        if key in self._told:
            return
        told = self._told
        asked = UseSession(user=user_name, session_user=session.user, session_id=session.session_id, generation=generation)
        try:
            await self._nodes.ask(driver, nodeops.SESSION_USE, asked)
        except AgentUnreachable as silence:
            raise TemporarilyUnavailable(f"The driver of cluster {driver.cluster_id} does not answer: {silence}.") from silence
        except AgentRefused as refused:
            if refused.code != "NOT_FOUND":  # which an agent of an earlier version says: it knows no users of sessions
                raise InvalidState(f"Cluster {driver.cluster_id} refused: {refused.message}") from refused
        if len(told) >= MAX_TOLD:
            told.clear()
        told.add(key)  # to the set of before the call: what was told then may have been withdrawn since

    def _committed(self, changes: Changes) -> None:
        if changes.takes_from(ObjectKind.CLUSTER):
            self._forget()

    def _forget(self) -> None:
        """Agents forget the sessions of users who lose access, and those may get it back."""
        self._told = set()
