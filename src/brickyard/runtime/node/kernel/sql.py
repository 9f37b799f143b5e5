"""SQL commands: a text is split into statements that run in order; the last one's rows are the result."""

from __future__ import annotations

import re
from typing import Any

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


def run(spark: Any, text: str) -> Any:
    """Runs all statements; returns the last one's DataFrame, or None if there are no statements."""
    frame = None
    for statement in split(text):
        frame = spark.sql(statement)
    return frame
