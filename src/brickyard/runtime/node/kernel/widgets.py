"""`dbutils.widgets`: a notebook's parameters. There is no user interface for them, so each has its default value."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from .described import Described


class Widget(NamedTuple):
    """`choices` is None if any text is allowed. With `several`, the value is a comma-separated list of choices."""

    value: str
    choices: tuple[str, ...] | None = None
    several: bool = False

    def takes(self, value: str) -> bool:
        if self.choices is None:
            return True
        return all(part in self.choices for part in (value.split(",") if self.several else [value]))


class _Frame(NamedTuple):
    """The widgets of one notebook, and the arguments with which it runs, which come before their values."""

    widgets: dict[str, Widget]
    arguments: dict[str, str]


class Widgets(Described):
    """Parameters of notebooks. Making a widget again keeps its value if that is still valid, as when a notebook runs again."""

    _part = "widgets"

    def __init__(self) -> None:
        self._used: dict[str, str] = {}  # the values of those that code has made or asked for
        self._frames = [_Frame({}, {})]  # of the context's notebook, and of each that it includes (`%run`)

    def _give(self, arguments: Mapping[str, str]) -> None:
        """Sets the arguments of the context's notebook (`dbutils.notebook.run`)."""
        self._frames[0].arguments.update(arguments)

    @contextlib.contextmanager
    def _included(self, arguments: Mapping[str, str]) -> Iterator[None]:
        """While a notebook is included by `%run`: its widgets have their defaults or these arguments, whatever they were before.
        Afterwards the notebook around it has those that it lacked."""
        self._frames.append(_Frame({}, dict(arguments)))
        try:
            yield
        finally:
            made = self._frames.pop().widgets
            for name, widget in made.items():
                self._frames[-1].widgets.setdefault(name, widget)

    def _take_used(self) -> dict[str, str]:
        """Returns what code has used since the last call."""
        used, self._used = self._used, {}
        return used

    def lookup(self, name: str) -> str | None:
        # Without a docstring: for %sql, not for users.
        value = self._find(name)
        if value is not None:
            self._used[name] = value
        return value

    def _find(self, name: str) -> str | None:
        for frame in reversed(self._frames):
            if name in frame.arguments:
                return frame.arguments[name]
            if name in frame.widgets:
                return frame.widgets[name].value
        return None

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
        value = self.lookup(name)
        if value is None:
            raise ValueError(f"InputWidgetNotDefined: there is no widget {name!r}. {self._there()} {self._how_to_make(name)}")
        return value

    def getArgument(self, name: str, defaultValue: str | None = None) -> str:
        """Returns the value, or `defaultValue` if there is no such widget."""
        if defaultValue is not None and self.lookup(name) is None:
            return _text(name, "defaultValue", defaultValue)
        return self.get(name)

    def getAll(self) -> dict[str, str]:
        """Returns every widget's value, by name."""
        return {name: self.get(name) for frame in self._frames for name in (*frame.widgets, *frame.arguments)}

    def remove(self, name: str) -> None:
        """Removes a widget. Raises ValueError if there is none."""
        self.get(name)
        for frame in self._frames:
            frame.widgets.pop(name, None)

    def removeAll(self) -> None:
        """Removes every widget."""
        for frame in self._frames:
            frame.widgets.clear()

    def _make(self, name: str, widget: Widget) -> None:
        if not isinstance(name, str) or not name:
            raise ValueError(f"a widget's name must be a string that is not empty; got {name!r}")
        if not widget.takes(widget.value):
            raise ValueError(
                f"the default value of widget {name!r} is {widget.value!r}; it must be one of {list(widget.choices or ())}"
            )
        frame = self._frames[-1]
        before = frame.widgets.get(name)
        if before is not None and widget.takes(before.value):
            widget = widget._replace(value=before.value)
        frame.widgets[name] = widget._replace(value=frame.arguments.get(name, widget.value))
        self._used[name] = frame.widgets[name].value

    def _there(self) -> str:
        return f"There are: {', '.join(self.getAll())}." if self.getAll() else "There are none."

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
