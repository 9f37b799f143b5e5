"""What users install on a cluster, on real Spark: one cluster of a driver and a worker for all of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from databricks.sdk.service.compute import State

from tests.spark.live import Live
from tests.support.packages import make_index, make_wheel
from tests.support.runtimes import SPARK_4

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of packages."""
    top = tmp_path_factory.mktemp("packages")
    greeting = {"greeting/__init__.py": "", "greeting/main.py": "def run():\n    import sys; print('hello from', sys.prefix)\n"}
    make_index(
        top,
        make_wheel(top, "greeting", files=greeting, scripts={"greet": "greeting.main:run"}),
        make_wheel(top, "cloudpickle", "99.0"),
        make_wheel(top, "pyspark", "99.0"),
    )
    return top


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory, packages: Path) -> Iterator[Live]:
    conf = packages / "pip.conf"
    conf.write_text(f"[global]\nindex-url = {(packages / 'simple').as_uri()}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_CONFIG_FILE", str(conf))
        for name in ("PIP_FIND_LINKS", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
            patch.delenv(name, raising=False)
        made = Live(tmp_path_factory.mktemp("live") / "workspace")
        made.start()
        try:
            yield made
        finally:
            made.close()


@pytest.fixture(scope="module")
def cluster(live: Live) -> str:
    return live.create("libraries", SPARK_4, num_workers=1)


PIP = """
import subprocess, sys
def pip(*words):
    done = subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True)
    return done.stdout + done.stderr
def on_worker(function):
    return sc.parallelize([0], 1).map(lambda _: function()).first()
"""


def test_every_node_has_an_environment_over_the_runtimes_packages(live: Live, cluster: str) -> None:
    live.wait(cluster, State.RUNNING, workers=1)
    said = live.run(cluster, PIP + """
import os, pandas
assert "Successfully installed greeting" in (out := pip("install", "greeting")), out
print(subprocess.run("greet && command -v pip && command -v python", shell=True, capture_output=True, text=True).stdout.split())
import greeting
def worker():
    import sys, pandas, importlib.util
    return sys.prefix, importlib.util.find_spec("greeting") is None, pandas.__version__
prefix, missing, version = on_worker(worker)
print(prefix != sys.prefix, missing, version == pandas.__version__)
print("Successfully installed greeting" in on_worker(lambda: pip("install", "greeting")), not on_worker(worker)[1])
""")  # fmt: skip
    first, second, third = said.strip().splitlines()
    assert "/node/python'" in first and "/node/python/bin/pip" in first and "/node/python/bin/python" in first
    assert second == "True True True", "another environment, in which nobody has installed anything"
    assert third == "True True"


def test_a_newer_version_of_the_runtimes_package_is_the_users_but_never_sparks_own(live: Live, cluster: str) -> None:
    said = live.run(cluster, PIP + """
print("cloudpickle-99.0" in pip("install", "--upgrade", "cloudpickle"))
print("Successfully" in pip("install", "pyspark==99.0"), "constraint" in pip("install", "pyspark==99.0"))
""")  # fmt: skip
    assert said.split() == ["True", "False", "True"]
    said = live.run(cluster, """
import importlib.metadata, subprocess, sys
code = "import cloudpickle; print(cloudpickle.VERSION)"
print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout, spark.range(3).count())
""")  # fmt: skip
    assert said.split() == ["99.0", "3"]
