"""Commands for clusters: look up, authorise, decide (`plan.changes`), write. Each runs in a given transaction.

Commands compose: several of them in one transaction, on several clusters or repeatedly on one, take effect together or not at
all. Every check uses locked rows: two requests about one cluster take turns, and the second sees the effect of the first.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from brickyard.domain.access import Permission
from brickyard.domain.clock import Clock, Ids
from brickyard.domain.cluster import Cluster
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
from brickyard.plan import changes
from brickyard.plan.changes import Asked, Changed, Offered, Secrets, Specified
from brickyard.plan.libraries import copied as copied_libraries
from brickyard.plan.mask import apply_mask
from brickyard.plan.policies.governing import ALL_PURPOSE, JOB, govern
from brickyard.plan.spec import named_pools
from brickyard.services.access import Authorizer
from brickyard.services.access.objects import WORKSPACE, of_cluster, of_policy, of_pool
from brickyard.services.caller import Caller
from brickyard.services.clusters.catalogue import Offers
from brickyard.services.missing import existing_cluster, missing_cluster
from brickyard.services.policies import check_room, find_policy
from brickyard.services.secretvalues import SecretUse, principal_of
from brickyard.store.tx import Tx

Change = Callable[[Cluster, Asked], Changed]


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

    def create(self, tx: Tx, caller: Caller, request: CreateCluster) -> str:
        """Creates a cluster, which starts, and returns its id. If an active cluster has the idempotency token, returns its id."""
        self._may_create(tx, caller)
        token = request.idempotency_token or ""
        changes.check_idempotency_token(token)
        copied = request.clone_from.source_cluster_id if request.clone_from else None
        source = tx.clusters.get(copied) if copied is not None else None  # locked before any pool, as everywhere
        offered = self._offered(tx, caller, request)
        specified = changes.specify(changes.plain_spec(request), offered, user=caller.user_name)
        if token:
            # Two creates with one token: the second writer finds the row of the first. On PostgreSQL, where writers run
            # concurrently, the lock makes them take turns.
            tx.lock(f"idempotency/{token}")
            if (same := tx.clusters.by_idempotency_token(token)) is not None:
                return same.cluster_id
        if copied is not None:
            if source is None or source.deleted_ms:
                raise missing_cluster(tx, copied)
            self._authorizer.require(tx, caller, Permission.CAN_ATTACH_TO, of_cluster(source), to="clone")
        changes.check_single_user(specified.spec, offered, user=caller.user_name)
        check_room(tx, offered.policy, caller.user_name)
        self._secret_use.check(tx, [caller], specified.spec)
        asked = self._asked(caller)
        created = changes.create(self._ids.cluster_id(asked.now), request, asked, specified=specified, secrets=self._secrets())
        if source is not None:
            created = created._replace(cluster=msgspec.structs.replace(created.cluster, libraries=copied_libraries(source)))
        tx.clusters.insert(created.cluster)
        _tell(tx, created)
        return created.cluster.cluster_id

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

    def delete(self, tx: Tx, caller: Caller, request: ClusterId) -> bool:
        """Terminates a cluster; does nothing if it is terminated or terminating."""
        return self._change(tx, caller, Permission.CAN_RESTART, request.cluster_id, changes.terminate, to="terminate")

    def permanent_delete(self, tx: Tx, caller: Caller, request: ClusterId) -> bool:
        """Removes a cluster for good: it no longer exists for any call."""
        return self._change(
            tx, caller, Permission.CAN_MANAGE, request.cluster_id, changes.permanently_delete, to="permanently delete"
        )

    def edit(self, tx: Tx, caller: Caller, request: EditCluster) -> bool:
        """Replaces the specification. A running cluster restarts with it; a terminated one uses it at its next start."""

        def change(cluster: Cluster, asked: Asked) -> Changed:
            return self._edited(tx, caller, cluster, changes.plain_spec(request), asked)

        return self._change(tx, caller, Permission.CAN_MANAGE, request.cluster_id, change, to="edit")

    def update(self, tx: Tx, caller: Caller, request: UpdateCluster) -> bool:
        """Replaces the parts of the specification that the mask names. Does not restart if nothing changes."""

        def change(cluster: Cluster, asked: Asked) -> Changed:
            requested = apply_mask(cluster.request, request.cluster or ClusterSpec(), request.update_mask)
            return self._edited(tx, caller, cluster, requested, asked, unless_same=True)

        return self._change(tx, caller, Permission.CAN_MANAGE, request.cluster_id, change, to="update")

    def comply(self, tx: Tx, caller: Caller, cluster_id: str, wanted: ClusterSpec) -> bool:
        """Replaces the specification by one that complies with the cluster's policy."""

        def change(cluster: Cluster, asked: Asked) -> Changed:
            offered = self._offered(tx, caller, wanted, for_compliance=True)
            return changes.edit(cluster, wanted, offered, asked, secrets=self._secrets())

        return self._change(tx, caller, Permission.CAN_MANAGE, cluster_id, change, to="enforce compliance of")

    def resize(self, tx: Tx, caller: Caller, request: ResizeCluster) -> bool:
        """Changes a running cluster's number of workers, or its autoscaling range."""

        def change(cluster: Cluster, asked: Asked) -> Changed:
            policy = find_policy(tx, cluster.spec.policy_id)
            return changes.resize(cluster, request, asked, policy=policy, runtimes=self._offers.runtimes.values())

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
            owner = request.owner_username
            return changes.change_owner(cluster, owner, exists=tx.users.get(owner) is not None)

        return self._change(tx, caller, Permission.ADMIN, request.cluster_id, change, to="change the owner of")

    def change_libraries(self, tx: Tx, caller: Caller, cluster_id: str, change: Change, *, to: str) -> bool:
        """Adds or removes libraries."""
        return self._change(tx, caller, Permission.CAN_MANAGE, cluster_id, change, to=to)

    def specify(self, tx: Tx, caller: Caller, requested: ClusterSpec) -> Specified:
        """The specification that a new job cluster of the caller would get."""
        self._may_create(tx, caller)
        offered = self._offered(tx, caller, requested, cluster_type=JOB)
        check_room(tx, offered.policy, caller.user_name)
        specified = changes.specify(requested, offered, user=caller.user_name)
        self._secret_use.check(tx, [caller], specified.spec)
        return specified

    def end_all(self, tx: Tx, why: str) -> None:
        """Terminates all running clusters: the server is about to stop and end all nodes. `why`, a phrase, is the reason."""
        for cluster_id in sorted(tx.clusters.running()):  # locked in one order, as everywhere
            cluster = tx.clusters.get(cluster_id)
            if cluster is not None:
                _write(tx, cluster, changes.shut_down(cluster, why=why, now=self._clock.now_ms()))

    # -- inside ------------------------------------------------------------------------------------------------------

    def _change(self, tx: Tx, caller: Caller, permission: Permission, cluster_id: str, change: Change, *, to: str) -> bool:
        """Finds the cluster, authorises the caller and applies the change. If the cluster stays the same, writes nothing."""
        cluster = existing_cluster(tx, cluster_id)
        self._authorizer.require(tx, caller, permission, of_cluster(cluster), to=to)
        return _write(tx, cluster, change(cluster, self._asked(caller)))

    def _may_create(self, tx: Tx, caller: Caller) -> None:
        self._authorizer.require(tx, caller, Permission.ALLOW_CLUSTER_CREATE, WORKSPACE, to="create clusters in the")

    def _edited(
        self, tx: Tx, caller: Caller, cluster: Cluster, requested: ClusterSpec, asked: Asked, *, unless_same: bool = False
    ) -> Changed:
        offered = self._offered(tx, caller, requested)
        self._check_references(tx, caller, cluster, requested)
        return changes.edit(cluster, requested, offered, asked, secrets=self._secrets(), unless_same=unless_same)

    def _check_references(self, tx: Tx, caller: Caller, cluster: Cluster, requested: ClusterSpec) -> None:
        """Raises unless both who edits the cluster and its owner may read the secrets that it newly refers to."""
        owner = tx.users.get(cluster.creator_user_name)
        principals = [caller] if owner is None else [caller, principal_of(owner)]
        self._secret_use.check(tx, principals, requested, before=cluster.spec)

    def _offered(
        self, tx: Tx, caller: Caller, requested: ClusterSpec, *, cluster_type: str = ALL_PURPOSE, for_compliance: bool = False
    ) -> Offered:
        """The offers that a specification is checked against. The pools that it names stay locked until the commit.

        `for_compliance`: who enforces the policy of a cluster needs no permission on the policy.
        """
        policy = find_policy(tx, requested.policy_id)
        if policy is not None and not for_compliance:
            self._authorizer.require(tx, caller, Permission.CAN_USE, of_policy(policy), to="create clusters under")
        runtimes = self._offers.runtimes
        governed = govern(requested, policy, runtimes.values(), cluster_type=cluster_type) if policy is not None else None
        given = governed.given if governed is not None else requested
        pools = tx.pools.many(named_pools(given))
        for pool in pools.values():
            self._authorizer.require(tx, caller, Permission.CAN_ATTACH_TO, of_pool(pool), to="create clusters on")
        name = given.single_user_name or ""
        return Offered(
            node_types=self._offers.node_types(),
            runtimes=runtimes,
            photon=self._photon,
            pools=pools,
            users=frozenset({name}) if name and tx.users.get(name) is not None else frozenset(),
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
