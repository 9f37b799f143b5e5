"""Finds the operation for a method and a path."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote

from brickyard.api.edge.dialects import PLAIN, Dialect
from brickyard.api.edge.registry import Operation

DEPTH = 8  # segments of an unknown path that are looked at
_PARAMETER = re.compile(r"\{(\w+)(:path)?\}")


@dataclass(frozen=True)
class _Pattern:
    method: str
    regex: re.Pattern[str]
    operation: Operation


class Routes:
    """Looks up fixed paths in a dictionary; otherwise tries paths with parameters in the order of the operations."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self.exact: dict[tuple[str, str], Operation] = {}
        self._patterns: list[_Pattern] = []
        self._dialects: dict[str, Dialect] = {}  # by the beginning of a path, up to any slash
        for operation in operations:
            for path in operation.paths:
                self._add(operation, path)

    def match(self, method: str, path: str, raw_path: bytes) -> tuple[Operation, dict[str, str] | None] | None:
        """The operation and its path parameters. `raw_path` is still percent-encoded: an encoded slash is part of its segment."""
        if (operation := self.exact.get((method, path))) is not None:
            return operation, None
        raw = raw_path.decode("latin-1")
        for pattern in self._patterns:
            if pattern.method == method and (match := pattern.regex.fullmatch(raw)):
                return pattern.operation, {name: unquote(value) for name, value in match.groupdict().items()}
        return None

    def dialect(self, path: str) -> Dialect:
        """The dialect for a path without an operation: that of the operations that share the most of its beginning, or the plain
        one if these have several."""
        beginning = "/".join(path.split("/", DEPTH)[:DEPTH])
        while beginning and beginning not in self._dialects:
            beginning = beginning.rpartition("/")[0]
        return self._dialects.get(beginning, PLAIN)

    def methods(self, path: str, raw_path: bytes) -> list[str]:
        """All methods that the path has an operation for."""
        methods = {"GET", "POST", "PUT", "PATCH", "DELETE"}
        return sorted(method for method in methods if self.match(method, path, raw_path))

    def _add(self, operation: Operation, path: str) -> None:
        beginning = path
        while beginning:
            beginning = beginning.rpartition("/")[0]
            known = self._dialects.setdefault(beginning, operation.dialect)
            if known is not operation.dialect:
                self._dialects[beginning] = PLAIN
        if not _PARAMETER.search(path):
            if (other := self.exact.get((operation.method, path))) is not None:
                raise ValueError(f"{operation.name} and {other.name} both answer {operation.method} {path}")
            self.exact[operation.method, path] = operation
            return
        names = {name for name, _ in _PARAMETER.findall(path)}
        if unknown := names - set(operation.request.__struct_encode_fields__):
            raise ValueError(f"{operation.name}: {path} has parameters that its request has not: {sorted(unknown)}")
        regex, end = "", 0
        for match in _PARAMETER.finditer(path):
            regex += re.escape(path[end : match.start()]) + f"(?P<{match[1]}>{'.+' if match[2] else '[^/]+'})"
            end = match.end()
        self._patterns.append(_Pattern(operation.method, re.compile(regex + re.escape(path[end:])), operation))
