"""Splitting SQL, and values as JSON can hold them."""

from __future__ import annotations

import base64
import contextlib
import datetime
import decimal
import json
import operator
import re
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.runtime.node.contexts import asking
from brickyard.runtime.node.kernel import dbutils as kernel_dbutils
from brickyard.runtime.node.kernel import display as kernel_display
from brickyard.runtime.node.kernel import fs as kernel_fs
from brickyard.runtime.node.kernel import sql as kernel_sql
from brickyard.runtime.node.kernel.files import Files
from brickyard.runtime.node.kernel.line import Line
from brickyard.runtime.node.wire import EXIT_MIME, MAX_QUESTION, TABLE_MIME
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("select 1", ["select 1"]),
        ("select 1;", ["select 1"]),
        ("select 1; select 2", ["select 1", "select 2"]),
        ("select ';' ; select \";\"", ["select ';'", 'select ";"']),
        (r"select 'it\'s;' ; x", [r"select 'it\'s;'", "x"]),
        ("select `a;b`", ["select `a;b`"]),
        ("-- no; comment\nselect 1 /* ; */; -- end;", ["-- no; comment\nselect 1 /* ; */"]),
        ("", []),
        (" ;; -- nothing", []),
        ("select 1 - -1; select a/b", ["select 1 - -1", "select a/b"]),
        ("BEGIN select 1; select 2; END", ["BEGIN select 1; select 2; END"]),
        ("select 'unfinished ; ", ["select 'unfinished ;"]),
    ],
)
def test_statements(text: str, statements: list[str]) -> None:
    assert kernel_sql.split(text) == statements


@given(st.text(alphabet="ab;'\"`-/* \n\\"))
def test_splitting_ends_and_loses_no_code(text: str) -> None:
    joined = "".join(kernel_sql.split(text))
    assert set(joined) <= set(text)


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (None, None),
        (True, True),
        (2**62, 2**62),
        (2**70, str(2**70)),
        (1.5, 1.5),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (decimal.Decimal("1.10"), "1.10"),
        (datetime.date(2024, 1, 31), "2024-01-31"),
        (datetime.datetime(2024, 1, 31, 12, tzinfo=datetime.UTC), "2024-01-31T12:00:00.000+0000"),
        (datetime.datetime(1, 1, 31, 12, 0, 0, 5), "0001-01-31T12:00:00.000005"),  # noqa: DTZ001 - a type without a zone
        (bytearray(b"\x00\xff"), "AP8="),
        ({1: [decimal.Decimal(2)]}, {"1": ["2"]}),
        ((1, {2}), [1, [2]]),
    ],
)
def test_plain_values(value: Any, plain: Any) -> None:
    assert kernel_display.plain(value) == plain
    json.dumps(plain, allow_nan=False)


def test_rows_are_bounded_in_number_and_size() -> None:
    assert kernel_display.bounded(([n] for n in range(5)), max_rows=3) == ([[0], [1], [2]], True)
    assert kernel_display.bounded([[1], [2]], max_rows=2) == ([[1], [2]], False)
    assert kernel_display.bounded([["x" * 100]], max_bytes=50) == ([], True)


def test_files_of_the_workspace(tmp_path: Path) -> None:
    fs = Files(dbfs=tmp_path)
    fs.put("dbfs:/a/b.txt", "hello")
    with pytest.raises(FileExistsError):
        fs.put("/a/b.txt", "again")
    assert fs.head("dbfs:/a/b.txt", 4) == "hell"
    assert [(entry.path, entry.size) for entry in fs.ls("/a")] == [("dbfs:/a/b.txt", 5)]
    fs.cp("/a", "/c", recurse=True)
    fs.mv("/c/b.txt", "/d.txt")
    assert [entry.name for entry in fs.ls("/")] == ["a/", "c/", "d.txt"]
    assert fs.rm("/a", recurse=True) and not fs.rm("/nothing")
    assert fs.head(f"file:{tmp_path}/d.txt") == "hello"


def test_volumes_and_workspace_are_files_too(tmp_path: Path) -> None:
    trees = {name: tmp_path / name for name in ("dbfs", "Volumes", "Workspace")}
    fs = Files(**trees)
    fs.put("/Volumes/main/default/data/f", "one")
    fs.cp("dbfs:/Volumes/main/default/data/f", "file:/Workspace/Shared/f")
    assert fs.head("/Workspace/Shared/f") == fs.head("file:/Volumes/main/default/data/f") == "one"
    assert [entry.path for entry in fs.ls("/Volumes/main/default")] == ["dbfs:/Volumes/main/default/data/"]
    assert [entry.path for entry in fs.ls("/Workspace/Shared")] == ["file:/Workspace/Shared/f"]
    assert [entry.path for entry in fs.ls(f"file:{tmp_path}")] == ["dbfs:/Volumes/", "file:/Workspace/"]
    assert fs.rm("/Volumes/main", recurse=True) and not trees["dbfs"].exists()


