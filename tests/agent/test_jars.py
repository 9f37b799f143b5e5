"""How an agent installs jars: Maven artifacts with a runtime's own Java and Ivy, from a repository of the test's own."""

from __future__ import annotations

import asyncio
import zipfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from brickyard.agent.libraries import jars
from brickyard.agent.libraries.installer import LibraryError, Target
from brickyard.domain.libraries import MavenLibrary
from brickyard.domain.runtimes import RuntimeManifest
from brickyard.machine.mavenrepo import VARIABLE
from brickyard.sandbox import launcher
from tests.agent.runtime import make_config, make_runtime, no_network
from tests.support.golden import Golden
from tests.support.maven import Repository, make_jar, serve
from tests.support.runtimes import SPARK_4, manifest_of


@pytest.fixture(scope="module")
def manifest() -> RuntimeManifest:
    return msgspec.convert(manifest_of(SPARK_4), RuntimeManifest)


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    (tmp_path / "maven").mkdir()
    with serve(tmp_path / "maven") as made:
        yield made


def node(top: Path, manifest: RuntimeManifest, name: str = "i-1") -> Target:
    config = make_config(top, name)
    config.libraries_dir.mkdir()
    walls = launcher.choose("auto", launcher.probe())
    return Target(config=config, manifest=manifest, linked=True, walls=walls, network=None, lend=no_network)


def resolve(library: MavenLibrary, target: Target, machines: str = "") -> list[str]:
    found = asyncio.run(jars.maven(library, target, environ={"BRICKYARD_MAVEN_URL": machines}))
    return [path.name for path in found.jars]


@pytest.mark.spark
def test_an_artifact_comes_with_what_it_requires_once_for_all_nodes(
    repository: Repository, manifest: RuntimeManifest, tmp_path: Path
) -> None:
    repository.add("org.test:base:1.0")
    repository.add("org.test:other:1.0")
    runtimes = ("org.apache.spark:spark-core_2.13:4.0.0", "org.scala-lang:scala-library:2.13.16")
    repository.add("org.test:tool:1.0", requires=("org.test:base:1.0", "org.test:other:1.0", *runtimes))
    wanted = MavenLibrary(coordinates="org.test:tool:1.0", exclusions=("org.test:ot*",))
    one, two = node(tmp_path, manifest), node(tmp_path, manifest, "i-2")
    both = ["org.test_base-1.0.jar", "org.test_tool-1.0.jar"]
    assert resolve(wanted, one, repository.url) == both, "neither what is excluded nor what the runtime has"
    asked = len(repository.asked)
    assert resolve(wanted, two, repository.url) == both
    assert len(repository.asked) == asked, "the second node asks nobody"
    assert [path.name for path in one.workshop.iterdir() if path.name.startswith("draft")] == []


@pytest.mark.spark
def test_jars_that_the_runtime_has_are_left_out_and_named(
    repository: Repository, manifest: RuntimeManifest, tmp_path: Path
) -> None:
    """Another version of a library of Spark's has most of its classes; a library of the same name has none."""
    (spark,) = Path(manifest.spark_home, "jars").glob("jackson-annotations-*.jar")
    with zipfile.ZipFile(spark) as jar:
        classes = dict.fromkeys((name for name in jar.namelist() if name.endswith(".class")), b"x")
    own = {f"org/test/C{number}.class": b"x" for number in range(9)}
    repository.add("com.other:jackson-annotations:1.0", files=classes | {"org/test/New.class": b"x"})
    repository.add("org.test:jackson-core:1.0", files=own | dict(list(classes.items())[:9]))
    repository.add("org.test:tool:1.0", requires=("com.other:jackson-annotations:1.0", "org.test:jackson-core:1.0"))
    found = asyncio.run(
        jars.maven(MavenLibrary(coordinates="org.test:tool:1.0"), node(tmp_path, manifest), environ={VARIABLE: repository.url})
    )
    assert [path.name for path in found.jars] == ["org.test_jackson-core-1.0.jar", "org.test_tool-1.0.jar"]
    assert "com.other_jackson-annotations-1.0" in found.message
    named = MavenLibrary(coordinates="com.other:jackson-annotations:1.0")
    assert resolve(named, node(tmp_path, manifest, "i-2"), repository.url) == ["com.other_jackson-annotations-1.0.jar"], (
        "it is asked for"
    )


@pytest.mark.spark
def test_what_a_repository_of_the_users_has_reaches_nobody_else(
    repository: Repository, manifest: RuntimeManifest, tmp_path: Path
) -> None:
    (tmp_path / "theirs").mkdir()
    target = node(tmp_path, manifest)
    with serve(tmp_path / "theirs") as theirs:
        theirs.add("org.test:tool:1.0", requires=("org.test:base:1.0",), files={"evil.txt": b"x"})
        repository.add("org.test:base:1.0")
        wanted = MavenLibrary(coordinates="org.test:tool:1.0", repo=theirs.url)
        assert len(resolve(wanted, target, repository.url)) == 2, "what it requires may be in the machine's repository"
    with pytest.raises(LibraryError, match=r"org.test#tool;1.0: not found") as caught:
        resolve(MavenLibrary(coordinates="org.test:tool:1.0"), target, repository.url)
    assert "Check the coordinates" in str(caught.value)


@pytest.mark.spark
def test_a_pom_can_name_no_file_of_the_machine(repository: Repository, manifest: RuntimeManifest, tmp_path: Path) -> None:
    repository.add("org.test:tool:1.0")
    (tmp_path / "secret.txt").write_text("classified")
    pom = repository.directory / "org/test/tool/1.0/tool-1.0.pom"
    entity = f'<!DOCTYPE project [<!ENTITY x SYSTEM "{(tmp_path / "secret.txt").as_uri()}">]>'
    pom.write_text(entity + pom.read_text().replace("</version>", "&x;</version>", 1))
    pom.with_name(pom.name + ".sha1").unlink()
    with pytest.raises(LibraryError) as caught:
        resolve(MavenLibrary(coordinates="org.test:tool:1.0"), node(tmp_path, manifest), repository.url)
    assert "classified" not in str(caught.value)


def test_a_machine_without_a_repository(tmp_path: Path) -> None:
    manifest = make_runtime(tmp_path)
    with pytest.raises(LibraryError, match="BRICKYARD_MAVEN_URL is empty"):
        resolve(MavenLibrary(coordinates="a:b:1"), node(tmp_path, manifest))
    with pytest.raises(LibraryError, match="no Ivy"):
        resolve(MavenLibrary(coordinates="a:b:1"), node(tmp_path, manifest, "i-2"), "http://127.0.0.1:9")


def test_jars_of_one_name_are_told_apart_and_none_is_put_twice(tmp_path: Path, golden: Golden) -> None:
    target = node(tmp_path, make_runtime(tmp_path))
    places: list[str] = []
    for text in (b"one", b"two"):
        path = tmp_path / text.decode() / "tool.jar"
        path.parent.mkdir()
        make_jar(path, {"a.txt": text})
        jars.check_jar(path)
        places += jars.put((path,), target, linked=True)
        assert jars.put((path,), target, linked=True) == ()
    assert len(set(places)) == 2
    assert jars.installed(target) == tuple(places), "in the order in which they came"
    (tmp_path / "text.jar").write_text("no zip")
    with golden.refused(LibraryError, "text.jar"):
        jars.check_jar(tmp_path / "text.jar")
