"""All mistakes of a request for a cluster at once, for `validate_only`. Pure."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from brickyard.domain.spec import ClusterSpec
from brickyard.plan.policies.evaluation import violations
from brickyard.plan.spec import normalise, problems
from brickyard.plan.specifying import Offered

_PATH = re.compile(r"[a-z_]+(?:\.[a-z_0-9]+)*")


class Mistake(NamedTuple):
    """`field` is its path; "" if the mistake is about no single field."""

    field: str
    message: str


def mistakes(requested: ClusterSpec, offered: Offered, *, user: str) -> list[Mistake]:
    """What is wrong with a specification: nothing if, and only if, `specify` accepts it. While anything is, the policy's
    rules are applied to the request as it is: what the server would have filled in counts as absent."""
    governed = offered.governed
    given = governed.given if governed is not None else requested
    about: dict[str, Any] = {
        "user": user,
        "node_types": offered.node_types,
        "runtimes": offered.runtimes,
        "pools": offered.pools,
        "photon": offered.photon,
        "max_nodes": offered.max_nodes,
    }
    found = [Mistake(named(message, field), message) for field, message in problems(given, **about)]
    if governed is not None:
        effective = given if found else normalise(given, **about)
        broken = violations(governed.definition, given=given, effective=effective, facts=governed.facts)
        found += [Mistake(each.path, str(each)) for each in broken]
    return found


def named(message: str, otherwise: str = "") -> str:
    """The field with which a message begins."""
    path = _PATH.match(message)
    return path[0] if path is not None and path[0].partition(".")[0] in ClusterSpec.__struct_fields__ else otherwise
