"""Decides what the descriptions of schemas are. Pure.

A description is JSON that any cluster's driver can write (CatalogCodec.java says how Spark's classes become JSON), so it may be
anything. A change leaves what it does not know as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

import msgspec

from brickyard.domain.errors import InvalidParameterValue, InvalidState
from brickyard.features.catalog.model import Record, SchemaChanges

WAREHOUSE: Final = "dbfs:/user/hive/warehouse"  # where nodes make managed tables (runtime/node/spark/conf.py)
MAX_DESCRIPTION: Final = 256 * 1024  # bytes
MAX_NAME: Final = 230  # bytes of a schema's name, percent-encoded: its directory has a suffix
_CLASS = "org.apache.spark.sql.catalyst.catalog.CatalogDatabase"
_OURS = "brickyard."  # what properties of ours begin with
_OWNER = _OURS + "owner"  # an id of an identity or a group
_SPARKS = ("owner", "location", "comment")  # properties that Spark keeps for itself; to it, its own user owns every database
_NAME = re.compile(r"[^\x00-\x20./\x7f]+")

_Pair = tuple[str, msgspec.Raw]
_Fields = dict[str, msgspec.Raw]
_read_top = msgspec.json.Decoder(_Fields).decode
_read_pair = msgspec.json.Decoder(_Pair).decode
_read_text = msgspec.json.Decoder(str | None).decode
_read_properties = msgspec.json.Decoder(tuple[str, dict[str, str]]).decode
_read_location = msgspec.json.Decoder(tuple[str, str]).decode
_write = msgspec.json.encode


def schema_name(name: str) -> str:
    """The name of a new schema: Spark knows databases by names in lower case. Raises InvalidParameterValue."""
    if not _NAME.fullmatch(name) or len(quote(name.lower(), safe="")) > MAX_NAME:
        raise InvalidParameterValue(
            f"{name[:300]!r} is not a valid name of a schema. It has 1 to {MAX_NAME} bytes, percent-encoded, without dots, "
            "slashes, spaces and control characters."
        )
    return name.lower()


def new_description(name: str, *, usual: bool = False) -> bytes:
    """The description of a database as Spark makes it. `usual`: of the one that every workspace has."""
    fields: dict[str, object] = {
        "class": _CLASS,
        "name": name,
        "description": "default database" if usual else "",
        "locationUri": ("uri", WAREHOUSE if usual else f"{WAREHOUSE}/{quote(name)}.db"),
        "properties": ("map", {}),
    }
    return _write({"database": ("case", fields)})


def record_of(version: str, text: bytes, modified_ms: int) -> Record:
    """What a description says; nothing where it makes no sense."""
    try:
        _, fields = _parts(text)
        properties = _properties(fields)
        return Record(
            version,
            _read_text(fields.get("description", msgspec.Raw(b"null"))) or "",
            {key: value for key, value in properties.items() if key not in _SPARKS and not key.startswith(_OURS)},
            properties.get(_OWNER, ""),
            _read_location(fields["locationUri"])[1],
            modified_ms,
        )
    except (msgspec.MsgspecError, RecursionError, KeyError, UnicodeDecodeError):
        return Record(version, modified_ms=modified_ms)


def changed(text: bytes, changes: SchemaChanges, *, owner_id: str | None) -> bytes:
    """The description with the changes. Raises InvalidParameterValue and InvalidState."""
    try:
        top, fields = _parts(text)
        properties = _properties(fields)
    except (msgspec.MsgspecError, RecursionError, KeyError, UnicodeDecodeError) as error:
        raise InvalidState("The schema's description in the metastore makes no sense. Drop the schema in Spark.") from error
    if changes.comment is not None:
        fields["description"] = msgspec.Raw(_write(changes.comment))
    if changes.properties is not None:
        check_properties(changes.properties)
        kept = {key: value for key, value in properties.items() if key in _SPARKS or key.startswith(_OURS)}
        properties = {**changes.properties, **kept}
    if changes.owner is not None and owner_id is not None:
        properties[_OWNER] = owner_id
    fields["properties"] = msgspec.Raw(_write(("map", properties)))
    written = _write(top | {"database": msgspec.Raw(_write(("case", fields)))})
    if len(written) > MAX_DESCRIPTION:
        raise InvalidParameterValue(f"comment and properties have more than {MAX_DESCRIPTION >> 10} KiB together. Shorten them.")
    return written


def check_properties(properties: Mapping[str, str]) -> None:
    """Raises InvalidParameterValue for a property that cannot be set."""
    for key in properties:
        if key in _SPARKS or key.startswith(_OURS):
            raise InvalidParameterValue(f"properties: {key[:100]} is reserved. Use the field of the schema, or another key.")
        if not key or "\0" in key:
            raise InvalidParameterValue("properties: a key is empty or contains NUL.")


def _parts(text: bytes) -> tuple[_Fields, _Fields]:
    """All of the description, and the fields of its database."""
    top = _read_top(text)
    kind, fields = _read_pair(top["database"])
    if kind != "case":
        raise KeyError(kind)
    return top, _read_top(fields)


def _properties(fields: _Fields) -> dict[str, str]:
    return dict(_read_properties(fields["properties"])[1])
