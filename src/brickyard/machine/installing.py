"""How a package is added to the Python that runs this: for messages. Brickyard is on no index, so it is never named there."""

from __future__ import annotations

import importlib.util
import json
import shlex
import shutil
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

_UV_TOOL = "uv-receipt.toml"  # what `uv tool install` leaves in the environment that it makes
_PIPX = "pipx_metadata.json"  # likewise `pipx install`


def command(requirement: str) -> str:
    """What to type to add a package to our Python's environment, by the program that made it: `uv tool` and pipx make
    it anew when they upgrade, and then drop what was added in another way."""
    prefix = Path(sys.prefix)
    if (prefix / _UV_TOOL).is_file() and (tool := _uv_tool(prefix / _UV_TOOL, requirement)):
        return tool
    if (prefix / _PIPX).is_file():
        return f"pipx inject {shlex.quote(prefix.name)} {shlex.quote(requirement)}"
    python = shlex.quote(sys.executable)
    if importlib.util.find_spec("pip") is not None:
        return f"{python} -m pip install {shlex.quote(requirement)}"
    return f"{_uv()} pip install --python {python} {shlex.quote(requirement)}"


def in_checkout() -> bool:
    """Whether this runs from a checkout, which has `./dev`, and not from an installed package."""
    source = Path(__file__).parents[2]
    return source.name == "src" and (source.parent / "dev").is_file()


def _uv() -> str:
    """That of a checkout's environment, which has uv in place of pip, or the one on the path."""
    beside = Path(sys.executable).with_name("uv")
    return shlex.quote(str(beside)) if beside.exists() else shutil.which("uv") or "uv"


def _uv_tool(receipt: Path, requirement: str) -> str:
    """uv makes the tool of what is named alone: so what was there before is named again. Empty if the wheel that it was installed
    from is gone, or the receipt is one of another uv."""
    source = _source()
    if not source:
        return ""
    try:
        named = tomllib.loads(receipt.read_text())["tool"]["requirements"]
        others = [_text(each) for each in named if each["name"] != "brickyard"]
        (extras,) = [each.get("extras", []) for each in named if each["name"] == "brickyard"]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    tool = f"brickyard[{','.join(extras)}] @ {Path(source).as_uri()}" if extras else source
    return shlex.join(["uv", "tool", "install", *_with([*others, requirement]), tool])


def _text(requirement: dict[str, Any]) -> str:
    """A requirement of a receipt, as one types it. Raises KeyError for one that is not from an index."""
    if requirement.keys() - {"name", "specifier", "extras"}:
        raise KeyError(requirement["name"])
    extras = ",".join(requirement.get("extras", []))
    return f"{requirement['name']}{f'[{extras}]' if extras else ''}{requirement.get('specifier', '')}"


def _with(requirements: Iterable[str]) -> list[str]:
    return [word for each in requirements for word in ("--with", each)]


def _source() -> str:
    """The file or directory that Brickyard was installed from, if it is still there (PEP 610)."""
    try:
        recorded = json.loads(distribution("brickyard").read_text("direct_url.json") or "{}")
        place = urlsplit(recorded["url"])
    except (PackageNotFoundError, ValueError, KeyError):
        return ""
    path = unquote(place.path)
    return path if place.scheme == "file" and Path(path).exists() else ""
