"""How an agent installs Python libraries: with real wheels and a package index of the test's own, without Spark."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from brickyard.agent import environment, libraries
from brickyard.agent.libraries import LibraryError, Target, Wanted
from brickyard.domain.libraries import Library, PythonPyPiLibrary
from brickyard.domain.node import Phase
from tests.agent.runtime import make_config, make_runtime
from tests.agent.world import World, assignment
from tests.support.packages import make_index, make_wheel

TOOL = "import base, helper, sys\ndef main(): print(base.VERSION, helper.VERSION, sys.prefix)\n"


class Machine:
    """A machine with a package index, and nodes on it."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.manifest = make_runtime(top)

    def node(self, name: str, *, linked: bool = True) -> Target:
        config = make_config(self.top, name)
        environment.make(config, self.manifest, environ={"PIP_CONFIG_FILE": "/dev/null"})
        return Target(config=config, manifest=self.manifest, linked=linked, network=None)

    def index(self, *wheels: Path) -> str:
        return make_index(self.top, *wheels)

    def wheel(self, name: str, version: str = "1.0", **more: object) -> Path:
        return make_wheel(self.top, name, version, **more)  # type: ignore[arg-type]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    for name in ("PIP_FIND_LINKS", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX"):
        monkeypatch.delenv(name, raising=False)
    conf = tmp_path / "pip.conf"
    conf.write_text(
        f"[global]\nindex-url = {(tmp_path / 'simple').as_uri()}\nextra-index-url = {(tmp_path / 'simple').as_uri()}\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(conf))
    return Machine(tmp_path)


def install(node: Target, *requirements: str, wheel: Path | None = None) -> None:
    asyncio.run(libraries.install(Wanted(requirements=requirements, wheel=wheel), node))


def run(node: Target, *argv: str) -> str:
    bins = f"{node.config.python_dir}/bin:{node.top}/bin:/usr/bin:/bin"
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env={"PATH": bins})
    return (done.stdout + done.stderr).strip()


def test_a_library_with_its_requirements_over_the_runtimes(machine: Machine) -> None:
    machine.index(
        machine.wheel("tool", requires=["base", "helper>1"], scripts={"tool": "tool:main"}, files={"tool.py": TOOL}),
        machine.wheel("helper", "2.0"),
        machine.wheel("base", "2.0"),
    )
    node = machine.node("i-1")
    install(node, "tool")
    assert run(node, "tool") == f"1.0 2.0 {node.config.python_dir}", "the runtime's version will do, so it is kept"
    install(node, "base>=2")
    assert run(node, "tool").startswith("2.0 ")
    assert sorted(node.pins.split()) == ["base==2.0", "helper==2.0", "tool==1.0"]


