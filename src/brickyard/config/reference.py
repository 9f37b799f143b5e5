"""The tables of settings in docs/configuration.md. `./dev docs tables` writes them into the file."""

from __future__ import annotations

import re

from brickyard.config.settings import Declaration, declared

TABLE = re.compile(r"(<!-- settings (\w+) to (\w+):.*?-->\n).*?(?=<!-- end -->)", re.DOTALL)


def with_tables(text: str) -> str:
    """The document with every table as the settings are declared now. A table has the settings from one to another."""
    return TABLE.sub(lambda found: found[1] + _table(found[2], found[3]), text)


def _table(first: str, last: str) -> str:
    names = list(declared())
    rows = [_row(declared()[name]) for name in names[names.index(first) : names.index(last) + 1]]
    return "".join(["| setting | default | meaning |\n|---|---|---|\n", *rows])


def _row(setting: Declaration) -> str:
    return f"| `{setting.name}` | {setting.shown_default or 'none'} | {setting.help.text} |\n"
