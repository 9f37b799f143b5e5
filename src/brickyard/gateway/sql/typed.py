"""Values as literals of Spark Connect, by the names of types in SQL: Spark takes nothing else as an argument. Pure."""

from __future__ import annotations

import datetime
import decimal
import re
from typing import Any

from brickyard.gateway.sql.protocol import message

# How a type is called in SQL -> the field of Spark Connect's literals.
_FIELDS = {
    "string": "string",
    "boolean": "boolean",
    "tinyint": "byte",
    "byte": "byte",
    "smallint": "short",
    "short": "short",
    "int": "integer",
    "integer": "integer",
    "bigint": "long",
    "long": "long",
    "float": "float",
    "real": "float",
    "double": "double",
    "binary": "binary",
}
TIMESTAMPS = ("timestamp", "timestamp_ltz", "timestamp_ntz")
KINDS = frozenset({*_FIELDS, "date", *TIMESTAMPS})  # besides those with sizes
_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_DECIMAL = re.compile(r"(?:decimal|dec|numeric)(?:\(\s*(\d{1,2})\s*(?:,\s*(\d{1,2})\s*)?\))?")
_TEXT_TYPE = re.compile(r"(?:var)?char\(\d{1,9}\)")
_MAX_DIGITS = 38  # of Spark's decimals
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def null() -> Any:
    """The expression NULL."""
    return literal(null=message("DataType", null=message("NullType")))


def typed(name: str, text: str) -> Any:
    """The expression for a value of that type, in lower case, written as text. A DECIMAL without a precision has the digits of
    the text; a time without a zone is a TIMESTAMP_NTZ, which Spark reads in the session's zone where it needs a TIMESTAMP. Raises
    KeyError for a type that is not known, ValueError and ArithmeticError for text that does not fit it."""
    if match := _DECIMAL.fullmatch(name):
        return _decimal(text, match[1], match[2])
    if name == "date":
        return literal(date=(datetime.date.fromisoformat(text.strip()) - _EPOCH.date()).days)
    if name in TIMESTAMPS:
        return _timestamp(text, zoned=name != "timestamp_ntz")
    field = "string" if _TEXT_TYPE.fullmatch(name) else _FIELDS[name]
    return literal(**{field: _plain(field, text)})


def literal(**value: Any) -> Any:
    """The expression for the value of one field of Spark Connect's literals."""
    return message("Expression", literal=message("Literal", **value))


def _plain(field: str, text: str) -> Any:
    """The value of a literal's field."""
    if bits := _BITS.get(field):
        number = int(text)
        if not -(1 << bits - 1) <= number < 1 << bits - 1:
            raise ValueError(text)
        return number
    if field == "boolean":
        if text.lower() not in ("true", "false", "1", "0"):
            raise ValueError(text)
        return text.lower() in ("true", "1")
    if field in ("float", "double"):
        return float(text)
    return text.encode() if field == "binary" else text


def _decimal(text: str, precision: str | None, scale: str | None) -> Any:
    number = decimal.Decimal(text.strip())
    if not number.is_finite():
        raise ValueError(text)
    fraction = int(scale or 0) if precision else max(0, -int(number.as_tuple().exponent))
    with decimal.localcontext(prec=2 * _MAX_DIGITS):
        rounded = number.quantize(decimal.Decimal(1).scaleb(-fraction), decimal.ROUND_HALF_UP)
    digits = max(len(rounded.as_tuple().digits), fraction)
    if digits > (int(precision) if precision else _MAX_DIGITS):
        raise ValueError(text)
    value = message("Decimal", value=format(rounded, "f"), precision=int(precision or digits), scale=fraction)
    return literal(decimal=value)


def _timestamp(text: str, *, zoned: bool) -> Any:
    moment = datetime.datetime.fromisoformat(text.strip())
    if not (zoned and moment.tzinfo):
        moment, zoned = moment.replace(tzinfo=datetime.UTC), False
    micros = (moment - _EPOCH) // datetime.timedelta(microseconds=1)
    return literal(timestamp=micros) if zoned else literal(timestamp_ntz=micros)
