"""`dbutils.secrets`: asks the node host, which has the workspace's server answer in the name of this context's user."""

from __future__ import annotations

import base64
from typing import Any, NamedTuple

from .described import Described
from .line import AnswerError, Line


class SecretMetadata(NamedTuple):
    key: str


class SecretScope(NamedTuple):
    name: str

    def getName(self) -> str:
        return self.name


class SecretError(AnswerError):
    """A secret cannot be read."""


class Secrets(Described):
    """Secrets of the workspace. Values that a context has read appear in its results as [REDACTED]."""

    _part = "secrets"

    def __init__(self, line: Line) -> None:
        self._line = line

    def get(self, scope: str, key: str) -> str:
        """Returns the value of a secret as text."""
        return self.getBytes(scope, key).decode("utf-8")

    def getBytes(self, scope: str, key: str) -> bytes:
        """Returns the value of a secret."""
        _need("scope", scope)
        _need("key", key)
        return base64.b64decode(self._ask(scope, key).get("value", ""))

    def listScopes(self) -> list[SecretScope]:
        """Returns all scopes."""
        return [SecretScope(name) for name in self._ask("", "").get("names", ())]

    def _ask(self, scope: str, key: str) -> Any:
        try:
            return self._line.ask("dbutils.secrets", {"scope": scope, "key": key})
        except AnswerError as error:
            raise SecretError(error.error_code, str(error)) from None

    def list(self, scope: str) -> list[SecretMetadata]:  # last, because in the class its name hides the built-in type
        """Returns the keys of a scope."""
        _need("scope", scope)
        return [SecretMetadata(name) for name in self._ask(scope, "").get("names", ())]


def _need(name: str, value: str) -> None:
    if not isinstance(value, str) or not value:
        raise ValueError(f"dbutils.secrets: {name} must be a string that is not empty.")
