"""Values of an Arrow stream as Python has them, maps included, which nanoarrow does not read. Pure.

A map lies in memory as a list of structs with a key and a value [Apache Arrow, "Map Layout"]. So it is read as one: the schema is
changed, the data is not copied.
"""

from __future__ import annotations

import datetime
from typing import Any

import nanoarrow
from nanoarrow.c_array import CArray
from nanoarrow.c_array_stream import CArrayStream
from nanoarrow.ipc import InputStream

_MAP, _LIST, _STRUCT = "+m", "+l", "+s"


def values_of(stream: bytes) -> list[list[Any]]:
    """The values, a list for each column. A map is a dict."""
    with nanoarrow.ArrayStream(InputStream.from_readable(stream)) as found:
        raw = nanoarrow.c_array_stream(found)
        schema = raw.get_schema()
        readable = _readable(schema)
        arrays = [_as(array, readable) for array in raw]
        table = nanoarrow.Array(CArrayStream.from_c_arrays(arrays, readable))
        columns = [list(table.child(at).to_pylist()) for at in range(table.n_children)]
        return [
            [_converted(value, child) for value in column] if _has_map(child) else column
            for column, child in zip(columns, schema.children, strict=True)
        ]


def _readable(schema: Any) -> Any:
    """The schema with lists in place of maps."""
    if not _has_map(schema):
        return schema
    children = [_readable(child) for child in schema.children]
    return schema.modify(format=_LIST if schema.format == _MAP else schema.format, children=children)


def _as(array: Any, schema: Any) -> Any:
    """The array with another schema of the same layout."""
    return CArray._import_from_c_capsule(schema.__arrow_c_schema__(), array.__arrow_c_array__()[1])


def _has_map(schema: Any) -> bool:
    return schema.format == _MAP or any(_has_map(child) for child in schema.children)


def _converted(value: Any, schema: Any) -> Any:
    """Dicts in place of lists of entries, as the schema says."""
    if value is None:
        return None
    children = list(schema.children)
    if schema.format == _MAP:
        _, item = children[0].children
        return {_key(entry): _converted(entry[item.name], item) for entry in value}
    if schema.format == _LIST:
        return [_converted(each, children[0]) for each in value]
    if schema.format == _STRUCT:
        return {child.name: _converted(value[child.name], child) for child in children}
    return value


def _key(entry: dict[str, Any]) -> Any:
    key = next(iter(entry.values()))
    return key if isinstance(key, str | int | float) else str(key)  # as JSON has keys


def months_text(months: int) -> str:
    """An INTERVAL YEAR TO MONTH as Spark writes it."""
    return f"{'-' if months < 0 else ''}{abs(months) // 12}-{abs(months) % 12}"


def interval_text(value: datetime.timedelta) -> str:
    """An INTERVAL DAY TO SECOND as Spark writes it."""
    sign, size = ("-", -value) if value < datetime.timedelta() else ("", value)
    hours, rest = divmod(size.seconds, 3600)
    return f"{sign}{size.days} {hours:02d}:{rest // 60:02d}:{rest % 60:02d}.{size.microseconds:06d}000"
