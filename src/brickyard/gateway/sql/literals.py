"""Parameters of the Statement Execution API as literals: Spark binds no other expressions by name. Pure."""

from __future__ import annotations

import base64
import binascii
import datetime
import decimal
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from brickyard.features.statements.model import Parameter, StatementFailed
from brickyard.gateway.sql.protocol import message

_DECIMAL = re.compile(r"(?:decimal|dec|numeric)(?:\s*\(\s*(\d{1,2})\s*(?:,\s*(\d{1,2})\s*)?\))?")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_TRUTH = {"true": True, "false": False}
_WIDTHS = {"byte": 7, "short": 15, "integer": 31, "long": 63}


def _whole(name: str) -> Callable[[str], dict[str, Any]]:
    def read(text: str) -> dict[str, Any]:
        value = int(text)
        if not -(1 << _WIDTHS[name]) <= value < 1 << _WIDTHS[name]:
            raise ValueError(text)
        return {name: value}

    return read


def _timestamp(text: str) -> dict[str, Any]:
    given = datetime.datetime.fromisoformat(text)
    return {"timestamp": _micros(given if given.tzinfo else given.replace(tzinfo=datetime.UTC))}


def _timestamp_ntz(text: str) -> dict[str, Any]:
    return {"timestamp_ntz": _micros(datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC))}


def _micros(at: datetime.datetime) -> int:
    return (at - _EPOCH) // datetime.timedelta(microseconds=1)


_READERS: Mapping[str, Callable[[str], dict[str, Any]]] = {
    "string": lambda text: {"string": text},
    "boolean": lambda text: {"boolean": _TRUTH[text.strip().lower()]},
    **{name: _whole("byte") for name in ("tinyint", "byte")},
    **{name: _whole("short") for name in ("smallint", "short")},
    **{name: _whole("integer") for name in ("int", "integer")},
    **{name: _whole("long") for name in ("bigint", "long")},
    **{name: lambda text: {"float": float(text)} for name in ("float", "real")},
    "double": lambda text: {"double": float(text)},
    "date": lambda text: {"date": (datetime.date.fromisoformat(text.strip()) - _EPOCH.date()).days},
    **dict.fromkeys(("timestamp", "timestamp_ltz"), _timestamp),
    "timestamp_ntz": _timestamp_ntz,
    "binary": lambda text: {"binary": base64.b64decode(text, validate=True)},
}


def literals(parameters: Iterable[Parameter]) -> dict[str, Any]:
    """Expressions by name. Raises StatementFailed for what cannot be bound."""
    return {each.name: message("Expression", literal=_literal(each)) for each in parameters}


def _literal(parameter: Parameter) -> Any:
    kind = (parameter.type or "STRING").strip().lower()
    if kind != "void" and kind not in _READERS and not _DECIMAL.fullmatch(kind):
        known = ", ".join(sorted(name.upper() for name in _READERS))
        raise StatementFailed(
            f"Parameter {parameter.name} has the type {kind[:100]!r}. Use one of: {known}, DECIMAL(p,s), VOID.", sql_state="42000"
        )
    if parameter.value is None or kind == "void":
        return message("Literal", null=message("DataType", null=message("NullType")))
    try:
        if match := _DECIMAL.fullmatch(kind):
            return message("Literal", decimal=_decimal(parameter.value, int(match[1] or 10), int(match[2] or 0)))
        return message("Literal", **_READERS[kind](parameter.value))
    except (ValueError, KeyError, ArithmeticError, binascii.Error, OverflowError) as error:
        raise StatementFailed(
            f"Parameter {parameter.name}: {parameter.value[:100]!r} is no value of the type {kind.upper()}.", sql_state="22018"
        ) from error


def _decimal(text: str, precision: int, scale: int) -> Any:
    value = decimal.Decimal(text).quantize(decimal.Decimal(1).scaleb(-scale), rounding=decimal.ROUND_HALF_UP)
    if len(value.as_tuple().digits) > precision:
        raise ValueError(text)
    return message("Decimal", value=format(value, "f"), precision=precision, scale=scale)
