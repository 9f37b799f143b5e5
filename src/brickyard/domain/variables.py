"""References in environment variables, such as $PATH and ${NAME:-default}, by a shell's rules between double quotes. Pure.

Nothing is run: $(command) is refused. A backslash before a $ takes its meaning away. A value without $ stays as it is.
A variable that a value names is the cluster's own of that name, whatever their order, else the node's; in its own value, a
variable is the node's. One that nobody sets is empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

MAX_EXPANDED = 1 << 20  # characters of one value; no program starts with a longer one
MAX_DEPTH = 20  # of references in references
_MARK = re.compile(r"(\\*)(\$(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<brace>\{)|(?P<command>\()|\$)?|\})")
_HEAD = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<operator>:?[-+])?")


class BadReference(ValueError):
    """The value has a reference that cannot be followed; the message says which."""


class Reference(NamedTuple):
    """`operator`: "" or how `word` is used: "-" and ":-" as a default, "+" and ":+" where there is a value. With the colon, an
    empty value counts as none."""

    name: str
    operator: str
    word: tuple[Part, ...]


Part = str | Reference


def parse(text: str) -> tuple[Part, ...]:
    """The value as literal pieces and references. Raises BadReference."""
    return _parse(text, 0, depth=0)[0]


def names(parts: tuple[Part, ...]) -> Iterator[str]:
    """The variables that a value names."""
    for part in parts:
        if isinstance(part, Reference):
            yield part.name
            yield from names(part.word)


def expanded(variables: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """The variables with what they refer to in its place. `environment`: the node's. Raises BadReference."""
    return _Expansion(variables, environment).values()


def depend_on(variables: Mapping[str, str]) -> frozenset[str]:
    """The variables whose values the node's own variables are in. Raises BadReference."""
    parsed = {name: frozenset(names(parse(value))) for name, value in variables.items()}
    found = {name for name, used in parsed.items() if name in used or used - variables.keys()}
    while more := {name for name, used in parsed.items() if name not in found and used & found}:
        found |= more
    return frozenset(found)


def check(variables: Mapping[str, str]) -> tuple[str, str]:
    """What is wrong with the first variable that cannot be expanded: its name and why. ("", "") if all can."""
    parsed: dict[str, tuple[Part, ...]] = {}
    for name, value in variables.items():
        try:
            parsed[name] = parse(value)
        except BadReference as error:
            return name, str(error)
    for name in parsed:
        if circle := _circle(name, parsed):
            return name, f"it refers to itself through {', '.join(circle)}"
    try:
        expanded(variables, {})
    except BadReference as error:
        return "", str(error)
    return "", ""


def literal(value: str, before: str = "") -> str:
    """The text that `expanded` turns into this value. `before`: the text that it is put before."""
    text = re.sub(r"(\\*)\$", lambda found: found[1] * 2 + r"\$", value)
    if re.match(r"\\*\$", before):
        text += "\\" * (len(text) - len(text.rstrip("\\")))
    return text


class _Expansion:
    def __init__(self, variables: Mapping[str, str], environment: Mapping[str, str]) -> None:
        self._variables, self._environment = variables, environment
        self._done: dict[str, str] = {}
        self._open: list[str] = []

    def values(self) -> dict[str, str]:
        return {name: self._own(name) for name in self._variables}

    def _own(self, name: str) -> str:
        if name not in self._done:
            self._open.append(name)
            self._done[name] = self._text(parse(self._variables[name]))
            self._open.pop()
        return self._done[name]

    def _value(self, name: str) -> str:
        if name in self._variables and name not in self._open:
            return self._own(name)
        return self._environment.get(name, "")

    def _is_set(self, name: str) -> bool:
        return name in self._environment or (name in self._variables and name not in self._open)

    def _text(self, parts: tuple[Part, ...]) -> str:
        pieces, size = [], 0
        for part in parts:
            pieces.append(part if isinstance(part, str) else self._reference(part))
            size += len(pieces[-1])
            if size > MAX_EXPANDED:
                raise BadReference(f"the value would have over {MAX_EXPANDED} characters")
        return "".join(pieces)

    def _reference(self, part: Reference) -> str:
        name, operator = part.name, part.operator
        there = self._value(name) != "" if operator.startswith(":") else self._is_set(name)
        if operator.endswith("-"):
            return self._value(name) if there else self._text(part.word)
        if operator.endswith("+"):
            return self._text(part.word) if there else ""
        return self._value(name)


def _parse(text: str, at: int, *, depth: int) -> tuple[tuple[Part, ...], int]:
    """The parts from `at` on, and where they end: at a closing brace if `depth`, else at the end. Raises BadReference."""
    if depth > MAX_DEPTH:
        raise BadReference(f"it has references within references, more than {MAX_DEPTH} deep")
    parts: list[Part] = []
    while (found := _MARK.search(text, at)) is not None:
        slashes, mark = found[1], found[2]
        if mark == "}" and not depth:  # a brace outside of a reference is one
            parts.append(text[at : found.end()])
            at = found.end()
            continue
        parts.append(text[at : found.start()] + "\\" * (len(slashes) // 2))
        if len(slashes) % 2:
            parts.append(mark[0])
            at = found.end(1) + 1
        elif mark == "}":
            return tuple(filter(None, parts)), found.end()
        elif found["name"]:
            parts.append(Reference(found["name"], "", ()))
            at = found.end()
        elif found["brace"]:
            reference, at = _braced(text, found.end(), depth=depth)
            parts.append(reference)
        elif found["command"]:
            raise BadReference("it has $(...), and commands are not run. Write \\$( for these characters")
        else:
            parts.append(mark)  # a $ alone, or $$, which a shell's process id would be
            at = found.end()
    if depth:
        raise BadReference("a ${ has no closing brace. Write \\${ for these characters")
    return tuple(filter(None, (*parts, text[at:]))), len(text)


def _braced(text: str, at: int, *, depth: int) -> tuple[Reference, int]:
    head = _HEAD.match(text, at)
    end = head.end() if head is not None else at
    if head is not None and head["operator"]:
        word, end = _parse(text, end, depth=depth + 1)
        return Reference(head["name"], head["operator"], word), end
    if head is None or text[end : end + 1] != "}":
        raise BadReference(
            "a ${ is followed by something else than NAME}, NAME:-default} or NAME:+text}. Write \\${ for these characters"
        )
    return Reference(head["name"], "", ()), end + 1


def _circle(name: str, parsed: Mapping[str, tuple[Part, ...]]) -> list[str]:
    """Other variables through which one refers to itself; empty if it does not."""
    came_from: dict[str, str] = {}
    queue = [name]
    while queue:
        now = queue.pop()
        for used in names(parsed[now]):
            if used == name and now != name:
                way = [now]
                while way[-1] in came_from and came_from[way[-1]] != name:
                    way.append(came_from[way[-1]])
                return way[::-1]
            if used in parsed and used not in came_from and used != name:
                came_from[used] = now
                queue.append(used)
    return []
