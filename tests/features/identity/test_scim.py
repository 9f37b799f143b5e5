"""SCIM's filters and patches: what the RFCs, Databricks, Entra ID and Okta write, and whatever else may come."""

from __future__ import annotations

import copy
import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from brickyard.domain.identity import IdentityKind, UserRow
from brickyard.features.identity.scim.errors import ScimError, ScimType
from brickyard.features.identity.scim.filters import (
    MOST_TERMS,
    Both,
    Compare,
    Either,
    Element,
    Filter,
    Not,
    matches,
    parse_filter,
    parse_path,
)
from brickyard.features.identity.scim.patch import apply, check_changeable, parse_patch
from brickyard.features.identity.scim.resources import MOST_BYTES, of_user, selected, to_user
from tests.support.golden import Golden

ENTERPRISE = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
ANNA: dict[str, Any] = {
    "id": "Ab1",
    "userName": "Anna@example.com",
    "name": {"givenName": "Anna", "familyName": 'O\'Neil "x"'},
    "active": True,
    "level": 7,
    "emails": [{"value": "anna@example.com", "type": "work", "primary": True}, {"value": "a@home.example", "type": "home"}],
    "members": [{"value": "12", "display": "twelve"}],
    "meta": {"created": "2026-11-22T10:00:00Z"},
    ENTERPRISE: {"department": "Data"},
}


@pytest.mark.parametrize(
    "text",
    [
        'userName eq "anna@EXAMPLE.com"',
        'urn:ietf:params:scim:schemas:core:2.0:User:userName sw "anna"',
        'USERNAME co "na@ex" and active eq true',
        'active eq "True"',
        'id eq "Ab1"',
        'name.familyName ew "\\"x\\""',
        "title pr or emails pr",
        "not (title pr)",
        'emails[type eq "work" and value co "@example.com"]',
        'emails[type eq "home" and not (primary eq true)]',
        'emails.type eq "home"',
        'emails eq "a@home.example"',
        'members eq "12"',
        'members[value eq "12"]',
        'meta.created ge "2026-11-22T09:00:00Z" and meta.created lt "2026-11-22T11:00:00Z"',
        "level gt 6.5 and level le 7",
        "title eq null",
        "userName eq anna@EXAMPLE.com",
        "userName eq 'anna@example.com' and active eq true",
        "name.familyName eq 'O\\'Neil \"x\"'",
        "members eq 12 and not (members eq 012)",
        "emails[type eq work]",
        "meta.created ge 2026-11-22T09:00:00Z",
        'title ne "x"',
        f'{ENTERPRISE}:department eq "data"',
        'title eq "x" or (userName eq "x" or level ge 7) and active ne false',
    ],
)
def test_filters_that_hold(text: str) -> None:
    assert matches(parse_filter(text), ANNA)


@pytest.mark.parametrize(
    "text",
    [
        'userName eq "anna"',
        'id eq "ab1"',
        'emails[type eq "work" and value co "home"]',
        "active eq false",
        'level gt "6"',
        "emails.primary eq false",
        'name.familyName sw "x" or title pr',
        'userName ne "anna@example.com"',
        f'{ENTERPRISE}:manager.value eq "1"',
    ],
)
def test_filters_that_do_not_hold(text: str) -> None:
    assert not matches(parse_filter(text), ANNA)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "userName",
        "userName eq",
        'userName like "a"',
        '"a" eq "b"',
        "userName pr and",
        "(userName pr",
        "userName pr)",
        "emails[type pr",
        "not userName pr",
        "a.b.c pr",
        "a..b pr",
        'urn:other:attr eq "x"',
        "active gt true",
        'userName eq "a" userName eq "b"',
        'userName eq "\\x"',
        "userName eq 'a",
        "userName eq 'o'neil'",
        "userName eq anna o",
        "userName; drop table users",
        " or ".join(["a pr"] * (MOST_TERMS + 1)),
        "(" * 50 + "a pr" + ")" * 50,
        "x" * 9_000,
    ],
)
def test_filters_that_are_refused(text: str, golden: Golden) -> None:
    with golden.refused(ScimError) as refused:
        parse_filter(text)
    assert refused.value.scim_type is ScimType.INVALID_FILTER
    assert len(refused.value.message) < 500


NAMES = st.sampled_from(["userName", "active", "emails.value", "title", "name.givenName"])
TERMS = st.one_of(
    st.builds(lambda name: f"{name} pr", NAMES),
    st.builds(
        lambda name, how, value: f'{name} {how} "{value}"',
        NAMES,
        st.sampled_from(["eq", "Co", "SW", "lt"]),
        st.sampled_from("axz"),
    ),
)
FILTERS = st.recursive(
    TERMS,
    lambda inner: st.one_of(
        st.builds("({}) and {}".format, inner, inner),
        st.builds("{} or {}".format, inner, inner),
        st.builds("not ({})".format, inner),
    ),
    max_leaves=12,
)


