"""Cells of notebooks, what follows `%run`, widgets' values in SQL, and Markdown: the pure parts."""

from __future__ import annotations

import ast
import contextlib
import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.features.files import notebooks
from brickyard.features.files.notebooks import Language
from brickyard.runtime.node import cells
from brickyard.runtime.node.kernel import sqlvalues
from brickyard.runtime.node.kernel.markdown import to_html
from brickyard.runtime.node.kernel.widgets import Widgets

LINES = st.text(alphabet=string.ascii_letters + string.digits + " %#-=_'\"", max_size=20)
WORDS = st.text(alphabet=string.ascii_letters, min_size=1, max_size=6)


def test_a_notebook_has_cells() -> None:
    source = "# Databricks notebook source\na = 1\n\n# COMMAND ----------\n\n\n# COMMAND ----------\r\nb = 2\n"
    assert cells.cells_of(source, "python") == ["a = 1", "b = 2"]
    assert cells.cells_of("-- Databricks notebook source\nselect 1\n-- COMMAND ----------\nselect 2", "sql") == [
        "select 1", "select 2"
    ]  # fmt: skip


@given(st.lists(st.lists(LINES, min_size=1, max_size=4).map("\n".join), max_size=4))
def test_cells_of_a_jupyter_notebook_are_those_that_went_in(texts: list[str]) -> None:
    """As the workspace keeps it: magics are comments there."""
    code = [{"cell_type": "code", "source": text} for text in texts]
    kept, language = notebooks.from_jupyter(__import__("json").dumps({"cells": code}).encode())
    assert language is Language.PYTHON
    found = [cells.unmarked(each, "python") for each in cells.cells_of(kept, "python")]
    assert [re.sub(r"\s+", " ", each).strip() for each in found] == [
        re.sub(r"\s+", " ", text).strip() for text in texts if text.strip()
    ]


@pytest.mark.parametrize(
    ("cell", "language", "code"),
    [
        ("x = 1", "python", "x = 1"),
        ("select 1", "sql", "get_ipython().run_cell_magic('sql', '', 'select 1')"),
        ("%sql select 1", "python", "get_ipython().run_cell_magic('sql', '', 'select 1\\n')"),
        ("# MAGIC %sql\n# MAGIC 1\n# MAGIC\n# MAGIC , 2", "python", "get_ipython().run_cell_magic('sql', '', '1\\n\\n, 2')"),
        ("# DBTITLE 1,Name\n# MAGIC %python\n# MAGIC x", "python", "x"),
        ("-- MAGIC %python\n-- MAGIC x", "sql", "x"),
        ("# MAGICAL = 1", "python", "# MAGICAL = 1"),
        ("x = 1\n# MAGIC %sql", "python", "x = 1\n# MAGIC %sql"),
        ('%run ./x $a="1"', "sql", '%run ./x $a="1"'),
        ("%pip install x", "sql", "%pip install x"),
        ("%sh -e ls", "python", "get_ipython().run_cell_magic('sh', '-e ls', '\\n')"),
        ("%md # T", "python", "get_ipython().run_cell_magic('md', '', '# T\\n')"),
    ],
)  # fmt: skip
def test_the_first_line_says_what_runs_a_cell(cell: str, language: str, code: str) -> None:
    assert cells.kernel_code(cell, language) == code


@pytest.mark.parametrize(("cell", "language"), [("%scala val x = 1", "python"), ("val x = 1", "scala"), ("x <- 1", "r")])
def test_cells_of_other_languages_say_what_to_do(cell: str, language: str) -> None:
    assert "is not supported" in cells.kernel_code(cell, language)


@given(LINES, st.sampled_from(["sql", "md", "sh", "fs"]))
def test_the_text_of_a_magic_arrives_whole(text: str, magic: str) -> None:
    call = ast.parse(cells.kernel_code(f"%{magic}\n{text}", "python")).body[0]
    assert isinstance(call, ast.Expr) and isinstance(call.value, ast.Call)
    given_texts = [ast.literal_eval(each) for each in call.value.args]
    assert text.strip() in " ".join(given_texts)


@given(st.lists(WORDS, min_size=1, max_size=3).map("/".join), st.dictionaries(WORDS, st.text(max_size=10), max_size=3))
def test_arguments_arrive_as_they_were_written(path: str, arguments: dict[str, str]) -> None:
    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    line = " ".join([f"./{path}", *(f"${name}={quoted(value)}" for name, value in arguments.items())])
    assert cells.parse_run(line) == (f"./{path}", arguments)


@given(st.text(max_size=30))
def test_any_line_is_read_or_refused(line: str) -> None:
    with contextlib.suppress(ValueError):
        assert cells.parse_run(line).path


