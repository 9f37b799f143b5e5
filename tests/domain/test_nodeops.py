"""Operations of nodes: what is sent is what arrives, and the node host has a handler for each."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import brickyard
from brickyard.domain import nodeops
from brickyard.domain.nodeops import (
    NewCommand,
    NewContext,
    NodeOp,
    Nothing,
    OfCommand,
    OfContext,
    ReadLog,
    ReadLogs,
    Stop,
    WithdrawContexts,
)

HOST = Path(brickyard.__file__).parent / "runtime" / "node" / "host"
ids = st.text("abcXYZ019_.-", min_size=1, max_size=100)
texts = st.text(max_size=50)
REQUESTS: dict[type, st.SearchStrategy[Any]] = {
    Nothing: st.builds(Nothing),
    Stop: st.builds(Stop, reason=texts),
    NewContext: st.builds(NewContext, context_id=ids, language=texts, user=texts, generation=st.integers(0, 2**53)),
    OfContext: st.builds(OfContext, context_id=ids, user=texts),
    WithdrawContexts: st.builds(WithdrawContexts, user=texts, reason=texts),
    NewCommand: st.builds(NewCommand, context_id=ids, command_id=ids, language=texts, command=texts, user=texts),
    nodeops.CellsOfCommand: st.builds(
        nodeops.CellsOfCommand, context_id=ids, command_id=ids, user=texts, after=st.integers(0, 2**53)
    ),
    OfCommand: st.builds(OfCommand, context_id=ids, command_id=ids, user=texts),
    nodeops.OpenPortOf: st.builds(nodeops.OpenPortOf, port=st.integers(1, 65_535), generation=st.integers(0, 10)),
    nodeops.UseSession: st.builds(
        nodeops.UseSession, user=texts, session_user=texts, session_id=texts, generation=st.integers(0, 2**53)
    ),
    ReadLogs: st.builds(ReadLogs, name=texts, tail=st.integers(0, 2**40)),
    ReadLog: st.builds(ReadLog, name=texts, offset=st.integers(-(2**40), 2**40), position=texts, limit=st.integers(1, 2**20)),
}


@pytest.mark.parametrize("op", nodeops.OPERATIONS, ids=lambda op: op.name)
@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_what_is_sent_is_what_arrives(op: NodeOp[Any, Any], data: st.DataObject) -> None:
    request = data.draw(REQUESTS[op.request])
    target, body = op.call(request)
    url = urlsplit(target)
    given = dict(parse_qsl(url.query, keep_blank_values=True)) if body is None else msgspec.json.decode(msgspec.json.encode(body))
    assert nodeops.asked(op.method, url.path, given) == (op, request)
    assert (body is None) is (op.method != "POST")


def test_every_operation_has_a_handler_on_the_node() -> None:
    names = set()
    for node in (each for name in ("main.py", "contexts.py") for each in ast.walk(ast.parse((HOST / name).read_text()))):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute) and node.target.attr in ("_ops", "ops"):
            assert isinstance(node.value, ast.Dict)
            names |= {key.value for key in node.value.keys if isinstance(key, ast.Constant)}
    assert {op.name for op in nodeops.OPERATIONS} - {op.name for op in nodeops.AGENT} <= names


@pytest.mark.parametrize("name", ["", "a/b", "a b", "a" * 101, "a\n", "ä"])
def test_what_is_no_id_is_refused(name: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        nodeops.asked("POST", "/v1/contexts", {"context_id": name, "language": "python"})


def test_other_routes_are_none() -> None:
    for method, path in (("GET", "/"), ("POST", "/v1/status"), ("GET", "/v1/contexts/a/commands"), ("GET", "/v1/contexts/a/b/c")):
        assert nodeops.asked(method, path, {}) is None
