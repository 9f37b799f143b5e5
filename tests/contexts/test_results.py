"""What a command leaves behind, in the shape that clients read."""

from __future__ import annotations

import html
import json
import re
import time
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from brickyard.runtime.node.contexts import results
from brickyard.runtime.node.wire import EXIT_MIME, TABLE_MIME, VALUE_MIME


def fold(*messages: tuple[str, dict[str, Any]], limit: int = 10_000) -> dict[str, Any]:
    collector = results.Collector(limit=limit)
    for kind, content in messages:
        collector.take(kind, content)
    outcome: dict[str, Any] = collector.results()
    return outcome


def out(text: str) -> tuple[str, dict[str, Any]]:
    return "stream", {"name": "stdout", "text": text}


def shown(**data: Any) -> tuple[str, dict[str, Any]]:
    return "display_data", {"data": {key.replace("__", "/").replace("_DOT_", "."): value for key, value in data.items()}}


def value(text: str) -> tuple[str, dict[str, Any]]:
    return "execute_result", {"data": {"text/plain": text}}


def failed(name: str, message: str, *trace: str) -> tuple[str, dict[str, Any]]:
    return "error", {"ename": name, "evalue": message, "traceback": list(trace)}


def test_printed_text_has_no_trailing_newline() -> None:
    assert fold(out("1\n")) == {"resultType": "text", "data": "1"}


def test_nothing_is_an_empty_text() -> None:
    assert fold() == {"resultType": "text", "data": ""}


def test_the_value_follows_what_was_printed_on_a_line_of_its_own() -> None:
    assert fold(out("a"), value("2"))["data"] == "a\n2"


def test_an_error_reads_well_when_its_tags_are_stripped() -> None:
    outcome = fold(failed("ZeroDivisionError", "division by zero", "\x1b[0;31mTraceback\x1b[0m", "line"))
    assert outcome["resultType"] == "error"
    assert outcome["summary"] == "<span class='ansired'>ZeroDivisionError</span>: division by zero"
    assert outcome["cause"] == "Traceback\nline"


@given(st.text(), st.text(min_size=1))
def test_every_message_survives_stripping_tags_and_resolving_entities(printed: str, message: str) -> None:
    summary = results.error("Error", message, "", printed)["summary"]
    read = html.unescape(re.sub(r"<[^>]*>", "", summary))
    assert read == f"Error: {results.headline(message)}"


def test_a_summary_holds_no_java_stack_trace() -> None:
    trace = "An error occurred.\n: java.lang.X: boom\n" + "\tat org.apache.Spark.run(Spark.scala:1)\n" * 200
    outcome = fold(failed("Py4JJavaError", trace, "all of it"))
    assert "boom" in outcome["summary"]
    assert "Spark.scala" not in outcome["summary"]


def test_an_error_with_many_empty_lines_is_read_at_once() -> None:
    began = time.process_time()
    summaries = [results.headline(f"before{blank * 10_000}after") for blank in ("\n", "\r\n", " \n", "\n\t")]
    assert time.process_time() - began < 2, "meanwhile nothing else of the node host runs"
    assert all(each.startswith("before") and each.endswith("after") for each in summaries)


def test_text_before_an_error_is_kept() -> None:
    assert fold(out("before\n"), failed("E", "x"))["data"] == "before"


def test_leaving_a_notebook_is_its_value() -> None:
    leave = ("display_data", {"data": {EXIT_MIME: {"value": '{"a": 1}'}, "text/plain": "x"}})
    assert fold(leave) == {"resultType": "text", "data": '{"a": 1}', "exited": True}
    assert fold(out("noise\n"), leave) == {"resultType": "text", "data": '{"a": 1}', "exited": True, "summary": "noise"}


def test_values_for_other_tasks_are_beside_the_results() -> None:
    values = [
        ("display_data", {"data": {VALUE_MIME: {"key": key, "value": value}}})
        for key, value in (("a", 1), ("a", [2]), ("b", "x"))
    ]
    assert fold(*values, out("printed\n")) == {"resultType": "text", "data": "printed", "values": {"a": [2], "b": "x"}}


def test_too_large_a_notebook_value_is_an_error_that_says_what_to_do() -> None:
    leave = ("display_data", {"data": {EXIT_MIME: {"value": "x" * 20_000}}})
    assert "file" in fold(leave)["summary"]


def test_a_table_keeps_printed_text_beside_it() -> None:
    table = {"schema": [{"name": "a", "type": '"long"', "metadata": "{}"}], "data": [[1]], "truncated": False}
    outcome = fold(out("hello\n"), ("display_data", {"data": {TABLE_MIME: table}}))
    assert outcome == {"resultType": "table", "isJsonSchema": True, **table, "summary": "hello"}


