"""The specification that a cluster gets for the one that was sent: its policy, defaults and checks. Pure."""

from __future__ import annotations

from operator import attrgetter
from typing import NamedTuple

from brickyard.domain.errors import InvalidParameterValue, ResourceDoesNotExist
from brickyard.domain.pools import inherited_tags
from brickyard.domain.spec import ClusterSpec
from brickyard.plan.policies.evaluation import Violation
from brickyard.plan.spec import Mistake, Offered, check

_SHOWN = 140  # how many characters of a client's value a message repeats
_spec_values = attrgetter(*ClusterSpec.__struct_fields__)


class Specified(NamedTuple):
    """The effective specification of a cluster, the tags it inherits from its pool, and the specification that was sent."""

    spec: ClusterSpec
    pool_tags: dict[str, str]
    requested: ClusterSpec


def plain_spec(request: ClusterSpec) -> ClusterSpec:
    """The specification in a request, without the request's other fields."""
    return ClusterSpec(**dict(zip(ClusterSpec.__struct_fields__, _spec_values(request), strict=True)))


def specify(requested: ClusterSpec, offered: Offered, *, user: str) -> Specified:
    """The effective cluster for a specification: its policy is applied, then defaults, then the policy's limits are checked.
    `user` becomes the single user if the mode needs one and none is named. Raises ResourceDoesNotExist for a missing policy, and
    InvalidParameterValue for the first mistake, or for all that the policy does not allow."""
    if requested.policy_id and offered.governed is None:
        raise ResourceDoesNotExist(f"Can't find a cluster policy with id: {requested.policy_id[:_SHOWN]}.")
    spec, found, broken = _examine(requested, offered, user=user)
    if found:
        raise InvalidParameterValue(found[0].message)
    if broken:
        raise InvalidParameterValue("; ".join(map(str, broken)))
    pool = offered.pools.get(spec.instance_pool_id or "")
    return Specified(spec, inherited_tags(pool) if pool is not None else {}, requested)


def mistakes(requested: ClusterSpec, offered: Offered, *, user: str) -> list[Mistake]:
    """Everything that is wrong with a specification: nothing if, and only if, `specify` accepts it."""
    _, found, broken = _examine(requested, offered, user=user)
    return [*found, *(Mistake(each.path, str(each)) for each in broken)]


def _examine(requested: ClusterSpec, offered: Offered, *, user: str) -> tuple[ClusterSpec, list[Mistake], tuple[Violation, ...]]:
    """The effective specification, what is wrong with it, and what its policy does not allow. While anything is wrong, the
    policy's rules are applied to the request as it is: what the server would have filled in counts as absent."""
    governed = offered.governed
    if governed is None:
        return *check(requested, offered, user=user), ()
    spec, found = check(governed.given, offered, user=user)
    return spec, found, governed.violations(governed.given if found else spec)
