"""Filters and paths of SCIM (RFC 7644, sections 3.4.2.2 and 3.5.2): parsed once, and matched against resources.

Beyond the RFC, as Databricks has it: values without quotes, and in single quotes. The Databricks CLI and SDKs write them so.

Own code: what exists as a library translates to SQL or to Django, sets no bounds, or brings a whole model of SCIM with it.
"""

from __future__ import annotations

import contextlib
import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from brickyard.features.identity.scim.errors import ScimError, ScimType

MOST_TEXT = 8_000  # characters of a filter or a path
MOST_TERMS = 200
MOST_DEPTH = 20  # brackets in brackets
_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "gt": operator.gt,
    "ge": operator.ge,
    "lt": operator.lt,
    "le": operator.le,
}
_PARTS: Mapping[str, Callable[[str, str], bool]] = {"co": operator.contains, "sw": str.startswith, "ew": str.endswith}
OPERATORS = frozenset({*_COMPARISONS, *_PARTS, "ne"})
EXACT = frozenset({"id", "externalid"})  # attributes for which case counts
_CORE = "urn:ietf:params:scim:schemas:core:2.0:"  # its attributes are named with or without this
_EXTENSION = "urn:ietf:params:scim:schemas:extension:"
_MARKS = frozenset({"(", ")", "[", "]", ""})  # "": the end
_SHOWN = 100

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<mark>[()\[\]]) |
        (?P<text>"(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*') |
        (?P<word>[^\s()\[\]"'][^\s()\[\]"]*)
    )""",
    re.VERBOSE,
)
_NAME = re.compile(r"[A-Za-z$][\w.:$-]*")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_WORDS: Mapping[str, bool | None] = {"true": True, "false": False, "null": None}

Name = tuple[str, ...]  # an attribute: its schema unless that is the core's, its name, and that of a sub-attribute
Value = str | float | bool | None


class Compare(NamedTuple):
    """An attribute compared with a value; the operator `pr` asks only whether it has one."""

    name: Name
    operator: str
    value: Value = None


class Both(NamedTuple):
    left: Filter
    right: Filter


class Either(NamedTuple):
    left: Filter
    right: Filter


class Not(NamedTuple):
    of: Filter


class Element(NamedTuple):
    """`emails[type eq "work"]`: an element of a list for which the filter holds."""

    name: Name
    filter: Filter


Filter = Compare | Both | Either | Not | Element


class Path(NamedTuple):
    """What an operation of a patch changes: an attribute, or those elements of it that a filter finds, or a part of these."""

    name: Name
    filter: Filter | None = None
    part: str = ""


def parse_filter(text: str) -> Filter:
    """Raises ScimError (invalidFilter)."""
    parser = _Parser(text, ScimType.INVALID_FILTER, "filter")
    found = parser.either()
    parser.end()
    return found


def parse_path(text: str) -> Path:
    """Raises ScimError (invalidPath)."""
    parser = _Parser(text, ScimType.INVALID_PATH, "path")
    name = parser.name()
    if parser.take("["):
        found = parser.either()
        parser.expect("]")
        part = parser.part()
        parser.end()
        return Path(name, found, part)
    parser.end()
    return Path(name)


def names(of: Filter) -> Iterator[str]:
    """The attributes on which the filter depends, in lower case."""
    if isinstance(of, Compare | Element):
        yield of.name[0].lower()
    elif isinstance(of, Not):
        yield from names(of.of)
    else:
        yield from names(of.left)
        yield from names(of.right)


def required(of: Filter) -> Iterator[tuple[str, str]]:
    """Texts that attributes (in lower case) must equal for the filter to hold: enough to find candidates by an index."""
    if isinstance(of, Both):
        yield from required(of.left)
        yield from required(of.right)
    elif isinstance(of, Compare) and of.operator == "eq" and _is_text(of.value) and len(of.name) == 1:
        yield of.name[0].lower(), str(of.value)


def matches(of: Filter, resource: Mapping[str, Any]) -> bool:
    """Whether the filter holds for the resource."""
    if isinstance(of, Both):
        return matches(of.left, resource) and matches(of.right, resource)
    if isinstance(of, Either):
        return matches(of.left, resource) or matches(of.right, resource)
    if isinstance(of, Not):
        return not matches(of.of, resource)
    found = _values(resource, of.name)
    if isinstance(of, Element):
        return any(matches(of.filter, each if isinstance(each, Mapping) else {"value": each}) for each in found)
    return _holds(of, [each["value"] if isinstance(each, Mapping) and "value" in each else each for each in found])


def find(resource: Mapping[str, Any], name: str) -> str | None:
    """The resource's own spelling of an attribute's name; None if it has none. Case does not count."""
    if name in resource:
        return name
    folded = name.lower()
    return next((key for key in resource if key.lower() == folded), None)


def _values(resource: Mapping[str, Any], name: Name) -> list[Any]:
    found: list[Any] = [resource]
    for part in name:
        below = [each[key] for each in found if isinstance(each, Mapping) and (key := find(each, part)) is not None]
        found = [item for each in below for item in (each if isinstance(each, list) else [each])]
    return [each for each in found if each is not None and each not in ("", {})]


def _holds(of: Compare, found: list[Any]) -> bool:
    if of.operator == "pr":
        return bool(found)
    if of.operator == "ne":
        return not _holds(of._replace(operator="eq"), found)
    if of.value is None:
        return of.operator == "eq" and not found
    exact = of.name[-1].lower() in EXACT
    return any(_compared(of.operator, each, of.value, exact=exact) for each in found)


def _compared(how: str, has: Any, wanted: Value, *, exact: bool) -> bool:
    if isinstance(has, bool) or isinstance(wanted, bool):  # some clients write booleans as texts
        return how == "eq" and str(has).lower() == str(wanted).lower()
    if isinstance(has, str) and _is_text(wanted):
        wanted = str(wanted)
        if not exact:
            has, wanted = has.lower(), wanted.lower()
    elif not isinstance(has, int | float) or not isinstance(wanted, int | float):
        return False
    return _COMPARISONS[how](has, wanted) if how in _COMPARISONS else _PARTS[how](str(has), str(wanted))


def _is_text(wanted: Value) -> bool:
    """Whether a value may be that of a text: an id without quotes looks like a number."""
    return isinstance(wanted, str | int) and not isinstance(wanted, bool)


class _Parser:
    """Reads tokens from the left; raises ScimError of the given type."""

    def __init__(self, text: str, kind: ScimType, what: str) -> None:
        self._kind, self._what, self._text = kind, what, text
        if len(text) > MOST_TEXT:
            raise ScimError(kind, f"The {what} has {len(text)} characters; at most {MOST_TEXT} are allowed.")
        self._tokens = list(self._split(text))
        self._at = self._terms = self._depth = 0

    def _split(self, text: str) -> Iterator[str]:
        at, end = 0, len(text.rstrip())
        while at < end:
            token = _TOKEN.match(text, at)
            if token is None:
                raise self._wrong(f"at {text[at : at + 20]!r}: names, operators, values or brackets belong here")
            yield token.group().strip()
            at = token.end()

    def either(self) -> Filter:
        found = self._both()
        while self._word("or"):
            found = Either(found, self._both())
        return found

    def _both(self) -> Filter:
        found = self._term()
        while self._word("and"):
            found = Both(found, self._term())
        return found

    def _term(self) -> Filter:
        self._terms += 1
        self._depth += 1
        if self._terms > MOST_TERMS or self._depth > MOST_DEPTH:
            raise self._wrong(f"it has more than {MOST_TERMS} conditions, or more than {MOST_DEPTH} brackets in brackets")
        found = self._single()
        self._depth -= 1
        return found

    def _single(self) -> Filter:
        if self._next() == "(" or (self._next().lower() == "not" and self._next(1) == "("):
            negated = self._word("not")
            self.expect("(")
            inner = self.either()
            self.expect(")")
            return Not(inner) if negated else inner
        name = self.name()
        if self.take("["):
            inner = self.either()
            self.expect("]")
            return Element(name, inner)
        how = self._next().lower()
        self._at += 1
        if how == "pr":
            return Compare(name, how)
        if how not in OPERATORS:
            allowed = ", ".join(sorted(OPERATORS | {"pr"}))
            raise self._wrong(f"{how[:_SHOWN]!r} is no operator. After an attribute comes one of {allowed}")
        return Compare(name, how, self._value(how))

    def _value(self, how: str) -> Value:
        text = self._next()
        self._at += 1
        if text in _MARKS:
            raise self._wrong(f"{text!r} is no value")
        value: Value = text
        if text.startswith("'"):
            value = re.sub(r"\\(.)", r"\1", text[1:-1])
        elif text.lower() in _WORDS:
            value = _WORDS[text.lower()]
        elif text.startswith('"'):
            try:
                value = json.loads(text)
            except ValueError:
                raise self._wrong(f"{text[:_SHOWN]!r} is no value") from None
        elif _NUMBER.fullmatch(text):
            with contextlib.suppress(ValueError):  # such as 007, which is a text
                value = json.loads(text)
        if how not in ("eq", "ne") and (value is None or isinstance(value, bool)):
            raise self._wrong(f"{how} compares texts or numbers, not {text.lower()}")
        return value

    def name(self) -> Name:
        text = self._next()
        self._at += 1
        schema, _, rest = text.rpartition(":")
        parts = rest.split(".")
        if not _NAME.fullmatch(text) or not all(parts) or len(parts) > 2:
            raise self._wrong(f"{text[:_SHOWN]!r} is no attribute")
        if not schema or schema.lower().startswith(_CORE.lower()):
            return tuple(parts)
        if not schema.lower().startswith(_EXTENSION):
            raise self._wrong(f"{schema[:_SHOWN]!r} is no schema")
        return (schema, *parts)

    def part(self) -> str:
        """`.value` after the brackets, or "" if there is none."""
        text = self._next()
        if not text.startswith("."):
            return ""
        self._at += 1
        if not _NAME.fullmatch(text[1:]):
            raise self._wrong(f"{text[1 : _SHOWN + 1]!r} is no attribute")
        return text[1:]

    def take(self, mark: str) -> bool:
        found = self._next() == mark
        self._at += found
        return found

    def expect(self, mark: str) -> None:
        if not self.take(mark):
            raise self._wrong(f"{mark!r} is missing before {self._next()[:_SHOWN]!r}")

    def end(self) -> None:
        if self._at < len(self._tokens):
            raise self._wrong(f"{self._next()[:_SHOWN]!r} follows where it should end")

    def _word(self, word: str) -> bool:
        found = self._next().lower() == word
        self._at += found
        return found

    def _next(self, further: int = 0) -> str:
        at = self._at + further
        return self._tokens[at] if at < len(self._tokens) else ""

    def _wrong(self, why: str) -> ScimError:
        return ScimError(self._kind, f"The {self._what} {self._text[:_SHOWN]!r} is not valid: {why}.")
