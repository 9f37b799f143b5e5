"""Values of an Arrow stream as Python has them. Pure.

nanoarrow reads no maps, and negative decimals wrongly. A map lies in memory as a list of structs with a key and a value [Apache
Arrow, "Map Layout"], a decimal as a whole number of 16 bytes. So they are read as lists and as bytes: the schema is changed, the
data is not copied. A FLOAT is the double that has its text, as Hive and Java have it: 0.1, not 0.10000000149011612.
"""

from __future__ import annotations

import datetime
import decimal
import struct
from typing import Any

import nanoarrow
from nanoarrow.c_array import CArray
from nanoarrow.c_array_stream import CArrayStream
from nanoarrow.ipc import InputStream

_MAP, _LIST, _STRUCT, _FLOAT, _DECIMAL = "+m", "+l", "+s", "f", "d:"
_BYTES = "w:16"
_DIGITS = decimal.Context(prec=76)  # more than decimals have
_SINGLE = struct.Struct("f")
_LARGEST = 3.4028234663852886e38  # FLOAT; larger ones cannot be packed
_ENOUGH, _ALL = 6, 9  # digits that a FLOAT has at least, and at most


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
            [_converted(value, child) for value in column] if _differs(child) else column
            for column, child in zip(columns, schema.children, strict=True)
        ]


def _readable(schema: Any) -> Any:
    """The schema with lists in place of maps, and bytes in place of decimals."""
    if schema.format.startswith(_DECIMAL):
        return schema.modify(format=_BYTES)
    if not _differs(schema):
        return schema
    children = [_readable(child) for child in schema.children]
    return schema.modify(format=_LIST if schema.format == _MAP else schema.format, children=children)


def _as(array: Any, schema: Any) -> Any:
    """The array with another schema of the same layout."""
    return CArray._import_from_c_capsule(schema.__arrow_c_schema__(), array.__arrow_c_array__()[1])


def _differs(schema: Any) -> bool:
    """Whether nanoarrow's values are not those that are wanted."""
    return schema.format in (_MAP, _FLOAT) or schema.format.startswith(_DECIMAL) or any(map(_differs, schema.children))


def _converted(value: Any, schema: Any) -> Any:  # noqa: PLR0911 - a line for each type
    """The value, as the schema says."""
    if value is None:
        return None
    if schema.format == _FLOAT:
        return _double(value)
    if schema.format.startswith(_DECIMAL):
        scale = int(schema.format.split(",")[1])
        return decimal.Decimal(int.from_bytes(value, "little", signed=True)).scaleb(-scale, _DIGITS)
    children = list(schema.children)
    if schema.format == _MAP:
        _, item = children[0].children
        return {_key(entry): _converted(entry[item.name], item) for entry in value}
    if schema.format == _LIST:
        return [_converted(each, children[0]) for each in value]
    if schema.format == _STRUCT:
        return {child.name: _converted(value[child.name], child) for child in children}
    return value


def _double(value: float) -> float:
    """The double whose text is the FLOAT's."""
    for digits in range(_ENOUGH, _ALL):
        short = float(f"{value:.{digits}g}")
        if abs(short) < _LARGEST and _SINGLE.unpack(_SINGLE.pack(short))[0] == value:
            return short
    return float(f"{value:.{_ALL}g}")


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
