"""Only `plan/` writes the fields of a cluster: what a start, an end or a report makes of one is decided by pure functions."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

import brickyard
from brickyard import domain
from brickyard.domain.cluster import Cluster

SRC = Path(brickyard.__file__).parent


def own_fields() -> frozenset[str]:
    """Fields that, among the words of the domain, a cluster alone has: by these a change of one is recognised."""
    structs: set[type[msgspec.Struct]] = set()
    for module in pkgutil.walk_packages(domain.__path__, "brickyard.domain."):
        words = vars(importlib.import_module(module.name)).values()
        structs |= {each for each in words if isinstance(each, type) and issubclass(each, msgspec.Struct)}
    known = Counter(name for each in structs for name in each.__struct_fields__)
    return frozenset(name for name in Cluster.__struct_fields__ if known[name] == 1)


def changes(source: str) -> Iterator[tuple[int, str]]:
    """The line and the field of each `replace(..., field=...)`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("msgspec.structs.replace", "structs.replace", "replace"):
            yield from ((node.lineno, keyword.arg) for keyword in node.keywords if keyword.arg)


def test_only_pure_functions_write_the_fields_of_a_cluster() -> None:
    own = own_fields()
    assert {"target", "restarting", "workbench", "ended", "sized", "ready_incarnation"} <= own
    found = {
        f"{file.relative_to(SRC)}:{line} {field}"
        for file in SRC.rglob("*.py")
        if file.relative_to(SRC).parts[0] not in ("plan", "testing") and "brickyard.domain.cluster " in file.read_text()
        for line, field in changes(file.read_text())
        if field in own
    }
    assert found == set()
    assert any(field in own for _, field in changes((SRC / "plan" / "starts.py").read_text()))  # it sees those that are there
