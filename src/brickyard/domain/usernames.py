"""Which names of people cannot be mistaken for others: what looks like another name must not be one of its own."""

from __future__ import annotations

import re
import unicodedata

_LABELS = re.compile(r"[^\w]|_")  # what separates the words of an e-mail address
# Scripts that are written together, beside one alone (Unicode's "highly restrictive" level).
_TOGETHER = (
    frozenset({"LATIN", "CJK", "HIRAGANA", "KATAKANA"}),
    frozenset({"LATIN", "CJK", "BOPOMOFO"}),
    frozenset({"LATIN", "CJK", "HANGUL"}),
)
_SAME = {"KATAKANA-HIRAGANA": "KATAKANA", "IDEOGRAPHIC": "CJK"}
_INVISIBLE = re.compile(r"\b(?:SELECTOR|JOINER|FILLER)\b")


def unclear(name: str) -> str:
    """Why the name of a new user could be mistaken for another one; "" if it cannot."""
    if name.isascii():
        return ""
    if (plain := unicodedata.normalize("NFKC", name)) != name:
        return f"some of its characters are forms of others; write {plain[:100]!r}"
    for char in name:
        if not char.isascii() and (unicodedata.category(char)[0] not in "LMN" or _INVISIBLE.search(unicodedata.name(char, ""))):
            return f"it has the character U+{ord(char):04X}; letters, digits and the punctuation of ASCII are allowed"
    for label in _LABELS.split(name):
        scripts = {script for char in label if (script := _script(char))}
        if len(scripts) > 1 and not any(scripts <= allowed for allowed in _TOGETHER):
            return f"{label[:100]!r} mixes letters of {' and '.join(sorted(each.title() for each in scripts))}"
    return ""


def _script(char: str) -> str:
    """The script of a letter, as Unicode's names begin with it."""
    script = unicodedata.name(char, "?").partition(" ")[0] if char.isalpha() else ""
    return _SAME.get(script, script)