@given(FILTERS)
def test_a_filter_reads_back_as_the_same(text: str) -> None:
    found = parse_filter(text)
    assert parse_filter(written(found)) == found
    assert matches(parse_filter(f"not ({text})"), ANNA) != matches(found, ANNA)


def written(of: Filter) -> str:
    if isinstance(of, Both | Either):
        return f"({written(of.left)}) {'and' if isinstance(of, Both) else 'or'} ({written(of.right)})"
    if isinstance(of, Not):
        return f"not ({written(of.of)})"
    if isinstance(of, Element):
        return f"{'.'.join(of.name)}[{written(of.filter)}]"
    assert isinstance(of, Compare)
    return f"{'.'.join(of.name)} {of.operator}" + ("" if of.operator == "pr" else f' "{of.value}"')


@given(st.text(alphabet='abeq ."()[]\\:-0 and or not pr', max_size=200))
def test_any_text_is_a_filter_or_refused(text: str) -> None:
    try:
        matches(parse_filter(text), ANNA)
    except ScimError as refused:
        assert refused.http_status == 400


@pytest.mark.parametrize("text", ['a eq "' + "\\\\" * 3_900, "a" * 7_999, "." * 7_999, '"' * 7_999, "1" * 7_999, "a:" * 3_900])
def test_a_hostile_filter_takes_no_time(text: str) -> None:
    def took_s() -> float:
        began = time.process_time()
        with pytest.raises(ScimError):
            parse_filter(text)
        return time.process_time() - began

    assert min(took_s() for _ in range(3)) < 0.2, "also where one of them waits for the garbage collector"


def patched(*operations: dict[str, Any], of: dict[str, Any] = ANNA) -> dict[str, Any]:
    before = copy.deepcopy(of)
    after = apply(of, parse_patch({"schemas": ["urn:ietf:params:scim:api:messages:2.0:PatchOp"], "Operations": list(operations)}))
    assert of == before, "the resource itself stays"
    return after


def test_what_entra_sends() -> None:
    after = patched(
        {"op": "Replace", "path": "active", "value": "False"},
        {"op": "Add", "path": 'emails[type eq "work"].value', "value": "new@example.com"},
        {"op": "Add", "path": 'phoneNumbers[type eq "mobile"].value', "value": "1234"},
        {"op": "Replace", "path": "name.givenName", "value": "Ann"},
        {"op": "Add", "path": f"{ENTERPRISE}:department", "value": "Platform"},
        {"op": "Remove", "path": "members", "value": [{"value": "12"}]},
    )
    assert after["active"] == "False"
    assert after["emails"][0] == {"value": "new@example.com", "type": "work", "primary": True}
    assert after["phoneNumbers"] == [{"type": "mobile", "value": "1234"}]
    assert after["name"] == {"givenName": "Ann", "familyName": ANNA["name"]["familyName"]}
    assert after[ENTERPRISE] == {"department": "Platform"}
    assert after["members"] == []
    without_path = {"displayName": "A", "name.givenName": "B", f"{ENTERPRISE}:costCenter": "9", "title": None}
    after = patched({"op": "replace", "value": without_path}, of=ANNA | {"title": "x"})
    assert (after["displayName"], after["name"]["givenName"], after[ENTERPRISE]["costCenter"]) == ("A", "B", "9")
    assert "title" not in after


def test_what_okta_and_databricks_send() -> None:
    after = patched({"op": "replace", "value": {"id": "Ab1", "active": False}})
    assert after["active"] is False
    after = patched({"op": "add", "path": "entitlements", "value": [{"value": "allow-cluster-create"}]})
    after = patched({"op": "add", "value": {"entitlements": [{"value": "allow-cluster-create"}, {"value": "x"}]}}, of=after)
    assert after["entitlements"] == [{"value": "allow-cluster-create"}, {"value": "x"}], "each once"
    after = patched({"op": "remove", "path": 'entitlements[value eq "x"]'}, of=after)
    assert after["entitlements"] == [{"value": "allow-cluster-create"}]
    assert patched({"op": "replace", "path": "entitlements", "value": {"value": "y"}}, of=after)["entitlements"] == [
        {"value": "y"}
    ]
    assert "entitlements" not in patched({"op": "remove", "path": "entitlements"}, of=after)
    assert patched({"op": "replace", "path": "name", "value": {"givenName": "B"}})["name"]["familyName"]
    assert patched({"op": "remove", "path": 'emails[type eq "home"]'})["emails"] == ANNA["emails"][:1]
    assert "type" not in patched({"op": "remove", "path": 'emails[type eq "home"].type'})["emails"][1]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({}, ScimType.INVALID_SYNTAX),
        ({"Operations": []}, ScimType.INVALID_SYNTAX),
        ({"Operations": ["x"]}, ScimType.INVALID_SYNTAX),
        ({"Operations": [{"op": "move", "path": "a"}]}, ScimType.INVALID_SYNTAX),
        ({"Operations": [{"op": "remove"}]}, ScimType.NO_TARGET),
        ({"Operations": [{"op": "replace", "path": "active"}]}, ScimType.INVALID_VALUE),
        ({"Operations": [{"op": "add", "path": "a"}]}, ScimType.INVALID_VALUE),
        ({"Operations": [{"op": "add", "value": "x"}]}, ScimType.INVALID_VALUE),
        ({"Operations": [{"op": "add", "path": "a[", "value": "x"}]}, ScimType.INVALID_PATH),
        ({"Operations": [{"op": "add", "path": 'userName[type eq "x"]', "value": "x"}]}, ScimType.INVALID_PATH),
        (
            {"Operations": [{"op": "replace", "path": 'emails[type ne "work" and value co "q"].value', "value": "x"}]},
            ScimType.NO_TARGET,
        ),
        ({"Operations": [{"op": "replace", "path": "id", "value": "other"}]}, ScimType.MUTABILITY),
        ({"Operations": [{"op": "add", "path": "groups", "value": [{"value": "1"}]}]}, ScimType.MUTABILITY),
    ],
)
def test_patches_that_are_refused(body: dict[str, Any], kind: ScimType) -> None:
    with pytest.raises(ScimError) as refused:
        changes = parse_patch(body)
        check_changeable(changes, "Ab1")
        apply(ANNA, changes)
    assert refused.value.scim_type is kind


