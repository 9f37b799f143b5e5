"""What an editor asks of a context while somebody types: Python expressions for the IPython that runs there. Pure."""

from __future__ import annotations

from IPython.utils.tokenutil import line_at_cursor, token_at_cursor


def completions(code: str, cursor: int) -> str:
    """An expression for what may stand at the cursor: `(text to replace, which ends at the cursor, [matches])`."""
    line, offset = line_at_cursor(code, cursor)
    return f"get_ipython().complete('', {line!r}, {cursor - offset})"


def bare(text: str, matches: list[str]) -> tuple[str, list[str]]:
    """The same without what all of them begin with up to a dot: `.gr`, `.groupBy` as `gr`, `groupBy`, as people read them."""
    head = text[: text.rfind(".") + 1]
    if all(match.startswith(head) for match in matches):
        return text[len(head) :], [match[len(head) :] for match in matches]
    return text, matches


def inspection(code: str, cursor: int, detail_level: int) -> str:
    """An expression for what is known of the name at the cursor, `{MIME type: text}`; it fails where that is nothing."""
    return f"get_ipython().object_inspect_mime({token_at_cursor(code, cursor)!r}, detail_level={1 if detail_level else 0})"
