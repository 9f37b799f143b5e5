"""Policy definitions: a JSON object of attribute paths and rules, parsed with everything that is wrong with it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec
import regex

from brickyard.plan.policies.attributes import ANY, Attribute, Key, UnknownAttribute, Value, ValueType, attribute

MAX_DEFINITION = 256 * 1024  # characters
MAX_PATTERN = 4_096  # characters
MAX_WEIGHT = 200_000  # of all patterns of a definition: compiling them takes less than a second and 60 MB


class RuleType(StrEnum):
    FIXED = "fixed"
    FORBIDDEN = "forbidden"
    ALLOWLIST = "allowlist"
    BLOCKLIST = "blocklist"
    REGEX = "regex"
    RANGE = "range"
    UNLIMITED = "unlimited"


_COUNTED = regex.compile(r"\{(\d+)(?:,(\d*))?\}|\{,(\d+)\}|\+")
_VERBOSE = regex.compile(r"\(\?[A-Za-z0-9-]*x")
_LEGACY = {"whitelist": RuleType.ALLOWLIST, "blacklist": RuleType.BLOCKLIST}
_LIMITING = frozenset({"defaultValue", "isOptional", "hidden"})
# The parameters of each type: those that it needs, and those that it may have.
_PARAMETERS: dict[RuleType, tuple[frozenset[str], frozenset[str]]] = {
    RuleType.FIXED: (frozenset({"value"}), frozenset({"hidden"})),
    RuleType.FORBIDDEN: (frozenset(), frozenset({"hidden"})),
    RuleType.ALLOWLIST: (frozenset({"values"}), _LIMITING),
    RuleType.BLOCKLIST: (frozenset({"values"}), _LIMITING),
    RuleType.REGEX: (frozenset({"pattern"}), _LIMITING),
    RuleType.RANGE: (frozenset(), _LIMITING | {"minValue", "maxValue"}),
    RuleType.UNLIMITED: (frozenset(), _LIMITING),
}


class Rule(NamedTuple):
    """One rule. `values`: the fixed one, or those of a list. With `optional`, the attribute may be absent."""

    on: Attribute
    type: RuleType
    values: tuple[Value, ...] = ()
    pattern: regex.Pattern[str] | None = None
    minimum: float = -math.inf
    maximum: float = math.inf
    default: Value | None = None
    optional: bool = False
    hidden: bool = False  # for pages: the field is not shown


class Ruled(NamedTuple):
    """A rule, by the name of its attribute among those beside it. `number`: its place in the text."""

    number: int
    key: str
    rule: Rule


class Place(NamedTuple):
    """The rules for the fields of one object or the keys of one map: hundreds may be for the same one, which is then found once.
    `presets` are those that set a value."""

    keys: tuple[Key, ...]
    rules: tuple[Ruled, ...]
    presets: tuple[Ruled, ...]


class Definition:
    """The rules of a policy, in the order of the text, made ready for evaluation once.

    `by_position` has them in an order in which the elements of lists can be made: 0 before 1, and the rules for every element
    last. `places` and `others` have each of them once: those about the value of one field, and, with their numbers, the rest.
    """

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self.rules = tuple(rules)
        self.by_position = sorted(
            self.rules, key=lambda rule: [(key == ANY, key if isinstance(key, int) else 0) for key in rule.on.keys]
        )
        numbers = {rule.on.path: number for number, rule in enumerate(self.rules)}
        found: dict[tuple[Key, ...], list[Ruled]] = {}
        others: list[tuple[int, Rule]] = []
        for rule in self.by_position:
            number, on = numbers[rule.on.path], rule.on
            if on.virtual or on.repeated or rule.type is RuleType.FORBIDDEN or not isinstance(key := on.keys[-1], str):
                others.append((number, rule))
            else:
                found.setdefault(on.keys[:-1], []).append(Ruled(number, key, rule))
        self.places = tuple(Place(keys, tuple(each), _presets(each)) for keys, each in found.items())
        self.others = tuple(others)
        self.forbids = any(rule.type is RuleType.FORBIDDEN for rule in self.rules)
        self.log_conf = {
            each.on.path: each for each in self.rules if each.on.virtual and each.on.path.startswith("cluster_log_conf.")
        }
        self._positions = {rule.on.path: _positions(self.rules, rule) for rule in self.rules if rule.on.repeated}

    def positions(self, rule: Rule) -> frozenset[int]:
        """The elements of a list that other rules name: a rule for every element (ANY) leaves them out."""
        return self._positions[rule.on.path]


def preset(rule: Rule, *, defaults: bool) -> Value | None:
    """The value that a rule sets where there is none; the default ones only with `defaults`."""
    return rule.values[0] if rule.type is RuleType.FIXED else rule.default if defaults else None


def _presets(ruled: Iterable[Ruled]) -> tuple[Ruled, ...]:
    return tuple(each for each in ruled if preset(each.rule, defaults=True) is not None)


def _positions(rules: Iterable[Rule], rule: Rule) -> frozenset[int]:
    depth = rule.on.keys.index(ANY)
    return frozenset(
        key
        for other in rules
        if other.on.keys[:depth] == rule.on.keys[:depth] and len(other.on.keys) > depth
        if isinstance(key := other.on.keys[depth], int)
    )


class Problem(NamedTuple):
    """What is wrong with a definition. `path` is "" for the whole text."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


