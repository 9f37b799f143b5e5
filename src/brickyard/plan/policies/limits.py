"""What one rule says of one value: whether it is allowed, what it must be instead, and the nearest value that is allowed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec
import regex

from brickyard.domain.nodetypes import NodeType
from brickyard.plan.policies.attributes import Value, ValueType
from brickyard.plan.policies.language import Definition, Problem, Rule, RuleType, text

MATCH_S = 0.05  # for all patterns of an evaluation: a pattern may take exponentially long
MAX_MATCHED = 8_192  # characters
MAX_SHOWN = 140
_VERSION = "spark_version"
# Members of an enum take a while to look up, and a policy may have hundreds of rules.
_FIXED, _ALLOWLIST, _BLOCKLIST = RuleType.FIXED, RuleType.ALLOWLIST, RuleType.BLOCKLIST
_REGEX, _RANGE, _UNLIMITED, _TEXT = RuleType.REGEX, RuleType.RANGE, RuleType.UNLIMITED, ValueType.TEXT
_MANY = 20  # how many values of a list a message repeats


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What an evaluation needs to know besides the specification."""

    cluster_type: str = "all-purpose"  # or job
    versions: Mapping[str, str] = MappingProxyType({})  # auto:latest-lts -> the version that it means now
    node_types: Mapping[str, NodeType] = MappingProxyType({})  # with their prices, for dbus_per_hour


class Matching:
    """The time that the patterns of one evaluation may still take."""

    def __init__(self) -> None:
        self._left_s = MATCH_S

    def matches(self, pattern: regex.Pattern[str], value: str) -> bool | None:
        """Whether the whole value matches; None if that takes too long."""
        if len(value) > MAX_MATCHED or self._left_s <= 0:
            return None
        try:
            return pattern.fullmatch(value, timeout=self._left_s) is not None
        except TimeoutError:
            self._left_s = 0.0
            return None


def meant(rule: Rule, value: Value, facts: Facts) -> Value:
    """The value, with auto:latest and the like resolved."""
    return facts.versions.get(str(value), value) if rule.on.path == _VERSION else value


def must_be(rule: Rule, value: Any, facts: Facts, matching: Matching) -> str | None:
    """What the value must be, or None if it is that."""
    kind, on = rule.type, rule.on
    if kind is _UNLIMITED:
        return None
    allowed = [meant(rule, each, facts) for each in rule.values] if on.path == _VERSION else rule.values
    same = text(value) if on.type is _TEXT and type(value) is not str else value  # the values of maps are always text
    found = None
    if kind is _FIXED:
        found = None if same == allowed[0] else f"the value must be {text(allowed[0])}"
    elif kind is _ALLOWLIST:
        found = None if same in allowed else f"the value must be one of {_listed(allowed)}"
    elif kind is _BLOCKLIST:
        found = f"the value must not be one of {_listed(allowed)}" if same in allowed else None
    elif kind is _REGEX and rule.pattern is not None:
        found = _unmatched(rule.pattern, text(value), matching)
    elif kind is _RANGE and value < rule.minimum:
        found = f"the value must be at least {rule.minimum:g}"
    elif kind is _RANGE and value > rule.maximum:
        found = f"the value must be at most {rule.maximum:g}"
    return found


def _unmatched(pattern: regex.Pattern[str], value: str, matching: Matching) -> str | None:
    fits = matching.matches(pattern, value)
    if fits is None:
        return f"the value takes too long to compare with the pattern {short(pattern.pattern)}"
    return None if fits else f"the value must match the pattern {short(pattern.pattern)}"


def nearest(rule: Rule, value: Any, facts: Facts, matching: Matching) -> Value | None:
    """The allowed value that is nearest, or None if the rule names none."""
    candidates: list[Value | None] = [*rule.values] if rule.type is RuleType.FIXED else [rule.default]
    if rule.type is RuleType.ALLOWLIST:
        candidates.extend(rule.values)
    if rule.type is RuleType.RANGE:
        bounds = [_inner(rule, bound) for bound in (rule.minimum, rule.maximum) if math.isfinite(bound)]
        if value is None:
            candidates.extend(bounds)
        else:
            candidates = sorted(bounds, key=lambda bound: abs(bound - value))
    allowed = (meant(rule, each, facts) for each in candidates if each is not None)
    return next((each for each in allowed if must_be(rule, each, facts, matching) is None), None)


def bad_defaults(definition: Definition) -> tuple[Problem, ...]:
    """The default values that their own rules do not allow: they could only fail. What auto:latest and the like mean changes, so
    they are not judged."""
    matching = Matching()
    return tuple(
        Problem(rule.on.path, f"defaultValue is {short(text(rule.default))}, and {wrong}")
        for rule in definition.rules
        if rule.default is not None
        and not (rule.on.path == _VERSION and str(rule.default).startswith("auto:"))
        and (wrong := must_be(rule, rule.default, Facts(), matching)) is not None
    )


def _inner(rule: Rule, bound: float) -> Value:
    """The bound, or for whole numbers the nearest one on its inner side."""
    if rule.on.type is ValueType.NUMBER:
        return bound
    return math.floor(bound) if bound == rule.maximum else math.ceil(bound)


def short(value: str) -> str:
    return value if len(value) <= MAX_SHOWN else value[:MAX_SHOWN] + "..."


def _listed(values: Sequence[Value]) -> str:
    shown = ", ".join(short(text(value)) for value in values[:_MANY])
    return shown if len(values) <= _MANY else f"{shown} and {len(values) - _MANY} more"
