"""Whether clusters comply with their policies, and making them comply."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from brickyard.access import Authorizer
from brickyard.access.objects import of_cluster, of_policy
from brickyard.clusters.catalogue import Offers
from brickyard.clusters.commands import ClusterCommands
from brickyard.clusters.listing import page_size
from brickyard.clusters.missing import existing_cluster
from brickyard.clusters.policies import existing_policy
from brickyard.domain.access import Permission
from brickyard.domain.caller import Caller
from brickyard.domain.clock import rfc3339
from brickyard.domain.cluster import Cluster, public_state
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.pagetokens import ClusterCursor, cluster_cursor, encode
from brickyard.domain.policies import (
    ClusterCompliance,
    Compliance,
    EnforceCompliance,
    EnforceComplianceResponse,
    EnforceMode,
    EnforceResult,
    ListCompliance,
    ListComplianceResponse,
    PendingEnforcement,
    PolicyRow,
    SettingsChange,
)
from brickyard.domain.queries import ClusterFilter, ClusterSort
from brickyard.domain.states import ClusterSource, State
from brickyard.plan.enforcement import target
from brickyard.plan.policies.evaluation import Change, changes
from brickyard.plan.policies.governing import ALL_PURPOSE, JOB, compliance, compliant
from brickyard.store.tx import Tx

_ORDER = ClusterSort()
COMPLIES = Compliance(is_compliant=True)


class ClusterCompliances:
    """Runs in given transactions. Methods raise ApiError."""

    def __init__(self, *, commands: ClusterCommands, offers: Offers, authorizer: Authorizer) -> None:
        self._commands = commands
        self._offers = offers
        self._authorizer = authorizer

    def of_cluster(self, tx: Tx, caller: Caller, cluster_id: str) -> Compliance:
        """Whether one cluster complies. One without a policy does."""
        cluster = self._find(tx, caller, cluster_id, Permission.CAN_ATTACH_TO, to="see")
        if not cluster.spec.policy_id:
            return COMPLIES
        judged = self._judge(existing_policy(tx, cluster.spec.policy_id), cluster)
        return msgspec.structs.replace(judged, pending_enforcement=_pending(cluster))

    def of_policy(self, tx: Tx, caller: Caller, request: ListCompliance) -> ListComplianceResponse:
        """A page of the clusters that a policy governs. Administrators see all of them."""
        policy = existing_policy(tx, request.policy_id)
        self._authorizer.require(tx, caller, Permission.ADMIN, of_policy(policy), to="see the compliance of clusters with")
        size = page_size(request.page_size)
        cursor = cluster_cursor(request.page_token, _ORDER)
        which = ClusterFilter(policy_id=policy.policy_id)
        rows = tx.listing.page(which, sort=_ORDER, limit=size + 1, after=cursor.at if cursor else None)
        found = [cluster for row in rows[:size] if (cluster := tx.clusters.get(row.cluster_id)) is not None]
        token = encode(ClusterCursor(_ORDER.by, _ORDER.descending, False, rows[size - 1])) if len(rows) > size else None
        judged = [(cluster, self._judge(policy, cluster)) for cluster in found]
        return ListComplianceResponse(
            clusters=[
                ClusterCompliance(
                    cluster_id=cluster.cluster_id,
                    is_compliant=each.is_compliant,
                    violations=each.violations,
                    pending_enforcement=_pending(cluster),
                )
                for cluster, each in judged
            ],
            next_page_token=token,
        )

    def enforce(self, tx: Tx, caller: Caller, request: EnforceCompliance) -> tuple[bool, EnforceComplianceResponse]:
        """Edits a cluster so that it complies. A running one restarts, or is edited when it ends. Returns whether its loop must
        be woken."""
        cluster = self._find(tx, caller, request.cluster_id, Permission.CAN_MANAGE, to="enforce compliance of")
        waits = request.enforce_mode is EnforceMode.WAIT_FOR_TERMINATION
        if waits:
            self._authorizer.require(tx, caller, Permission.ADMIN, of_cluster(cluster), to="defer changes of")
        if not cluster.spec.policy_id:
            raise InvalidParameterValue(f"Cluster {cluster.cluster_id} has no policy.")
        policy = existing_policy(tx, cluster.spec.policy_id)
        wanted = cluster.spec
        if not self._judge(policy, cluster).is_compliant:
            wanted = compliant(policy, cluster.spec, self._offers.choice())
        found = changes(cluster.spec, wanted)
        told = _shown(found)
        if request.validate_only or not found:
            return False, EnforceComplianceResponse(has_changes=bool(found), changes=told)
        deferred = waits and public_state(cluster) is not State.TERMINATED
        woken = self._commands.comply(tx, caller, cluster.cluster_id, wanted, deferred=deferred)
        result = EnforceResult.DEFERRED if deferred else EnforceResult.APPLIED
        return woken, EnforceComplianceResponse(has_changes=True, changes=told, enforce_result=result)

    def _judge(self, policy: PolicyRow, cluster: Cluster) -> Compliance:
        kind = JOB if cluster.source is ClusterSource.JOB else ALL_PURPOSE
        found = compliance(policy, cluster.spec, self._offers.choice(), cluster_type=kind)
        return Compliance(is_compliant=not found, violations={each.path: each.message for each in found})

    def _find(self, tx: Tx, caller: Caller, cluster_id: str, permission: Permission, *, to: str) -> Cluster:
        cluster = existing_cluster(tx, cluster_id)
        self._authorizer.require(tx, caller, permission, of_cluster(cluster), to=to)
        return cluster


def _pending(cluster: Cluster) -> PendingEnforcement | msgspec.UnsetType:
    waiting, spec = cluster.enforcement, target(cluster)
    if waiting is None:
        return msgspec.UNSET
    return PendingEnforcement(
        initiate_time=rfc3339(waiting.since_ms),
        initiator_user=waiting.user,
        target_changes=_shown(changes(cluster.spec, spec)),
        target_spec=spec,
    )


def _shown(found: Iterable[Change]) -> list[SettingsChange]:
    return [SettingsChange(**change._asdict()) for change in found]