def parse(text: str) -> tuple[Definition, tuple[Problem, ...]]:
    """The rules of a definition that are sound, and all problems."""
    if len(text) > MAX_DEFINITION:
        return Definition(), (Problem("", f"the definition has {len(text)} characters; at most {MAX_DEFINITION} are allowed"),)
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return Definition(), (Problem("", f"the definition is not JSON: {error}"),)
    if not isinstance(found, dict):
        return Definition(), (Problem("", "the definition must be a JSON object of attribute paths and rules"),)
    rules: list[Rule] = []
    problems: list[Problem] = []
    room = _Room()
    for path, body in found.items():
        try:
            rules.append(_rule(attribute(path), body, room))
        except (UnknownAttribute, _Wrong) as error:
            problems.append(Problem(path, str(error)))
    problems.extend(_skipped(rules))
    return Definition(rules), tuple(problems)


class _Wrong(ValueError):
    """A rule is wrong; the message says how."""


class _Room:
    """For the patterns of one definition."""

    def __init__(self) -> None:
        self._left = MAX_WEIGHT

    def take(self, pattern: str) -> None:
        """Raises _Wrong if the pattern has no room beside the others."""
        weight = _weight(pattern)
        if weight > self._left:
            raise _Wrong("the patterns repeat too much: write smaller numbers in braces, and fewer of them after brackets")
        self._left -= weight


def _rule(on: Attribute, body: Any, room: _Room) -> Rule:
    if not isinstance(body, dict):
        raise _Wrong('a rule is an object with a type, such as {"type": "fixed", "value": 60}')
    kind = _type(body.get("type"))
    needed, allowed = _PARAMETERS[kind]
    if missing := sorted(needed - body.keys()):
        raise _Wrong(f"a rule of type {kind} needs {', '.join(missing)}")
    if unknown := sorted(body.keys() - needed - allowed - {"type"}):
        raise _Wrong(f"a rule of type {kind} has no {', '.join(unknown)}")
    if on.type is ValueType.TREE and kind is not RuleType.FORBIDDEN:
        raise _Wrong(f"{on.path} has parts, so it can only be forbidden; write rules for its parts")
    if on.path == "dbus_per_hour" and kind is not RuleType.RANGE:
        raise _Wrong("dbus_per_hour is computed, so its rule must be of type range")
    if on.path == "cluster_type" and kind not in (RuleType.FIXED, RuleType.ALLOWLIST, RuleType.BLOCKLIST):
        raise _Wrong("the rule of cluster_type must be of type fixed, allowlist or blocklist")
    default = body.get("defaultValue")
    rule = Rule(
        on=on,
        type=kind,
        values=tuple(coerced(on, each) for each in _values(kind, body)),
        pattern=_pattern(body["pattern"], room) if "pattern" in body else None,
        minimum=_bound(on, body, "minValue", -math.inf),
        maximum=_bound(on, body, "maxValue", math.inf),
        default=None if default is None else coerced(on, default),
        optional=_flag(body, "isOptional"),
        hidden=_flag(body, "hidden"),
    )
    _check_range(rule, body)
    return rule


def _type(name: Any) -> RuleType:
    if isinstance(name, str) and name in _LEGACY:
        return _LEGACY[name]
    try:
        return RuleType(name)
    except ValueError:
        raise _Wrong(f"the type of a rule is one of {', '.join(RuleType)}, not {name!r}") from None


