"""SQL commands: a text is split into statements that run in order; the last one's rows are the result."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from .sqlvalues import WidgetStatement, bind, widget_statement
from .widgets import Widgets

_TOKEN = re.compile(
    r"""
    (?P<comment> --[^\n]* | /\*.*?(?:\*/|\Z) )
  | (?P<quoted> '(?:[^'\\]|\\.)*(?:'|\Z) | "(?:[^"\\]|\\.)*(?:"|\Z) | `(?:[^`]|``)*(?:`|\Z) )
  | (?P<end> ; )
  | (?P<other> [^-/'"`;]+ | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_SCRIPT = re.compile(r"\s*(?:\w+\s*:\s*)?BEGIN\b(?!\s+TRANSACTION)", re.IGNORECASE)


def split(text: str) -> list[str]:
    """Returns the statements of a text, without empty ones and without the comments between statements.

    Semicolons inside quotes and comments do not separate statements. A text that begins with BEGIN is one SQL script.
    """
    statements: list[str] = []
    current: list[str] = []
    code: list[str] = []  # the current statement without its comments; empty if there is no statement
    script = False
    for token in _TOKEN.finditer(text):
        if token.lastgroup == "end" and not script:
            _finish(statements, current, code)
            continue
        current.append(token.group())
        if token.lastgroup != "comment":
            code.append(token.group())
            script = script or (not statements and _SCRIPT.match("".join(code)) is not None)
    _finish(statements, current, code)
    return statements


def _finish(statements: list[str], current: list[str], code: list[str]) -> None:
    if "".join(code).strip():
        statements.append("".join(current).strip())
    current.clear()
    code.clear()


def run(spark: Any, text: str, widgets: Widgets | None = None) -> Any:
    """Runs all statements, with the values of `widgets`; returns the last one's DataFrame, or None if there are no statements.
    Raises ValueError for a name without a value."""
    frame = None
    for statement in split(text):
        frame = _run_one(spark, statement, widgets)
    return frame


def _run_one(spark: Any, statement: str, widgets: Widgets | None) -> Any:
    if widgets is None:
        return spark.sql(statement)
    substitutes = "${" in statement and spark.conf.get("spark.sql.variable.substitute", "true") == "true"

    bound = bind(statement, widget=widgets.lookup, setting=partial(_setting, spark) if substitutes else None)
    code = "".join(token.group() for token in _TOKEN.finditer(bound.text) if token.lastgroup != "comment").strip()
    if (about := widget_statement(code)) is not None:
        return _change_widget(spark, about, widgets)
    return spark.sql(bound.text, args=bound.parameters) if bound.parameters else spark.sql(bound.text)


def _setting(spark: Any, name: str) -> str | None:
    """Returns a setting of the session, or its default; None if there is no such setting."""
    try:
        return str(spark.conf.get(name))
    except Exception as error:  # Spark's versions and Connect have a type each
        if name in str(error):
            return None
        raise


def _change_widget(spark: Any, about: WidgetStatement, widgets: Widgets) -> None:
    if not about.kind:
        widgets.remove(about.name)
    elif about.kind == "text":
        widgets.text(about.name, about.default)
    else:
        choices = [str(row[0]) for row in spark.sql(about.choices).collect()] if about.choices else [about.default]
        getattr(widgets, about.kind)(about.name, about.default, choices)
