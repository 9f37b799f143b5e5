"""Cluster policies, in the API and in the store. Field names are those of the Cluster Policies API.

Source: databricks-sdk `service/compute.py`. Times are epoch milliseconds.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from brickyard.domain.libraries import Library
from brickyard.domain.spec import ClusterSpec, Wire


class PolicyFields(Wire, frozen=True, kw_only=True):
    """What a request says about a policy. `definition` and the overrides are JSON texts, kept as they were sent."""

    name: str | None = None
    definition: str | None = None
    description: str | None = None
    max_clusters_per_user: int | None = None
    policy_family_id: str | None = None
    policy_family_definition_overrides: str | None = None
    libraries: list[Library] | None = None


class CreatePolicy(PolicyFields, frozen=True, kw_only=True):
    """A new policy: a definition of its own, or a family with overrides."""


class EditPolicy(PolicyFields, frozen=True, kw_only=True):
    """The whole new content of a policy: fields that are absent are reset."""

    policy_id: str


class PolicyId(Wire, frozen=True, kw_only=True):
    """The only argument of get and delete."""

    policy_id: str


class CreatePolicyResponse(Wire, frozen=True, kw_only=True):
    policy_id: str


class ListSortColumn(StrEnum):
    POLICY_CREATION_TIME = "POLICY_CREATION_TIME"
    POLICY_NAME = "POLICY_NAME"


class ListSortOrder(StrEnum):
    ASC = "ASC"
    DESC = "DESC"


class ListPolicies(Wire, frozen=True, kw_only=True):
    """The order of a list: newest first unless it says otherwise."""

    sort_column: ListSortColumn | None = None
    sort_order: ListSortOrder | None = None


class PolicyView(Wire, frozen=True, kw_only=True):
    """A policy as `get` and `list` return it. `definition` includes the family's rules."""

    policy_id: str
    name: str
    definition: str
    description: str | None = None
    creator_user_name: str | None = None
    created_at_timestamp: int | None = None
    is_default: bool | None = None
    max_clusters_per_user: int | None = None
    policy_family_id: str | None = None
    policy_family_definition_overrides: str | None = None
    libraries: tuple[Library, ...] | None = None


class ListPoliciesResponse(Wire, frozen=True, kw_only=True):
    policies: list[PolicyView] | None = None


class PolicyFamilyId(Wire, frozen=True, kw_only=True):
    """`version` is accepted: every family has one version."""

    policy_family_id: str
    version: int | None = None


class ListPolicyFamilies(Wire, frozen=True, kw_only=True):
    max_results: int | None = None
    page_token: str | None = None


class PolicyFamily(Wire, frozen=True, kw_only=True):
    policy_family_id: str
    name: str
    description: str
    definition: str


class ListPolicyFamiliesResponse(Wire, frozen=True, kw_only=True):
    policy_families: list[PolicyFamily] | None = None
    next_page_token: str | None = None


# ── compliance ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────


class ComplianceOf(Wire, frozen=True, kw_only=True):
    cluster_id: str


class ListCompliance(Wire, frozen=True, kw_only=True):
    policy_id: str
    page_size: int | None = None
    page_token: str | None = None


class SettingsChange(Wire, frozen=True, kw_only=True):
    field: str
    previous_value: str | None = None
    new_value: str | None = None


class EnforcementStatus(StrEnum):
    """INACTIVE is never used: what is pending here is applied at the first end of the cluster."""

    ACTIVE = "ACTIVE"
    INACTIVE = "INACTIVE"


class PendingEnforcement(msgspec.Struct, frozen=True, kw_only=True):
    """What will be changed when the cluster terminates or restarts. `initiate_time` as RFC 3339 has it."""

    enforcement_status: EnforcementStatus = EnforcementStatus.ACTIVE
    initiate_time: str
    initiator_user: str
    target_changes: list[SettingsChange]
    target_spec: ClusterSpec


class ClusterCompliance(msgspec.Struct, frozen=True, kw_only=True):
    """`violations`: attribute paths with what is wrong there; empty if the cluster complies."""

    cluster_id: str
    is_compliant: bool
    violations: dict[str, str] = {}
    pending_enforcement: PendingEnforcement | msgspec.UnsetType = msgspec.UNSET


class Compliance(msgspec.Struct, frozen=True, kw_only=True):
    is_compliant: bool
    violations: dict[str, str] = {}
    pending_enforcement: PendingEnforcement | msgspec.UnsetType = msgspec.UNSET


class ListComplianceResponse(Wire, frozen=True, kw_only=True):
    clusters: list[ClusterCompliance] | None = None
    next_page_token: str | None = None


class EnforceMode(StrEnum):
    ENFORCE_IMMEDIATELY = "ENFORCE_IMMEDIATELY"
    WAIT_FOR_TERMINATION = "WAIT_FOR_TERMINATION"


class EnforceResult(StrEnum):
    APPLIED = "APPLIED"
    DEFERRED = "DEFERRED"
    NO_CHANGES = "NO_CHANGES"


class EnforceCompliance(Wire, frozen=True, kw_only=True):
    """`validate_only`: say what would change, and change nothing."""

    cluster_id: str
    enforce_mode: EnforceMode | None = None
    validate_only: bool | None = None


class EnforceComplianceResponse(msgspec.Struct, frozen=True, kw_only=True):
    has_changes: bool
    changes: list[SettingsChange] = []
    enforce_result: EnforceResult = EnforceResult.NO_CHANGES


# ── the row ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


class PolicyRow(msgspec.Struct, frozen=True, kw_only=True):
    """One policy as it is stored. `definition` is "" for a policy of a family."""

    policy_id: str
    name: str
    definition: str = ""
    description: str = ""
    creator_user_name: str = ""
    created_ms: int = 0
    is_default: bool = False  # the workspace's policy of its family: it cannot be deleted
    max_clusters_per_user: int | None = None
    policy_family_id: str = ""
    overrides: str = ""
    libraries: tuple[Library, ...] = ()  # of every cluster that it governs
