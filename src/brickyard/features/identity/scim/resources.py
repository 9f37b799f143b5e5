"""SCIM resources from rows, and rows from what clients write.

What a row has no field for is kept as it was written, in `attributes`, up to a size. The server's own attributes (`id`, `meta`,
`groups`) are ignored where a client sends a whole resource back, as RFC 7644 has it. Nobody has a password here: one that is sent
is dropped.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from brickyard.domain.access import Principal
from brickyard.domain.identity import GroupRow, IdentityKind, UserRow, fold_name
from brickyard.domain.usernames import unclear
from brickyard.features.identity.scim.errors import ScimError, ScimType
from brickyard.features.identity.scim.filters import find
from brickyard.features.identity.scim.schemas import CORE, WORKSPACE_USER

ENTITLEMENTS = (
    "allow-cluster-create",
    "allow-instance-pool-create",
    "databricks-sql-access",
    "workspace-access",
    "workspace-consume",
)
MOST_BYTES = 32 * 1024  # of the attributes that are only kept
MOST_NAME = 255  # characters
_OWN = frozenset(["schemas", "id", "meta", "groups", "password", "active", "displayname", "externalid", "entitlements"])
# What everyone may see of others. All else is for administrators and for the identity itself.
PUBLIC = ("schemas", "id", "userName", "applicationId", "displayName", "active", "members", "groups", "meta")
_ALWAYS = ("schemas", "id", "userName", "applicationId", "displayName")  # Terraform reads them whatever it asks for
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SHOWN = 100


class Reference(NamedTuple):
    """A member of a group, or a group that something is a member of."""

    id: str
    display: str
    place: str  # Users, Groups or ServicePrincipals
    direct: bool | None = None  # of the groups of a member: whether it is in the group itself


def place_of(kind: IdentityKind) -> str:
    """Where resources of a kind are."""
    return "Users" if kind is IdentityKind.USER else "ServicePrincipals"


def of_user(row: UserRow, groups: Iterable[Reference] = ()) -> dict[str, Any]:
    """An identity as a resource."""
    common = {
        "id": row.user_id,
        "displayName": row.display_name,
        "active": row.active,
        "externalId": row.external_id or None,
        "groups": [_referred(group) for group in groups],
        "entitlements": _values(row.entitlements),
        "meta": _meta(place_of(row.kind)[:-1], row.created_ms, row.changed_ms),
        **row.attributes,
    }
    if row.kind is IdentityKind.SERVICE_PRINCIPAL:
        return _present({"schemas": [f"{CORE}ServicePrincipal"], "applicationId": row.user_name, **common})
    given, _, family = row.display_name.partition(" ")
    common.setdefault("name", _present({"givenName": given, "familyName": family}))
    common.setdefault("emails", [{"value": row.user_name, "type": "work", "primary": True}])
    return _present({"schemas": [f"{CORE}User", WORKSPACE_USER], "userName": row.user_name, **common})


def of_group(row: GroupRow, members: Iterable[Reference] = (), groups: Iterable[Reference] = ()) -> dict[str, Any]:
    """A group as a resource."""
    return _present(
        {
            "schemas": [f"{CORE}Group"],
            "id": row.group_id,
            "displayName": row.display_name,
            "externalId": row.external_id or None,
            "members": [_referred(member) for member in members],
            "groups": [_referred(group) for group in groups],
            "entitlements": _values(row.entitlements),
            "meta": _meta("WorkspaceGroup", row.created_ms, row.changed_ms),
            **row.attributes,
        }
    )


def public(resource: Mapping[str, Any]) -> dict[str, Any]:
    """What everyone may see of it."""
    return {key: resource[key] for key in PUBLIC if key in resource}


def selected(resource: Mapping[str, Any], attributes: str, excluded: str) -> dict[str, Any]:
    """Only the attributes that were asked for (with commas between them), beside what names the resource; or all but those that
    were not."""
    if wanted := _listed(attributes):
        kept: dict[str, Any] = {key: resource[key] for key in _ALWAYS if key in resource}
        for name in wanted:
            outer, _, inner = name.rpartition(":")[2].partition(".")
            if (key := find(resource, outer)) is not None:
                kept[key] = _narrowed(kept.get(key), resource[key], inner)
        return kept
    result = dict(resource)
    for name in _listed(excluded):
        outer, _, inner = name.rpartition(":")[2].partition(".")
        key = find(result, outer)
        if key is not None and key not in ("schemas", "id"):
            if inner:
                result[key] = _without(result[key], inner)
            else:
                del result[key]
    return result


def wants(name: str, attributes: str, excluded: str) -> bool:
    """Whether an attribute (in lower case) is needed for an answer."""
    if wanted := _listed(attributes):
        return any(each.rpartition(":")[2].partition(".")[0].lower() == name for each in wanted)
    return name not in [each.rpartition(":")[2].lower() for each in _listed(excluded)]


def to_user(resource: Mapping[str, Any], row: UserRow) -> UserRow:
    """The row with what the resource says. Raises ScimError."""
    own = "username" if row.kind is IdentityKind.USER else "applicationid"
    written = _text(resource, own)
    if written and fold_name(written) != fold_name(row.user_name):
        raise ScimError(
            ScimType.MUTABILITY,
            f"{'userName' if own == 'username' else 'applicationId'} cannot be changed from {row.user_name} to "
            f"{written[:_SHOWN]}: objects belong to their owners by that name. Create another one.",
        )
    return msgspec.structs.replace(
        row,
        active=_bool(resource, "active", default=True),
        display_name=_display_name(resource, row.user_name),
        external_id=_text(resource, "externalId"),
        entitlements=_entitlements(resource),
        attributes=_others(resource, {own}),
    )


def to_group(resource: Mapping[str, Any], row: GroupRow) -> GroupRow:
    """The row with what the resource says, without its members. Raises ScimError."""
    return msgspec.structs.replace(
        row,
        display_name=checked_name(_text(resource, "displayName"), "displayName"),
        external_id=_text(resource, "externalId"),
        entitlements=_entitlements(resource),
        attributes=_others(resource, {"members"}),
    )


def new_user_name(resource: Mapping[str, Any]) -> str:
    """The user name of a resource to be created, in lower case as on Databricks. Raises ScimError."""
    name = checked_name(fold_name(_text(resource, "userName")), "userName")
    if not re.fullmatch(r"[^\s@]+@[^\s@]+", name):
        raise ScimError(ScimType.INVALID_VALUE, f"userName is {name[:_SHOWN]!r}; it must be an e-mail address.")
    if why := unclear(name):
        raise ScimError(ScimType.INVALID_VALUE, f"userName is {name[:_SHOWN]!r}; it could be mistaken for another one: {why}.")
    return name


def new_application_id(resource: Mapping[str, Any], fresh: str) -> str:
    """The application id of a service principal to be created: a UUID, a fresh one unless the client names one."""
    written = _text(resource, "applicationId").lower()
    if written and not _UUID.fullmatch(written):
        raise ScimError(ScimType.INVALID_VALUE, f"applicationId is {written[:_SHOWN]!r}; it must be a UUID, or absent.")
    return written or fresh


def checked_name(name: str, field: str) -> str:
    """Raises ScimError unless it can name an identity or a group."""
    if not name:
        raise ScimError(ScimType.INVALID_VALUE, f"Missing required field: {field}")
    if len(name) > MOST_NAME or name != name.strip() or not name.isprintable():
        raise ScimError(
            ScimType.INVALID_VALUE,
            f"{field} is {name[:_SHOWN]!r}; it must have at most {MOST_NAME} printable characters, without blanks around them.",
        )
    return name


def member_ids(value: Any) -> list[str]:
    """The ids in a list of members or groups, as clients write it. Raises ScimError."""
    ids = []
    for each in _without_empty(value if isinstance(value, list) else [value]):
        key = find(each, "value") if isinstance(each, Mapping) else None
        found = each[key] if isinstance(each, Mapping) and key is not None else each
        if not isinstance(found, str | int) or isinstance(found, bool):
            raise ScimError(ScimType.INVALID_VALUE, 'Members and groups are named by id: {"value": "1234"}.')
        ids.append(str(found))
    return ids


def _without_empty(values: Iterable[Any]) -> list[Any]:
    """The elements of a list that have a value: Go clients write none of them as `[{}]`."""
    return [each for each in values if each not in ({}, {"value": ""}, {"value": None}, "", None)]


def effective(principal: Principal) -> list[dict[str, Any]]:
    """All entitlements that a caller has, also through groups."""
    return _values(sorted(principal.entitlements))


def _values(names: Iterable[str]) -> list[dict[str, Any]]:
    return [{"value": name} for name in names]


def _referred(to: Reference) -> dict[str, Any]:
    kind = None if to.direct is None else "direct" if to.direct else "indirect"
    return _present({"value": to.id, "display": to.display, "type": kind, "$ref": f"{to.place}/{to.id}"})


def _meta(kind: str, created_ms: int, changed_ms: int) -> dict[str, Any]:
    return _present({"resourceType": kind, "created": _time(created_ms), "lastModified": _time(changed_ms)})


def _time(ms: int) -> str | None:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ms / 1000)) if ms else None


def _present(resource: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in resource.items() if value not in (None, "", [], {})}


def _listed(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]


def _narrowed(kept: Any, value: Any, part: str) -> Any:
    if not part:
        return value
    if isinstance(value, list):
        before = kept if isinstance(kept, list) else [{}] * len(value)
        return [_narrowed(had, each, part) for had, each in zip(before, value, strict=True)]
    if not isinstance(value, Mapping):
        return value
    key = find(value, part)
    return {**(kept or {}), **({} if key is None else {key: value[key]})}


def _without(value: Any, part: str) -> Any:
    if isinstance(value, list):
        return [_without(each, part) for each in value]
    if not isinstance(value, Mapping):
        return value
    return {key: each for key, each in value.items() if key.lower() != part.lower()}


def _get(resource: Mapping[str, Any], name: str) -> Any:
    key = find(resource, name)
    return None if key is None else resource[key]


def _text(resource: Mapping[str, Any], name: str) -> str:
    value = _get(resource, name)
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > MOST_NAME:
        raise ScimError(ScimType.INVALID_VALUE, f"{name} must be a text of at most {MOST_NAME} characters.")
    return value


def _bool(resource: Mapping[str, Any], name: str, *, default: bool) -> bool:
    value = _get(resource, name)
    if value is None:
        return default
    if isinstance(value, list) and value:  # Terraform's patches: [{"value": "false"}]
        value = _get(value[-1], "value") if isinstance(value[-1], Mapping) else value[-1]
    if str(value).lower() not in ("true", "false"):
        raise ScimError(ScimType.INVALID_VALUE, f"{name} is {str(value)[:_SHOWN]!r}; it must be true or false.")
    return str(value).lower() == "true"


def _display_name(resource: Mapping[str, Any], user_name: str) -> str:
    name = _get(resource, "name")
    parts = [_text(name, part) for part in ("givenName", "familyName")] if isinstance(name, Mapping) else []
    found = _text(resource, "displayName") or " ".join(filter(None, parts)) or user_name.partition("@")[0]
    return checked_name(found.strip(), "displayName")


def _entitlements(resource: Mapping[str, Any]) -> tuple[str, ...]:
    value = _get(resource, "entitlements")
    found = set(member_ids(value)) if value is not None else set()
    if unknown := sorted(found - set(ENTITLEMENTS)):
        raise ScimError(
            ScimType.INVALID_VALUE, f"entitlements has {unknown[0][:_SHOWN]!r}; there are only {', '.join(ENTITLEMENTS)}."
        )
    return tuple(sorted(found))


def _others(resource: Mapping[str, Any], own: set[str]) -> dict[str, Any]:
    written = {key: _without_empty(value) if isinstance(value, list) else value for key, value in resource.items()}
    kept = {key: value for key, value in written.items() if key.lower() not in _OWN | own and value not in (None, "", [], {})}
    size = len(msgspec.json.encode(kept))
    if size > MOST_BYTES:
        raise ScimError(ScimType.INVALID_VALUE, f"The attributes have {size} bytes together; at most {MOST_BYTES} are kept.")
    return kept
