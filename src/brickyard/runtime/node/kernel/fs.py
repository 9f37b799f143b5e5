"""`%fs`: a command line for `dbutils.fs`, such as `%fs cp -r dbfs:/from dbfs:/to`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from ..wire import TABLE_MIME


class _Verb(NamedTuple):
    """The syntax of a command: its number of words, and its flags (name -> the keyword argument that it sets)."""

    usage: str
    words: int
    flags: Mapping[str, str] = MappingProxyType({})


_RECURSE = {"-r": "recurse", "--recurse": "recurse"}
_VERBS = {
    "ls": _Verb("ls PATH", 1),
    "head": _Verb("head [--maxBytes=N] FILE", 1, {"--maxBytes": "max_bytes", "--max-bytes": "max_bytes"}),
    "put": _Verb('put [-f] FILE "CONTENTS"', 2, {"-f": "overwrite", "--overwrite": "overwrite"}),
    "mkdirs": _Verb("mkdirs DIRECTORY", 1),
    "rm": _Verb("rm [-r] PATH", 1, _RECURSE),
    "cp": _Verb("cp [-r] SOURCE TARGET", 2, _RECURSE),
    "mv": _Verb("mv [-r] SOURCE TARGET", 2, _RECURSE),
}
_COLUMNS = (("path", "string"), ("name", "string"), ("size", "long"), ("modificationTime", "long"))


def parse(line: str) -> tuple[str, list[str], dict[str, Any]]:
    """Parses a line into a method of `dbutils.fs` and its arguments. Raises ValueError with the correct syntax."""
    name, *rest = shlex.split(line) or [""]
    verb = _VERBS.get(name)
    if verb is None:
        known = "; ".join(each.usage for each in _VERBS.values())
        raise ValueError(f"%fs does not know {name!r}. It takes: {known}.")
    words: list[str] = []
    options: dict[str, Any] = {}
    for part in rest:
        flag, equals, value = part.partition("=")
        if flag in verb.flags:
            options[verb.flags[flag]] = _value(verb.flags[flag], value if equals else "true", verb)
        elif part.startswith("-"):
            raise ValueError(f"%fs {name} has no option {flag}. Write: %fs {verb.usage}")
        else:
            words.append(part)
    if len(words) != verb.words:
        raise ValueError(
            f"%fs {name} takes {verb.words} argument{'s' * (verb.words > 1)}, not {len(words)}. Write: %fs {verb.usage}"
        )
    return name, words, options


def _value(keyword: str, text: str, verb: _Verb) -> Any:
    if keyword != "max_bytes" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if keyword == "max_bytes" and text.isdigit():
        return int(text)
    raise ValueError(f"{text!r} is not a value of that option. Write: %fs {verb.usage}")


def make_fs_magic(files: Any, publish: Callable[[dict[str, Any]], None]) -> Callable[[str], None]:
    """Makes the line magic. `files` is `dbutils.fs`; `publish` sends a MIME bundle."""

    def fs(line: str) -> None:
        """%fs ls|head|put|mkdirs|rm|cp|mv ...: what dbutils.fs does."""
        name, words, options = parse(line)
        found = getattr(files, name)(*words, **options)
        if name == "ls":
            schema = [{"name": column, "type": json.dumps(kind), "metadata": "{}"} for column, kind in _COLUMNS]
            rows = [list(entry) for entry in found]
            publish({TABLE_MIME: {"schema": schema, "data": rows, "truncated": False}, "text/plain": str(found)})
        else:
            print(found)

    return fs
