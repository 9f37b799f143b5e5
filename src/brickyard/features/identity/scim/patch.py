"""Patches of SCIM (RFC 7644, section 3.5.2), as the RFC, Databricks, Entra ID and Okta write them.

Beyond the RFC: operations in any case, dotted names and names with a schema in a value without a path, a removal that lists the
values to remove, and a part of an element that does not exist yet (`emails[type eq "work"].value`), which is made.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from brickyard.features.identity.scim.errors import ScimError, ScimType
from brickyard.features.identity.scim.filters import Both, Compare, Filter, Path, find, matches, parse_path

MOST_OPERATIONS = 1_000
LISTS = frozenset(
    ["emails", "phonenumbers", "addresses", "ims", "photos", "x509certificates", "entitlements", "roles", "groups", "members"]
)  # the attributes that have several values
_IGNORED = frozenset({"schemas", "meta"})  # in a value without a path: the server's own
_SHOWN = 100


class Change(NamedTuple):
    """One operation on one path. `operation`: add, replace or remove."""

    operation: str
    path: Path
    value: Any = None


def parse_patch(body: Mapping[str, Any]) -> list[Change]:
    """The changes of a patch, in order. Raises ScimError."""
    key = find(body, "Operations")
    operations = body[key] if key is not None else None
    if not isinstance(operations, list) or not operations or len(operations) > MOST_OPERATIONS:
        raise ScimError(ScimType.INVALID_SYNTAX, f"Operations must be a list of 1 to {MOST_OPERATIONS} operations.")
    return [change for each in operations for change in _changes(each)]


def _changes(given: Any) -> Iterable[Change]:
    if not isinstance(given, Mapping):
        raise ScimError(ScimType.INVALID_SYNTAX, 'Each of the Operations must be an object: {"op": ..., "path": ...}.')
    fields = {str(key).lower(): value for key, value in given.items()}
    operation, path, value = str(fields.get("op", "")).lower(), fields.get("path"), fields.get("value")
    if operation not in ("add", "replace", "remove"):
        raise ScimError(ScimType.INVALID_SYNTAX, f"op is {str(fields.get('op'))[:_SHOWN]!r}; it must be add, replace or remove.")
    if str(path).lower() == "active" and value is None:  # no value: the SDK leaves out False, and removing it would mean True
        text = "active needs true or false. (The SDK leaves out value=False: write value={'active': False}, without a path.)"
        raise ScimError(ScimType.INVALID_VALUE, text)
    if path:
        return [Change(operation if value is not None else _without_value(operation), _path_of(str(path)), value)]
    if operation == "remove":
        raise ScimError(ScimType.NO_TARGET, "A removal needs a path: the attribute to remove.")
    if not isinstance(value, Mapping):
        raise ScimError(ScimType.INVALID_VALUE, f"The value of {operation} without a path must be an object of attributes.")
    return [
        Change(operation if each is not None else "remove", _path_of(name), each)
        for name, each in value.items()
        if name.lower() not in _IGNORED
    ]


def _without_value(operation: str) -> str:
    if operation == "add":
        raise ScimError(ScimType.INVALID_VALUE, "An addition needs a value.")
    return "remove"


def _path_of(name: str) -> Path:
    """The path that a key names: an attribute or a path. An extension's name is the attribute that holds its attributes."""
    if name.lower().startswith("urn:") and ":" in name and not name.rpartition(":")[2][:1].islower():
        return Path((name,))
    return parse_path(name)


def check_changeable(changes: Iterable[Change], own_id: str) -> None:
    """Raises ScimError if one of them changes what only the server does. Okta repeats the id."""
    for change in changes:
        name = change.path.name[0].lower()
        if (name == "id" and change.value != own_id) or name in ("groups", "meta", "schemas"):
            hint = "Change the members of the group instead." if name == "groups" else "Leave it out."
            raise ScimError(ScimType.MUTABILITY, f"{name} cannot be changed here. {hint}")


def apply(resource: Mapping[str, Any], changes: Sequence[Change]) -> dict[str, Any]:
    """The resource after all changes; the given one stays as it is. Raises ScimError."""
    result = copy.deepcopy(dict(resource))
    for change in changes:
        if change.path.filter is not None:
            _change_elements(result, change, change.path.filter)
        else:
            _change_attribute(result, change.path.name, change)
    return result


