"""Bound parameters of a statement as Spark Connect takes them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from brickyard.gateway.sql.typed import null, typed


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
    """A literal of the type that the client names."""
    text, name = _text(value), (kind or "string").strip().lower()
    if text is None or name == "void":
        return null()
    try:
        return typed(name, text)
    except KeyError as error:
        raise BadParameter(
            f"Parameter {which} has the type {name[:100]!r}, which cannot be bound. Bind text, and write CAST(? AS ...)."
        ) from error
    except (ValueError, ArithmeticError) as error:
        raise BadParameter(f"Parameter {which} is {text[:100]!r}, which is no {name.upper()}.") from error


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