@pytest.mark.parametrize(
    ("path", "base", "whole"),
    [
        ("./b", "/Users/me/a", "/Users/me/b"),
        ("b/c", "/Users/me/a", "/Users/me/b/c"),
        ("../b", "/Users/me/x/a", "/Users/me/b"),
        ("/Shared/b", "", "/Shared/b"),
        ("/Workspace/Shared/./b", "/x", "/Shared/b"),
    ],
)
def test_paths_are_those_of_the_notebook_that_names_them(path: str, base: str, whole: str) -> None:
    assert cells.resolved(path, base) == whole


@pytest.mark.parametrize(("path", "base"), [("./b", ""), ("../../../b", "/Users/a"), ("/../b", "")])
def test_paths_that_lead_nowhere_are_refused(path: str, base: str) -> None:
    with pytest.raises(ValueError):
        cells.resolved(path, base)


# --- values in SQL ---


def no_values(_name: str) -> str | None:
    return None


@given(st.text(alphabet="ab: '\"`\\-/*\ngG(),1;"))
def test_statements_without_values_stay_as_they_are(text: str) -> None:
    assert sqlvalues.bind(text, widget=no_values, setting=no_values) == (text, {})


@given(st.text())
def test_a_value_is_one_string_of_sql_whatever_it_contains(value: str) -> None:
    text, parameters = sqlvalues.bind("x = getArgument('n')", widget=lambda _: value, setting=no_values)
    assert parameters == {} and text.startswith("x = '") and text.endswith("'") and "${" not in text
    inside = text[len("x = '") : -1]
    assert re.fullmatch(r"(?:[^'\\]|\\.)*", inside, re.DOTALL)
    assert re.sub(r"\\(.)", r"\1", inside.replace("\\u0024{", "${"), flags=re.DOTALL) == value


@given(st.text())
def test_parameters_never_change_the_statement(value: str) -> None:
    statement = "select :n, ':n', x::n, a:n -- :n"
    assert sqlvalues.bind(statement, widget=lambda _: value, setting=no_values) == (statement, {"n": value})


def test_names_without_values_are_errors() -> None:
    for text in ("${n}", "'${n}'", "`${n}`", "${hiveconf:n}", "getArgument('n')"):
        with pytest.raises(ValueError, match="no widget 'n'"):
            sqlvalues.bind(text, widget=no_values, setting=no_values)
    assert sqlvalues.bind("${env:HOME} -- ${n}", widget=no_values, setting=no_values).text == "${env:HOME} -- ${n}"
    assert sqlvalues.bind("'${n}'", widget=no_values, setting=None).text == "'${n}'", "Spark does not replace it either"
    assert sqlvalues.bind("${n}", widget={"n": "2"}.get, setting=None).text == "2"
    with pytest.raises(ValueError, match="Write :n"):
        sqlvalues.bind("${n}", widget={"n": "${m}"}.get, setting=no_values)


# --- widgets of notebooks that are included ---


def test_an_included_notebook_has_its_arguments_or_defaults() -> None:
    widgets = Widgets()
    widgets.text("mine", "1")
    for arguments, value in (({"a": "given"}, "given"), ({}, "default"), ({"a": "again"}, "again")):
        with widgets._included(arguments):
            widgets.text("a", "default")
            assert (widgets.get("a"), widgets.get("mine")) == (value, "1")
        assert widgets.get("a") == "given", "what its caller lacked, it has from the first one"
    widgets.removeAll()
    assert widgets.getAll() == {}


# --- Markdown ---


def test_markdown() -> None:
    text = "# A *b*\n\none `x<y` **two** [l](http://h/?a=1&b=2)\n& < 3\n\n- p\n  - q\n1. r\n\n"
    text += "|a|b|\n|-|:-:|\n|1|2|\n\n```\n<c>\n```\n> s\n\n---\n<i>raw</i>"
    made = to_html(text)
    for part in (
        "<h1>A <em>b</em></h1>", "<code>x&lt;y</code> <strong>two</strong>", 'href="http://h/?a=1&amp;b=2"', "&amp; &lt; 3",
        "<li>q", "<ol>\n<li>r", "<th>b</th>", "<td>2</td>", "<pre><code>&lt;c&gt;</code></pre>", "<blockquote>\n<p>s</p>", "<hr>",
        "<i>raw</i>",
    ):  # fmt: skip
        assert part in made, part


@given(st.text(alphabet="ab #*_-`>|[]()!~<&\n1.", max_size=200))
def test_any_markdown_is_rendered(text: str) -> None:
    assert to_html(text).count("<pre>") == to_html(text).count("</pre>")
