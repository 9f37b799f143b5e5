"""SQL commands: a text of statements is split and run in order; the last one's rows are the result."""

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
    """The statements of a text, without comments between them and without those that are empty.

    Semicolons inside quotes and comments separate nothing. A text that begins with BEGIN is one SQL script.
    """
    statements: list[str] = []
    current: list[str] = []
    code: list[str] = []  # the current statement without its comments: empty means there is no statement
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
    """Run all statements; the DataFrame of the last one, or None when there is none."""
    frame = None
    for statement in split(text):
        frame = spark.sql(statement)
    return frame
