"""Hides the values of secrets in text: in what commands print, in statuses, errors and logs.

This protects against showing a secret by mistake. It cannot protect against somebody who may read the secret and wants to show
it: an encoded value (base64, or letter by letter) is another text.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from typing import Any

REDACTED = "[REDACTED]"
SHORTEST = 4  # characters, without blanks at both ends: shorter values would blank text that has nothing to do with them
SHORTEST_LINE = 8  # of a value with several lines, such as a key in PEM: each line is hidden by itself as well


class Redactor:
    """Hides these values wherever they occur, also as they are written in JSON, in Python's `repr` and in HTML."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        forms: set[str] = set()
        for value in values:
            if len(value.strip()) >= SHORTEST:
                forms |= _forms(value)
            forms.update(*(_forms(line) for line in value.splitlines() if len(line.strip()) >= SHORTEST_LINE))
        self._forms = sorted(forms, key=lambda form: (-len(form), form))  # a value may be part of another

    def __bool__(self) -> bool:
        return bool(self._forms)

    def text(self, text: str) -> str:
        for form in self._forms:
            if form in text:
                text = text.replace(form, REDACTED)
        return text

    def data(self, data: bytes) -> bytes:
        """The same for text as UTF-8, with as many asterisks as there were bytes: positions in a log stay valid."""
        for form in self._forms:
            hidden = form.encode(errors="surrogatepass")
            data = data.replace(hidden, b"*" * len(hidden))
        return data

    def json(self, value: Any) -> Any:
        """The same for every string in a JSON value, and for numbers that are a secret's digits."""
        if not self._forms:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.json(item) for item in value]
        if isinstance(value, dict):
            return {self.text(key): self.json(item) for key, item in value.items()}
        if isinstance(value, int | float) and not isinstance(value, bool) and str(value) in self._forms:
            return REDACTED
        return value


def _forms(value: str) -> set[str]:
    printed = value.replace("\r\n", "\n")  # what results of commands have
    forms: set[str] = set()
    for each in {value, value.strip(), printed, printed.strip()}:
        escaped = {json.dumps(each)[1:-1], json.dumps(each, ensure_ascii=False)[1:-1], repr(each)[1:-1]}
        forms |= {each, *escaped, html.escape(each, quote=False), html.escape(each)}
    return forms
