"""What the log and the audit log say of a request: the objects that it names and the fields that it sets. Never their values."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import msgspec

from brickyard.domain.printable import printable

# Fields that name an object, in requests and answers. Other fields may hold secrets: conf, commands, tokens.
_NAMES = (
    "cluster_id", "context_id", "command_id", "instance_pool_id", "run_id", "policy_id", "script_id", "token_id", "instance_id",
    "path", "source_path", "destination_path", "file_path", "directory_path", "handle", "id", "object_type", "object_id", "scope",
    "key", "principal", "user_name", "name", "application_id", "client_id",
    "group_name", "parent_name",
)  # fmt: skip
MOST_TEXT = 300  # characters of a client-chosen name
MOST_FIELDS = 60


def names(struct: msgspec.Struct | None) -> dict[str, str]:
    """The objects that a request or an answer names."""
    if struct is None:
        return {}
    found = ((name, getattr(struct, name)) for name in _naming(type(struct)))
    return {name: printable(str(value)[:MOST_TEXT]) for name, value in found if isinstance(value, str | int) and value != ""}


@functools.cache
def _naming(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """Those of _NAMES that a struct has."""
    return tuple(name for name in _NAMES if name in kind.__struct_fields__)


def fields(request: msgspec.Struct | None) -> list[str]:
    """The names of the fields that a request sets, and of the fields in them. Keys of maps are not named: clients choose them."""
    return [] if request is None else list(_fields(request))[:MOST_FIELDS]


def _fields(struct: msgspec.Struct, prefix: str = "", depth: int = 2) -> Iterator[str]:
    for name, shown, default in _declared(type(struct)):
        value = getattr(struct, name)
        if value is default or value == default:
            continue
        yield prefix + shown
        if depth > 1 and isinstance(value, msgspec.Struct):
            yield from _fields(value, f"{prefix}{shown}.", depth - 1)


@functools.cache
def _declared(kind: type[msgspec.Struct]) -> tuple[tuple[str, str, Any], ...]:
    """Name, name in JSON and default of each field."""
    return tuple(
        (field.name, field.encode_name, field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory())
        for field in msgspec.structs.fields(kind)
    )