def test_the_fs_magic(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said: list[dict[str, Any]] = []
    fs = kernel_fs.make_fs_magic(Files(dbfs=tmp_path), said.append)
    fs('put dbfs:/a/b.txt "hello, you"')
    fs("put -f dbfs:/a/b.txt 'hello, all'")
    fs("head --maxBytes=5 /a/b.txt")
    fs("cp -r /a /c")
    fs("mkdirs /d/e")
    fs("mv /c/b.txt '/with a space.txt'")
    fs("rm --recurse=true /d")
    fs("rm /nothing")
    assert capsys.readouterr().out.split() == ["True", "True", "hello", "True", "True", "True", "True", "False"]
    fs("ls dbfs:/")
    table = said[0][TABLE_MIME]
    assert [column["name"] for column in table["schema"]] == ["path", "name", "size", "modificationTime"]
    assert [row[0] for row in table["data"]] == ["dbfs:/a/", "dbfs:/c/", "dbfs:/with a space.txt"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "does not know ''. It takes: ls PATH;"),
        ("chmod /x", "does not know 'chmod'"),
        ("ls", "takes 1 argument, not 0. Write: %fs ls PATH"),
        ("rm -f /x", "has no option -f. Write: %fs rm"),
        ("cp -r=maybe /x /y", "'maybe' is not a value"),
        ("head --maxBytes=much /x", "'much' is not a value"),
    ],
)
def test_what_the_fs_magic_does_not_understand_is_explained(line: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        kernel_fs.parse(line)


def test_leaving_a_notebook_publishes_the_value() -> None:
    said: list[dict[str, Any]] = []
    utils = kernel_dbutils.make_dbutils(said.append, Line(None))
    with pytest.raises(kernel_dbutils.NotebookExit):
        utils.notebook.exit({"a": 1})
    assert said == [{EXIT_MIME: {"value": "{'a': 1}"}, "text/plain": "{'a': 1}"}]


@pytest.mark.parametrize("name", ["nothing", "fs.mount", "library.install"])
def test_what_is_not_offered_is_named(name: str, golden: Golden) -> None:
    with golden.refused(AttributeError, f"dbutils.{name} "):
        operator.attrgetter(name)(kernel_dbutils.make_dbutils(lambda _: None, Line(None)))


class Answers(asking.Answerer):
    def __init__(self, answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self._answer = answer

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        return self._answer(question)

    def close(self) -> None:
        """Nothing is left."""


@contextlib.contextmanager
def utils_of(answer: Callable[[dict[str, Any]], dict[str, Any]]) -> Iterator[Any]:
    """`dbutils` with a node host behind it that answers so."""
    ours, theirs = socket.socketpair()
    thread = threading.Thread(target=asking.serve, args=(ours, Answers(answer)))
    thread.start()
    with theirs:
        yield kernel_dbutils.make_dbutils(lambda _: None, Line(theirs))
        theirs.shutdown(socket.SHUT_RDWR)
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def answers(question: dict[str, Any]) -> dict[str, Any]:
    scope, key = question["scope"], question["key"]
    if scope == "missing":
        return {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "Scope missing does not exist!"}
    return {"value": base64.b64encode(f"{scope}/{key}".encode()).decode()} if key else {"names": [f"{scope}1", f"{scope}2"]}


def test_secrets_are_asked_for_and_come_back(capsys: pytest.CaptureFixture[str], golden: Golden) -> None:
    with utils_of(answers) as utils:
        secrets = utils.secrets
        assert secrets.get("s", "k") == "s/k"
        assert secrets.getBytes(scope="s", key="k") == b"s/k"
        assert [each.key for each in secrets.list("s")] == ["s1", "s2"]
        assert [each.name for each in secrets.listScopes()] == ["1", "2"]
        with pytest.raises(Exception, match="missing") as caught:
            secrets.get("missing", "k")
        assert getattr(caught.value, "error_code", "") == "RESOURCE_DOES_NOT_EXIST"
        with golden.refused(ValueError, "key"):
            secrets.get("s", "")
        secrets.help()
        assert "getBytes" in capsys.readouterr().out


def test_many_threads_ask_at_once() -> None:
    with utils_of(answers) as utils, ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda number: utils.secrets.get("s", str(number)), range(100))) == [
            f"s/{number}" for number in range(100)
        ]


def test_a_question_that_is_too_long_is_refused_and_the_next_one_answered() -> None:
    asked: list[dict[str, Any]] = []

    def answer(question: dict[str, Any]) -> dict[str, Any]:
        asked.append(question)
        return {"over": True, "exit": "done"} if "look" in question else {} if "scope" not in question else answers(question)

    def arguments_of(size: int) -> dict[str, str]:
        return {"a": "x" * size}

    with utils_of(answer) as utils:
        with pytest.raises(Exception, match="bytes") as caught:
            utils.notebook.run("/too/long", 0, arguments_of(MAX_QUESTION))
        assert getattr(caught.value, "error_code", "") == "INVALID_PARAMETER_VALUE"
        assert not any("run" in each for each in asked)
        assert utils.secrets.get("s", "k") == "s/k"
        assert utils.notebook.run("/long", 0, arguments_of(MAX_QUESTION - 1_000)) == "done"
        assert [each["run"]["path"] for each in asked if "run" in each] == ["/long"]


def test_nonsense_on_the_line_ends_it_and_nothing_else() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.sendall(b'{"id": 1}\n')
        asking.serve(ours, Answers(answers))
        assert theirs.recv(10) == b""
    with pytest.raises(Exception, match="own process only"):
        kernel_dbutils.make_dbutils(lambda _: None, Line(None)).secrets.listScopes()
