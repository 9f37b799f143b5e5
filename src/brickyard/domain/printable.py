"""Text from clients as it may appear in logs, tables and terminals."""

from __future__ import annotations

from collections.abc import Container

import msgspec


def printable(text: str) -> str:
    """The text with line breaks, escape sequences, and characters that reverse or hide others written out (`\\n`, `\\x1b`)."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def hiding(struct: msgspec.Struct, secret: Container[str]) -> str:
    """The struct as `repr` shows it, without the values of its secret fields."""
    fields = (
        f"{name}={'***' if name in secret and getattr(struct, name) else repr(getattr(struct, name))}"
        for name in struct.__struct_fields__
    )
    return f"{type(struct).__name__}({', '.join(fields)})"
