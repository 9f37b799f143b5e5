"""Spark's classes with plain classes for lambdas: they verify, and their lambdas are what the original classes' are."""

from __future__ import annotations

import json
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from brickyard.runtime import NODE_CODE
from tests.node.node import Node
from tests.support.runtimes import SPARK_3, SPARK_4, manifest_of

# Thousands of classes, one by one, that change only with a runtime or with what rewrites them (tests/node/test_lambdas.py).
pytestmark = [pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(900)]

SAME = Path(__file__).with_name("java") / "SameLambdas.java"


@pytest.fixture(scope="module", params=[SPARK_4, SPARK_3])
def manifest(request: pytest.FixtureRequest) -> dict[str, Any]:
    return manifest_of(request.param, trained=True)


COMPARE = """
compiler = sc._jvm.org.codehaus.janino.SimpleCompiler()
compiler.setParentClassLoader(sc._jvm.java.lang.Thread.currentThread().getContextClassLoader())
compiler.cook(r'''{source}''')
array = sc._gateway.new_array
types, values = array(sc._jvm.java.lang.Class, 2), array(sc._jvm.java.lang.Object, 2)
types[0] = types[1] = sc._jvm.java.lang.Class.forName("java.lang.String")
values[0], values[1] = "{rewritten}", "{spark_home}/jars"
same = compiler.getClassLoader().loadClass("tests.SameLambdas").getConstructor(types).newInstance(values)
"""


@pytest.fixture(scope="module")
def node(manifest: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A driver that has what compares them as `same`."""
    made = Node(tmp_path_factory.mktemp("node") / "node", manifest)
    try:
        made.become("single")
        made.wait_phase("ready")
        made.run(COMPARE.format(source=SAME.read_text(), **manifest))
        yield made
    finally:
        made.close()


def test_all_rewritten_classes_verify(manifest: dict[str, Any], node: Node) -> None:
    """Their loader has no archive of verified ones. Java would leave out of its archives what does not verify."""
    *bad, count = node.run("print(same.unverified())").splitlines()
    assert not bad, bad[:5]
    with zipfile.ZipFile(manifest["rewritten"]) as jar:
        assert int(count) == len(jar.namelist()) > 1000


def test_lambdas_are_serialized_and_read_as_the_original_ones(node: Node) -> None:
    for beginning in ("org/apache/spark/rdd/", "org/apache/spark/sql/catalyst/", "scala/collection/"):
        *differences, compared = node.run(f"print(same.differences('{beginning}'))").splitlines()
        assert not differences, differences[:5]
        assert int(compared) > 20, beginning


@pytest.mark.any_runtime
@pytest.mark.parametrize("harm", ["truncated", "lost"])
def test_a_jar_that_cannot_be_read_costs_only_time(manifest: dict[str, Any], tmp_path: Path, harm: str) -> None:
    bad = tmp_path / "rewritten.jar"
    if harm == "truncated":
        whole = Path(manifest["rewritten"]).read_bytes()
        bad.write_bytes(whole[: len(whole) // 2])
    node = Node(tmp_path / "node", {**manifest, "rewritten": str(bad)})
    try:
        node.become("single")
        node.wait_phase("ready")
        assert node.run("print(spark.range(100).selectExpr('sum(id)').first()[0])") == "4950"
    finally:
        node.close()


FAILS = """
import importlib, json, sys
from pathlib import Path
sys.path.insert(0, {node_code!r})
importlib.import_module("start").mount()
programs = "_brickyard_node.training."
lambdas, train, recording = (importlib.import_module(programs + name) for name in ("lambdas", "train", "recording"))
lambdas.SOURCES = Path({sources!r})
manifest, scratch = json.loads(Path({manifest!r}).read_text()), Path({scratch!r})
seen = recording.Recording(manifest, scratch)
for name in ("node", "executor"):
    seen.path(name).write_text("org/apache/spark/SparkContext id: 1\\n")
print(json.dumps(train.rewrite(manifest, seen, scratch / "rewritten")))
"""


@pytest.mark.any_runtime
def test_without_rewritten_classes_the_training_goes_on(manifest: dict[str, Any], tmp_path: Path) -> None:
    home, file = tmp_path / "home", tmp_path / "manifest.json"
    home.mkdir()
    (home / "rewritten.jar").write_text("of an earlier training")
    file.write_text(json.dumps({**manifest, "home": str(home), "node_archive": "", "worker_archive": "", "rewritten": ""}))
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "PlainLambdas.java").write_text("no Java")
    code = FAILS.format(node_code=str(NODE_CODE), sources=str(tmp_path / "sources"), manifest=str(file), scratch=str(tmp_path))
    done = subprocess.run([manifest["python"], "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    said, answer = map(json.loads, done.stdout.splitlines())
    assert answer == ""
    assert "lambdas" in said["message"] and "org.codehaus.commons.compiler.CompileException" in said["message"]
    assert not list(home.iterdir())
