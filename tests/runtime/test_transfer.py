"""A runtime goes to another machine in one file, whole or not at all."""

from __future__ import annotations

import functools
import platform
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from brickyard.domain.runtimes import Runtime, RuntimeManifest
from brickyard.machine.bundles import BundleWriter
from brickyard.runtime import catalogue
from brickyard.runtime.installed import installed, runtime_home, write_manifest
from brickyard.runtime.transfer import KIND, TransferError, bring_in, export
from tests.support.golden import Golden
from tests.support.kills import killed_at

JAVA = "#!/bin/sh\necho 'openjdk version \"17.0.9\" 2023' >&2\n"
ENVIRONMENT = "spark-4.0"


def untold(size: int) -> None:
    """Progress that nobody sees."""


def runtime() -> Runtime:
    return next(each for each in catalogue.rows() if each.environment == ENVIRONMENT)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """With a runtime whose Java is the machine's, with files elsewhere, as distributions have it."""
    cache, java = tmp_path / "cache", tmp_path / "jvm" / "java-17"
    home = runtime_home(ENVIRONMENT, cache)
    for path, text in {
        java / "bin" / "java": JAVA,
        tmp_path / "etc" / "security": "conf",
        home / "venv" / "bin" / "tool": f"#!{home}/venv/bin/python\n",
        home / "venv" / "pyvenv.cfg": "home = /elsewhere\nversion_info = 3\nuv = 1\n",
        home / "venv" / "lib" / "pyspark" / "core.py": "spark",
        home / "venv" / "lib" / "pyspark" / "work" / "junk": "",
        home / "layers" / "delta-1" / "delta.jar": "jar",
        home / "packages" / "1.draft" / "half": "",
        home / "archives" / "node.jsa": "fits no other place",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (java / "bin" / "java").chmod(0o755)
    (java / "conf").symlink_to(tmp_path / "etc")
    (java / "src.zip").symlink_to(tmp_path / "missing")
    (home / "venv" / "lib64").symlink_to("lib")
    (home / "venv" / "bin" / "python").symlink_to(sys.executable)
    write_manifest(manifest_of(home, java))
    return cache


def manifest_of(home: Path, java: Path, **given: Any) -> RuntimeManifest:
    known: dict[str, Any] = {
        "environment": ENVIRONMENT, "spark_version": "4.0.5", "scala_version": "2.13", "home": str(home),
        "python": f"{home}/venv/bin/python", "python_version": platform.python_version(), "python_base": sys.base_prefix,
        "spark_home": f"{home}/venv/lib/pyspark", "java_home": str(java), "java_real": str(java), "java_version": "17.0.9",
        "node_archive": f"{home}/archives/node.jsa",
    }  # fmt: skip
    return RuntimeManifest(**{**known, **given})


def test_a_runtime_fits_where_it_is_imported(cache: Path, tmp_path: Path) -> None:
    file, other = tmp_path / "r.tar", tmp_path / "other"
    assert export([runtime()], file, cache_dir=cache, tell=untold) == [ENVIRONMENT]
    (tmp_path / "etc" / "security").unlink()  # another machine has none of it
    assert bring_in(file, cache_dir=other, tell=untold) == ([ENVIRONMENT], [])
    home, found = runtime_home(ENVIRONMENT, other), installed(ENVIRONMENT, other)
    assert found is not None
    assert (found.home, found.python, found.node_archive) == (str(home), f"{home}/venv/bin/python", "")
    assert found.java_home == found.java_real == f"{home}/java/exported"
    assert (home / "java" / "exported" / "conf" / "security").read_text() == "conf"
    assert (home / "venv" / "bin" / "tool").read_text() == f"#!{home}/venv/bin/python\n"
    assert (home / "venv" / "bin" / "python").exists()
    assert "/elsewhere" not in (home / "venv" / "pyvenv.cfg").read_text()
    assert (home / "venv" / "lib64" / "pyspark" / "core.py").read_text() == "spark"
    assert sorted(path.name for path in home.iterdir()) == ["java", "layers", "packages", "runtime.json", "venv"]
    assert not list(home.glob("packages/*")) and not (home / "venv" / "lib" / "pyspark" / "work").exists()
    assert bring_in(file, cache_dir=other, tell=untold) == ([], [ENVIRONMENT])
    assert sorted(path.name for path in other.iterdir()) == ["locks", "runtimes"]


def test_an_import_that_is_killed_is_repeated(cache: Path, tmp_path: Path) -> None:
    file, other, number = tmp_path / "r.tar", tmp_path / "other", 1
    export([runtime()], file, cache_dir=cache, tell=untold)
    while killed_at(number, functools.partial(bring_in, file, cache_dir=other, tell=untold)):
        if (found := installed(ENVIRONMENT, other)) is not None:
            assert Path(found.java_home, "conf", "security").exists()
            other = tmp_path / f"other-{number}"
        number += 8
    assert number > 16
    assert installed(ENVIRONMENT, other) is not None
    assert sorted(path.name for path in other.iterdir()) == ["locks", "runtimes"]


def test_what_does_not_fit_or_is_damaged_is_refused(cache: Path, tmp_path: Path, golden: Golden) -> None:
    file, other = tmp_path / "r.tar", tmp_path / "other"
    export([runtime()], file, cache_dir=cache, tell=untold)
    whole = file.read_bytes()

    def refused(*fields: str) -> None:
        with golden.refused(TransferError, *fields):
            bring_in(file, cache_dir=other, tell=untold)
        assert not (other / "runtimes").exists() and not (other / "importing").exists()

    at = whole.rindex(b"spark", 0, whole.index(b"manifest.json"))
    file.write_bytes(whole.replace(b"\0spark\0", b"\0sparK\0"))
    refused("venv/lib/pyspark/core.py")
    file.write_bytes(whole[:at])
    refused()
    file.write_bytes(b"x" * 2000)
    refused()
    for given in ({"machine": "sparc"}, {"python_version": "3.2.1"}, {"environment": "spark-1.0"}):
        file.unlink()
        bundle(file, cache, **given)
        refused(*(value.rpartition(".")[0] or value for value in given.values() if value != "spark-1.0"))
    with golden.refused(TransferError):
        export([runtime()], tmp_path / "other.tar", cache_dir=tmp_path / "none", tell=untold)


def bundle(file: Path, cache: Path, *, link: str = "", name: str = "", machine: str = platform.machine(), **given: str) -> None:
    """A file that no export writes."""
    manifest = manifest_of(runtime_home(ENVIRONMENT, cache), file.parent / "jvm" / "java-17", **given)
    about = {
        "system": platform.system(), "machine": machine, "version": "0.0.1",
        "environments": {manifest.environment: msgspec.to_builtins(manifest)},
    }  # fmt: skip
    with file.open("wb") as stream:
        writer = BundleWriter(stream, KIND, about)
        if link:
            writer.link(f"runtimes/{ENVIRONMENT}/venv/link", link)
        writer.data(name or f"runtimes/{ENVIRONMENT}/venv/x", b"x")
        writer.close()


@pytest.mark.parametrize("link", ["/etc", "../../../../etc", f"../../{ENVIRONMENT}-other/x"])
def test_a_link_that_leads_outside_is_refused(cache: Path, tmp_path: Path, link: str) -> None:
    bundle(tmp_path / "r.tar", cache, link=link)
    with pytest.raises(TransferError, match="venv/link"):
        bring_in(tmp_path / "r.tar", cache_dir=tmp_path / "other", tell=untold)


@pytest.mark.parametrize(
    "name", ["../x", "/x", "runtimes/spark-4.1/venv/x", f"runtimes/{ENVIRONMENT}/runtime.json", "java/other/x"]
)
def test_a_name_that_belongs_elsewhere_is_refused(cache: Path, tmp_path: Path, name: str) -> None:
    bundle(tmp_path / "r.tar", cache, name=name)
    with pytest.raises(TransferError, match="refused"):
        bring_in(tmp_path / "r.tar", cache_dir=tmp_path / "other", tell=untold)
