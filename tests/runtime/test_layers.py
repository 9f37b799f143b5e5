"""Layers of a runtime: complete or not at all, from a repository on loopback, and never in the way of anything else."""

from __future__ import annotations

import contextlib
import hashlib
import re
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from brickyard.domain.runtimes import RuntimeManifest
from brickyard.features.runtimes.loop import Trainings
from brickyard.machine import mavenrepo
from brickyard.runtime import catalogue, layers
from brickyard.runtime.installed import installed, runtime_home, write_manifest
from brickyard.runtime.layers import NEEDED, Layer, due, last_failure, missing, needed, with_layers
from brickyard.runtime.layerwork import install_layers, require_layers
from brickyard.runtime.lock import sole
from brickyard.runtime.maven import artifact
from brickyard.runtime.node.jvm.layers import NATIVE, PHOTON, library_flags
from brickyard.runtime.packages import NoRuntime
from brickyard.runtime.sparkclasses import SOURCES
from brickyard.runtime.watch import CommandFailed
from tests.agent.runtime import make_runtime
from tests.support.maven import serve
from tests.support.packages import make_index, make_wheel

ENVIRONMENT, COORDINATES = "spark-4.0", ("org.example:one:1.0", "org.example:two_2.13:2.0")


class Machine:
    """A cache with a runtime without Spark, and a repository with the JARs of one layer."""

    def __init__(self, top: Path, patch: pytest.MonkeyPatch) -> None:
        self.top, self.cache, self.repository = top, top / "cache", top / "maven"
        self.home = runtime_home(ENVIRONMENT, self.cache)
        self.home.mkdir(parents=True)
        write_manifest(msgspec.structs.replace(make_runtime(top), environment=ENVIRONMENT, home=str(self.home)))
        for coordinates in COORDINATES:
            path = self.repository / artifact(coordinates).path
            path.parent.mkdir(parents=True)
            path.write_text(f"the JAR {coordinates}")
        self._patch = patch
        self.key = "17.3.x-scala2.13"
        self.declare()

    def declare(self, *, python: str = "") -> Layer:
        """Declares the layer, with the checksums of what the repository has now."""
        jars = tuple((each, hashlib.sha256(self.path(each).read_bytes()).hexdigest()) for each in COORDINATES)
        self.layer = Layer("delta", "Delta Lake", jars, python)
        self._patch.setattr(layers, "declared", lambda: {ENVIRONMENT: {"delta": self.layer}})
        self._patch.setattr("brickyard.runtime.layerwork.declared", layers.declared)
        return self.layer

    def path(self, coordinates: str) -> Path:
        return self.repository / artifact(coordinates).path

    @property
    def manifest(self) -> RuntimeManifest:
        found = installed(ENVIRONMENT, self.cache)
        assert found is not None
        return with_layers(found, self.key)

    def install(self) -> list[str]:
        return install_layers(ENVIRONMENT, cache_dir=self.cache)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    made = Machine(tmp_path, monkeypatch)
    with serve(made.repository) as repository:
        monkeypatch.setenv(mavenrepo.VARIABLE, repository.url)
        yield made


def test_a_layer_is_installed_once_and_the_manifest_names_its_jars(machine: Machine) -> None:
    assert machine.manifest.layers == {} and missing(ENVIRONMENT, machine.cache) == [machine.layer]
    assert machine.install() == []
    jars = machine.manifest.layers["delta"]
    assert [Path(each).name for each in jars] == ["one-1.0.jar", "two_2.13-2.0.jar"]
    assert [Path(each).read_text() for each in jars] == [f"the JAR {each}" for each in COORDINATES]
    assert missing(ENVIRONMENT, machine.cache) == [] and machine.install() == []
    assert b"one-1.0" not in (machine.home / "runtime.json").read_bytes(), "which layers suit depends on the version of Brickyard"


def test_another_declaration_is_another_layer_and_the_older_one_goes(machine: Machine) -> None:
    machine.install()
    older = Path(machine.manifest.layers["delta"][0])
    machine.path(COORDINATES[0]).write_text("another JAR")
    machine.declare()
    assert machine.manifest.layers == {}
    machine.install()
    assert Path(machine.manifest.layers["delta"][0]).read_text() == "another JAR"
    assert not older.exists()


