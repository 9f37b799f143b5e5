"""Attribute paths of policy rules: `autoscale.max_workers`, `spark_conf.spark.speculation`, `init_scripts.*.volumes.destination`.

A path is checked against the structs of the specification, so that a misspelt one is found when a policy is saved. Values are
found and set in the specification as plain JSON (`msgspec.to_builtins`).
"""

from __future__ import annotations

import types
import typing
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from brickyard.domain.spec import ClusterSpec

ANY = "*"  # every element of a list
Value = str | bool | int | float
Key = str | int


class ValueType(StrEnum):
    """What values an attribute takes. A tree has parts of its own, and can only be forbidden."""

    TEXT = "text"
    INTEGER = "a whole number"
    NUMBER = "a number"
    FLAG = "true or false"
    TREE = "tree"


class Attribute(NamedTuple):
    """An attribute that exists. `keys` lead to it: names of fields, keys of maps, positions in lists, or ANY."""

    path: str
    keys: tuple[Key, ...]
    type: ValueType
    choices: tuple[str, ...] = ()  # of an enum
    virtual: bool = False  # computed: no field of the specification
    repeated: bool = False  # ANY is among the keys


class UnknownAttribute(ValueError):
    """The path names nothing; the message says where it goes wrong."""


MAPS = ("spark_conf", "spark_env_vars", "custom_tags")
_LOG_KINDS = ("S3", "VOLUMES", "DBFS", "NONE")
VIRTUAL = {
    "cluster_type": Attribute("cluster_type", (), ValueType.TEXT, ("all-purpose", "job", "dlt"), virtual=True),
    "dbus_per_hour": Attribute("dbus_per_hour", (), ValueType.NUMBER, virtual=True),
    "cluster_log_conf.type": Attribute("cluster_log_conf.type", (), ValueType.TEXT, _LOG_KINDS, virtual=True),
    "cluster_log_conf.path": Attribute("cluster_log_conf.path", (), ValueType.TEXT, virtual=True),
    "cluster_log_conf.region": Attribute("cluster_log_conf.region", (), ValueType.TEXT, virtual=True),
}
_NOT_GOVERNED = ("apply_policy_default_values", "policy_id")  # they say how the policy itself is applied
_SCALARS: dict[Any, ValueType] = {
    str: ValueType.TEXT, int: ValueType.INTEGER, float: ValueType.NUMBER, bool: ValueType.FLAG,
}  # fmt: skip


def attribute(path: str) -> Attribute:
    """The attribute that a path names. Raises UnknownAttribute."""
    if path in VIRTUAL:
        return VIRTUAL[path]
    if path.partition(".")[0] in _NOT_GOVERNED:
        raise UnknownAttribute(f"{path} cannot be governed by a policy")
    keys: list[Key] = []
    place: Any = ClusterSpec
    rest = path.split(".")
    while rest:
        name = rest.pop(0)
        here = ".".join(str(key) for key in keys) or "a cluster"
        if isinstance(place, type) and issubclass(place, msgspec.Struct):
            fields = {field.encode_name: field.type for field in msgspec.structs.fields(place)}
            if name not in fields:
                raise UnknownAttribute(f"{here} has no attribute {name!r}; it has {', '.join(sorted(fields))}")
            place = _without_none(fields[name])
            keys.append(name)
        elif typing.get_origin(place) is dict:
            keys.append(".".join((name, *rest)))  # dots in the keys of a map are part of the key
            if not all((name, *rest)) or ANY in (name, *rest):
                raise UnknownAttribute(f"{path} must end with one key of {here}, and {'.'.join((name, *rest))!r} is none")
            place, rest = typing.get_args(place)[1], []
        elif typing.get_origin(place) is list:
            if name != ANY and not (name.isascii() and name.isdigit() and str(int(name)) == name):
                raise UnknownAttribute(f"{here} is a list: after it comes * or the number of an element, not {name!r}")
            keys.append(name if name == ANY else int(name))
            place = _without_none(typing.get_args(place)[0])
        else:
            raise UnknownAttribute(f"{here} has no parts")
    choices = tuple(place) if isinstance(place, type) and issubclass(place, StrEnum) else ()
    kind = ValueType.TEXT if choices else _SCALARS.get(place, ValueType.TREE)
    return Attribute(path, tuple(keys), kind, choices, repeated=ANY in keys)


def _without_none(annotation: Any) -> Any:
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        (annotation,) = (each for each in typing.get_args(annotation) if each is not type(None))
    return annotation


class Spot(NamedTuple):
    """One place of a specification that a rule is about. `value` is None if nothing is there."""

    keys: tuple[Key, ...]
    value: Any


def value_at(tree: Any, keys: tuple[Key, ...]) -> Any:
    """What is at concrete keys; None if nothing is there."""
    for key in keys:
        if tree is None:
            return None
        tree = tree.get(key) if type(tree) is dict else _element(tree, key)
    return tree


def _element(elements: list[Any], position: Key) -> Any:
    return elements[position] if isinstance(position, int) and position < len(elements) else None


def spots(tree: Any, keys: tuple[Key, ...], *, but: frozenset[int] = frozenset()) -> list[Spot]:
    """The places that the keys lead to: one, or with ANY one for each element of the list but those at the positions `but`."""
    if ANY not in keys:
        return [Spot(keys, value_at(tree, keys))]
    depth = keys.index(ANY)
    before, after = keys[:depth], keys[depth + 1 :]
    elements = value_at(tree, before) or ()
    return [
        Spot((*before, position, *spot.keys), spot.value)
        for position, element in enumerate(elements)
        if position not in but
        for spot in spots(element, after)
    ]


def put(tree: dict[str, Any], keys: tuple[Key, ...], value: Any) -> None:
    """Sets the value at concrete keys; makes what leads there. An element of a list may be the next one, not a later one. None
    removes the value, and what becomes empty by that."""
    if value is None:
        _remove(tree, keys)
        return
    place: Any = tree
    for depth, key in enumerate(keys[:-1], 1):
        inner = place.get(key) if type(place) is dict else _element(place, key)
        if inner is None:
            inner = [] if isinstance(keys[depth], int) else {}
            _assign(place, key, inner)
        place = inner
    _assign(place, keys[-1], value)


def _assign(place: Any, key: Key, value: Any) -> None:
    if isinstance(key, int) and key == len(place):
        place.append(value)
    else:
        place[key] = value


def _remove(tree: Any, keys: tuple[Key, ...]) -> None:
    key, rest = keys[0], keys[1:]
    inner = value_at(tree, (key,))
    if inner is None:
        return
    if rest:
        _remove(inner, rest)
        if inner:
            return
    del tree[key]
