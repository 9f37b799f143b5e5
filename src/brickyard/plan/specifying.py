"""The specification that a cluster gets for the one that was sent: its policy, defaults and checks. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import NamedTuple

import msgspec

from brickyard.domain.errors import InvalidParameterValue, ResourceDoesNotExist
from brickyard.domain.nodetypes import NodeType
from brickyard.domain.policies import PolicyRow
from brickyard.domain.pools import Pool, inherited_tags
from brickyard.domain.runtimes import Runtime
from brickyard.domain.spec import ClusterSpec
from brickyard.plan.policies.governing import Governed
from brickyard.plan.policy import DEFAULT_MAX_NODES
from brickyard.plan.spec import normalise

_SHOWN = 140  # how many characters of a client's value a message repeats
_spec_values = attrgetter(*ClusterSpec.__struct_fields__)


class Offered(msgspec.Struct, frozen=True, kw_only=True):
    """What a specification is checked against. `pools` and `users` are the existing ones among those it names, or its policy."""

    node_types: Mapping[str, NodeType]
    runtimes: Mapping[str, Runtime]
    photon: bool = False
    max_nodes: int = DEFAULT_MAX_NODES
    pools: Mapping[str, Pool] = {}
    governed: Governed | None = None  # the specification under its policy; None: it names none, or one that does not exist
    users: frozenset[str] = frozenset()

    @property
    def policy(self) -> PolicyRow | None:
        """The policy that governs the specification."""
        return self.governed.policy if self.governed is not None else None


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
    `user` becomes the single user if the mode needs one and none is named."""
    _check_policy(requested, offered)
    governed = offered.governed
    spec = normalise(
        governed.given if governed is not None else requested,
        user=user,
        node_types=offered.node_types,
        runtimes=offered.runtimes,
        pools=offered.pools,
        photon=offered.photon,
        max_nodes=offered.max_nodes,
    )
    if governed is not None:
        governed.check(spec)
    pool = offered.pools.get(spec.instance_pool_id or "")
    return Specified(spec, inherited_tags(pool) if pool is not None else {}, requested)


def _check_policy(requested: ClusterSpec, offered: Offered) -> None:
    if requested.policy_id and offered.governed is None:
        raise ResourceDoesNotExist(f"Can't find a cluster policy with id: {requested.policy_id[:_SHOWN]}.")
    if requested.apply_policy_default_values and not requested.policy_id:
        raise InvalidParameterValue("apply_policy_default_values needs policy_id: without a policy there are no defaults.")


def check_single_user(spec: ClusterSpec, offered: Offered, *, user: str) -> None:
    """Raises InvalidParameterValue unless the single user exists. `user` is known to exist."""
    name = spec.single_user_name
    if name and name != user and name not in offered.users:
        raise InvalidParameterValue(f"single_user_name {name[:_SHOWN]} is not a user of this workspace.")
