"""Who may attach to a cluster, and where its driver is: for access that bypasses the command API."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import msgspec

from brickyard.access import Authorizer
from brickyard.access.objects import of_cluster
from brickyard.clusters.attach.connectclients import ConnectClient, ConnectClients, Session
from brickyard.clusters.attach.sessionusers import SessionUsers
from brickyard.domain import nodeops
from brickyard.domain.access import Permission
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Monotonic
from brickyard.domain.cluster import Cluster, Instance, public_state
from brickyard.domain.errors import (
    ApiError,
    InvalidParameterValue,
    InvalidState,
    PermissionDenied,
    ResourceDoesNotExist,
    TemporarilyUnavailable,
)
from brickyard.domain.node import Role
from brickyard.domain.nodeops import (
    AgentRefused,
    AgentUnreachable,
    AttachedTo,
    ConnectSession,
    NodeOp,
    Nothing,
    Reply,
    Request,
)
from brickyard.domain.requests import StartCluster
from brickyard.domain.states import State
from brickyard.nodes.calls import NodeCalls
from brickyard.plan.attach import Client, cluster_refusal, driver_instance, finishing_driver
from brickyard.store.store import Store
from brickyard.store.tx import Tx

PAUSE_S = 0.5
USABLE = (State.RUNNING, State.RESIZING)
_COMING = (State.PENDING, State.RESTARTING)
Start = Callable[[Caller, StartCluster], Awaitable[None]]


class Attached(NamedTuple):
    """A cluster that the caller may attach to; `driver` is None if none runs."""

    cluster: Cluster
    driver: Instance | None

    @property
    def state(self) -> State:
        return public_state(self.cluster)


class RunningCluster(NamedTuple):
    """A running cluster and its driver's instance."""

    cluster: Cluster
    driver: Instance

    @property
    def host(self) -> str:
        """The address that the driver's ports are bound to, as URLs have it."""
        host = self.driver.status.host or "127.0.0.1"
        return f"[{host}]" if ":" in host else host


