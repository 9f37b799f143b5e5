"""Values of widgets in SQL: `${name}`, `:name` and `getArgument('name')`. Pure.

`:name` becomes a parameter of the statement, whose value is data whatever it contains. `${name}` is replaced by the value's text,
as on Databricks. Spark itself replaces `${name}` by a setting, and by nothing where there is none: here that is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

_TEXT = r"""'(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" """
_PART = re.compile(
    rf"""
    (?P<comment> --[^\n]* | /\*.*?(?:\*/|\Z) )
  | (?P<argument> \bgetArgument \s*\(\s* (?P<name>{_TEXT}) \s* (?:,\s* (?P<default>{_TEXT}) \s*)? \) )
  | (?P<quoted> '(?:[^'\\]|\\.)*(?:'|\Z) | "(?:[^"\\]|\\.)*(?:"|\Z) | `(?:[^`]|``)*(?:`|\Z) )
  | (?P<variable> \$\{{\S+?\}} )
  | (?P<marker> (?<![\w:)\]'"`]) :(?P<parameter>[A-Za-z_]\w*) )
  | (?P<other> [^-/'"`$:gG]+ | . )
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_VARIABLE = re.compile(r"\$\{(?:(\w+?):)?(\S+?)\}")  # as Spark reads it
_OF_SPARK = ("", "spark", "sparkconf", "hivevar", "hiveconf")  # prefixes that mean a setting
_CREATE = re.compile(
    r"""CREATE\s+WIDGET\s+(?P<kind>TEXT|DROPDOWN|COMBOBOX|MULTISELECT)\s+(?P<name>\w+|`[^`]+`)\s+
        DEFAULT\s+(?P<default>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")(?:\s+CHOICES\s+(?P<choices>.+))?""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_REMOVE = re.compile(r"REMOVE\s+WIDGET\s+(?P<name>\w+|`[^`]+`)", re.IGNORECASE)

Values = Callable[[str], "str | None"]  # the value of a name; None if it has none


class Bound(NamedTuple):
    """A statement for Spark, and the values of its parameters."""

    text: str
    parameters: dict[str, str]


class WidgetStatement(NamedTuple):
    """`CREATE WIDGET KIND name DEFAULT 'value' [CHOICES query]`, or, with an empty kind, `REMOVE WIDGET name`."""

    kind: str
    name: str
    default: str = ""
    choices: str = ""


def bind(statement: str, *, widget: Values, setting: Values | None) -> Bound:
    """Puts values into a statement. `setting`: Spark's settings; None if Spark is to leave `${...}` alone. Raises ValueError for
    a name without a value."""
    parts: list[str] = []
    parameters: dict[str, str] = {}

    def variable(match: re.Match[str]) -> str:
        prefix, name = match.group(1) or "", match.group(2)
        value = widget(name) if not prefix else None
        if value is not None:
            if setting is not None and _VARIABLE.search(value):
                raise ValueError(
                    f"The value of widget {name!r} contains '${{...}}', which Spark would replace again. Write :{name}."
                )
            return value
        if setting is None or prefix not in _OF_SPARK:
            return match.group()
        if (value := setting(name)) is None:
            raise ValueError(
                f"There is no widget {name!r} for {match.group()} and no Spark setting of that name. "
                f"{_how_to_make(name)} To write it as text: SET spark.sql.variable.substitute=false"
            )
        return value

    for match in _PART.finditer(statement):
        text = match.group()
        if match.group("argument"):
            parts.append(literal(_argument(match, widget)))
        elif match.group("marker"):
            value = widget(match.group("parameter"))
            if value is not None:
                parameters[match.group("parameter")] = value
            parts.append(text)
        elif match.group("quoted") or match.group("variable"):
            parts.append(_VARIABLE.sub(variable, text))
        else:
            parts.append(text)
    return Bound("".join(parts), parameters)


def _argument(match: re.Match[str], widget: Values) -> str:
    name = _unquoted(match.group("name"))
    value = widget(name)
    if value is None and match.group("default"):
        value = _unquoted(match.group("default"))
    if value is None:
        raise ValueError(f"There is no widget {name!r} for {match.group()}. {_how_to_make(name)}")
    return value


def _how_to_make(name: str) -> str:
    return f"Make it first: dbutils.widgets.text({name!r}, 'its value')."


def literal(value: str) -> str:
    """Returns a string of SQL with that value, in which Spark finds no `${...}`."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\u0024{")
    return f"'{escaped}'"


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)


def widget_statement(code: str) -> WidgetStatement | None:
    """Returns what a statement without comments says about widgets; None if it is another statement."""
    if removed := _REMOVE.fullmatch(code):
        return WidgetStatement("", removed.group("name").strip("`"))
    made = _CREATE.fullmatch(code)
    if made is None:
        return None
    name, default = made.group("name").strip("`"), _unquoted(made.group("default"))
    return WidgetStatement(made.group("kind").lower(), name, default, made.group("choices") or "")
