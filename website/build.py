"""Builds the site with Zensical, strictly: a link or an anchor that leads nowhere fails it."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import uv

from brickyard.machine.packageindex import uv_environment

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = Path(__file__).with_name("zensical.toml")
LOCK_FILE = ROOT / "requirements" / "docs.txt"
ENVIRONMENT = ROOT / ".venv" / "docs"  # 100 MB that nothing else needs, so they are fetched when a site is built
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "docs")
VERSIONS = "versions.json"  # the menu of versions in the header reads it
_REST = '"Development" = []'  # in the menu
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_FRONT = """<!doctype html>
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url={version}/">
<title>Brickyard</title>
<a href="{version}/">Brickyard {version}</a>
"""


class SiteError(Exception):
    """One sentence: what went wrong and what to do."""


def add_version(site: Path, version: str, *, source: Path = ROOT) -> Path:
    """Builds the pages of `source` as a version of the site, beside the others that are there, and returns its directory. The
    version that was added last is the front. A build that fails changes nothing."""
    site.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=site, prefix=".") as scratch:
        made = build(Path(scratch), source)
        shutil.rmtree(site / version, ignore_errors=True)
        made.rename(site / version)
    try:
        before = json.loads((site / VERSIONS).read_text())
    except FileNotFoundError:
        before = []
    others = [{**each, "aliases": []} for each in before if each["version"] != version]
    versions = [{"version": version, "title": version, "aliases": ["latest"]}, *others]
    (site / VERSIONS).write_text(json.dumps(versions, indent=2) + "\n")
    (site / "index.html").write_text(_FRONT.format(version=version))
    return site / version


def build(scratch: Path, source: Path) -> Path:
    """The pages of one version. Raises SiteError with what Zensical found."""
    pages = scratch / "pages"
    pages.mkdir()
    for name in PAGES:
        if (source / name).is_dir():
            shutil.copytree(source / name, pages / name)
        else:
            shutil.copy(source / name, pages / name)
    settings = scratch / SETTINGS.name
    settings.write_text(_settings(pages))
    command = [str(_environment() / "bin" / "zensical"), "build", "--strict", "--clean", "--config-file", str(settings)]
    done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)
    if done.returncode:
        print(_COLOURS.sub("", done.stdout + done.stderr), file=sys.stderr)
        raise SiteError("the site cannot be built: see above.")
    return scratch / "site"


def _settings(pages: Path) -> str:
    """Those of zensical.toml, with the pages that it does not place in the menu at its end."""
    text = SETTINGS.read_text()
    placed = set(_paths(tomllib.loads(text)["project"]["nav"]))
    if missing := sorted(each for each in placed if not (pages / each).is_file()):
        raise SiteError(f"{SETTINGS.name} places {missing[0]} in the menu, and there is no such page.")
    found = sorted(str(each.relative_to(pages)) for each in pages.rglob("*.md"))
    return text.replace(_REST, _REST.replace("[]", json.dumps([each for each in found if each not in placed])))


def _paths(menu: Iterable[Any]) -> Iterable[str]:
    for entry in menu:
        if isinstance(entry, str):
            yield entry
        else:
            for below in entry.values():
                yield from _paths(below)


def _environment() -> Path:
    """An environment with the locked packages. One process makes it, and others wait. The stamp comes last: the next build
    repairs what a kill left."""
    stamp, wanted = ENVIRONMENT / "stamp", LOCK_FILE.read_text()
    ENVIRONMENT.parent.mkdir(exist_ok=True)
    with ENVIRONMENT.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (stamp.is_file() and stamp.read_text() == wanted):
            _make_environment()
            stamp.write_text(wanted)
    return ENVIRONMENT


def _make_environment() -> None:
    variables = {**os.environ, **uv_environment(os.environ)}
    for arguments in (
        ("venv", "--quiet", "--clear", "--no-project", "--python", sys.executable, str(ENVIRONMENT)),
        ("pip", "sync", "--quiet", "--require-hashes", "--python", str(ENVIRONMENT / "bin" / "python"), str(LOCK_FILE)),
    ):
        if subprocess.run([uv.find_uv_bin(), *arguments], env=variables, check=False).returncode:
            raise SiteError("Zensical cannot be installed (see above). Check the package index and the network.")
