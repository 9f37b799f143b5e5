"""The widgets of a context, as its kernel has told of them: what the page shows above the cells of a notebook."""

from __future__ import annotations

from typing import Any

from ..wire import WIDGETS_MIME
from .results import clean, encoded_size

KINDS = ("text", "dropdown", "combobox", "multiselect")
MAX_WIDGETS = 100
LIMIT = 256 * 1024  # bytes of all of them as ASCII JSON
_TEXTS = ("name", "label", "value", "default")


class ContextWidgets:
    """Written by the context's thread; `told` is replaced as a whole, so any thread may read it. None: there were none yet."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] | None = None

    def clear(self) -> None:
        """The process is gone, and its widgets with it."""
        self.told = None

    def take(self, kind: str, content: dict[str, Any]) -> bool:
        """Takes one message of the kernel's output channel, and returns whether it was about widgets."""
        data = content.get("data") or {}
        if kind != "display_data" or WIDGETS_MIME not in data:
            return False
        mark = data[WIDGETS_MIME]
        found = mark.get("widgets") if isinstance(mark, dict) else None
        if isinstance(found, list):  # users' code can send anything
            self.told = _fitting(found)
        return True


def _fitting(found: list[Any]) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = []
    left = LIMIT
    for each in found[:MAX_WIDGETS]:
        if not isinstance(each, dict) or each.get("kind") not in KINDS or not isinstance(each.get("choices"), list):
            continue
        widget = {"kind": each["kind"], **{name: clean(str(each.get(name, ""))) for name in _TEXTS}}
        widget["choices"] = [clean(str(choice)) for choice in each["choices"]]
        size = sum(encoded_size(text) for text in (*(widget[name] for name in _TEXTS), *widget["choices"]))
        if size <= left:
            told.append(widget)
            left -= size
    return told
