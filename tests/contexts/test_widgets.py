"""`dbutils.widgets`: values, defaults, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

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