@pytest.mark.parametrize("fault", ["missing", "damaged"])
def test_a_fault_leaves_nothing_and_names_the_artifact(machine: Machine, fault: str) -> None:
    path = machine.path(COORDINATES[1])
    path.unlink() if fault == "missing" else path.write_text("something else")
    (problem,) = machine.install()
    assert COORDINATES[1] in problem
    assert machine.manifest.layers == {}
    assert [each.name for each in (machine.home / layers.KIND).iterdir()] == ["delta.failure.json"]
    failure = last_failure(machine.layer, ENVIRONMENT, machine.cache)
    assert failure is not None and COORDINATES[1] in failure.message
    assert not due(ENVIRONMENT, machine.cache, now_ms=failure.at_ms + layers.AGAIN_MS - 1)
    assert due(ENVIRONMENT, machine.cache, now_ms=failure.at_ms + layers.AGAIN_MS)


def test_without_a_repository_the_reason_is_said(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(mavenrepo.VARIABLE, "")
    (problem,) = machine.install()
    assert mavenrepo.VARIABLE in problem and COORDINATES[0] in problem


def test_its_python_package_lies_beside_the_jars(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = make_wheel(machine.top, "delta_spark", "1.0", files={"delta/__init__.py": "VERSION = 1\n"})
    machine.declare(python=f"delta-spark==1.0 --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}")
    monkeypatch.setenv("PIP_INDEX_URL", make_index(machine.top, wheel))
    assert machine.install() == []
    (site,) = layers.sites_of(machine.manifest)
    assert (site / "delta" / "__init__.py").is_file()


def test_our_classes_for_a_layer_are_compiled_again_for_other_sources_and_its_jars_are_not_fetched_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = msgspec.structs.replace(machine.layer, sources=("iceberg",))
    monkeypatch.setattr(layers, "declared", lambda: {ENVIRONMENT: {"delta": layer}})
    monkeypatch.setattr("brickyard.runtime.layerwork.declared", layers.declared)
    compiled: list[Path] = []

    def compile_layer(_: RuntimeManifest, sources: tuple[str, ...], jars: tuple[str, ...], out: Path) -> None:
        assert sources == ("iceberg",) and all(Path(jar).is_file() for jar in jars)
        if len(compiled) == 1:
            compiled.append(out)
            raise CommandFailed("no")
        out.write_text("classes")
        compiled.append(out)

    monkeypatch.setattr("brickyard.runtime.layerwork.compile_layer", compile_layer)
    assert machine.install() == [] and machine.install() == []
    assert machine.manifest.layers["delta"] == (*layer.jars_in(layer.directory(machine.home)), str(compiled[0]))
    monkeypatch.setattr(layers, "classes_path", lambda home, _: f"{home}/classes/other.jar")
    shutil.rmtree(machine.repository)
    assert machine.manifest.layers == {} and missing(ENVIRONMENT, machine.cache) == [layer]
    (problem,) = machine.install()
    assert layer.title in problem and machine.manifest.layers == {}, "it counts once its classes are there"
    assert machine.install() == []
    assert machine.manifest.layers["delta"][-1].endswith("other.jar") and len(compiled) == 3


def test_what_only_photon_loads_is_installed_for_it_alone(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    jar = machine.path(COORDINATES[0])
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("place/lib.so", "a library")
    layer = Layer("comet", "Comet", ((COORDINATES[0], hashlib.sha256(jar.read_bytes()).hexdigest()),), native="place/lib.so")
    monkeypatch.setattr(layers, "declared", lambda: {ENVIRONMENT: {"comet": layer}})
    monkeypatch.setattr("brickyard.runtime.layerwork.declared", layers.declared)
    told: list[str] = []

    photon = "17.3.x-photon-scala2.13"
    assert needed(machine.manifest, machine.key, {"spark.brickyard.layers": "comet"}) == [], "a name in the conf does not give it"
    assert machine.install() == [] and not layer.directory(machine.home).exists(), "it is not usual"
    names = needed(machine.manifest, photon, {})
    assert require_layers(ENVIRONMENT, cache_dir=machine.cache, names=names, progress=told.append) == []
    assert any(COORDINATES[0] in each for each in told)
    assert machine.manifest.layers == {}
    machine.key = photon
    (path,) = machine.manifest.layers["comet"]
    assert (Path(path).parent / NATIVE / "lib.so").read_text() == "a library"
    assert library_flags([path])[0].startswith(f"-Djava.library.path={Path(path).parent / NATIVE}:")


def test_what_is_required_and_missing_is_named(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = Layer("comet", "Comet", (("org.example:none:1.0", "0" * 64),))
    monkeypatch.setattr(layers, "declared", lambda: {ENVIRONMENT: {"comet": layer}})
    (problem,) = require_layers(ENVIRONMENT, cache_dir=machine.cache, names=["comet"])
    assert "org.example:none:1.0" in problem


def test_every_runtime_with_photon_has_its_layer() -> None:
    those = [runtime for runtime in catalogue.rows() if runtime.photon]
    assert those and all([layer.name for layer in layers.layers_of(each.environment, PHOTON)] == list(PHOTON) for each in those)


def test_without_a_runtime_there_is_nothing_to_install(tmp_path: Path) -> None:
    assert missing(ENVIRONMENT, tmp_path) == []
    with pytest.raises(NoRuntime):
        install_layers(ENVIRONMENT, cache_dir=tmp_path)


def test_a_server_installs_layers_before_all_else(machine: Machine) -> None:
    trainings = Trainings(cache_dir=machine.cache, command=("true",))
    work: Any = trainings.next()
    assert work.action == "layers"
    machine.install()
    following: Any = trainings.next()
    assert following is None or following.action != "layers"


def test_a_node_waits_for_the_layers_that_its_conf_names_and_for_no_others(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = {"spark.brickyard.layers": "delta, unknown"}
    assert needed(machine.manifest, machine.key, conf) == [], "the usual ones come by themselves"
    monkeypatch.setattr(layers, "USUAL", ())
    assert needed(machine.manifest, machine.key, conf) == ["delta"]
    assert needed(machine.manifest, machine.key, {"spark.brickyard.layers": ""}) == []
    machine.install()
    assert needed(machine.manifest, machine.key, conf) == []


def test_what_a_node_waits_for_waits_for_no_installation_in_the_background(machine: Machine) -> None:
    with sole(ENVIRONMENT, machine.cache, layers.KIND):
        assert require_layers(ENVIRONMENT, cache_dir=machine.cache, names=["delta"]) == []
    assert set(machine.manifest.layers) == {"delta"}


def test_of_two_nodes_one_installs_and_the_other_waits_for_it(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.ExitStack() as stack:
        stack.enter_context(sole(ENVIRONMENT, machine.cache, NEEDED))

        def look(_: float) -> None:  # the other one is done at the second look
            machine.install()
            stack.close()

        monkeypatch.setattr(
            "brickyard.runtime.layerwork.time", SimpleNamespace(sleep=look)
        )  # of this module alone: threads sleep, too
        assert require_layers(ENVIRONMENT, cache_dir=machine.cache, names=["delta"]) == []
    assert set(machine.manifest.layers) == {"delta"}


def test_a_node_that_waits_is_told_what_is_missing(machine: Machine) -> None:
    machine.path(COORDINATES[1]).unlink()
    (problem,) = require_layers(ENVIRONMENT, cache_dir=machine.cache, names=["delta"])
    assert COORDINATES[1] in problem


def test_coordinates_may_have_a_classifier() -> None:
    assert artifact("org.example:one:1.0").path == "org/example/one/1.0/one-1.0.jar"
    assert artifact("org.example:one:1.0:shaded").path == "org/example/one/1.0/one-1.0-shaded.jar"


def test_what_is_declared_is_whole() -> None:
    environments = {each.environment: each for each in catalogue.rows()}
    for environment, found in layers.declared().items():
        runtime = environments[environment]
        for layer in found.values():
            assert layer.jars
            for coordinates, sha256 in layer.jars:
                assert re.fullmatch(r"[\w.-]+:[\w.-]+:[\w.-]+(:[\w.-]+)?", coordinates)
                assert re.fullmatch(r"[0-9a-f]{64}", sha256)
                scala = re.search(r"_(2\.1\d):", coordinates)
                assert scala is None or scala[1] == runtime.scala_version, coordinates
            assert not layer.python or "--hash=sha256:" in layer.python
            assert set(layer.sources) <= set(SOURCES), "a change of the sources makes other classes"