def test_the_second_node_costs_no_installation(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.index(machine.wheel("tool"))
    one, two, three = machine.node("i-1"), machine.node("i-2"), machine.node("i-3", linked=False)

    async def both() -> None:
        await asyncio.gather(*(libraries.install(Wanted(requirements=("tool",)), each) for each in (one, two)))

    asyncio.run(both())
    monkeypatch.setattr(libraries, "uv_binary", lambda: "/bin/false")
    install(three, "tool")
    for node in (one, two, three):
        assert run(node, "python", "-c", "import tool; print(tool.VERSION)") == "1.0"
    files = [(node.top / "site" / "tool.py").stat().st_ino for node in (one, two, three)]
    assert files[0] == files[1] != files[2], "a node whose processes could write to a link gets a copy"
    assert not list((machine.top / "cache" / "libraries").glob("draft-*"))


def test_a_wheel_of_the_users(machine: Machine) -> None:
    machine.index(machine.wheel("helper"))
    node = machine.node("i-1")
    install(node, wheel=machine.wheel("mine", requires=["helper"]))
    assert run(node, "python", "-c", "import mine, helper; print(mine.VERSION)") == "1.0"


@pytest.mark.parametrize(
    ("requirement", "said"),
    [
        ("missing-package", "missing-package"),
        ("tool==9", "tool==9"),
        ("pyspark==9", "pyspark==9"),  # only the runtime's can speak to its Spark
        ("clash", "helper"),
        ("elsewhere", "cp39"),
        ("broken", "broken"),
    ],
)
def test_what_cannot_be_installed_says_why_and_changes_nothing(machine: Machine, requirement: str, said: str) -> None:
    broken = machine.top / "broken-1.0-py3-none-any.whl"
    broken.write_bytes(b"no wheel")
    machine.index(
        machine.wheel("tool", requires=["helper<2"]), machine.wheel("clash", requires=["helper>=2"]), machine.wheel("helper"),
        machine.wheel("helper", "2.0"), machine.wheel("elsewhere", tag="cp39-cp39-win_amd64"), machine.wheel("pyspark", "9"),
        broken,
    )  # fmt: skip
    node = machine.node("i-1")
    install(node, "tool")
    before = sorted(path.relative_to(node.top) for path in node.top.rglob("*"))
    with pytest.raises(LibraryError) as caught:
        install(node, requirement)
    assert said in str(caught.value)
    assert sorted(path.relative_to(node.top) for path in node.top.rglob("*")) == before
    assert not list((machine.top / "cache" / "libraries").glob("draft-*"))


def test_a_package_without_a_wheel_is_not_built(machine: Machine) -> None:
    folder = machine.top / "simple" / "source"
    folder.mkdir(parents=True)
    (folder / "source-1.0.tar.gz").write_bytes(b"x")
    (folder / "index.html").write_text('<a href="source-1.0.tar.gz">source-1.0.tar.gz</a>')
    with pytest.raises(LibraryError, match="build a wheel"):
        install(machine.node("i-1"), "source")


def test_an_index_that_is_away(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(LibraryError, match=r"127\.0\.0\.1:9"):
        install(machine.node("i-1"), "tool")


def test_a_users_index_gets_nothing_of_the_machines(machine: Machine) -> None:
    wanted = Wanted(requirements=("a",), repo="https://theirs.test/simple")
    environ = {"UV_INDEX": "https://me:secret@ours.test", "AWS_SECRET_ACCESS_KEY": "x", "PATH": "/bin"}
    env = libraries.uv_variables(wanted, machine.node("i-1").config, environ, links="")
    assert env["UV_DEFAULT_INDEX"] == "https://theirs.test/simple"
    assert not any("secret" in value.lower() or name.startswith("AWS") for name, value in env.items())


@pytest.mark.parametrize(
    "line", ["-r other.txt", "-e .", "./a.whl", "a @ file:///etc/a.whl", "--find-links /", "a --hash=sha256:0"]
)
def test_requirements_name_packages_only(line: str) -> None:
    with pytest.raises(LibraryError, match="line 2"):
        libraries.read_requirements(f"fine==1.0\n{line}\n")


def test_reading_requirements() -> None:
    text = "# ours\n--index-url https://i.test/simple\n\na==1.0  # exact\nb[x,y]>=1,<2 ; python_version > '3'\n"
    wanted = libraries.read_requirements(text)
    assert wanted == Wanted(("a==1.0", "b[x,y]>=1,<2 ; python_version > '3'"), None, "https://i.test/simple")


def test_an_agent_installs_before_the_role_and_while_the_node_works(here: World, machine: Machine) -> None:
    machine.index(machine.wheel("first"), machine.wheel("second"))
    (here.data_dir / "dbfs").mkdir(exist_ok=True)
    machine.wheel("mine").rename(here.data_dir / "dbfs" / "mine-1.0-py3-none-any.whl")
    first, missing = Library(pypi=PythonPyPiLibrary(package="first")), Library(pypi=PythonPyPiLibrary(package="nowhere"))
    later = (Library(whl="dbfs:/mine-1.0-py3-none-any.whl"), Library(whl="dbfs:/absent-1.0-py3-none-any.whl"))
    one = here.instance().start()
    status = here.ready(one, libraries=(first, missing))
    assert [each.status.value for each in status.libraries] == ["INSTALLED", "FAILED"], "which fails nothing else"
    assert "nowhere" in status.libraries[1].message
    here.server.assign(one.id, assignment(version=2, libraries=(first, missing, *later)))
    status = here.server.status(one.id, lambda each: len(each.libraries) == 4 and each.libraries[3].status.value == "FAILED")
    assert (status.phase, status.libraries[2].status.value) == (Phase.READY, "INSTALLED")
    assert {"first.py", "mine.py"} <= {path.name for path in (one.directory / "libraries" / "site").iterdir()}
    here.server.assign(one.id, None)
    here.server.phase(one.id, Phase.IDLE)
    assert not (one.directory / "libraries").exists()
