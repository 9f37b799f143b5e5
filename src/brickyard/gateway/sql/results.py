"""Results as the Statement Execution API describes and writes them: columns by Spark's names of types, values as text. Pure."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
from typing import Any

import nanoarrow
from nanoarrow.ipc import InputStream

from brickyard.features.statements.model import ColumnInfo
from brickyard.gateway.sql.values import Far, interval_text, months_text, values_of

_SIMPLE = {  # by the format of Arrow's C data interface: the type in SQL, and its name
    "n": ("VOID", "NULL"),
    "b": ("BOOLEAN", "BOOLEAN"),
    "c": ("TINYINT", "BYTE"),
    "s": ("SMALLINT", "SHORT"),
    "i": ("INT", "INT"),
    "l": ("BIGINT", "LONG"),
    "f": ("FLOAT", "FLOAT"),
    "g": ("DOUBLE", "DOUBLE"),
    "u": ("STRING", "STRING"),
    "U": ("STRING", "STRING"),
    "z": ("BINARY", "BINARY"),
    "Z": ("BINARY", "BINARY"),
    "tdD": ("DATE", "DATE"),
    "tiM": ("INTERVAL YEAR TO MONTH", "INTERVAL"),
    "tDu": ("INTERVAL DAY TO SECOND", "INTERVAL"),
}
_COMPLEX = {"+l": "ARRAY", "+m": "MAP", "+s": "STRUCT"}


def columns_in(stream: bytes) -> list[ColumnInfo]:
    """The columns of an Arrow stream."""
    with nanoarrow.ArrayStream(InputStream.from_readable(stream)) as found:
        schema = nanoarrow.c_array_stream(found).get_schema()
        return [_column(at, child) for at, child in enumerate(schema.children)]


def rows_in(stream: bytes) -> list[list[str | None]]:
    """The rows of an Arrow stream, each value as text."""
    with nanoarrow.ArrayStream(InputStream.from_readable(stream)) as found:
        formats = [child.format for child in nanoarrow.c_array_stream(found).get_schema().children]
    columns = [
        [None if value is None else months_text(value) if kind == "tiM" else text_of(value) for value in column]
        for kind, column in zip(formats, values_of(stream), strict=True)
    ]
    return [list(row) for row in zip(*columns, strict=True)]


def _column(position: int, schema: Any) -> ColumnInfo:
    kind = schema.format
    precision = scale = interval = None
    if kind.startswith("d:"):
        precision, scale = (int(each) for each in kind[2:].split(",")[:2])
        name = "DECIMAL"
    elif kind.startswith("ts"):
        name = "TIMESTAMP"
    else:
        name = _COMPLEX.get(kind) or _SIMPLE.get(kind, ("STRING", "STRING"))[1]
    if name == "INTERVAL":
        interval = _type(schema).removeprefix("INTERVAL ")
    return ColumnInfo(
        name=schema.name or "",
        position=position,
        type_name=name,
        type_text=_type(schema),
        type_precision=precision,
        type_scale=scale,
        type_interval_type=interval,
    )


def _type(schema: Any) -> str:
    """The type in SQL."""
    kind, children = schema.format, list(schema.children)
    if kind.startswith("d:"):
        return f"DECIMAL({','.join(kind[2:].split(',')[:2])})"
    if kind.startswith("ts"):
        return "TIMESTAMP" if kind.partition(":")[2] else "TIMESTAMP_NTZ"
    if kind == "+l":
        return f"ARRAY<{_type(children[0])}>"
    if kind == "+m":
        key, item = children[0].children
        return f"MAP<{_type(key)}, {_type(item)}>"
    if kind == "+s":
        return f"STRUCT<{', '.join(f'{child.name}: {_type(child)}' for child in children)}>"
    return _SIMPLE.get(kind, ("STRING", "STRING"))[0]


def text_of(value: Any) -> str:
    """A value as text: times by ISO 8601, binary in base64, what is nested as JSON."""
    if isinstance(value, dict | list):
        return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))
    plain = _plain(value)
    if isinstance(plain, bool):
        return "true" if plain else "false"
    return _number(plain) if isinstance(plain, float) else str(plain)


def _plain(value: Any) -> Any:  # noqa: PLR0911 - a line for each type
    """A value as JSON has it."""
    if isinstance(value, dict):
        return {text_of(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, Far):
        return value.dated(_plain(value.value))
    if isinstance(value, datetime.datetime):
        zone = value.astimezone(datetime.UTC).replace(tzinfo=None) if value.tzinfo is not None else value
        return f"{zone.isoformat(timespec='milliseconds')}{'Z' if value.tzinfo is not None else ''}"
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return interval_text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, float) and not math.isfinite(value):
        return _number(value)
    return value


def _number(value: float) -> str:
    """As Java writes it: JSON has no such numbers."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = format(decimal.Decimal(repr(value)), "f")
        return text if "." in text else f"{text}.0"
    digits, _, exponent = format(decimal.Decimal(repr(value)).normalize(), "E").partition("E")
    return f"{digits if '.' in digits else f'{digits}.0'}E{int(exponent)}"
