"""A request for a cluster under a policy: the policy is applied, and what becomes of the request is checked against it."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.nodetypes import NodeType
from brickyard.domain.policies import PolicyRow
from brickyard.domain.runtimes import Runtime
from brickyard.domain.spec import ClusterSpec
from brickyard.plan.policies.evaluation import Violation, apply, enforce, violations
from brickyard.plan.policies.families import FAMILIES, Family, merged
from brickyard.plan.policies.language import Definition, Problem, parse
from brickyard.plan.policies.limits import Facts

ALL_PURPOSE, JOB = "all-purpose", "job"
# A job cluster is named after its run and ends with it: rules on these are not about it.
_NOT_OF_JOBS = frozenset({"cluster_name", "autotermination_minutes"})
_SAID = 20  # problems that a message names

family_of: Mapping[str, Family] = {family.policy_family_id: family for family in FAMILIES}


@functools.lru_cache(maxsize=256)
def understood(text: str, *, cluster_type: str) -> tuple[Definition, tuple[Problem, ...]]:
    """The rules for clusters of one type: a definition is parsed once, not for each cluster."""
    definition, problems = parse(text)
    if cluster_type == JOB:
        definition = Definition(rule for rule in definition.rules if rule.on.path not in _NOT_OF_JOBS)
    return definition, problems


def definition_text(policy: PolicyRow) -> str:
    """The JSON text of all rules of a policy, its family's included."""
    if not policy.policy_family_id:
        return policy.definition
    return _merged(family_of[policy.policy_family_id].definition, policy.overrides)


_merged = functools.lru_cache(maxsize=256)(merged)


class Choice(NamedTuple):
    """What clusters can be made of: the runtimes and node types on offer, as far as rules depend on them."""

    runtimes: Iterable[Runtime] = ()
    node_types: Mapping[str, NodeType] = MappingProxyType({})


NOTHING = Choice()


class Governed(NamedTuple):
    """A request to which its policy was applied. `given` is what `plan.spec` checks."""

    policy: PolicyRow
    definition: Definition
    facts: Facts
    given: ClusterSpec

    def violations(self, effective: ClusterSpec) -> tuple[Violation, ...]:
        """Everything that the policy does not allow in the effective specification."""
        return violations(self.definition, given=self.given, effective=effective, facts=self.facts)


def govern(requested: ClusterSpec, policy: PolicyRow, choice: Choice, *, cluster_type: str = ALL_PURPOSE) -> Governed:
    """Applies a policy to a request. Raises InvalidParameterValue if the policy itself is malformed."""
    definition, facts = rules(policy, choice, cluster_type=cluster_type)
    given = apply(definition, requested, facts, defaults=bool(requested.apply_policy_default_values))
    return Governed(policy, definition, facts, given)


def rules(policy: PolicyRow, choice: Choice, *, cluster_type: str) -> tuple[Definition, Facts]:
    """The rules of a policy for clusters of one type. Raises InvalidParameterValue if the policy is malformed."""
    definition, problems = understood(definition_text(policy), cluster_type=cluster_type)
    if problems:
        raise InvalidParameterValue(
            f"Requests for the policy {policy.name} cannot be satisfied due to the malformed policy definition. Please contact "
            f"your administrator: {said(problems)}"
        )
    return definition, Facts(cluster_type=cluster_type, versions=auto_versions(choice.runtimes), node_types=choice.node_types)


def said(problems: Iterable[Problem]) -> str:
    """The problems of a definition as one text."""
    every = [str(each) for each in problems]
    rest = f"; and {len(every) - _SAID} more" if len(every) > _SAID else ""
    return "; ".join(every[:_SAID]) + rest


def auto_versions(runtimes: Iterable[Runtime]) -> dict[str, str]:
    """What auto:latest and the like mean among the runtimes on offer. Those for machine learning have no meaning here."""
    plain = (each for each in runtimes if not each.photon)
    newest = sorted(plain, key=lambda runtime: (_release(runtime), _numbers(runtime.scala_version)), reverse=True)
    lts = [runtime for runtime in newest if runtime.lts]
    found: dict[str, str] = {}
    for name, among in (("auto:latest", newest), ("auto:latest-lts", lts)):
        if among:
            found[name] = among[0].key
    for name, among, of in (("auto:prev-major", newest, 1), ("auto:prev-lts", lts, 2)):
        earlier = [each for each in among if _release(each)[:of] < _release(among[0])[:of]]
        if earlier:
            found[name] = earlier[0].key
    return found


def _release(runtime: Runtime) -> tuple[int, ...]:
    return _numbers(runtime.key.partition(".x")[0])


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def compliance(policy: PolicyRow, spec: ClusterSpec, choice: Choice, *, cluster_type: str) -> tuple[Violation, ...]:
    """What an existing cluster's specification violates. Raises InvalidParameterValue if the policy is malformed."""
    definition, facts = rules(policy, choice, cluster_type=cluster_type)
    return violations(definition, given=spec, effective=spec, facts=facts)


def compliant(policy: PolicyRow, spec: ClusterSpec, choice: Choice) -> ClusterSpec:
    """The nearest specification that complies. Raises InvalidParameterValue if there is none that the policy names."""
    definition, facts = rules(policy, choice, cluster_type=ALL_PURPOSE)
    done = enforce(definition, spec, facts)
    if done.remaining:
        raise InvalidParameterValue(
            f"The policy {policy.name} names no values that would end these violations: "
            + "; ".join(str(each) for each in done.remaining)
            + ". Edit the cluster."
        )
    return done.spec
