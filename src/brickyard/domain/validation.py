"""What `validate_only` answers: what the same call without it would do."""

from __future__ import annotations

from enum import StrEnum

from brickyard.domain.spec import ClusterSpec, Wire


class FieldError(Wire, frozen=True, kw_only=True):
    """One mistake. `field` is its path, such as `autoscale.max_workers`; "" if it is about no single field."""

    field: str
    message: str


class FieldLock(Wire, frozen=True, kw_only=True):
    """A field that the policy decides, and why. No value: it must not be set."""

    field: str
    reason: str
    value: str | None = None
    hidden: bool = False  # pages do not show it


class HourlyPrice(Wire, frozen=True, kw_only=True):
    """The price of an hour: at the smallest size and at the largest."""

    least: float
    most: float
    currency: str


class ClusterValidation(Wire, frozen=True, kw_only=True):
    """`effective` is the specification that the cluster would have; absent if there are errors. Then `under_policy` is what was
    sent with what its policy sets, as far as there is one. `warnings` are accepted, but fail when the cluster starts: a script
    that does not exist. The price is absent if it is not known. `restart_fields` are those for which an edit would restart the
    cluster; none if it would not."""

    valid: bool
    errors: list[FieldError]
    locks: list[FieldLock]
    warnings: list[FieldError] = []
    effective: ClusterSpec | None = None
    under_policy: ClusterSpec | None = None
    price_per_hour: HourlyPrice | None = None
    restart_fields: list[str] = []


UNSAVED_POLICY = "unsaved"  # what a policy that is only tried is called; ids of saved ones are hexadecimal


class ClusterType(StrEnum):
    """What a policy calls the two kinds of clusters, as the value of its virtual field `cluster_type`."""

    ALL_PURPOSE = "all-purpose"
    JOB = "job"


class TryPolicy(Wire, frozen=True, kw_only=True):
    """Ours: what a policy that is not saved would do to a cluster: a definition, or a family with overrides."""

    definition: str | None = None
    policy_family_id: str | None = None
    policy_family_definition_overrides: str | None = None
    cluster: ClusterSpec
    cluster_type: ClusterType = ClusterType.ALL_PURPOSE

    @property
    def policy_id(self) -> str:
        return UNSAVED_POLICY


class PolicyProblem(Wire, frozen=True, kw_only=True):
    """What is wrong with a definition. `path` is that of the rule; "" for the whole text."""

    path: str
    message: str


class PolicyTrial(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """`verdict` is that of creating the cluster under the policy; null if the policy itself has problems."""

    problems: list[PolicyProblem]
    verdict: ClusterValidation | None = None
