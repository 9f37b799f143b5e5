"""A cache directory whose runtime of Spark 3.5 is the installed one with Iceberg, from a Maven repository on loopback."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from brickyard.domain.runtimes import RuntimeManifest
from brickyard.machine import mavenrepo
from brickyard.machine.packageindex import uv_environment
from brickyard.runtime import catalogue, installation, maven
from brickyard.runtime.installed import runtime_home
from brickyard.runtime.python import uv_binary
from tests.support.maven import serve
from tests.support.runtimes import SPARK_3, manifest_of

PACKAGE = "snowpark-connect-deps-iceberg==1.0.2"  # the only place but Maven that has the JAR; 1.0.3 lacks a part of it
FETCH_S = 120


def cache_with_iceberg(directory: Path) -> Path:
    """Makes the cache directory below `directory`. Skips the test where the package cannot be had."""
    runtime = catalogue.find(SPARK_3)
    assert runtime is not None
    artifact = maven.iceberg(runtime)
    _repository(directory / "maven", directory / "package", artifact)
    manifest = msgspec.convert(manifest_of(SPARK_3), RuntimeManifest)
    home = runtime_home(runtime.environment, directory / "cache")
    kept = ("runtime.json", "classes", "archives")
    shutil.copytree(manifest.home, home, symlinks=True, copy_function=_linked, ignore=shutil.ignore_patterns(*kept))
    moved = {
        field: value.replace(manifest.home, str(home))
        for field, value in msgspec.structs.asdict(manifest).items()
        if isinstance(value, str)
    }
    manifest = msgspec.structs.replace(
        manifest, **moved | {"classes": "", "node_archive": "", "executor_archive": "", "rewritten": ""}
    )
    with serve(directory / "maven") as repository, pytest.MonkeyPatch.context() as patch:
        patch.setenv(mavenrepo.VARIABLE, repository.url)
        missing = installation.add_jar(artifact, Path(manifest.spark_home, "jars"), look=lambda: None, note=lambda _: None)
    assert missing == ""
    (home / "runtime.json").write_bytes(msgspec.json.encode(msgspec.structs.replace(manifest, has_iceberg=True)))
    return directory / "cache"


def _repository(root: Path, package: Path, artifact: maven.Artifact) -> None:
    command = [uv_binary(), "pip", "install", "--quiet", "--no-deps", "--target", str(package), PACKAGE]
    environment = os.environ | uv_environment(os.environ)
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=FETCH_S, check=False)
        said = done.stderr.strip()[-300:] if done.returncode else ""
    except subprocess.TimeoutExpired:
        said = f"nothing after {FETCH_S} s"
    if said:
        pytest.skip(f"{PACKAGE}, which has Iceberg's JAR, cannot be had: {said}")
    jar = root / artifact.path
    jar.parent.mkdir(parents=True)
    shutil.copy(next(package.rglob(jar.name)), jar)
    jar.with_name(jar.name + ".sha1").write_text(hashlib.sha1(jar.read_bytes(), usedforsecurity=False).hexdigest())


def _linked(source: str, target: str) -> None:
    with contextlib.suppress(OSError):
        os.link(source, target)
        return
    shutil.copy2(source, target)