def _values(kind: RuleType, body: dict[str, Any]) -> list[Any]:
    if kind is RuleType.FIXED:
        return [body["value"]]
    values = body.get("values", [])
    if not isinstance(values, list):
        raise _Wrong("values must be a list")
    if kind is RuleType.ALLOWLIST and not values:
        raise _Wrong("values is empty, so that nothing would be allowed; use a rule of type forbidden")
    return values


def _weight(pattern: str) -> int:
    """How many steps the pattern has at most when it is compiled: what is repeated in braces, or by "+", is copied. Quantifiers
    after a bracket count as if each were around all the rest, since telling which are takes a parser of patterns."""
    around, once = 1, len(pattern)
    everywhere = _VERBOSE.search(pattern) is not None  # then there may be blanks between a bracket and its quantifier
    for found in _COUNTED.finditer(pattern):
        count = 2 if found[0] == "+" else max(int(each) for each in ("1", *found.groups()) if each)
        if everywhere or pattern[found.start() - 1 : found.start()] in (")", "}"):
            around = min(around * (count + 1), MAX_WEIGHT + 1)  # one more, for what has no end
        else:
            once += count
    return around * once


def _pattern(pattern: Any, room: _Room) -> regex.Pattern[str]:
    if not isinstance(pattern, str):
        raise _Wrong("pattern must be text")
    if len(pattern) > MAX_PATTERN:
        raise _Wrong(f"pattern has {len(pattern)} characters; at most {MAX_PATTERN} are allowed")
    room.take(pattern)
    try:
        return regex.compile(pattern)
    except (regex.error, OverflowError, RecursionError) as error:
        raise _Wrong(f"pattern is not a regular expression: {error}") from None


def _bound(on: Attribute, body: dict[str, Any], name: str, absent: float) -> float:
    bound = body.get(name, absent)
    if isinstance(bound, bool) or not isinstance(bound, int | float):
        raise _Wrong(f"{name} must be a number")
    if name in body and on.type not in (ValueType.INTEGER, ValueType.NUMBER):
        raise _Wrong(f"{on.path} is no number, so it can have no range")
    return bound


def _check_range(rule: Rule, body: dict[str, Any]) -> None:
    if rule.type is not RuleType.RANGE:
        return
    if not body.keys() & {"minValue", "maxValue"}:
        raise _Wrong("a rule of type range needs minValue, maxValue, or both")
    if rule.minimum > rule.maximum:
        raise _Wrong(f"minValue {rule.minimum:g} is greater than maxValue {rule.maximum:g}")


def _flag(body: dict[str, Any], name: str) -> bool:
    value = body.get(name, False)
    if not isinstance(value, bool):
        raise _Wrong(f"{name} must be true or false")
    return value


def coerced(on: Attribute, value: Any) -> Value:
    """The value in the attribute's type: policies are often written with "true" and "30". Raises ValueError with a sentence."""
    found: Value | None
    match on.type:
        case ValueType.FLAG:
            found = {"true": True, "false": False}.get(str(value).lower())
        case ValueType.INTEGER:
            found = _number(value, whole=True)
        case ValueType.NUMBER:
            found = _number(value, whole=False)
        case _:
            found = text(value) if isinstance(value, str | bool | int | float) else None
    if found is None:
        raise _Wrong(f"{value!r} is not {on.type.value if on.type is not ValueType.TEXT else 'a text'}, as {on.path} is")
    if on.choices and found not in on.choices:
        raise _Wrong(f"{on.path} is one of {', '.join(on.choices)}, not {found!r}")
    return found


def _number(value: Any, *, whole: bool) -> Value | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    if not math.isfinite(number) or (whole and (number != int(number) or abs(number) >= 1 << 53)):
        return None
    return int(number) if whole else number


def text(value: Any) -> str:
    """A value as messages and changes show it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value == int(value):
        return str(int(value))
    return str(value)


def _skipped(rules: list[Rule]) -> list[Problem]:
    """Elements of lists must be fixed without gaps: an element that nobody names could not be made."""
    fixed: dict[tuple[object, ...], set[int]] = {}
    for rule in rules:
        for depth, key in enumerate(rule.on.keys):
            if isinstance(key, int):
                fixed.setdefault(rule.on.keys[:depth], set()).add(key)
    return [
        Problem(".".join(str(key) for key in keys), f"there are rules for element {max(found)}, and none for element {gap}")
        for keys, found in fixed.items()
        if (gap := next((each for each in range(max(found)) if each not in found), None)) is not None
    ]
