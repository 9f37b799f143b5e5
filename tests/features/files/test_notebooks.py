"""Notebooks as text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.features.files.notebooks import (
    LONGEST_HEADER,
    Language,
    NotANotebook,
    automatic,
    from_jupyter,
    language_of,
    source_of,
    stored,
    to_jupyter,
)

LANGUAGES = st.sampled_from(Language)


@given(source=st.text(), language=LANGUAGES)
def test_a_source_keeps_its_language_and_text(source: str, language: Language) -> None:
    kept = stored(source, language)
    assert language_of(kept.encode("utf-8", "replace")[:LONGEST_HEADER]) is language
    assert stored(source_of(kept, language), language) == kept, "an export can be imported again"
    if "Databricks" not in source:
        assert kept.partition("\n")[2] == source.removeprefix("\ufeff")


@given(
    cells=st.lists(st.tuples(st.sampled_from(["code", "markdown"]), st.text(alphabet="ab#/-% \n", max_size=20)), min_size=1),
    language=LANGUAGES,
)
def test_jupyter_cells_come_back(cells: list[tuple[str, str]], language: Language) -> None:
    cells = [(kind, "\n".join(line.rstrip() for line in f"x{text}".rstrip().split("\n"))) for kind, text in cells]
    notebook = {"cells": [{"cell_type": kind, "source": text} for kind, text in cells]}
    kept, _ = from_jupyter(json.dumps(notebook).encode(), language)
    found = [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(to_jupyter(kept, language))["cells"]]
    assert found == cells


@pytest.mark.parametrize(
    ("name", "head", "found"),
    [
        ("a.py", "# Databricks notebook source\r\nx", ("a", Language.PYTHON, False)),
        ("a.R", "# Databricks notebook source\n", ("a", Language.R, False)),
        ("a.scala", "// Databricks notebook source", ("a", Language.SCALA, False)),
        ("a.b.sql", "\ufeff-- Databricks notebook source\n", ("a.b", Language.SQL, False)),
        ("a.ipynb", "{}", ("a", Language.PYTHON, True)),
        ("a.py", "# Databricks notebook sources", ("a.py", None, False)),
        ("a.py", "-- Databricks notebook source\n", ("a.py", None, False)),
        ("a", "# Databricks notebook source\n", ("a", None, False)),
        (".py", "# Databricks notebook source\n", (".py", None, False)),
        (".ipynb", "{}", (".ipynb", None, False)),
    ],
)
def test_format_auto(name: str, head: str, found: tuple[str, Language | None, bool]) -> None:
    assert automatic(name, head.encode()) == found


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b'{"cells": 1}', b'{"cells": [{"cell_type": "code"}]}', b"\xff", b"[" * 10**5]
)
def test_what_is_not_jupyter_is_refused(content: bytes) -> None:
    with pytest.raises(NotANotebook):
        from_jupyter(content)


@given(st.binary(max_size=80))
def test_any_file_has_a_language_or_none(head: bytes) -> None:
    assert language_of(head) is None or b"Databricks notebook source" in head


@pytest.mark.parametrize(
    ("metadata", "language"),
    [
        ({"kernelspec": {"language": "scala"}}, Language.SCALA),
        ({"language_info": {"name": "R"}}, Language.R),
        ({"language_info": {"name": "julia"}}, Language.PYTHON),
        ([], Language.PYTHON),
        ({"kernelspec": 3}, Language.PYTHON),
    ],
)
def test_the_language_of_a_jupyter_notebook(metadata: object, language: Language) -> None:
    assert from_jupyter(json.dumps({"cells": [], "metadata": metadata}).encode())[1] is language


def test_titles_of_cells_go_through_jupyter() -> None:
    cells = ("# DBTITLE 1,A, title\n# MAGIC %md\n# MAGIC hi", "# DBTITLE 0,Hidden\nx = 1", "# DBTITLE odd\ny", "z")
    kept = stored("\n\n# COMMAND ----------\n\n".join(cells) + "\n", Language.PYTHON)
    jupyter = json.loads(to_jupyter(kept, Language.PYTHON))
    assert [cell["metadata"].get("application/vnd.databricks.v1+cell") for cell in jupyter["cells"]] == [
        {"showTitle": True, "title": "A, title"},
        {"showTitle": False, "title": "Hidden"},
        None,
        None,
    ]
    assert jupyter["cells"][0]["cell_type"] == "markdown" and jupyter["cells"][0]["source"] == ["hi"]
    assert from_jupyter(json.dumps(jupyter).encode())[0] == kept
    for odd in ("x", 7, {"title": 7}, {"title": "\n "}):
        jupyter["cells"][3]["metadata"] = {"application/vnd.databricks.v1+cell": odd}
        assert from_jupyter(json.dumps(jupyter).encode())[0] == kept
