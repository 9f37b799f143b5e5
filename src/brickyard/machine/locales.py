"""The locale of what we start.

Java, Python and R read the names of files in the locale's encoding. In the C locale Java cannot open a file whose path has a
letter that is not ASCII, so everything that we start has UTF-8. Python's own UTF-8 mode makes this process right already.
"""

from __future__ import annotations

import locale
import os

_UTF8 = ("C.UTF-8", "en_US.UTF-8")  # the first that this machine has: glibc has the one, macOS the other


def use_utf8() -> None:
    """Sets LC_ALL for the processes that this one starts, unless they have UTF-8 anyway."""
    before = locale.setlocale(locale.LC_CTYPE)
    try:
        if not _is_utf8(""):
            os.environ["LC_ALL"] = next(filter(_is_utf8, _UTF8), os.environ.get("LC_ALL", ""))
    finally:
        locale.setlocale(locale.LC_CTYPE, before)


def _is_utf8(name: str) -> bool:
    """Whether the locale ("": that of the environment) is there and has UTF-8."""
    try:
        locale.setlocale(locale.LC_CTYPE, name)
    except locale.Error:
        return False
    return locale.nl_langinfo(locale.CODESET).upper() in ("UTF-8", "UTF8")