def test_one_image_and_several() -> None:
    png = ("display_data", {"data": {"image/png": "aGk=\n", "text/plain": "<Figure>"}})
    uri = "data:image/png;base64,aGk="
    assert fold(png) == {"resultType": "image", "fileName": uri, "data": uri}
    assert fold(png, png) == {"resultType": "images", "fileNames": [uri, uri]}


def test_surrogates_are_joined_or_replaced() -> None:
    assert fold(out("\ud83d\ude00 \ud800"))["data"] == "\U0001f600 �"


@given(st.lists(st.text(alphabet=st.characters(), max_size=400), max_size=20))
def test_no_result_is_larger_than_its_limit_or_unfit_for_json(texts: list[str]) -> None:
    outcome = fold(*(out(text) for text in texts), limit=1000)
    encoded = json.dumps(outcome)
    assert len(encoded) < 1000 + 200
    json.dumps(outcome, ensure_ascii=False).encode()


def test_text_beyond_the_limit_is_cut_with_a_note() -> None:
    outcome = fold(out("x" * 600), out("y" * 600), out("z"), limit=1000)
    assert outcome["truncated"] is True
    assert outcome["data"].startswith("x" * 600 + "y" * 400 + "\n***")
    assert "z" not in outcome["data"].split("***")[0]


def test_a_table_that_no_result_can_hold_is_left_out() -> None:
    table = {"schema": [], "data": [["x" * 20_000]], "truncated": False}
    assert fold(("display_data", {"data": {TABLE_MIME: table}}))["resultType"] == "text"


def test_a_failure_that_could_not_be_shown_is_a_failure() -> None:
    """What IPython does when the modules that format tracebacks are gone: it prints, and answers that the command failed."""
    collector = results.Collector()
    plain = "Traceback (most recent call last):\n  File ...\nZeroDivisionError: division by zero"
    collector.take("stream", {"text": f"before\nUnexpected exception formatting exception.\n{plain}\n"})
    collector.answer({"status": "error", "ename": "ZeroDivisionError", "evalue": "division by zero"})
    found = collector.results()
    assert found["resultType"] == "error"
    assert found["summary"].endswith("</span>: division by zero")
    assert found["cause"] == plain
    assert found["data"].startswith("before")


def test_an_answer_adds_nothing_to_what_was_shown() -> None:
    collector = results.Collector()
    collector.take("error", {"ename": "A", "evalue": "b", "traceback": ["shown"]})
    collector.answer({"status": "error", "ename": "A", "evalue": "b"})
    assert collector.results()["cause"] == "shown"
    fine = results.Collector()
    fine.answer({"status": "ok"})
    assert fine.results() == {"resultType": "text", "data": ""}


def test_html_is_a_text_that_is_marked() -> None:
    """Databricks' clients know no other type for it."""
    collector = results.Collector()
    collector.take("stream", {"text": "printed\n"})
    collector.take("display_data", {"data": {"text/html": "<b>1</b>", "text/plain": "<HTML>"}})
    collector.take("display_data", {"data": {"text/html": "<i>2</i>"}})
    assert collector.results() == {"resultType": "text", "data": "<b>1</b>\n<i>2</i>", "isHtml": True, "summary": "printed"}
    value = results.Collector()
    value.take("execute_result", {"data": {"text/html": "<p>", "text/plain": "Model()"}})
    assert value.results() == {"resultType": "text", "data": "Model()"}
    large = results.Collector(limit=100)
    large.take("display_data", {"data": {"text/html": "x" * 200}})
    assert large.results()["truncated"]


def test_the_end_of_what_is_printed_has_whole_lines_only() -> None:
    collector = results.Collector()
    assert collector.printed_last() == ""
    collector.take("stream", {"text": "\x1b[31mone\x1b[0m\ntw"})
    collector.take("stream", {"text": "o"})
    assert collector.printed_last() == "one\ntwo"
    assert collector.printed_last(limit=5) == "two"  # "ne" is half a line
    collector.take("stream", {"text": "\n" + "x" * 100})
    assert collector.printed_last(limit=50) == ""
    collector.take("stream", {"text": "\r 50 %"})
    assert collector.printed_last(limit=50) == " 50 %"


@given(st.lists(st.text(alphabet="ab\n", max_size=30), max_size=30), st.integers(1, 60))
def test_the_end_of_what_is_printed_is_bounded_and_an_end(pieces: list[str], limit: int) -> None:
    collector = results.Collector()
    for piece in pieces:
        collector.take("stream", {"text": piece})
    last, whole = collector.printed_last(limit), "".join(pieces)
    assert len(last) <= limit and whole.endswith(last)
    assert last in ("", whole) or whole[: -len(last)].endswith("\n")
