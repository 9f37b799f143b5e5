"""Commands for clusters: read the facts, decide (`plan.admit`, `plan.changes`), write. Each runs in a given transaction.

Commands compose: several of them in one transaction, on several clusters or repeatedly on one, take effect together or not at
all. Every check uses locked rows: two requests about one cluster take turns, and the second sees the effect of the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from brickyard.access import Authorizer
from brickyard.access.objects import of_cluster
from brickyard.clusters.catalogue import Offers
from brickyard.clusters.facts import FactReader, ingredients
from brickyard.clusters.missing import existing_cluster
from brickyard.clusters.policies import check_room, find_policy
from brickyard.domain.access import Permission, Principal
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock, Ids
from brickyard.domain.cluster import Cluster, Instance, Workbench
from brickyard.domain.errors import InvalidState, ResourceDoesNotExist
from brickyard.domain.policies import PolicyRow
from brickyard.domain.requests import (
    ChangeClusterOwner,
    ClusterId,
    CreateCluster,
    EditCluster,
    ResizeCluster,
    RestartCluster,
    StartCluster,
    UpdateCluster,
)
from brickyard.domain.spec import ClusterSpec
from brickyard.domain.warehouses import Warehouse
from brickyard.plan import admit, changes, enforcement
from brickyard.plan.changes import Asked, Changed, Secrets
from brickyard.plan.mask import apply_mask
from brickyard.plan.policies.governing import ALL_PURPOSE, JOB
from brickyard.plan.spec import Offered
from brickyard.plan.specifying import Specified, plain_spec
from brickyard.store.tx import Tx

ENDED_TOGETHER = 100  # clusters that one transaction ends: each is a few statements, and a commit may not take long
Change = Callable[[Cluster, Asked], Changed]
LibraryChange = Callable[[Cluster, Sequence[Instance], PolicyRow | None], Changed]  # with its nodes, and its policy


class ClusterCommands:
    """One per server. Methods raise ApiError, after which the transaction must not be committed.

    `of_warehouses`: for SQL warehouses, which the others start and do not change.

    They return whether the cluster has changed. If so, its loop is due: whoever opened the transaction wakes it after the commit.
    """

    def __init__(
        self, *, clock: Clock, ids: Ids, offers: Offers, authorizer: Authorizer, photon: bool, of_warehouses: bool = False
    ) -> None:
        self._of_warehouses = of_warehouses
        self._to_end = Permission.CAN_MANAGE if of_warehouses else Permission.CAN_RESTART
        self._clock = clock
        self._ids = ids
        self._offers = offers
        self._authorizer = authorizer
        self._facts = FactReader(offers=offers, authorizer=authorizer, photon=photon)

    def create(
        self,
        tx: Tx,
        caller: Caller,
        request: CreateCluster,
        *,
        stopped: bool = False,
        workbench: Workbench | None = None,
        warehouse: Warehouse | None = None,
    ) -> Cluster:
        """Creates a cluster, which starts unless `stopped`, and returns it. If an active cluster has the idempotency token,
        returns that one."""
        facts, asked = self._facts.of_create(tx, caller, request), self._asked(caller)
        created = admit.create(
            facts,
            request,
            asked,
            cluster_id=self._ids.cluster_id(asked.now) if warehouse is None else self._ids.hex(16),
            secrets=self._secrets(),
            stopped=stopped,
            workbench=workbench,
            warehouse=warehouse,
        )
        if created.cluster is facts.same:
            return facts.same
        tx.clusters.insert(created.cluster)
        tx.events.begin(created.cluster.cluster_id)
        _tell(tx, created)
        return created.cluster

    @staticmethod
    def only_inserts(request: CreateCluster) -> bool:
        """Whether `create` locks no row: neither a pool's nor another cluster's, no token and no policy's limit."""
        pools = request.instance_pool_id or request.driver_instance_pool_id
        return not (request.idempotency_token or request.clone_from or request.policy_id or pools)

    def start(self, tx: Tx, caller: Caller, request: StartCluster) -> bool:
        """Starts a terminated cluster at its last size."""

        def change(cluster: Cluster, asked: Asked) -> Changed:
            policy = find_policy(tx, cluster.spec.policy_id)
            started = changes.start(cluster, asked, secrets=self._secrets())  # first: one that runs is among those of the limit
            check_room(tx, policy, cluster.creator_user_name)
            return admit.with_libraries(cluster, started, policy)

        return self._change(tx, caller, Permission.CAN_RESTART, request.cluster_id, change, to="start")

    def restart(self, tx: Tx, caller: Caller, request: RestartCluster) -> bool:
        """Restarts a running cluster. Administrators may name the user for whom they do it."""
        user = (request.restart_user if caller.is_admin else "") or caller.user_name

        def change(cluster: Cluster, asked: Asked) -> Changed:
            policy = find_policy(tx, enforcement.target(cluster).policy_id)
            restarted = changes.restart(cluster, asked._replace(user=user), secrets=self._secrets())
            return admit.with_libraries(cluster, restarted, policy)

        return self._change(tx, caller, Permission.CAN_RESTART, request.cluster_id, change, to="restart")

    def delete(self, tx: Tx, caller: Caller, request: ClusterId, *, why: str = "", grace_ms: int | None = 0) -> bool:
        """Terminates a cluster. `why`: what the user says about it; `grace_ms`: within which what runs may finish."""

        def change(cluster: Cluster, asked: Asked) -> Changed:
            return changes.terminate(cluster, asked, why=why, grace_ms=grace_ms)

        return self._change(tx, caller, self._to_end, request.cluster_id, change, to="terminate")

    def permanent_delete(self, tx: Tx, caller: Caller, request: ClusterId) -> bool:
        """Removes a cluster for good: it no longer exists for any call."""
        changed = self._change(
            tx, caller, Permission.CAN_MANAGE, request.cluster_id, changes.permanently_delete, to="permanently delete"
        )
        tx.ports.delete(request.cluster_id)  # others may have its ports now
        return changed

    def edit(self, tx: Tx, caller: Caller, request: EditCluster) -> bool:
        """Replaces the specification. A running cluster restarts if a changed field needs it; a terminated one uses it at its
        next start."""

        def change(cluster: Cluster, asked: Asked) -> Changed:
            changes.check_expected(cluster, request.expected_spec)
            requested = plain_spec(request)
            facts = self._facts.of_edit(tx, caller, requested, cluster)
            return admit.edit(facts, cluster, requested, asked, secrets=self._secrets())

        return self._change(tx, caller, Permission.CAN_MANAGE, request.cluster_id, change, to="edit")

    def update(self, tx: Tx, caller: Caller, request: UpdateCluster) -> bool:
        """Replaces the parts of the specification that the mask names. Does not restart if nothing changes."""

        def change(cluster: Cluster, asked: Asked) -> Changed:
            requested = apply_mask(cluster.request, request.cluster or ClusterSpec(), request.update_mask)
            facts = self._facts.of_edit(tx, caller, requested, cluster)
            return admit.edit(facts, cluster, requested, asked, secrets=self._secrets(), unless_same=True)

        return self._change(tx, caller, Permission.CAN_MANAGE, request.cluster_id, change, to="update")

    def comply(self, tx: Tx, caller: Caller, cluster_id: str, wanted: ClusterSpec, *, deferred: bool) -> bool:
        """Replaces the specification by one that complies with the cluster's policy: at once, or when the cluster ends."""

        def change(cluster: Cluster, asked: Asked) -> Changed:
            offered = admit.compliant(self._facts.of_edit(tx, caller, wanted, cluster))
            if deferred:
                return changes.defer(cluster, wanted, offered, asked)
            edited = changes.edit(cluster, wanted, offered, asked, secrets=self._secrets())
            return admit.with_libraries(cluster, edited, offered.policy)

        return self._change(tx, caller, Permission.CAN_MANAGE, cluster_id, change, to="enforce compliance of")

    def cancel_enforcement(self, tx: Tx, caller: Caller, cluster_id: str, *, allow_missing: bool) -> bool:
        """Cancels what `comply` has deferred."""

        def change(cluster: Cluster, _asked: Asked) -> Changed:
            if cluster.enforcement is not None:
                return Changed(enforcement.cancelled(cluster))
            if not allow_missing:
                raise ResourceDoesNotExist(f"Cluster {cluster_id} has no pending enforcement.")
            return Changed(cluster)

        return self._change(tx, caller, Permission.ADMIN, cluster_id, change, to="cancel the enforcement of compliance of")

    def resize(self, tx: Tx, caller: Caller, request: ResizeCluster) -> bool:
        """Changes a running cluster's number of workers, or its autoscaling range."""

        def change(cluster: Cluster, asked: Asked) -> Changed:
            policy = find_policy(tx, cluster.spec.policy_id)
            choice, limit = self._offers.choice(), self._offers.max_nodes
            return changes.resize(cluster, request, asked, policy=policy, choice=choice, max_nodes=limit)

        return self._change(tx, caller, Permission.CAN_MANAGE, request.cluster_id, change, to="resize")

    def pin(self, tx: Tx, caller: Caller, request: ClusterId) -> bool:
        """Keeps a cluster in the list no matter how long ago it was terminated."""

        def change(cluster: Cluster, asked: Asked) -> Changed:
            # With concurrent writers, two pins of two clusters would each count without the other.
            tx.lock("pins")
            return changes.pin(cluster, asked, pinned=tx.clusters.count_pinned())

        return self._change(tx, caller, Permission.ADMIN, request.cluster_id, change, to="pin or unpin")

    def unpin(self, tx: Tx, caller: Caller, request: ClusterId) -> bool:
        """Undoes a pin."""
        return self._change(tx, caller, Permission.ADMIN, request.cluster_id, changes.unpin, to="pin or unpin")

    def change_owner(self, tx: Tx, caller: Caller, request: ChangeClusterOwner) -> bool:
        """Gives a terminated cluster to another user."""

        def change(cluster: Cluster, _asked: Asked) -> Changed:
            found = tx.users.get(request.owner_username)
            owner = request.owner_username if found is None else found.user_name
            return changes.change_owner(cluster, owner, exists=found is not None and found.active)

        return self._change(tx, caller, Permission.ADMIN, request.cluster_id, change, to="change the owner of")

    def change_libraries(self, tx: Tx, caller: Caller, cluster_id: str, change: LibraryChange, *, to: str) -> bool:
        """Adds or removes libraries."""

        def changed(cluster: Cluster, _asked: Asked) -> Changed:
            return change(cluster, list(tx.instances.of_cluster(cluster_id)), find_policy(tx, cluster.spec.policy_id))

        return self._change(tx, caller, Permission.CAN_MANAGE, cluster_id, changed, to=to)

    def may_create(self, tx: Tx, caller: Caller) -> None:
        """Raises PermissionDenied unless the caller may create clusters without a policy."""
        admit.check_creator(caller, ingredients(tx, self._authorizer, caller, None, {}))

    def specify(self, tx: Tx, caller: Principal, requested: ClusterSpec) -> Specified:
        """The specification that a new job cluster of the caller would get: it ends with its run, if not told to end before.
        Limits of its policy are not checked."""
        requested = msgspec.structs.replace(requested, autotermination_minutes=requested.autotermination_minutes or 0)
        return admit.job_cluster(self._facts.of_spec(tx, caller, requested, cluster_type=JOB, secrets=True), requested)

    def offered(self, tx: Tx, caller: Caller, requested: ClusterSpec, *, cluster_type: str = ALL_PURPOSE) -> Offered:
        """The offers that a specification is checked against. The pools that it names stay locked until the commit."""
        return admit.usable(self._facts.of_spec(tx, caller, requested, cluster_type=cluster_type))

    def end_some(self, tx: Tx, why: str, *, after: str, staying: frozenset[str] = frozenset()) -> str:
        """Terminates running clusters, at most ENDED_TOGETHER and in the order of their ids: the server is about to stop and end
        all nodes, except those of providers that are `staying`. A cluster goes on if it has only such nodes. `why`, a phrase, is
        the reason. Returns the last id, to go on after; "" if none is left."""
        ids = sorted(each for each in tx.clusters.running() if each > after)[:ENDED_TOGETHER]  # locked in order, as everywhere
        for cluster_id in ids:
            cluster = tx.clusters.get(cluster_id)
            providers = {node.provider for node in tx.instances.of_cluster(cluster_id)} if staying else set()
            if cluster is not None and not (providers and providers <= staying):
                _write(tx, cluster, changes.shut_down(cluster, why=why, now=self._clock.now_ms()))
        return ids[-1] if ids else ""

    # -- inside ------------------------------------------------------------------------------------------------------

    def _change(self, tx: Tx, caller: Caller, permission: Permission, cluster_id: str, change: Change, *, to: str) -> bool:
        """Finds the cluster, authorises the caller and applies the change. If the cluster stays the same, writes nothing."""
        cluster = existing_cluster(tx, cluster_id)
        on = of_cluster(cluster)
        self._authorizer.require(tx, caller, on.taking(permission), on, to=to)
        if cluster.warehouse is not None and not self._of_warehouses and to != "start":
            raise InvalidState(f"Cluster {cluster_id} is a SQL warehouse. Change it with /api/2.0/sql/warehouses/{cluster_id}.")
        return _write(tx, cluster, change(cluster, self._asked(caller)))

    def _asked(self, caller: Caller) -> Asked:
        return Asked(caller.user_name, self._clock.now_ms())

    def _secrets(self) -> Secrets:
        return Secrets(spark=self._ids.secret(), connect=self._ids.secret())


def _write(tx: Tx, before: Cluster, changed: Changed) -> bool:
    _tell(tx, changed)
    if changed.cluster == before:
        return False
    tx.clusters.update(changed.cluster)
    tx.clusters.wake(before.cluster_id)
    return True


def _tell(tx: Tx, changed: Changed) -> None:
    for event in changed.events:
        tx.events.append(event)
