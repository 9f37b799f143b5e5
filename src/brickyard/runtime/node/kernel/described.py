"""`help()` of `dbutils` and its parts, from their signatures and docstrings."""

from __future__ import annotations

import inspect
from typing import NoReturn


class Described:
    """A part of `dbutils`. Its public methods with docstrings are what it offers; other names are refused."""

    _part = ""  # its name below dbutils

    def help(self, method: str = "") -> None:
        """Prints what there is, or what one method does."""
        offered = {name: text for name, text in _methods(type(self)).items() if not method or name == method}
        if method and not offered:
            print(f"{_named(self._part, method)} is not offered. Available: {', '.join(_methods(type(self)))}.")
            return
        heading = (inspect.getdoc(type(self)) or "").split("\n\n")[0]
        print("\n".join([*([] if method else [heading, ""]), *offered.values()]))

    def __getattr__(self, name: str) -> NoReturn:
        available = ", ".join([*_methods(type(self)), *(each for each in vars(self) if not each.startswith("_"))])
        raise AttributeError(f"{_named(self._part, name)} is not offered on this cluster. Available: {available}.")


def _named(part: str, name: str) -> str:
    return ".".join(each for each in ("dbutils", part, name) if each)


def _methods(kind: type) -> dict[str, str]:
    """Returns each method's line of help, by name."""
    found = {}
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        if not name.startswith("_") and (text := inspect.getdoc(method)):
            words = [str(each) for each in list(inspect.signature(method).parameters.values())[1:]]
            signature = ", ".join(word.replace("'", "") for word in words)
            found[name] = f"{name}({signature}) -> {' '.join(text.split())}"
    return found
