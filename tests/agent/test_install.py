"""Having a runtime: found, installed, refused, given up."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import msgspec
import pytest

from brickyard.agent.config import AgentConfig
from brickyard.agent.host import HostError
from brickyard.agent.steps import install
from brickyard.domain.runtimes import RuntimeManifest
from brickyard.providers.bootstrap import environments_of
from brickyard.runtime import NODE_CODE, catalogue
from brickyard.runtime.sparkclasses import classes_path
from tests.agent.world import living
from tests.support.patience import until
from tests.support.runtimes import SPARK_3, SPARK_4, cache_dir, manifest_of

MANIFEST = {
    "environment": "fake", "spark_version": "4", "scala_version": "2.13", "home": "/h", "python": "/p", "python_version": "3",
    "python_base": "/b", "spark_home": "/s", "java_home": "/j", "java_real": "/j", "java_version": "17",
}  # fmt: skip


@pytest.fixture
def config(tmp_path: Path) -> AgentConfig:
    return AgentConfig(
        instance_id="i-1", agent_token="a", server_token="s", server_url="", instance_dir=str(tmp_path), cache_dir=str(tmp_path),
        logs_dir=str(tmp_path), node_code_dir=str(tmp_path), python=sys.executable, environments={"key": "fake"},
    )  # fmt: skip


def installer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Have `python -m brickyard.runtime` be this code."""
    package = tmp_path / "path" / "brickyard" / "runtime"
    package.mkdir(parents=True)
    for path in (package.parent / "__init__.py", package / "__init__.py"):
        path.write_text("")
    (package / "__main__.py").write_text("import json, os, subprocess, sys, time\n" + code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"))


def installed_runtime(tmp_path: Path) -> Path:
    """Make a runtime's directory with its manifest, as the installer leaves it."""
    home = tmp_path / "runtimes" / "fake"
    home.mkdir(parents=True)
    (home / "runtime.json").write_text(json.dumps({**MANIFEST, "home": str(home)}))
    return home


def ensure(config: AgentConfig, said: list[str]) -> RuntimeManifest:
    return asyncio.run(install.ensure(config, "key", progress=said.append))


def test_an_installed_runtime_is_found_without_the_installer(
    config: AgentConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installer(tmp_path, monkeypatch, "sys.exit(3)")
    home = installed_runtime(tmp_path)
    assert ensure(config, []) == msgspec.convert({**MANIFEST, "home": str(home)}, RuntimeManifest)


@pytest.mark.parametrize("key", [SPARK_4, SPARK_3])
@pytest.mark.parametrize("trains", [False, True], ids=["here", "elsewhere"])  # as on the machines of Kubernetes, Ray and Slurm
def test_what_the_installer_has_installed_is_found_without_it(
    config: AgentConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, trains: bool
) -> None:
    """Our classes for Spark included: every start would run the installer again."""
    made = msgspec.convert(manifest_of(key), RuntimeManifest)
    installer(tmp_path, monkeypatch, "sys.exit(3)")
    here = msgspec.structs.replace(
        config,
        cache_dir=str(cache_dir()),
        node_code_dir=str(NODE_CODE),
        environments=environments_of(catalogue.rows()),
        train_runtimes=trains,
    )
    assert asyncio.run(install.ensure(here, key, progress=lambda _: None)) == made


def test_a_runtime_whose_classes_another_version_has_compiled_is_installed_again(
    config: AgentConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installer(tmp_path, monkeypatch, "sys.exit(4)")
    home = installed_runtime(tmp_path)
    code = tmp_path / "code"
    for place in ("java", "java/iceberg", "java/spark4"):
        (code / place).mkdir(parents=True)
        (code / place / "One.java").write_text("class One {}")
    there = msgspec.structs.replace(config, node_code_dir=str(code))
    jar = Path(classes_path(str(home), code))
    jar.parent.mkdir()
    jar.touch()
    assert install.installed(there, "key") is not None
    for place in ("java", "java/iceberg", "java/spark4"):
        source = code / place / "One.java"
        before = source.read_text()
        source.write_text("class One { int changed; }")
        assert install.installed(there, "key") is None, place
        source.write_text(before)
    with pytest.raises(HostError, match="code 4"):
        (code / "java" / "Two.java").write_text("class Two {}")
        ensure(there, [])


def test_progress_and_manifest_of_the_installer(config: AgentConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = f"""
assert sys.argv[1:] == ["install", "key", "--cache-dir", {str(tmp_path)!r}, "--json"], sys.argv
print(json.dumps({{"message": "downloading"}}), flush=True)
print("noise", flush=True)
print(json.dumps({{"manifest": {MANIFEST!r}}}))
"""
    installer(tmp_path, monkeypatch, code)
    said: list[str] = []
    assert ensure(config, said).spark_version == "4"
    assert said == ["downloading"]


@pytest.mark.parametrize(
    "case",
    [
        (
            'print(json.dumps({"error": {"code": "INVALID_ARGUMENT", "message": "no such runtime"}})); sys.exit(1)',
            "INVALID_ARGUMENT",
            "no such",
        ),
        ('print(json.dumps({"error": "the disk is full"})); sys.exit(1)', "SPARK_IMAGE_DOWNLOAD_FAILURE", "the disk is full"),
        ('sys.stderr.write("it broke\\n"); sys.exit(1)', "SPARK_IMAGE_DOWNLOAD_FAILURE", "it broke"),
        ("sys.exit(4)", "SPARK_IMAGE_DOWNLOAD_FAILURE", "code 4"),
    ],
)
def test_why_it_cannot_be_installed(
    config: AgentConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: tuple[str, str, str]
) -> None:
    code, failure, text = case
    installer(tmp_path, monkeypatch, code)
    with pytest.raises(HostError, match=text) as raised:
        ensure(config, [])
    assert raised.value.code == failure


async def test_giving_up_ends_the_installer_and_what_it_started(
    config: AgentConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """
child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
print(json.dumps({"message": f"{os.getpid()} {child.pid}"}), flush=True)
time.sleep(1000)
"""
    installer(tmp_path, monkeypatch, code)
    said: list[str] = []

    task = asyncio.create_task(install.ensure(config, "key", progress=said.append))
    while not said:
        await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    pids = [int(word) for word in said[0].split()]
    until(lambda: not any(living(pid) for pid in pids))
