"""`dbutils.widgets`: a notebook's parameters. The page shows a control for each, and sends what is chosen with every command."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..wire import WIDGETS_MIME
from .described import Described


class Widget(NamedTuple):
    """`kind`: text, dropdown, combobox or multiselect, whose value is a comma-separated list of choices."""

    kind: str
    value: str
    label: str
    choices: tuple[str, ...] = ()
    default: str = ""

    def takes(self, value: str) -> bool:
        if self.kind in ("text", "combobox"):
            return True
        return all(part in self.choices for part in (value.split(",") if self.kind == "multiselect" else [value]))


class _Frame(NamedTuple):
    """The widgets of one notebook, and the arguments with which it runs, which come before their values."""

    widgets: dict[str, Widget]
    arguments: dict[str, str]


class Widgets(Described):
    """Parameters of notebooks. Making a widget again keeps its value if that is still valid, as when a notebook runs again."""

    _part = "widgets"

    def __init__(self, publish: Callable[[dict[str, Any]], None] = lambda _: None) -> None:
        self._publish = publish
        self._told: list[dict[str, Any]] = []  # what was published last
        self._chosen: dict[str, str] = {}  # what a person has chosen on the page
        self._used: dict[str, str] = {}  # the values of those that code has made or asked for
        self._frames = [_Frame({}, {})]  # of the context's notebook, and of each that it includes (`%run`)

    def _give(self, arguments: Mapping[str, str]) -> None:
        """Sets the arguments of the context's notebook (`dbutils.notebook.run`)."""
        self._frames[0].arguments.update(arguments)

    def _choose(self, chosen: Mapping[str, str]) -> None:
        """Sets what a person has chosen, before a command: the values of the context's widgets, and of those that are made."""
        self._chosen = dict(chosen)
        own = self._frames[0].widgets
        own.update({name: self._with_chosen(name, widget) for name, widget in own.items()})
        self._tell()

    def _with_chosen(self, name: str, widget: Widget) -> Widget:
        value = self._chosen.get(name)
        return widget if value is None or not widget.takes(value) else widget._replace(value=value)

    def _tell(self) -> None:
        """Publishes the widgets of the context's notebook, if they have changed."""
        told = [{"name": name, **widget._asdict()} for name, widget in self._frames[0].widgets.items()]
        if told != self._told:
            self._told = told
            self._publish({WIDGETS_MIME: {"widgets": told}})

    @contextlib.contextmanager
    def _included(self, arguments: Mapping[str, str]) -> Iterator[None]:
        """While a notebook is included by `%run`: its widgets have their defaults or these arguments, whatever they were before.
        Afterwards the notebook around it has those that it lacked."""
        self._frames.append(_Frame({}, dict(arguments)))
        try:
            yield
        finally:
            made = self._frames.pop().widgets
            own = len(self._frames) == 1
            for name, widget in made.items():
                self._frames[-1].widgets.setdefault(name, self._with_chosen(name, widget) if own else widget)
            self._tell()

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
        self._make(name, "text", defaultValue, label)

    def dropdown(self, name: str, defaultValue: str, choices: Sequence[str], label: str | None = None) -> None:
        """Makes a choice of one of `choices`. Raises ValueError if the default is not one of them."""
        self._make(name, "dropdown", defaultValue, label, _choices(name, choices))

    def combobox(self, name: str, defaultValue: str, choices: Sequence[str], label: str | None = None) -> None:
        """Makes a text field with suggestions."""
        self._make(name, "combobox", defaultValue, label, _choices(name, choices))

    def multiselect(self, name: str, defaultValue: str, choices: Sequence[str], label: str | None = None) -> None:
        """Makes a choice of several of `choices`, separated by commas. Raises ValueError if the default contains anything
        else."""
        self._make(name, "multiselect", defaultValue, label, _choices(name, choices))

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
        self._chosen.pop(name, None)
        self._tell()

    def removeAll(self) -> None:
        """Removes every widget."""
        for frame in self._frames:
            frame.widgets.clear()
        self._chosen.clear()
        self._tell()

    def _make(self, name: str, kind: str, default: object, label: object, choices: tuple[str, ...] = ()) -> None:
        value = _text(name, "defaultValue", default)
        if not isinstance(name, str) or not name:
            raise ValueError(f"a widget's name must be a string that is not empty; got {name!r}")
        widget = Widget(kind, value, "" if label is None else str(label), choices, default=value)
        if not widget.takes(value):
            raise ValueError(f"the default value of widget {name!r} is {value!r}; it must be one of {list(choices)}")
        frame = self._frames[-1]
        before = frame.widgets.get(name)
        if before is not None and widget.takes(before.value):
            widget = widget._replace(value=before.value)
        elif len(self._frames) == 1:
            widget = self._with_chosen(name, widget)
        frame.widgets[name] = widget._replace(value=frame.arguments.get(name, widget.value))
        self._used[name] = frame.widgets[name].value
        self._tell()

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
