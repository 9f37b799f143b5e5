"""Bound parameters of a statement as Spark Connect takes them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from brickyard.gateway.sql.protocol import message

_TYPE_NAME = re.compile(
    r"(string|boolean|tinyint|byte|smallint|short|int|integer|bigint|long|float|real|double|date|timestamp|timestamp_ntz|timestamp_ltz"
    r"|binary|void|decimal(\(\s*\d{1,2}\s*(,\s*\d{1,2}\s*)?\))?|(dec|numeric)(\(\s*\d{1,2}\s*(,\s*\d{1,2}\s*)?\))?|varchar\(\d{1,9}\)"
    r"|char\(\d{1,9}\)|interval [a-z]{3,6}( to [a-z]{3,6})?)",
    re.IGNORECASE,
)


class BadParameter(Exception):
    """A parameter that cannot be bound; says which and why."""


class Bound(NamedTuple):
    """Expressions by name, or in their order; one of them is empty."""

    named: dict[str, Any]
    positional: list[Any]


def bound(given: Iterable[Any]) -> Bound:
    """The parameters (TSparkParameter) of a statement. Raises BadParameter."""
    found = Bound({}, [])
    for at, each in enumerate(given, start=1):
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
    """A literal, cast to the type that the client names: Spark reads its text as it reads it in SQL."""
    if kind is not None and not _TYPE_NAME.fullmatch(kind.strip()):
        raise BadParameter(f"Parameter {which} has the type {kind[:100]!r}, which is none that can be bound.")
    text = _text(value)
    if text is None or (kind or "").strip().lower() == "void":
        literal = message("Literal", null=message("DataType", null=message("NullType")))
    else:
        literal = message("Literal", string=text)
    expression = message("Expression", literal=literal)
    if kind is None or kind.strip().lower() in ("string", "void"):
        return expression
    return message("Expression", cast=message("Cast", expr=expression, type_str=kind.strip()))


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
