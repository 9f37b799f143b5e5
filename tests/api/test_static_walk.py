"""From a handler, a reader gets by types alone to what decides and to what calls an agent: no stop at an untyped value."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parents[2] / "src"


class Module(NamedTuple):
    name: str
    imports: dict[str, tuple[str, str]]  # local name -> module and the name in it; "": the module itself
    defined: dict[str, ast.AST]


class Class(NamedTuple):
    module: str
    node: ast.ClassDef


class Function(NamedTuple):
    module: str
    node: ast.FunctionDef | ast.AsyncFunctionDef
    owner: Class | None = None

    @property
    def name(self) -> str:
        return f"{self.module}.{self.owner.node.name + '.' if self.owner else ''}{self.node.name}"


@functools.cache
def module(name: str) -> Module | None:
    path = SOURCE / name.replace(".", "/")
    file = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
    if not file.exists():
        return None
    tree = ast.parse(file.read_text())
    imports: dict[str, tuple[str, str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for each in node.names:
                inner = f"{node.module}.{each.name}"
                imports[each.asname or each.name] = (inner, "") if module_exists(inner) else (node.module, each.name)
    defined: dict[str, ast.AST] = {
        node.name: node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    }
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            defined[node.target.id] = node
    return Module(name, imports, defined)


def module_exists(name: str) -> bool:
    path = SOURCE / name.replace(".", "/")
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def named(where: str, name: str) -> Class | Function | Module | None:
    """What a name in a module stands for."""
    found = module(where)
    if found is None:
        return None
    node = found.defined.get(name)
    if isinstance(node, ast.ClassDef):
        return Class(where, node)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return Function(where, node)
    if name in found.imports:
        source, inner = found.imports[name]
        return named(source, inner) if inner else module(source)
    return None


def of_annotation(where: str, annotation: ast.expr | None) -> Class | None:
    """The class that an annotation names; of `X | None`, X."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = ast.parse(annotation.value, mode="eval").body
    if isinstance(annotation, ast.BinOp):
        return of_annotation(where, annotation.left) or of_annotation(where, annotation.right)
    if isinstance(annotation, ast.Subscript):
        return of_annotation(where, annotation.value)
    found = value(where, annotation, {}) if annotation is not None else None
    return found if isinstance(found, Class) else None


def member(of: Class, name: str) -> Class | Function | None:
    """A method, or the type of an attribute, from the class or what it inherits from."""
    for node in of.node.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            if any(isinstance(each, ast.Name) and "property" in each.id for each in node.decorator_list):
                return of_annotation(of.module, node.returns)
            return Function(of.module, node, of)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
            return of_annotation(of.module, node.annotation)
    init = next((each for each in of.node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"), None)
    if init is not None:
        known = parameters(Function(of.module, init, of))
        for each in ast.walk(init):
            if isinstance(each, ast.Assign) and any(_is_own(target, name) for target in each.targets):
                found = value(of.module, each.value, known)
                return found if isinstance(found, Class) else None
    bases = (of_annotation(of.module, each) for each in of.node.bases)
    return next((found for base in bases if base is not None and (found := member(base, name)) is not None), None)


def _is_own(target: ast.expr, name: str) -> bool:
    return isinstance(target, ast.Attribute) and target.attr == name and ast.unparse(target.value) == "self"


def parameters(function: Function) -> dict[str, Class]:
    arguments = function.node.args
    every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    known = {each.arg: kind for each in every if (kind := of_annotation(function.module, each.annotation)) is not None}
    return known | ({"self": function.owner} if function.owner is not None else {})


def value(where: str, node: ast.expr, known: dict[str, Class]) -> Class | Function | Module | None:
    """What an expression stands for: a function, a module, or the class of its value."""
    match node:
        case ast.Await():
            return value(where, node.value, known)
        case ast.Name():
            return known.get(node.id) or named(where, node.id)
        case ast.Attribute():
            owner = value(where, node.value, known)
            return (
                named(owner.name, node.attr)
                if isinstance(owner, Module)
                else member(owner, node.attr)
                if isinstance(owner, Class)
                else None
            )
        case ast.Call():
            called = value(where, node.func, known)
            return of_annotation(called.module, called.node.returns) if isinstance(called, Function) else called
    return None


def used(function: Function) -> Iterator[Function]:
    """The functions that a function calls or passes on."""
    known = parameters(function)
    for node in ast.walk(function.node):
        if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)):
            continue
        if isinstance(found := value(function.module, node.value, known), Class):
            known.setdefault(node.targets[0].id, found)
    for node in ast.walk(function.node):
        if isinstance(node, ast.Name | ast.Attribute):
            found = value(function.module, node, known)
            if isinstance(found, Function):
                yield found


def path(start: Function, target: str) -> list[str]:
    """The shortest way to a function whose name begins with `target`; [] if there is none."""
    ways = {start.name: [start.name]}
    waiting = [start]
    for function in waiting:
        for each in used(function):
            if each.name not in ways:
                ways[each.name] = [*ways[function.name], each.name]
                if each.name.startswith(target):
                    return ways[each.name]
                waiting.append(each)
    return []


@pytest.mark.parametrize(
    ("handler", "target"),
    [
        (("brickyard.api.databricks.clusters", "_create"), "brickyard.plan."),
        (("brickyard.api.databricks.commands", "_execute"), "brickyard.nodes.calls.NodeCalls."),
    ],
    ids=["create", "execute"],
)
def test_types_lead_from_the_handler_to_the_planner_and_to_the_agent(handler: tuple[str, str], target: str) -> None:
    start = named(*handler)
    assert isinstance(start, Function)
    way = path(start, target)
    assert len(way) > 2, "types end somewhere"
