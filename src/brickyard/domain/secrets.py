"""Secrets: names, limits, rows, and references to them in specifications. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from brickyard.domain.errors import InvalidParameterValue

MAX_SECRETS = 1_000  # per scope
MAX_BYTES = 128 * 1024  # of one value
MAX_NAME = 128

_NAME = re.compile(r"[A-Za-z0-9._@/-]{1,128}")
_BEGIN = re.compile(r"\{\{\s*secrets\s*/")
# Up to the first slash it is the scope: in a reference, only the key may have slashes.
_REFERENCE = re.compile(r"\{\{\s*secrets\s*/\s*([A-Za-z0-9._@-]{1,128})\s*/\s*([A-Za-z0-9._@/-]{1,128})\s*\}\}")


class SecretName(NamedTuple):
    """The scope and key of a secret. Upper and lower case count as the same: `folded` is the name in the database."""

    scope: str
    key: str

    @property
    def folded(self) -> SecretName:
        return SecretName(fold(self.scope), fold(self.key))

    def __str__(self) -> str:
        return f"{self.key} of scope {self.scope}"


class Sealed(msgspec.Struct, frozen=True, kw_only=True):
    """An encrypted value. `key_id` names the workspace's key that encrypts `wrapped`, the key of this value alone."""

    key_id: str
    wrapped: bytes
    data: bytes


class ScopeRow(msgspec.Struct, frozen=True, kw_only=True):
    """A secret scope, by the name that it was created with."""

    name: str
    created_ms: int
    creator: str


class SecretRow(msgspec.Struct, frozen=True, kw_only=True):
    """A secret without its value."""

    key: str
    updated_ms: int


def fold(name: str) -> str:
    """The form in which names of scopes and keys are compared."""
    return name.lower()


def check_scope(name: str) -> None:
    """Raises InvalidParameterValue unless a scope can have the name."""
    _check(name, field="scope")


def check_key(name: str) -> None:
    """Raises InvalidParameterValue unless a secret can have the name."""
    _check(name, field="key")


def _check(name: str, *, field: str) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidParameterValue(
            f"{field} is {name[:140]!r}; it must have 1 to {MAX_NAME} characters: letters, digits and - _ . @ /."
        )


def references(text: str) -> list[SecretName]:
    """The secrets that a value refers to by {{secrets/scope/key}}."""
    return [SecretName(*found) for found in _REFERENCE.findall(text)]


def malformed(text: str) -> bool:
    """Whether something in the text looks like a reference to a secret and is none."""
    return len(_BEGIN.findall(text)) != len(_REFERENCE.findall(text))


def all_references(*values: Mapping[str, str] | None) -> Iterator[SecretName]:
    """The secrets that settings or variables refer to."""
    for each in values:
        for text in (each or {}).values():
            yield from references(text)


def filled(text: str, value: Callable[[SecretName], str]) -> str:
    """The text with the value of each reference in its place."""
    return _REFERENCE.sub(lambda found: value(SecretName(found[1], found[2])), text)


def filled_before(text: str, value: Callable[[SecretName, str], str]) -> str:
    """The same, from the end on: `value` also gets the text that follows the reference."""
    done, end = "", len(text)
    for found in reversed(list(_REFERENCE.finditer(text))):
        done = text[found.end() : end] + done
        done, end = value(SecretName(found[1], found[2]), done) + done, found.start()
    return text[:end] + done


def key_entries(text: str) -> list[str]:
    """The keys in a setting or a file: 64 hex digits each, separated by commas or white space. Raises ValueError."""
    found = text.replace(",", " ").split()
    for entry in found:
        if len(entry) != 64 or not set(entry.lower()) <= set("0123456789abcdef"):
            raise ValueError("every key must have 64 hex digits")
    return [entry.lower() for entry in found]
