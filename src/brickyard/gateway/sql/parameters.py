"""Bound parameters of a statement as Spark Connect takes them. Pure."""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from brickyard.gateway.sql.protocol import message

# How a type is called in SQL -> the field of Spark Connect's literals. Decimals, dates and times are below.
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
_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_DECIMAL = re.compile(r"(?:decimal|dec|numeric)(?:\(\s*(\d{1,2})\s*(?:,\s*(\d{1,2})\s*)?\))?")
_TEXT_TYPE = re.compile(r"(?:var)?char\(\d{1,9}\)")
_MAX_DIGITS = 38  # of Spark's decimals
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class BadParameter(Exception):
    """A parameter that cannot be bound; says which and why."""


class Bound(NamedTuple):
    """Expressions by name, or in their order; one of them is empty."""

    named: dict[str, Any]
    positional: list[Any]


def bound(given: Iterable[Any]) -> Bound:
    """The parameters (TSparkParameter) of a statement. Raises BadParameter."""
    found = Bound({}, [])
    for at, each in enumerate(sorted(given, key=lambda each: each.ordinal or 0), start=1):
        which = each.name or f"number {at}"
        if each.arguments:
            raise BadParameter(
                f"Parameter {which} is an array, a map or a struct. Bind its parts, or pass JSON and use from_json."
            )
        expression = _expression(which, each.type, each.value)
        if each.name:
            found.named[each.name] = expression
        else:
            found.positional.append(expression)
    if found.named and found.positional:
        raise BadParameter("A statement takes parameters by name or by position, not both.")
    return found


def _expression(which: str, kind: str | None, value: Any) -> Any:
    """A literal of the type that the client names: Spark takes no others as arguments, casts neither."""
    text, name = _text(value), (kind or "string").strip().lower()
    if text is None or name == "void":
        return _literal(null=message("DataType", null=message("NullType")))
    try:
        return _typed(name, text)
    except KeyError as error:
        raise BadParameter(
            f"Parameter {which} has the type {name[:100]!r}, which cannot be bound. Bind text, and write CAST(? AS ...)."
        ) from error
    except (ValueError, ArithmeticError) as error:
        raise BadParameter(f"Parameter {which} is {text[:100]!r}, which is no {name.upper()}.") from error


def _typed(name: str, text: str) -> Any:
    """Raises KeyError for a type that is not known, ValueError and ArithmeticError for text that does not fit it."""
    if match := _DECIMAL.fullmatch(name):
        return _decimal(text, match[1], match[2])
    if name == "date":
        return _literal(date=(datetime.date.fromisoformat(text.strip()) - _EPOCH.date()).days)
    if name in ("timestamp", "timestamp_ltz", "timestamp_ntz"):
        return _timestamp(text, zoned=name != "timestamp_ntz")
    field = "string" if _TEXT_TYPE.fullmatch(name) else _FIELDS[name]
    return _literal(**{field: _plain(field, text)})


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
    """Without a precision, it has the digits of the text."""
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
    return _literal(decimal=value)


def _timestamp(text: str, *, zoned: bool) -> Any:
    """A time without a zone is bound as TIMESTAMP_NTZ: Spark reads it in the session's zone where it needs a TIMESTAMP."""
    moment = datetime.datetime.fromisoformat(text.strip())
    if not (zoned and moment.tzinfo):
        moment, zoned = moment.replace(tzinfo=datetime.UTC), False
    micros = (moment - _EPOCH) // datetime.timedelta(microseconds=1)
    return _literal(timestamp=micros) if zoned else _literal(timestamp_ntz=micros)


def _literal(**value: Any) -> Any:
    return message("Expression", literal=message("Literal", **value))


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if value.stringValue is not None:
        return str(value.stringValue)
    if value.doubleValue is not None:
        return repr(value.doubleValue)
    if value.booleanValue is not None:
        return "true" if value.booleanValue else "false"
    return None
