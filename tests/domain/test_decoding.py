"""Types are described to msgspec while modules are imported, by one thread, and never by whichever threads first need them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import brickyard
from brickyard.domain.decoding import Decoders, converter

SOURCE = Path(brickyard.__file__).parent

# Functions that may name a type, and why.
ALLOWED = {
    ("domain/decoding.py", "converter"): "called at imports",
    ("domain/decoding.py", "describe"): "called at imports",
    ("domain/decoding.py", "Decoders.__init__"): "called at imports",
    ("domain/nodeops.py", "asked"): "of an operation, whose types are described below OPERATIONS",
    ("nodes/calls.py", "NodeCalls._ask"): "of an operation, as well",
    ("api/edge/decode.py", "RequestDecoder.__init__"): "operations are declared at imports",
    ("api/edge/decode.py", "RequestDecoder._query"): "the type that __init__ has made a decoder of",
    ("api/edge/decode.py", "RequestDecoder._slow"): "the type that __init__ has made a decoder of",
    ("api/edge/decode.py", "RequestDecoder._unread"): "a field of that type",
    ("config/load.py", "load"): "before a server has threads",
    ("providers/base.py", "Setup.section"): "before a server has threads",
    ("providers/simulated/knobsfile.py", "_decoded"): "on one thread",
}


class Calls(ast.NodeVisitor):
    """Finds, within functions, what names a type to msgspec."""

    def __init__(self) -> None:
        self.found: list[tuple[str, int]] = []
        self._path: list[str] = []
        self._functions = 0

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._path.append(node.name)
        self.generic_visit(node)
        self._path.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        # What is decorated, or a default, belongs to the function too: neither names types here.
        self._path.append(node.name)
        self._functions += 1
        self.generic_visit(node)
        self._functions -= 1
        self._path.pop()

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._functions += 1
        self.generic_visit(node)
        self._functions -= 1

    def visit_Call(self, node: ast.Call) -> None:
        if self._functions and names_a_type(node):
            self.found.append((".".join(self._path), node.lineno))
        self.generic_visit(node)


def names_a_type(node: ast.Call) -> bool:
    name = ast.unparse(node.func)
    typed = len(node.args) > 1 or any(each.arg == "type" for each in node.keywords)
    module, _, last = name.rpartition(".")
    if name in ("converter", "Decoders", "msgspec.convert"):
        return True
    return module.startswith("msgspec.") and (last == "Decoder" or (last == "decode" and typed))


def in_functions(source: str) -> list[tuple[str, int]]:
    calls = Calls()
    calls.visit(ast.parse(source))
    return calls.found


def offences() -> Iterator[str]:
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text()
        if "msgspec" not in text and "brickyard.domain.decoding" not in text:
            continue
        name = str(path.relative_to(SOURCE))
        for function, line in in_functions(text):
            if (name, function) not in ALLOWED:
                yield f"{name}:{line} in {function}"


def test_no_function_names_a_type_to_msgspec() -> None:
    assert not list(offences()), "make a decoder or a converter where the module is imported (brickyard.domain.decoding)"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def f(x):\n    return msgspec.json.decode(x, type=Unit)", ["f"]),
        ("def f(x):\n    return msgspec.json.decode(x)", []),
        ("class A:\n    async def f(self, x):\n        return msgspec.convert(x, Unit)", ["A.f"]),
        ("g = lambda x: msgspec.msgpack.Decoder(Unit).decode(x)", [""]),
        ("read = msgspec.json.Decoder(Unit).decode\ndef f(x):\n    return read(x)", []),
        ("def f():\n    return converter(Unit)", ["f"]),
    ],
)
def test_what_counts(source: str, found: list[str]) -> None:
    assert [function for function, _ in in_functions(source)] == found


class Inner(msgspec.Struct):
    number: int


class Outer(msgspec.Struct):
    inner: Inner


def test_decoders_and_converters_read_what_msgspec_reads() -> None:
    assert converter(Outer)({"inner": {"number": 1}}) == Outer(Inner(1))
    assert converter(Outer, strict=False)({"inner": {"number": "1"}}) == Outer(Inner(1))
    with pytest.raises(msgspec.ValidationError):
        converter(Outer)({"inner": {"number": "1"}})
    assert Decoders(Outer, Inner).decode(b'{"number": 2}', Inner) == Inner(2)
