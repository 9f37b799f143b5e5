"""Columns of results as the SQL protocol describes them, and sets of columns for clients that do not read Arrow. Pure."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import nanoarrow
from databricks.sql.thrift_api.TCLIService import ttypes
from nanoarrow.ipc import InputStream

from brickyard.gateway.sql.values import Far, interval_text, months_text

_TYPE = ttypes.TTypeId
# By Arrow's names of types. What is not there is text.
_TYPES = {
    "bool": _TYPE.BOOLEAN_TYPE,
    "int8": _TYPE.TINYINT_TYPE,
    "int16": _TYPE.SMALLINT_TYPE,
    "int32": _TYPE.INT_TYPE,
    "int64": _TYPE.BIGINT_TYPE,
    "float": _TYPE.FLOAT_TYPE,
    "double": _TYPE.DOUBLE_TYPE,
    "timestamp": _TYPE.TIMESTAMP_TYPE,
    "date32": _TYPE.DATE_TYPE,
    "binary": _TYPE.BINARY_TYPE,
    "large_binary": _TYPE.BINARY_TYPE,
    "decimal128": _TYPE.DECIMAL_TYPE,
    "list": _TYPE.ARRAY_TYPE,
    "map": _TYPE.MAP_TYPE,
    "struct": _TYPE.STRUCT_TYPE,
    "na": _TYPE.NULL_TYPE,
    "interval_months": _TYPE.INTERVAL_YEAR_MONTH_TYPE,
    "duration": _TYPE.INTERVAL_DAY_TIME_TYPE,
}
_SETS: dict[int, tuple[str, type, Any]] = {
    _TYPE.BOOLEAN_TYPE: ("boolVal", ttypes.TBoolColumn, False),
    _TYPE.TINYINT_TYPE: ("byteVal", ttypes.TByteColumn, 0),
    _TYPE.SMALLINT_TYPE: ("i16Val", ttypes.TI16Column, 0),
    _TYPE.INT_TYPE: ("i32Val", ttypes.TI32Column, 0),
    _TYPE.BIGINT_TYPE: ("i64Val", ttypes.TI64Column, 0),
    _TYPE.FLOAT_TYPE: ("doubleVal", ttypes.TDoubleColumn, 0.0),
    _TYPE.DOUBLE_TYPE: ("doubleVal", ttypes.TDoubleColumn, 0.0),
    _TYPE.BINARY_TYPE: ("binaryVal", ttypes.TBinaryColumn, b""),
}
_TEXT = ("stringVal", ttypes.TStringColumn, "")


class Column(NamedTuple):
    """A column of a result: its name, its type (TTypeId) and, of a decimal, precision and scale."""

    name: str
    type: int
    precision: int = 0
    scale: int = 0

    def described(self, position: int) -> Any:
        """Its TColumnDesc. Positions count from 1."""
        qualifiers = None
        if self.type == _TYPE.DECIMAL_TYPE:
            value = ttypes.TTypeQualifierValue
            qualifiers = ttypes.TTypeQualifiers(
                {"precision": value(i32Value=self.precision), "scale": value(i32Value=self.scale)}
            )
        entry = ttypes.TTypeEntry(primitiveEntry=ttypes.TPrimitiveTypeEntry(self.type, qualifiers))
        return ttypes.TColumnDesc(columnName=self.name, typeDesc=ttypes.TTypeDesc([entry]), position=position)


def table_schema(columns: Sequence[Column]) -> Any:
    """Their TTableSchema."""
    return ttypes.TTableSchema([column.described(at) for at, column in enumerate(columns, start=1)])


def columns_of(stream: bytes) -> list[Column]:
    """The columns of an Arrow stream."""
    with nanoarrow.ArrayStream(InputStream.from_readable(stream)) as found:
        return [_column(field) for field in found.schema.fields]


def _column(field: Any) -> Column:
    name = field.type.name.lower()
    kind = _TYPES.get(name, _TYPE.STRING_TYPE)
    if kind == _TYPE.DECIMAL_TYPE:
        return Column(field.name, kind, field.precision, field.scale)
    return Column(field.name, kind)


def row_set(columns: Sequence[Column], values: Sequence[list[Any]], *, start: int = 0) -> Any:
    """A TRowSet of columns, whose first row is that number."""
    made = [_set_of(column, value) for column, value in zip(columns, values, strict=True)]
    return ttypes.TRowSet(startRowOffset=start, rows=[], columns=made, columnCount=len(made))


def _set_of(column: Column, values: list[Any]) -> Any:
    name, kind, empty = _SETS.get(column.type, _TEXT)
    convert: Callable[[Any], Any] = _text if name == "stringVal" else lambda value: value
    if column.type == _TYPE.INTERVAL_YEAR_MONTH_TYPE:
        convert = months_text
    nulls = bytearray((len(values) + 7) // 8)
    for at, value in enumerate(values):
        if value is None:
            nulls[at // 8] |= 1 << at % 8
    given = [empty if value is None else convert(value) for value in values]
    return ttypes.TColumn(**{name: kind(values=given, nulls=bytes(nulls))})


def _text(value: Any) -> str:  # noqa: PLR0911 - a line for each type
    """A value as Spark's own server writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime.datetime):
        text = value.replace(tzinfo=None).isoformat(" ")
        return text.rstrip("0") if value.microsecond else text
    if isinstance(value, Far):
        return value.dated(_text(value.value))
    if isinstance(value, datetime.timedelta):
        return interval_text(value)
    if isinstance(value, dict | list):
        return json.dumps(_with_text_keys(value), default=_text, ensure_ascii=False, separators=(",", ":"))
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return format(value, "f") if isinstance(value, decimal.Decimal) else str(value)


def _with_text_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {_text(key): _with_text_keys(each) for key, each in value.items()}
    return [_with_text_keys(each) for each in value] if isinstance(value, list) else value
