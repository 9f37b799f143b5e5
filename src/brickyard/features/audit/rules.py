"""What the log and the audit log say of a request: the objects that it names and the fields that it sets. Never their values."""

from __future__ import annotations

import functools
from typing import Any

import msgspec

from brickyard.domain.printable import printable

# Fields that name an object, in requests and answers. Other fields may hold secrets: conf, commands, tokens.
_NAMES = (
    "cluster_id", "context_id", "command_id", "instance_pool_id", "run_id", "policy_id", "script_id", "token_id", "instance_id",
    "path", "source_path", "destination_path", "file_path", "directory_path", "handle", "id", "object_type", "object_id", "scope",
    "key", "principal", "user_name", "name", "full_name", "catalog_name", "schema_name", "application_id", "client_id",
    "group_name", "parent_name", "budget_id",
)  # fmt: skip
_WITHIN = ("token_info",)  # fields whose value is the object that an answer shows, beside what only its maker may see
MOST_TEXT = 300  # characters of a client-chosen name
MOST_FIELDS = 60


def names(struct: msgspec.Struct | None) -> dict[str, str]:
    """The objects that a request or an answer names."""
    if struct is None:
        return {}
    found: dict[str, str] = {}
    for name in _naming(type(struct)):
        value = getattr(struct, name)
        if value is not None and isinstance(value, str | int) and value != "":
            found[name] = printable(str(value)[:MOST_TEXT])
    for name in _holding(type(struct)):
        found |= names(getattr(struct, name))
    return found


@functools.cache
def _naming(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """Those of _NAMES that a struct has."""
    return tuple(name for name in _NAMES if name in kind.__struct_fields__)


@functools.cache
def _holding(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """Those of _WITHIN that a struct has."""
    return tuple(name for name in _WITHIN if name in kind.__struct_fields__)


def fields(request: msgspec.Struct | None) -> list[str]:
    """The names of the fields that a request sets, and of the fields in them. Keys of maps are not named: clients choose them."""
    return [] if request is None else _fields(request)[:MOST_FIELDS]


def _fields(struct: msgspec.Struct, prefix: str = "", depth: int = 2) -> list[str]:
    found: list[str] = []
    shown, defaults = _declared(type(struct))
    for name, default, value in zip(shown, defaults, msgspec.structs.astuple(struct), strict=True):
        if value is default or value == default:
            continue
        found.append(prefix + name)
        if depth > 1 and isinstance(value, msgspec.Struct):
            found += _fields(value, f"{prefix}{name}.", depth - 1)
    return found


@functools.cache
def _declared(kind: type[msgspec.Struct]) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """The names in JSON and the defaults of all fields."""
    declared = msgspec.structs.fields(kind)
    defaults = (field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory() for field in declared)
    return tuple(field.encode_name for field in declared), tuple(defaults)
