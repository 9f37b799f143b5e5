"""Who may do what: administrators everything, others everything but what is for administrators, a run's owner, or by grant."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from brickyard.domain.access import PERMISSIONS, Grant, ObjectKind, Permission, Principal, SecurableObject
from brickyard.plan.access import BY_GRANT, access_refusal, visible

NAMES = st.sampled_from(["a@example.com", "b@example.com"])
PRINCIPALS = st.builds(Principal, user_name=NAMES, user_id=st.just("1"), is_admin=st.booleans())
ASKED_OF_GRANTED = [(kind, permission) for kind in BY_GRANT for permission in PERMISSIONS[kind]]
ASKED = st.sampled_from([(kind, permission) for kind, levels in PERMISSIONS.items() for permission in levels])


@given(PRINCIPALS, ASKED, NAMES)
def test_what_is_refused_and_to_whom(who: Principal, asked: tuple[ObjectKind, Permission], owner: str) -> None:
    kind, permission = asked
    why = access_refusal(who, permission, SecurableObject(kind, "7", owner), to="change")
    for_admins = permission is Permission.ADMIN
    for_owners = kind is ObjectKind.RUN and permission is not Permission.CAN_VIEW and owner != who.user_name
    for_granted = kind in BY_GRANT
    assert bool(why) == (not who.is_admin and (for_admins or for_owners or for_granted))
    if why:
        assert why.startswith(f"{who.user_name} may not change {kind.value.replace('-', ' ')} 7: ")


@given(PRINCIPALS, st.sampled_from(ASKED_OF_GRANTED), st.sampled_from(Permission), NAMES)
def test_a_grant_gives_its_level_and_those_below_it(
    who: Principal, asked: tuple[ObjectKind, Permission], level: Permission, to: str
) -> None:
    kind, permission = asked
    levels = PERMISSIONS[kind]
    why = access_refusal(who, permission, SecurableObject(kind, "7"), to="change", grants=[Grant(to, level)])
    granted = to == who.user_name and level in levels and levels.index(level) >= levels.index(permission)
    assert (not why) == (who.is_admin or granted)


@given(PRINCIPALS, st.sampled_from([kind for kind in ObjectKind if kind not in BY_GRANT]))
def test_whoever_may_see_an_object_finds_it_in_its_list(who: Principal, kind: ObjectKind) -> None:
    theirs = SecurableObject(kind, "7", "somebody@example.com")
    assert visible(who, kind).shows(theirs.owner) == (not access_refusal(who, PERMISSIONS[kind][0], theirs, to="see"))