def _change_attribute(holder: dict[str, Any], name: Sequence[str], change: Change) -> None:
    key = find(holder, name[0]) or name[0]
    if len(name) > 1:
        inner = holder.get(key)
        if isinstance(inner, list):  # `emails.value`: of each
            for each in inner:
                if isinstance(each, dict):
                    _change_attribute(each, name[1:], change)
            return
        if not isinstance(inner, dict):
            if change.operation == "remove":
                return
            inner = holder[key] = {}
        _change_attribute(inner, name[1:], change)
        if not inner:
            del holder[key]
    elif change.operation == "remove":
        _remove(holder, key, change.value)
    elif key.lower() in LISTS or isinstance(holder.get(key), list) or isinstance(change.value, list):
        new = [_copied(each) for each in _listed(change.value)]
        old = holder.get(key, []) if change.operation == "add" else []
        holder[key] = _joined(old if isinstance(old, list) else [old], new)
    elif isinstance(change.value, Mapping) and isinstance(holder.get(key), dict):
        for part, value in change.value.items():
            _change_attribute(holder[key], (part,), change._replace(value=value))
    else:
        holder[key] = _copied(change.value)


def _remove(holder: dict[str, Any], key: str, value: Any) -> None:
    old = holder.get(key)
    if value is None or not isinstance(old, list):
        holder.pop(key, None)
        return
    gone = [_identity(each) for each in _listed(value)]
    holder[key] = [each for each in old if _identity(each) not in gone]


def _change_elements(holder: dict[str, Any], change: Change, which: Filter) -> None:
    """Changes the elements of a list that a filter finds."""
    *outer, last = change.path.name
    for name in outer:
        inner = holder.setdefault(find(holder, name) or name, {})
        if not isinstance(inner, dict):
            raise ScimError(ScimType.INVALID_PATH, f"{name[:_SHOWN]} has no parts.")
        holder = inner
    key = find(holder, last) or last
    elements = holder.setdefault(key, [])
    if not isinstance(elements, list):
        raise ScimError(ScimType.INVALID_PATH, f"{last[:_SHOWN]} has one value, so no filter in brackets can choose among them.")
    found = [each for each in elements if matches(which, each if isinstance(each, Mapping) else {"value": each})]
    if change.operation == "remove":
        if change.path.part:
            for each in map(_with_parts, found):
                each.pop(find(each, change.path.part) or change.path.part, None)
        else:
            holder[key] = [each for each in elements if each not in found]
        return
    if not found:
        found = [_made(which, last)]
        elements.append(found[0])
    for each in found:
        _change_element(each, change)


def _with_parts(element: Any) -> dict[str, Any]:
    """The element of a list. Raises ScimError for one that has no parts to change."""
    if not isinstance(element, dict):
        raise ScimError(ScimType.INVALID_PATH, "The elements that the path names have no parts.")
    return element


def _change_element(given: Any, change: Change) -> None:
    element = _with_parts(given)
    if change.path.part:
        element[find(element, change.path.part) or change.path.part] = _copied(change.value)
    elif isinstance(change.value, Mapping):
        element.update(copy.deepcopy(dict(change.value)))
    else:
        element["value"] = _copied(change.value)


def _made(which: Filter, last: str) -> dict[str, Any]:
    """A new element for which the filter holds. Raises ScimError (noTarget) if the filter does not say what that would be."""
    if isinstance(which, Both):
        return _made(which.left, last) | _made(which.right, last)
    if isinstance(which, Compare) and which.operator == "eq" and len(which.name) == 1:
        return {which.name[0]: which.value}
    raise ScimError(ScimType.NO_TARGET, f"No element of {last[:_SHOWN]} matches the filter of the path.")


def _joined(old: Sequence[Any], new: Sequence[Any]) -> list[Any]:
    """The old values and the new ones, each once; a new one replaces the old one of the same value."""
    names = [_identity(each) for each in new]
    kept = [each for each in old if _identity(each) not in names]
    return [*kept, *(each for index, each in enumerate(new) if names[index] not in names[:index])]


def _identity(element: Any) -> Any:
    """By what values of a list are told apart."""
    if isinstance(element, Mapping):
        key = find(element, "value")
        return element[key] if key is not None else element
    return element


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _copied(value: Any) -> Any:
    return copy.deepcopy(value)
