"""Parameters of the Statement Execution API as literals. Pure."""

from __future__ import annotations

import base64
import datetime
import re
from collections.abc import Iterable
from typing import Any

from brickyard.features.statements.model import Parameter, StatementFailed
from brickyard.gateway.sql.typed import KINDS, TIMESTAMPS, literal, null, typed

_DECIMAL = re.compile(r"(?:decimal|dec|numeric)(?:\s*\(\s*(\d{1,2})\s*(?:,\s*(\d{1,2})\s*)?\))?")


def literals(parameters: Iterable[Parameter]) -> dict[str, Any]:
    """Expressions by name. Raises StatementFailed for what cannot be bound."""
    return {each.name: _argument(each) for each in parameters}


def _argument(parameter: Parameter) -> Any:
    kind = (parameter.type or "STRING").strip().lower()
    if kind != "void" and kind not in KINDS and not _DECIMAL.fullmatch(kind):
        known = ", ".join(sorted(name.upper() for name in KINDS))
        raise StatementFailed(
            f"Parameter {parameter.name} has the type {kind[:100]!r}. Use one of: {known}, DECIMAL(p,s), VOID.", sql_state="42000"
        )
    if parameter.value is None or kind == "void":
        return null()
    try:
        return _value(kind, parameter.value)
    except (ValueError, KeyError, ArithmeticError) as error:
        raise StatementFailed(
            f"Parameter {parameter.name}: {parameter.value[:100]!r} is no value of the type {kind.upper()}.", sql_state="22018"
        ) from error


def _value(kind: str, text: str) -> Any:
    """As this API writes values: binary in base64, times without a zone in UTC, no numbers for truth; a DECIMAL has 10 digits."""
    if kind == "binary":
        return literal(binary=base64.b64decode(text, validate=True))
    if kind == "boolean":
        return literal(boolean={"true": True, "false": False}[text.strip().lower()])
    if kind in TIMESTAMPS:
        given = datetime.datetime.fromisoformat(text)
        text = (given if given.tzinfo else given.replace(tzinfo=datetime.UTC)).isoformat()
    elif match := _DECIMAL.fullmatch(kind):
        kind = f"decimal({match[1] or 10},{match[2] or 0})"
    return typed(kind, text)
