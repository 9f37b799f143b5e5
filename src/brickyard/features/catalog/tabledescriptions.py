"""Reads descriptions of tables and views. Pure.

Any cluster's driver can write them, and each version of Spark in its own way (CatalogCodec.java), so what makes no sense is left
out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec

MAX_DEPTH: Final = 50  # of a column's type
_HIDDEN = ("brickyard.", "view.", "spark.sql.")  # what properties of ours and of Spark's own begin with
_MANAGED = "brickyard.managed"  # CatalogPaper.java: Spark takes the table for external
_CHAR = "__CHAR_VARCHAR_TYPE_STRING"  # Spark keeps the type of such a column beside it
_NAMES = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint"}  # of Spark's JSON, in SQL
_KINDS = {"integer": "INT", "void": "NULL", "varchar": "STRING"}  # of Spark's JSON, in the API
_ERRORS = (msgspec.MsgspecError, RecursionError, KeyError, IndexError, ValueError)

_Raw = msgspec.Raw


class Column(NamedTuple):
    """A column, as Unity Catalog's API has it. `partition`: its place among the columns of partitions; None if it is none."""

    name: str
    type_text: str
    type_name: str
    type_json: str
    nullable: bool
    comment: str
    partition: int | None


class TableDescription(NamedTuple):
    """What is known of a table or view. `kind`: MANAGED, EXTERNAL, VIEW, or "" if the description makes no sense. Times in epoch
    milliseconds, 0 for unknown."""

    kind: str = ""
    format: str = ""
    comment: str = ""
    location: str = ""
    view: str = ""
    columns: Sequence[Column] = ()
    properties: dict[str, str] = {}
    created_ms: int = 0


class _Storage(msgspec.Struct):
    location: _Raw = msgspec.field(default=_Raw(), name="locationUri")


class _Table(msgspec.Struct, rename="camel"):
    table_type: tuple[str, dict[str, str]]
    schema: tuple[str, str]
    storage: tuple[str, _Storage] = ("", _Storage())
    provider: _Raw = _Raw()
    partition_column_names: tuple[str, list[str]] = ("", [])
    create_time: tuple[str, str] = ("", "0")
    properties: tuple[str, dict[str, str]] = ("", {})
    view_text: _Raw = _Raw()
    comment: _Raw = _Raw()


class _Top(msgspec.Struct):
    table: tuple[str, _Table]


class _Field(msgspec.Struct):
    name: str
    type: _Raw
    nullable: bool = True
    metadata: dict[str, _Raw] = {}


class _Type(msgspec.Struct, rename="camel"):
    """A type that Spark writes as an object."""

    type: str
    element_type: _Raw = _Raw()
    key_type: _Raw = _Raw()
    value_type: _Raw = _Raw()
    fields: list[_Raw] = []


_read_top = msgspec.json.Decoder(_Top).decode
_read_type: Callable[[_Raw], str | _Type] = msgspec.json.Decoder(str | _Type).decode
_read_struct = msgspec.json.Decoder(_Type).decode
_read_field = msgspec.json.Decoder(_Field).decode
_read_option = msgspec.json.Decoder(tuple[str, _Raw]).decode
_read_uri = msgspec.json.Decoder(tuple[str, str]).decode
_read_text = msgspec.json.Decoder(str).decode


def described(text: bytes) -> TableDescription:
    """What a description says."""
    try:
        table = _read_top(text).table[1]
        properties, kind = table.properties[1], table.table_type[1]["name"]
        is_view = kind == "VIEW"
        return TableDescription(
            "MANAGED" if kind == "EXTERNAL" and _MANAGED in properties else kind,
            "" if is_view else _some(table.provider).upper(),
            _some(table.comment),
            "" if is_view else _some(table.storage[1].location),
            _some(table.view_text) if is_view else "",
            _columns(table.schema[1], table.partition_column_names[1]),
            {key: value for key, value in properties.items() if not key.startswith(_HIDDEN)},
            max(0, int(table.create_time[1])),
        )
    except _ERRORS:
        return TableDescription()


def _columns(schema: str, partitions: Sequence[str]) -> list[Column]:
    found = []
    for raw in _read_struct(schema).fields:
        field = _read_field(raw)
        text = _text(field.metadata, _CHAR) or _type_text(field.type)
        found.append(
            Column(
                field.name,
                text,
                _type_name(field.type, text),
                bytes(raw).decode(),
                field.nullable,
                _text(field.metadata, "comment"),
                partitions.index(field.name) if field.name in partitions else None,
            )
        )
    return found


def _type_text(raw: _Raw, depth: int = 0) -> str:
    """A type as SQL writes it. Raises KeyError for one that is nested too deeply, and MsgspecError."""
    if depth > MAX_DEPTH:
        raise KeyError(depth)
    kind = _read_type(raw)
    if isinstance(kind, str):
        return _NAMES.get(kind, kind)
    if kind.type == "array":
        return f"array<{_type_text(kind.element_type, depth + 1)}>"
    if kind.type == "map":
        return f"map<{_type_text(kind.key_type, depth + 1)},{_type_text(kind.value_type, depth + 1)}>"
    if kind.type == "struct":
        fields = (_read_field(each) for each in kind.fields)
        return f"struct<{','.join(f'{each.name}:{_type_text(each.type, depth + 1)}' for each in fields)}>"
    return kind.type


def _type_name(raw: _Raw, text: str) -> str:
    kind = _read_type(raw)
    if not isinstance(kind, str):
        return "USER_DEFINED_TYPE" if kind.type == "udt" else kind.type.upper()
    plain = kind.partition("(")[0].partition(" ")[0]
    return "CHAR" if text.startswith("char(") else _KINDS.get(plain, plain.upper())


def _some(raw: _Raw) -> str:
    """The text, or the URI, of one of Scala's options; "" for none."""
    with contextlib.suppress(*_ERRORS):
        kind, value = _read_option(raw)
        if kind == "some":
            return _read_uri(value)[1] if bytes(value).startswith(b"[") else _read_text(value)
    return ""


def _text(values: dict[str, _Raw], key: str) -> str:
    with contextlib.suppress(*_ERRORS):
        return _read_text(values[key])
    return ""
