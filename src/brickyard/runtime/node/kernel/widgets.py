"""`dbutils.widgets`: a notebook's parameters. There is no user interface for them, so each has its default value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Widget(NamedTuple):
    """`choices` is None if any text is allowed. With `several`, the value is a comma-separated list of choices."""

    value: str
    choices: tuple[str, ...] | None = None
    several: bool = False

    def takes(self, value: str) -> bool:
        if self.choices is None:
            return True
        return all(part in self.choices for part in (value.split(",") if self.several else [value]))


class Widgets:
    """The widgets of one context. Making a widget again keeps its value if that is still valid, as when a notebook runs again."""

    def __init__(self) -> None:
        self._widgets: dict[str, Widget] = {}

    def text(self, name: str, defaultValue: str, label: str | None = None) -> None:
        """Makes a text field."""
        self._make(name, Widget(_text(name, "defaultValue", defaultValue)))

    def dropdown(self, name: str, defaultValue: str, choices: Sequence[str], label: str | None = None) -> None:
        """Makes a choice of one of `choices`. Raises ValueError if the default is not one of them."""
        self._make(name, Widget(_text(name, "defaultValue", defaultValue), _choices(name, choices)))

    def combobox(self, name: str, defaultValue: str, choices: Sequence[str], label: str | None = None) -> None:
        """Makes a text field with suggestions."""
        _choices(name, choices)
        self._make(name, Widget(_text(name, "defaultValue", defaultValue)))

    def multiselect(self, name: str, defaultValue: str, choices: Sequence[str], label: str | None = None) -> None:
        """Makes a choice of several of `choices`, separated by commas. Raises ValueError if the default contains anything
        else."""
        self._make(name, Widget(_text(name, "defaultValue", defaultValue), _choices(name, choices), several=True))

    def get(self, name: str) -> str:
        """Returns the value. Raises ValueError if there is no such widget."""
        if name not in self._widgets:
            raise ValueError(f"InputWidgetNotDefined: there is no widget {name!r}. {self._there()} {self._how_to_make(name)}")
        return self._widgets[name].value

    def getArgument(self, name: str, defaultValue: str | None = None) -> str:
        """Returns the value, or `defaultValue` if there is no such widget."""
        if name not in self._widgets and defaultValue is not None:
            return _text(name, "defaultValue", defaultValue)
        return self.get(name)

    def getAll(self) -> dict[str, str]:
        """Returns every widget's value, by name."""
        return {name: widget.value for name, widget in self._widgets.items()}

    def remove(self, name: str) -> None:
        """Removes a widget. Raises ValueError if there is none."""
        self.get(name)
        del self._widgets[name]

    def removeAll(self) -> None:
        """Removes every widget."""
        self._widgets.clear()

    def _make(self, name: str, widget: Widget) -> None:
        if not isinstance(name, str) or not name:
            raise ValueError(f"a widget's name must be a string that is not empty; got {name!r}")
        if not widget.takes(widget.value):
            raise ValueError(
                f"the default value of widget {name!r} is {widget.value!r}; it must be one of {list(widget.choices or ())}"
            )
        before = self._widgets.get(name)
        if before is not None and widget.takes(before.value):
            widget = widget._replace(value=before.value)
        self._widgets[name] = widget

    def _there(self) -> str:
        return f"There are: {', '.join(self._widgets)}." if self._widgets else "There are none."

    def _how_to_make(self, name: str) -> str:
        return f"Make it first: dbutils.widgets.text({name!r}, 'its value')."


def _text(name: str, field: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{field} of widget {name!r} must be a string; got {type(value).__name__} {value!r}")
    return value


def _choices(name: str, choices: Sequence[str]) -> tuple[str, ...]:
    if isinstance(choices, str) or not choices:
        raise ValueError(f"the choices of widget {name!r} must be a list of strings that is not empty; got {choices!r}")
    return tuple(_text(name, "each of choices", choice) for choice in choices)