VALUES = st.recursive(
    st.none() | st.booleans() | st.text(max_size=5) | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["value", "type", "a"]), inner, max_size=3),
    max_leaves=5,
)
PATHS = st.sampled_from(
    [
        "emails",
        "emails.value",
        'emails[type eq "work"]',
        "emails[value pr].type",
        "name",
        "name.givenName",
        "active",
        "x",
        "x.y",
        "x[a pr]",
        "x.y[a pr]",
        'name.x[a eq "b"]',
    ]
)
CHANGES = st.builds(
    lambda op, path, value: {"op": op, "path": path, "value": value}, st.sampled_from(["add", "replace", "remove"]), PATHS, VALUES
)


@given(st.lists(CHANGES, min_size=1, max_size=5), VALUES, VALUES)
@example([{"op": "remove", "path": "emails[value pr].type"}], None, ["x"])
@example([{"op": "replace", "path": 'name.x[a eq "b"]', "value": 1}], None, [])
def test_any_patch_gives_a_resource_or_is_refused(operations: list[dict[str, Any]], x: Any, emails: Any) -> None:
    try:
        after = patched(*operations, of=ANNA | {"x": x, "emails": emails, "name": emails})
        to_user(after, UserRow(user_name="anna@example.com", user_id="1"))
    except ScimError as refused:
        assert refused.http_status == 400


@given(PATHS.filter(lambda path: "[" not in path), st.text() | st.booleans() | st.lists(st.text(max_size=3), unique=True))
def test_a_replacement_repeated_changes_nothing_more(path: str, value: Any) -> None:
    operation = {"op": "replace", "path": path, "value": value}
    once = patched(operation)
    assert patched(operation, of=once) == once


def test_a_resource_sent_back_changes_nothing() -> None:
    row = UserRow(
        user_name="anna@example.com",
        user_id="1",
        display_name="Anna O",
        external_id="e",
        entitlements=("allow-cluster-create",),
        attributes={"emails": [{"value": "a@b"}], "name": {"givenName": "Anna"}, ENTERPRISE: {"department": "Data"}},
    )
    assert to_user(of_user(row), row) == row
    service = UserRow(
        user_name="0f0e0d0c-0000-4000-8000-000000000000", user_id="2", kind=IdentityKind.SERVICE_PRINCIPAL, display_name="s"
    )
    assert to_user(of_user(service), service) == service


@pytest.mark.parametrize(
    "resource",
    [
        {"userName": "other@example.com"},
        {"active": "perhaps"},
        {"displayName": "a\nb"},
        {"displayName": 5},
        {"entitlements": [{"value": "root"}]},
        {"entitlements": [{"display": "x"}]},
        {"title": "x" * MOST_BYTES},
    ],
)
def test_resources_that_are_refused(resource: dict[str, Any], golden: Golden) -> None:
    with golden.refused(ScimError):
        to_user(resource, UserRow(user_name="anna@example.com", user_id="1"))


def test_selected_attributes() -> None:
    assert selected(ANNA, "userName,name.givenName,emails.type,emails.value,nothing", "") == {
        "id": "Ab1",
        "userName": "Anna@example.com",
        "name": {"givenName": "Anna"},
        "emails": [{"value": each["value"], "type": each["type"]} for each in ANNA["emails"]],
    }
    left = selected(ANNA, "", "Emails,id,name.familyName,members.display")
    assert "emails" not in left
    assert (left["id"], left["name"], left["members"]) == ("Ab1", {"givenName": "Anna"}, [{"value": "12"}])


def test_paths_with_brackets() -> None:
    path = parse_path('emails[type eq "work"].value')
    assert (path.name, path.part) == (("emails",), "value")
    for wrong in ("", "emails[", "emails[type pr].", "emails[type pr] x", "a b", "[a pr]"):
        with pytest.raises(ScimError):
            parse_path(wrong)
