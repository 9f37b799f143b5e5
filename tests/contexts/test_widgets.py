"""`dbutils.widgets`: values, defaults, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from brickyard.runtime.node import wire as node_wire
from brickyard.runtime.node.contexts import widgets as context_widgets
from brickyard.runtime.node.kernel import widgets as kernel_widgets
from tests.support.golden import Golden


@pytest.fixture
def widgets() -> Any:
    return kernel_widgets.Widgets()


def test_every_kind_has_its_default(widgets: Any) -> None:
    widgets.text("a", "1", "A")
    widgets.dropdown("b", "x", ["x", "y"])
    widgets.combobox("c", "anything", ["x", "y"])
    widgets.multiselect("d", "x,y", ["x", "y", "z"], label="D")
    assert widgets.getAll() == {"a": "1", "b": "x", "c": "anything", "d": "x,y"}
    assert widgets.get("d") == widgets.getArgument("d") == "x,y"


def test_one_that_is_not_there(widgets: Any) -> None:
    assert widgets.getArgument("a", "other") == "other"
    for act in (widgets.get, widgets.getArgument, widgets.remove):
        with pytest.raises(ValueError, match=r"InputWidgetNotDefined.*'a'.*dbutils\.widgets\.text"):
            act("a")


def test_made_again_it_keeps_its_value_while_that_is_a_choice(widgets: Any) -> None:
    widgets.dropdown("a", "x", ["x", "y"])
    widgets.dropdown("a", "y", ["x", "y"])
    assert widgets.get("a") == "x"
    widgets.dropdown("a", "y", ["y", "z"])
    assert widgets.get("a") == "y"


def test_what_a_person_chose_counts_from_the_next_command_on(widgets: Any) -> None:
    widgets.dropdown("a", "x", ["x", "y"])
    widgets.text("b", "1")
    widgets._choose({"a": "y", "b": "", "later": "chosen"})
    assert widgets.getAll() == {"a": "y", "b": ""}
    widgets.text("later", "default")
    assert widgets.get("later") == "chosen"
    widgets._choose({"a": "no choice", "later": "other"})
    assert widgets.getAll() == {"a": "y", "b": "", "later": "other"}
    widgets.remove("later")
    widgets.text("later", "default")
    assert widgets.get("later") == "default"


def test_an_included_notebook_has_its_defaults_and_leaves_what_was_chosen(widgets: Any) -> None:
    widgets._choose({"a": "chosen", "b": "chosen"})
    widgets.text("a", "default")
    with widgets._included({}):
        widgets.text("a", "its own")
        widgets.text("b", "its own")
        assert widgets.getAll()["b"] == "its own" and widgets.get("a") == "its own"
    assert widgets.getAll() == {"a": "chosen", "b": "chosen"}


def test_every_change_is_told_once() -> None:
    told: list[Any] = []
    widgets = kernel_widgets.Widgets(lambda bundle: told.append(next(iter(bundle.values()))["widgets"]))
    widgets.multiselect("a", "x,y", ["x", "y"], "The label")
    widgets.multiselect("a", "x,y", ["x", "y"], "The label")
    expected = {"name": "a", "kind": "multiselect", "value": "x,y", "label": "The label", "choices": ("x", "y"), "default": "x,y"}
    assert told == [[expected]]
    widgets._choose({"a": "y"})
    widgets._choose({"a": "y"})
    assert told[1:] == [[{**expected, "value": "y"}]]
    with widgets._included({}):
        widgets.text("b", "")
        assert len(told) == 2
    assert [[each["name"] for each in widgets] for widgets in told[2:]] == [["a", "b"]]
    widgets.removeAll()
    assert told[3:] == [[]]


def test_what_a_context_tells_is_bounded_and_well_formed() -> None:
    def take(found: object) -> list[Any]:
        assert kept.take("display_data", {"data": {node_wire.WIDGETS_MIME: found}})
        return [each["name"] for each in kept.told or []]

    kept = context_widgets.ContextWidgets()
    assert not kept.take("stream", {"text": "x"}) and not kept.take("display_data", {"data": {"text/plain": "x"}})
    good = {"name": "good", "kind": "text", "value": "v", "label": "", "choices": [], "default": "d"}
    assert take({"widgets": [good, None, {**good, "kind": "frame"}, {**good, "choices": "x"}]}) == ["good"]
    assert kept.told == [good]
    assert take(["nonsense"]) == ["good"]
    assert take({"widgets": [{**good, "name": "\ud800", "value": 7}]}) == ["\ufffd"] and kept.told[0]["value"] == "7"
    large = {**good, "name": "large", "choices": ["x" * context_widgets.LIMIT]}
    assert take({"widgets": [large, *[{**good, "name": str(number)} for number in range(200)]]}) == [
        str(number) for number in range(context_widgets.MAX_WIDGETS - 1)
    ]
    assert take({"widgets": []}) == []
    kept.clear()
    assert kept.told is None


def test_removed_ones_are_gone(widgets: Any) -> None:
    widgets.text("a", "1")
    widgets.text("b", "2")
    widgets.remove("a")
    assert widgets.getAll() == {"b": "2"}
    widgets.removeAll()
    assert widgets.getAll() == {}


def test_what_cannot_be_is_refused_by_name(widgets: Any, golden: Golden) -> None:
    with golden.refused(ValueError, "widget 'a'", "'q'"):
        widgets.dropdown("a", "q", ["x"])
    with golden.refused(ValueError, "widget 'a'", "'x,q'"):
        widgets.multiselect("a", "x,q", ["x"])
    with golden.refused(ValueError, "choices", "widget 'a'"):
        widgets.combobox("a", "x", "xy")
    with golden.refused(TypeError, "defaultValue", "widget 'a'", "int 1"):
        widgets.text("a", 1)
    with golden.refused(ValueError, "name"):
        widgets.text("", "x")
    assert widgets.getAll() == {}
