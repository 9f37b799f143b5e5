"""Who may do what: administrators everything, owners what is theirs, others what was granted to them or to their groups."""

from __future__ import annotations

import msgspec
from hypothesis import assume, given
from hypothesis import strategies as st

from brickyard.access.objects import MAX_GRANTED_PATH, of_workspace_path
from brickyard.domain.access import PERMISSIONS, Grant, ObjectKind, Permission, Place, Principal, SecurableObject
from brickyard.domain.identity import USERS_ID
from brickyard.plan.access import access_refusal, for_everybody, level, visible

NAMES = st.sampled_from(["a@example.com", "b@example.com"])
IDS = st.sampled_from(["1", "2", "31", "32", USERS_ID])
PRINCIPALS = st.builds(
    Principal,
    user_name=NAMES,
    user_id=st.sampled_from(["1", "2"]),
    is_admin=st.booleans(),
    group_ids=st.frozensets(st.sampled_from(["31", "32", USERS_ID])),
    entitlements=st.frozensets(st.sampled_from([each.value for each in PERMISSIONS[ObjectKind.WORKSPACE]])),
)
GRANTS = st.lists(st.builds(Grant, IDS, st.sampled_from(Permission)), max_size=5)
KINDS = [kind for kind in ObjectKind if kind is not ObjectKind.WORKSPACE]
ASKED = st.sampled_from([(kind, permission) for kind in KINDS for permission in PERMISSIONS[kind]])
OWNERS = st.sampled_from(["a@example.com", "b@example.com", ""])


def may(who: Principal, permission: Permission, on: SecurableObject, grants: list[Grant]) -> bool:
    return not access_refusal(who, permission, on, to="change", grants=grants)


@given(PRINCIPALS, ASKED, OWNERS, GRANTS)
def test_levels_include_those_below(
    who: Principal, asked: tuple[ObjectKind, Permission], owner: str, grants: list[Grant]
) -> None:
    kind, permission = asked
    on = SecurableObject(kind, "7", owner)
    levels = PERMISSIONS[kind]
    assert may(who, permission, on, grants) == (level(who, on, grants) > levels.index(permission))


@given(PRINCIPALS, ASKED, OWNERS, GRANTS, GRANTS)
def test_more_grants_never_take_anything_away(
    who: Principal, asked: tuple[ObjectKind, Permission], owner: str, grants: list[Grant], more: list[Grant]
) -> None:
    on = SecurableObject(asked[0], "7", owner)
    assert level(who, on, [*grants, *more]) >= level(who, on, grants)


@given(PRINCIPALS, ASKED, OWNERS, GRANTS)
def test_administrators_may_everything_and_owners_what_can_be_granted(
    who: Principal, asked: tuple[ObjectKind, Permission], owner: str, grants: list[Grant]
) -> None:
    kind, permission = asked
    allowed = may(who, permission, SecurableObject(kind, "7", owner), grants)
    if who.is_admin:
        assert allowed
    elif permission is Permission.ADMIN:
        assert not allowed
    elif owner == who.user_name:
        assert allowed


@given(PRINCIPALS, ASKED, GRANTS)
def test_nobody_else_may_anything_without_a_grant_to_them(
    who: Principal, asked: tuple[ObjectKind, Permission], grants: list[Grant]
) -> None:
    kind, permission = asked
    on = SecurableObject(kind, "7", "somebody@example.com")
    assume(not who.is_admin and for_everybody(on) is None)
    levels = PERMISSIONS[kind]
    enough = set(levels[levels.index(permission) :]) - {Permission.ADMIN}
    theirs = {who.user_id, USERS_ID} | who.group_ids
    granted = any(grant.principal in theirs and grant.permission in enough for grant in grants)
    assert may(who, permission, on, grants) == (granted and permission is not Permission.ADMIN)


@given(PRINCIPALS, ASKED, GRANTS)
def test_what_a_group_has_counts_while_one_is_in_it(
    who: Principal, asked: tuple[ObjectKind, Permission], grants: list[Grant]
) -> None:
    """`group_ids` holds groups of groups as well: see tests/access/test_callers.py."""
    on = SecurableObject(asked[0], "7")
    alone = msgspec.structs.replace(who, group_ids=frozenset())
    to_groups = [grant for grant in grants if grant.principal in who.group_ids]
    others = [grant for grant in grants if grant not in to_groups]
    assert level(who, on, others) <= level(alone, on, grants)
    assert level(who, on, grants) == max(level(alone, on, others), level(who, on, to_groups))


@given(PRINCIPALS, st.sampled_from([each for each in PERMISSIONS[ObjectKind.WORKSPACE] if each is not Permission.ADMIN]), GRANTS)
def test_entitlements_do_not_include_each_other(who: Principal, entitlement: Permission, grants: list[Grant]) -> None:
    on = SecurableObject(ObjectKind.WORKSPACE)
    assert may(who, entitlement, on, grants) == (who.is_admin or entitlement.value in who.entitlements)


@given(PRINCIPALS, ASKED, OWNERS, GRANTS)
def test_a_refusal_says_who_may_not_do_what_and_whom_to_ask(
    who: Principal, asked: tuple[ObjectKind, Permission], owner: str, grants: list[Grant]
) -> None:
    kind, permission = asked
    why = access_refusal(who, permission, SecurableObject(kind, "7", owner), to="change", grants=grants)
    if why:
        what, _, ask = why.partition(": ")
        assert [each for each in (who.user_name, "change", f"{kind.value.replace('-', ' ')} 7") if each not in what] == []
        assert "Ask" in ask


@given(PRINCIPALS, st.sampled_from(["", "31"]), OWNERS)
def test_whoever_may_see_an_object_finds_it_in_its_list(who: Principal, granted_to: str, owner: str) -> None:
    on = SecurableObject(ObjectKind.CLUSTER, "7", owner)
    grants = [Grant(granted_to, Permission.CAN_ATTACH_TO)] if granted_to else []
    which = visible(who)
    listed = which.everything or (owner and which.owner == owner) or granted_to in which.holders
    assert bool(listed) == may(who, Permission.CAN_ATTACH_TO, on, grants)


def test_a_home_is_its_owners_and_shared_is_everybodys() -> None:
    me = Principal(user_name="a@example.com", user_id="1", is_admin=False)
    for path, mine in (("Users/a@example.com", 4), ("Users/a@example.com/x/y", 4), ("Users/b@example.com", 0), ("Shared", 4)):
        assert level(me, of_workspace_path(tuple(path.split("/")))) == mine, path
    assert level(me, of_workspace_path(("Shared", "x"))) == 4
    assert level(me, of_workspace_path(("Sharedx",))) == 0
    assert (level(me, of_workspace_path(())), level(me, of_workspace_path(("Users",)))) == (1, 1)
    assert level(me, of_workspace_path(("Repos",))) == 0


def test_a_directory_contains_what_is_below_it_and_a_path_of_any_depth_costs_little() -> None:
    on = of_workspace_path(("a", "b", "c"))
    assert {place.id for place in on.places} == {"/a/b/c", "/a/b", "/a", "/"}
    deep = of_workspace_path(("a",) * 100_000)
    assert len(deep.places) <= MAX_GRANTED_PATH
    assert all(len(place.id) <= MAX_GRANTED_PATH for place in deep.within)
    assert Place(ObjectKind.WORKSPACE_PATH, "/a/a") in deep.within