class AttachService:
    """One per server. Methods raise ApiError."""

    def __init__(
        self,
        *,
        store: Store,
        authorizer: Authorizer,
        nodes: NodeCalls,
        start: Start,
        pause_s: float = PAUSE_S,
        monotonic: Monotonic = time.monotonic,
    ) -> None:
        self._store = store
        self._authorizer = authorizer
        self._nodes = nodes
        self._start = start
        self._pause_s = pause_s
        self._monotonic = monotonic
        self.connect_clients = ConnectClients()
        self.session_users = SessionUsers(store=store, nodes=nodes)

    async def look(self, caller: Caller, cluster_id: str, *, client: Client | None = None) -> Attached:
        """The cluster's current state, if the caller may attach to it; with `client`, to do that kind of work."""
        cluster, nodes = await self._looked(caller, cluster_id, client=client)
        usable = public_state(cluster) in USABLE
        return Attached(cluster, driver_instance(cluster, nodes) if usable else None)

    async def nodes(self, caller: Caller, cluster_id: str) -> list[Instance]:
        """All instances of a cluster whose logs the caller may read. As in Databricks, that takes more than attaching: other
        users' programs write there too."""
        return (await self._looked(caller, cluster_id, permission=Permission.CAN_MANAGE, to="read the logs of"))[1]

    async def _looked(
        self,
        caller: Caller,
        cluster_id: str,
        *,
        client: Client | None = None,
        permission: Permission = Permission.CAN_ATTACH_TO,
        to: str = "attach to",
    ) -> tuple[Cluster, list[Instance]]:
        if not cluster_id:
            raise InvalidParameterValue("No cluster was named: give the cluster's id.")
        cluster, nodes = await self._store.read(lambda tx: self._find(tx, caller, cluster_id, permission, to=to))
        if why := cluster_refusal(cluster, user_name=caller.user_name, client=client):
            raise PermissionDenied(why)
        return cluster, nodes

    def _find(
        self, tx: Tx, caller: Caller, cluster_id: str, permission: Permission, *, to: str
    ) -> tuple[Cluster, list[Instance]]:
        cluster = tx.clusters.get(cluster_id)
        if cluster is None or cluster.deleted_ms:
            raise ResourceDoesNotExist(f"Cluster {cluster_id[:100]} does not exist")
        self._authorizer.require(tx, caller, permission, of_cluster(cluster), to=to)
        return cluster, list(tx.instances.of_cluster(cluster_id))

    async def attached(self, caller: Caller, cluster_id: str) -> AttachedTo:
        """Who is currently attached to the cluster."""
        found = await self.look(caller, cluster_id)
        if found.driver is None:
            return AttachedTo()
        answer = await self.ask(found.driver, nodeops.ATTACHED, Nothing())
        sessions = [self._known(cluster_id, each) for each in answer.connect_sessions]
        return msgspec.structs.replace(answer, connect_sessions=sessions)

    async def session_count(self, cluster_id: str) -> int:
        """How many Spark Connect sessions a cluster has; 0 if it does not run. Checks no permission."""

        def work(tx: Tx) -> Instance | None:
            cluster = tx.clusters.get(cluster_id)
            if cluster is None or public_state(cluster) not in USABLE:
                return None
            return driver_instance(cluster, list(tx.instances.of_cluster(cluster_id)))

        driver = await self._store.read(work)
        return 0 if driver is None else len((await self.ask(driver, nodeops.ATTACHED, Nothing())).connect_sessions)

    def _known(self, cluster_id: str, session: ConnectSession) -> ConnectSession:
        """Adds the user and program to a session, because the users' code controls what a driver reports about them."""
        seen = self.connect_clients.find(Session(cluster_id, session.user, session.session_id)) or ConnectClient("", "")
        return msgspec.structs.replace(session, user_name=seen.user_name, client_type=seen.client_type)

    async def workers(self, caller: Caller, cluster_id: str) -> list[Instance]:
        """The running workers, if the caller may read the cluster's logs."""
        cluster, nodes = await self._looked(caller, cluster_id, permission=Permission.CAN_MANAGE, to="read the logs of")
        now = cluster.incarnation
        return [each for each in nodes if each.role is Role.WORKER and each.generation == now and each.live and each.endpoint]

    async def running(
        self,
        caller: Caller,
        cluster_id: str,
        *,
        client: Client,
        patience_s: float,
        on_start: Callable[[], None] | None = None,
    ) -> RunningCluster:
        """Returns the cluster, for that kind of work, once it runs: waits while it is starting. With `on_start`, first starts a
        stopped one, once, and calls it then. Raises TemporarilyUnavailable if that takes longer than `patience_s`, InvalidState
        if the cluster does not run, PermissionDenied and others as a start does."""
        deadline = self._monotonic() + patience_s
        stopped_at = -1  # its incarnation when it was first found stopped
        began: set[int] = set()  # incarnations that were seen to come
        tried = False
        while True:
            found = await self.look(caller, cluster_id, client=client)
            if found.driver is not None:
                return RunningCluster(found.cluster, found.driver)
            if found.state in (State.TERMINATED, State.TERMINATING):
                now = found.cluster.incarnation
                if on_start is None or now in began or stopped_at not in (-1, now):  # a start has failed, ours or another's
                    raise _stopped(found)
                stopped_at = now
                if found.state is State.TERMINATED:
                    if await self._started(caller, found, again=tried):
                        on_start()
                    tried = True
            elif found.state in (*_COMING, *USABLE):
                began.add(found.cluster.incarnation)
            else:
                raise _stopped(found)
            if self._monotonic() >= deadline:
                raise TemporarilyUnavailable(f"Cluster {cluster_id} is {found.state.title()}. It is not ready yet; ask again.")
            await asyncio.sleep(self._pause_s)

    async def _started(self, caller: Caller, found: Attached, *, again: bool) -> bool:
        """Starts a stopped cluster; returns False if another caller was quicker, which the next look shows. Raises ApiError."""
        try:
            await self._start(caller, StartCluster(cluster_id=found.cluster.cluster_id))
        except InvalidState:
            if again:
                raise
            return False
        return True

    async def finishing(self, caller: Caller, cluster_id: str, *, client: Client) -> RunningCluster | None:
        """The cluster, if it is about to stop or restart and lets finish what runs on it."""
        cluster, nodes = await self._looked(caller, cluster_id, client=client)
        driver = finishing_driver(cluster, nodes)
        return RunningCluster(cluster, driver) if driver is not None else None

    async def ask(self, node: Instance, op: NodeOp[Request, Reply], request: Request) -> Reply:
        """Calls a node of the cluster. Raises TemporarilyUnavailable if it does not answer, InvalidState if it refuses."""
        try:
            return await self._nodes.ask(node, op, request)
        except AgentUnreachable as silence:
            raise TemporarilyUnavailable(f"The driver of cluster {node.cluster_id} does not answer: {silence}.") from silence
        except AgentRefused as refused:
            raise _refusal(node, refused) from refused


def _stopped(found: Attached) -> InvalidState:
    why = f" ({found.cluster.state_message})" if found.cluster.state_message else ""
    return InvalidState(f"Cluster {found.cluster.cluster_id} is {found.state.title()}{why}. Start it (clusters/start) first.")


def _refusal(driver: Instance, refused: AgentRefused) -> ApiError:
    if refused.code == "DEAD":
        return TemporarilyUnavailable(f"The driver of cluster {driver.cluster_id} cannot do that now: {refused.message}")
    return InvalidState(f"Cluster {driver.cluster_id} refused: {refused.message}")
