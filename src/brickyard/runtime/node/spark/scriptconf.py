"""Settings that init scripts write for the driver: files in /databricks/driver/conf, as on Databricks. Pure but for reading them.

`NAME.conf` with a section `[driver] { "spark.key" = "value" }`, and `spark-defaults.conf`, with a key and a value on each line.
Files count in the order of their names. The cluster's own spark_conf has precedence. Other files there are on the driver's class
path.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ..jvm.launch import LaunchError, driver_conf_dir

DEFAULTS = "spark-defaults.conf"
MAX_BYTES = 1 << 20
_SECTION = re.compile(r"\[(?P<name>\w+)\]\s*\{")
_QUOTED = r'"(?:[^"\\\n]|\\.)*"'
_ENTRY = re.compile(rf"\s*(?P<key>{_QUOTED}|[\w.:-]+)\s*[=:]\s*(?P<value>{_QUOTED}|[^\s,}}#\"][^\n,}}#]*)[ \t]*,?")
_SKIP = re.compile(r"(?:\s|,|#[^\n]*|//[^\n]*)+")
_LINE = re.compile(r"\s*(?P<key>[^\s=:]+)\s*(?:[=:]\s*|\s)(?P<value>.*?)\s*")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


class ScriptConf(NamedTuple):
    """`values`: the settings. `notes`: a sentence for each file that has some."""

    values: dict[str, str]
    notes: list[str]


def read(node_dir: Path, own: Mapping[str, str]) -> ScriptConf:
    """Returns the settings in the files that the cluster's own conf leaves open. Raises LaunchError."""
    values: dict[str, str] = {}
    notes = []
    for path in sorted(driver_conf_dir(node_dir).glob("*.conf")):
        found: dict[str, str] = {}
        with contextlib.suppress(OSError):
            if path.is_file() and path.stat().st_size <= MAX_BYTES:
                text = path.read_text(errors="replace")
                found = parse(text, path.name)
        if found:
            values.update(found)
            notes.append(f"settings of /databricks/driver/conf/{path.name}: {', '.join(sorted(found))}")
    return ScriptConf({key: value for key, value in values.items() if key not in own}, notes)


def parse(text: str, name: str) -> dict[str, str]:
    """Returns the driver's settings in a file; those of other sections, and files of another kind, have none. Raises
    LaunchError."""
    text = "\n".join(line.lstrip()[1:] if line.lstrip().startswith("|") else line for line in text.splitlines())
    if name == DEFAULTS:
        return _defaults(text)
    values: dict[str, str] = {}
    for section in _SECTION.finditer(text):
        found = _section(text, section.end(), name)
        if section["name"] == "driver":
            values.update(found)
    return values


def _section(text: str, at: int, name: str) -> dict[str, str]:
    values: dict[str, str] = {}
    while True:
        if (skipped := _SKIP.match(text, at)) is not None:
            at = skipped.end()
        if text[at : at + 1] == "}":
            return values
        entry = _ENTRY.match(text, at)
        if entry is None:
            line = text.count("\n", 0, at) + 1
            raise LaunchError(
                f'/databricks/driver/conf/{name}, line {line}, cannot be read: write [driver] {{ "spark.key" = "value" }}, a '
                "setting a line."
            )
        values[_plain(entry["key"])] = _plain(entry["value"])
        at = entry.end()


def _defaults(text: str) -> dict[str, str]:
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    found = [match for match in map(_LINE.fullmatch, lines) if match is not None]
    return {match["key"]: _plain(match["value"]) for match in found}


def _plain(text: str) -> str:
    text = text.strip()
    if len(text) >= 2 and text[0] == text[-1] == '"':
        return _ESCAPED.sub(lambda found: {"n": "\n", "t": "\t"}.get(found[1], found[1]), text[1:-1])
    return text
