"""The page of a notebook that ran as a task, without a server."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import unquote

from brickyard.domain.notebookcells import NotebookCell
from brickyard.features.runs.notebookmodel import MAX_RESULTS, notebook_model
from brickyard.features.runs.notebookpage import highlighted, notebook_page
from brickyard.features.runs.safehtml import safe_html

PNG = "data:image/png;base64,iVBORw0KGgo="
EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>"


def cell(number: int, source: str, *results: dict[str, Any], language: str = "python", **fields: Any) -> NotebookCell:
    return NotebookCell(
        number=number, version=number + 1, source=source, language=language, results=list(results), state="FINISHED", **fields
    )


CELLS = [
    cell(0, "%md\n# Hi", {"resultType": "text", "data": f"<h1>Hi</h1>{EVIL}", "isHtml": True}, language="markdown"),
    cell(1, "x = 'a' # </script>", {"resultType": "text", "data": f"{EVIL}\x1b[31mred"}, title=EVIL, widgets={"day": "monday"}),
    cell(2, "df", {"resultType": "table", "schema": [{"name": "<n>", "type": '"long"'}], "data": [[1], [None], ["<b>"]]}),
    cell(3, "plot", {"resultType": "image", "fileName": PNG}, {"resultType": "image", "fileName": "javascript:alert(3)"}),
    cell(4, "html", {"resultType": "text", "data": EVIL, "isHtml": True}, cut="Something was left out."),
    cell(5, "1 / 0", {"resultType": "error", "summary": "<span>ZeroDivisionError</span>: x &lt; y", "cause": "Trace <b>"}),
]


def test_a_page_has_the_output_and_runs_no_script() -> None:
    page = notebook_page("name <b>", "about", CELLS, model=notebook_model("name", CELLS))
    body = page.partition('<script type="text/plain">')[0]
    assert "<script" not in body and "onerror" not in body.replace("onerror=alert(2)&gt;", "")
    assert "default-src 'none'" in page and page.count('sandbox=""') == 1
    assert "<h1>Hi</h1>" in body and "name &lt;b&gt;" in body
    assert "<td>null</td>" in body and "<td>&lt;b&gt;</td>" in body and "<th>&lt;n&gt;</th>" in body
    assert body.count(f'src="{PNG}"') == 1 and "javascript:" not in body
    assert "Something was left out." in body and "day = monday" in body
    assert "ZeroDivisionError: x &lt; y" in body and "Trace &lt;b&gt;" in body and "\x1b" not in body


def test_clients_find_the_model_of_the_notebook() -> None:
    page = notebook_page("n", "about", CELLS, model=notebook_model("n", CELLS))
    text = page.partition("var __DATABRICKS_NOTEBOOK_MODEL = '")[2].partition("'")[0]
    model = json.loads(unquote(base64.b64decode(text).decode()))
    assert (model["name"], model["language"], len(model["commands"])) == ("n", "python", len(CELLS))
    kinds = [[each["type"] for each in (command["results"] or {"data": []})["data"]] for command in model["commands"]]
    assert kinds == [["htmlSandbox"], ["ansi"], ["table"], ["mimeBundle"], ["htmlSandbox"], ["error"]]
    assert model["commands"][3]["results"]["data"][0]["data"] == {"image/png": "iVBORw0KGgo="}
    large = cell(0, "x", {"resultType": "text", "data": "x" * MAX_RESULTS})
    assert len(notebook_model("n", [large])) < 10_000


def test_code_is_highlighted_and_stays_text() -> None:
    assert highlighted("if x < 'if': # y", "python") == (
        '<span class="k">if</span> x &lt; <span class="s">&#x27;if&#x27;</span>: <span class="c"># y</span>'
    )
    assert highlighted("Select 1 -- a", "sql").startswith('<span class="k">Select</span> <span class="n">1</span>')
    assert highlighted("if <b>", "shell") == "if &lt;b&gt;"


def test_notes_keep_text_only() -> None:
    assert safe_html("<p onclick=x>a<b>c</p>d</i>") == "<p>a<b>c</b></p>d"
    assert safe_html('<a href="javascript:x">l</a><a href="https://x/?a=1&b=2">m</a>') == (
        '<a>l</a><a href="https://x/?a=1&amp;b=2" rel="noopener noreferrer nofollow">m</a>'
    )
    assert safe_html("<style>p{}</style>&lt;script&gt;<svg><a>x</a></svg><img src=https://x/y.png alt=z>") == (
        '&lt;script&gt;<img alt="z">'
    )
    assert safe_html("<div>" * 300).count("<div>") == 100
