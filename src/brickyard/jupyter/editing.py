"""Editor requests while somebody types, as Python expressions for the context's IPython. Pure."""

from __future__ import annotations

from IPython.utils.tokenutil import line_at_cursor, token_at_cursor


def completions(code: str, cursor: int) -> str:
    """An expression for the completions at the cursor: `(text to replace, which ends at the cursor, [matches])`."""
    line, offset = line_at_cursor(code, cursor)
    return f"get_ipython().complete('', {line!r}, {cursor - offset})"


def bare(text: str, matches: list[str]) -> tuple[str, list[str]]:
    """The same without the prefix up to a dot that all matches share: `.gr`, `.groupBy` become `gr`, `groupBy`."""
    head = text[: text.rfind(".") + 1]
    if all(match.startswith(head) for match in matches):
        return text[len(head) :], [match[len(head) :] for match in matches]
    return text, matches


def inspection(code: str, cursor: int, detail_level: int) -> str:
    """An expression for the documentation of the name at the cursor, `{MIME type: text}`; it fails if there is none."""
    return f"get_ipython().object_inspect_mime({token_at_cursor(code, cursor)!r}, detail_level={1 if detail_level else 0})"
