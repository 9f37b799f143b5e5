"""What enforcing a policy has deferred, and what becomes of it."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from brickyard.domain.cluster import Target
from brickyard.domain.errors import InvalidState
from brickyard.domain.events import EventType
from brickyard.domain.spec import AutoScale, ClusterSpec
from brickyard.plan import enforcement
from brickyard.plan.cluster import plan
from brickyard.plan.policy import Policy
from brickyard.testing.builders import NOW, SIZES, cluster, nodes, up
from tests.plan.test_policies import SPECS
from tests.support.golden import Golden

SIZE = st.fixed_dictionaries(
    {
        "num_workers": st.none() | st.integers(0, 9),
        "autoscale": st.none() | st.builds(AutoScale, min_workers=st.integers(0, 2), max_workers=st.integers(3, 9)),
    }
)


@settings(max_examples=100)
@given(SPECS, SPECS, st.none() | SIZE)
def test_what_was_deferred_is_applied_whole_and_once(
    before: ClusterSpec, after: ClusterSpec, resize: dict[str, object] | None
) -> None:
    old = msgspec.structs.replace(up(cluster()), spec=before, request=before)
    waiting, scheduled = enforcement.deferred(old, after, {"pool": "tag"}, user="a@b", now=NOW)
    assert msgspec.structs.replace(waiting, enforcement=None) == old, "nothing changes at once"
    assert scheduled.type is EventType.DEFERRED_POLICY_ENFORCEMENT_SCHEDULED
    if resize is not None:
        waiting = msgspec.structs.replace(waiting, spec=msgspec.structs.replace(before, **resize))
    resized = enforcement.size_of(waiting.spec) != enforcement.size_of(before)
    wanted = msgspec.structs.replace(after, **resize) if resized and resize is not None else after
    assert enforcement.target(waiting) == wanted
    done, events = enforcement.applied(waiting, now=NOW)
    assert done == msgspec.structs.replace(waiting, spec=wanted, request=wanted, pool_tags={"pool": "tag"}, enforcement=None)
    assert [(each.type, each.details.user) for each in events] == [(EventType.EDITED, "a@b")]
    assert enforcement.applied(done, now=NOW) == (done, ())


def test_the_pass_that_ends_a_cluster_applies_it(golden: Golden) -> None:
    old = up(cluster())
    wanted = msgspec.structs.replace(old.spec, custom_tags={"team": "x"})
    waiting, _ = enforcement.deferred(old, wanted, {}, user="a@b", now=NOW)
    ending = msgspec.structs.replace(waiting, target=Target.TERMINATED)
    going = plan(ending, nodes(old, old.num_workers), now=NOW, sizes=SIZES, policy=Policy(), rooms={})
    assert (going.cluster.ended, going.cluster.spec, going.cluster.enforcement) == (False, old.spec, waiting.enforcement)
    with golden.refused(InvalidState):
        enforcement.cancelled(going.cluster)
    gone = plan(ending, [], now=NOW, sizes=SIZES, policy=Policy(), rooms={})
    assert (gone.cluster.ended, gone.cluster.spec, gone.cluster.enforcement) == (True, wanted, None)
    assert [each.type for each in gone.events] == [EventType.EDITED]
    again = plan(gone.cluster, [], now=NOW, sizes=SIZES, policy=Policy(), rooms={})
    assert (again.cluster, again.events) == (gone.cluster, [])
