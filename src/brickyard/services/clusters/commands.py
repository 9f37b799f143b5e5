"""Commands for clusters: look up, authorise, decide (`plan.changes`), write. Each runs in a given transaction.

Commands compose: several of them in one transaction, on several clusters or repeatedly on one, take effect together or not at
all. Every check uses locked rows: two requests about one cluster take turns, and the second sees the effect of the first.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from brickyard.domain.access import Permission, Principal
from brickyard.domain.clock import Clock, Ids
from brickyard.domain.cluster import Cluster, Workbench, public_state
from brickyard.domain.errors import ResourceDoesNotExist
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
from brickyard.domain.states import State
from brickyard.plan import changes, enforcement
from brickyard.plan.changes import Asked, Changed, Secrets
from brickyard.plan.libraries import copied as copied_libraries
from brickyard.plan.libraries import governed
from brickyard.plan.mask import apply_mask
from brickyard.plan.policies.governing import ALL_PURPOSE, JOB, govern
from brickyard.plan.spec import Offered
from brickyard.plan.specifying import Specified, plain_spec, specify
from brickyard.services.access import Authorizer
from brickyard.services.access.objects import of_cluster
from brickyard.services.caller import Caller
from brickyard.services.clusters.catalogue import Offers
from brickyard.services.clusters.creation import may_create, may_use, usable_pools
from brickyard.services.missing import existing_cluster, missing_cluster
from brickyard.services.policies import check_room, find_policy
from brickyard.services.principals import active_principal
from brickyard.services.secretvalues import SecretUse
from brickyard.store.tx import Tx

ENDED_TOGETHER = 100  # clusters that one transaction ends: each is a few statements, and a commit may not take long
Change = Callable[[Cluster, Asked], Changed]
LibraryChange = Callable[[Cluster, PolicyRow | None], Changed]  # with the cluster's policy


class ClusterCommands:
    """One per server. Methods raise ApiError, after which the transaction must not be committed.

    They return whether the cluster has changed. If so, its loop is due: whoever opened the transaction wakes it after the commit.
    """

    def __init__(self, *, clock: Clock, ids: Ids, offers: Offers, authorizer: Authorizer, photon: bool) -> None:
        self._clock = clock
        self._ids = ids
        self._offers = offers
        self._authorizer = authorizer
        self._photon = photon
        self._secret_use = SecretUse(authorizer)

    def create(
        self, tx: Tx, caller: Caller, request: CreateCluster, *, stopped: bool = False, workbench: Workbench | None = None
    ) -> Cluster:
        """Creates a cluster, which starts unless `stopped`, and returns it. If an active cluster has the idempotency token,
        returns that one."""
        self.may_create(tx, caller, request.policy_id)
        token = request.idempotency_token or ""
        changes.check_idempotency_token(token)
        copied = request.clone_from.source_cluster_id if request.clone_from else None
        source = tx.clusters.get(copied) if copied is not None else None  # locked before any pool, as everywhere
        offered = self.offered(tx, caller, request)
        specified = specify(plain_spec(request), offered, user=caller.user_name)
        if token:
            # Two creates with one token: the second writer finds the row of the first. On PostgreSQL, where writers run
            # concurrently, the lock makes them take turns.
            tx.lock(f"idempotency/{caller.user_name}/{token}")
            if (same := tx.clusters.by_idempotency_token(token, caller.user_name)) is not None:
                return same
        if copied is not None:
            if source is None or source.deleted_ms:
                raise missing_cluster(tx, copied)
            self._authorizer.require(tx, caller, Permission.CAN_ATTACH_TO, of_cluster(source), to="clone")
        check_room(tx, offered.policy, caller.user_name)
        self._secret_use.check(tx, [caller], specified.spec)
        asked = self._asked(caller)
        cluster_id, secrets = self._ids.cluster_id(asked.now), self._secrets()
        created = changes.create(cluster_id, request, asked, specified=specified, secrets=secrets, stopped=stopped)
        if source is not None:
            created = created._replace(cluster=msgspec.structs.replace(created.cluster, libraries=copied_libraries(source)))
        if workbench is not None:
            created = created._replace(cluster=msgspec.structs.replace(created.cluster, workbench=workbench))
        created = created._replace(cluster=governed(created.cluster, offered.policy))
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
            check_room(tx, find_policy(tx, cluster.spec.policy_id), cluster.creator_user_name)
            return changes.start(cluster, asked, secrets=self._secrets())

        return self._change(tx, caller, Permission.CAN_RESTART, request.cluster_id, change, to="start")

    def restart(self, tx: Tx, caller: Caller, request: RestartCluster) -> bool:
        """Restarts a running cluster. Administrators may name the user for whom they do it."""
        user = (request.restart_user if caller.is_admin else "") or caller.user_name

        def change(cluster: Cluster, asked: Asked) -> Changed:
            return changes.restart(cluster, asked._replace(user=user), secrets=self._secrets())

        return self._change(tx, caller, Permission.CAN_RESTART, request.cluster_id, change, to="restart")

    def delete(self, tx: Tx, caller: Caller, request: ClusterId, *, why: str = "", grace_ms: int | None = 0) -> bool:
        """Terminates a cluster. `why`: what the user says about it; `grace_ms`: within which what runs may finish."""

        def change(cluster: Cluster, asked: Asked) -> Changed:
            return changes.terminate(cluster, asked, why=why, grace_ms=grace_ms)

        return self._change(tx, caller, Permission.CAN_RESTART, request.cluster_id, change, to="terminate")

    def permanent_delete(self, tx: Tx, caller: Caller, request: ClusterId) -> bool:
        """Removes a cluster for good: it no longer exists for any call."""
        changed = self._change(
            tx, caller, Permission.CAN_MANAGE, request.cluster_id, changes.permanently_delete, to="permanently delete"
        )
        tx.ports.delete(request.cluster_id)  # others may have its ports now
        return changed

    def edit(self, tx: Tx, caller: Caller, request: EditCluster) -> bool:
        """Replaces the specification. A running cluster restarts with it; a terminated one uses it at its next start."""

        def change(cluster: Cluster, asked: Asked) -> Changed:
            changes.check_expected(cluster, request.expected_spec)
            return self._edited(tx, caller, cluster, plain_spec(request), asked)

        return self._change(tx, caller, Permission.CAN_MANAGE, request.cluster_id, change, to="edit")

    def update(self, tx: Tx, caller: Caller, request: UpdateCluster) -> bool:
        """Replaces the parts of the specification that the mask names. Does not restart if nothing changes."""

        def change(cluster: Cluster, asked: Asked) -> Changed:
            requested = apply_mask(cluster.request, request.cluster or ClusterSpec(), request.update_mask)
            return self._edited(tx, caller, cluster, requested, asked, unless_same=True)

        return self._change(tx, caller, Permission.CAN_MANAGE, request.cluster_id, change, to="update")

    def comply(self, tx: Tx, caller: Caller, cluster_id: str, wanted: ClusterSpec, *, deferred: bool) -> bool:
        """Replaces the specification by one that complies with the cluster's policy: at once, or when the cluster ends."""

        def change(cluster: Cluster, asked: Asked) -> Changed:
            offered = self.offered(tx, caller, wanted, for_compliance=True)
            if deferred:
                return changes.defer(cluster, wanted, offered, asked)
            return changes.edit(cluster, wanted, offered, asked, secrets=self._secrets())

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
            return change(cluster, find_policy(tx, cluster.spec.policy_id))

        return self._change(tx, caller, Permission.CAN_MANAGE, cluster_id, changed, to=to)

    def may_create(self, tx: Tx, caller: Caller, policy_id: str | None) -> None:
        """Raises PermissionDenied. Users of a policy may create clusters under it (`offered` checks that); without one, creating
        requires the entitlement."""
        may_create(tx, self._authorizer, caller, find_policy(tx, policy_id))

    def specify(self, tx: Tx, caller: Caller, requested: ClusterSpec) -> Specified:
        """The specification that a new job cluster of the caller would get: it ends with its run, if not told to end before.
        Limits of its policy are not checked."""
        requested = msgspec.structs.replace(requested, autotermination_minutes=requested.autotermination_minutes or 0)
        self.may_create(tx, caller, requested.policy_id)
        offered = self.offered(tx, caller, requested, cluster_type=JOB)
        specified = specify(requested, offered, user=caller.user_name)
        self._secret_use.check(tx, [caller], specified.spec)
        return specified

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
        self._authorizer.require(tx, caller, permission, of_cluster(cluster), to=to)
        changed = change(cluster, self._asked(caller))
        if changed.cluster.incarnation != cluster.incarnation:  # it starts (again)
            policy = find_policy(tx, changed.cluster.spec.policy_id)
            changed = changed._replace(cluster=governed(changed.cluster, policy))
        return _write(tx, cluster, changed)

    def _edited(
        self, tx: Tx, caller: Caller, cluster: Cluster, requested: ClusterSpec, asked: Asked, *, unless_same: bool = False
    ) -> Changed:
        offered = self.offered(tx, caller, requested)
        if cluster.spec.policy_id != requested.policy_id:
            if cluster.spec.policy_id:
                self.may_create(tx, caller, requested.policy_id)  # else a policy could be shaken off after the creation
            if public_state(cluster) is not State.TERMINATED:
                check_room(tx, offered.policy, cluster.creator_user_name)  # else its limit could be, too
        self._check_references(tx, caller, cluster, requested)
        return changes.edit(cluster, requested, offered, asked, secrets=self._secrets(), unless_same=unless_same)

    def _check_references(self, tx: Tx, caller: Caller, cluster: Cluster, requested: ClusterSpec) -> None:
        """Raises unless both who edits the cluster and its owner may read the secrets that it newly refers to."""
        owner = active_principal(tx, cluster.creator_user_name)
        principals: list[Principal] = [caller] if owner is None else [caller, owner]
        self._secret_use.check(tx, principals, requested, before=cluster.spec)

    def offered(
        self, tx: Tx, caller: Caller, requested: ClusterSpec, *, cluster_type: str = ALL_PURPOSE, for_compliance: bool = False
    ) -> Offered:
        """The offers that a specification is checked against. The pools that it names stay locked until the commit.

        `for_compliance`: who enforces the policy of a cluster needs no permission on the policy.
        """
        policy = find_policy(tx, requested.policy_id)
        if policy is not None and not for_compliance:
            may_use(tx, self._authorizer, caller, policy)
        choice = self._offers.choice()
        governed = govern(requested, policy, choice, cluster_type=cluster_type) if policy is not None else None
        given = governed.given if governed is not None else requested
        pools = usable_pools(tx, self._authorizer, caller, given)
        name = given.single_user_name or ""
        single_user = tx.users.get(name) if name else None
        return Offered(
            node_types=choice.node_types,
            runtimes=self._offers.runtimes,
            photon=self._photon,
            max_nodes=self._offers.max_nodes,
            pools=pools,
            users=frozenset({single_user.user_name}) if single_user is not None else frozenset(),
            governed=governed,
        )

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
