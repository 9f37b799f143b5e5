"""Who may do what: administrators everything, others everything but what is kept for administrators and for a run's owner."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from brickyard.domain.access import PERMISSIONS, ObjectKind, Permission, Principal, SecurableObject
from brickyard.plan.access import access_refusal, visible

NAMES = st.sampled_from(["a@example.com", "b@example.com"])
PRINCIPALS = st.builds(Principal, user_name=NAMES, user_id=st.just("1"), is_admin=st.booleans())
ASKED = st.sampled_from([(kind, permission) for kind, levels in PERMISSIONS.items() for permission in levels])


@given(PRINCIPALS, ASKED, NAMES)
def test_what_is_refused_and_to_whom(who: Principal, asked: tuple[ObjectKind, Permission], owner: str) -> None:
    kind, permission = asked
    why = access_refusal(who, permission, SecurableObject(kind, "7", owner), to="change")
    for_admins = permission is Permission.ADMIN
    for_owners = kind is ObjectKind.RUN and permission is not Permission.CAN_VIEW and owner != who.user_name
    assert bool(why) == (not who.is_admin and (for_admins or for_owners))
    if why:
        assert why.startswith(f"{who.user_name} may not change {kind.value} 7: ")


@given(PRINCIPALS, st.sampled_from(ObjectKind))
def test_whoever_may_see_an_object_finds_it_in_its_list(who: Principal, kind: ObjectKind) -> None:
    theirs = SecurableObject(kind, "7", "somebody@example.com")
    assert visible(who, kind).shows(theirs.owner) == (not access_refusal(who, PERMISSIONS[kind][0], theirs, to="see"))
