"""The second layer of a runtime's packages: complete or not at all, whatever happens, and never in the way of a node."""

from __future__ import annotations

import hashlib
import io
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from brickyard.agent.libraries import environment
from brickyard.domain.runtimes import RuntimeManifest
from brickyard.features.runtimes.loop import Trainings
from brickyard.runtime import catalogue, packages
from brickyard.runtime.background import WAIT_S as WAITS_S
from brickyard.runtime.background import Background
from brickyard.runtime.idleness import Seen
from brickyard.runtime.installed import runtime_home, write_manifest
from brickyard.runtime.inuse import RuntimeUse
from brickyard.runtime.node.latepackages import BEGIN_S, MODULES, NEVER_WAITS, WAIT_S, LatePackages, asked_by_user
from brickyard.runtime.packages import NoRuntime, PackagesFailed, differences, install_packages, is_missing, layer_dir, read_state
from tests.agent.runtime import make_config, make_runtime
from tests.support import layers
from tests.support.packages import make_index, make_wheel
from tests.support.patience import until

ENVIRONMENT = "spark-4.0"


class Machine:
    """A cache with a runtime without Spark, and a layer of one tiny package."""

    def __init__(self, top: Path) -> None:
        self.top, self.cache = top, top / "cache"
        self.data, self.home = top / "data", runtime_home(ENVIRONMENT, self.cache)
        self.data.mkdir()
        self.home.mkdir(parents=True)
        made = msgspec.structs.replace(make_runtime(top), environment=ENVIRONMENT, home=str(self.home))
        self.manifest: RuntimeManifest = made
        write_manifest(made)
        self.publish("1.0")

    def publish(self, version: str, *, lines: int = 1) -> None:
        """Puts a version on the index, and into the lock file."""
        wheel = make_wheel(self.top, "joblib", version, files={"joblib.py": f"VERSION = {version!r}\n" * lines})
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        self.index = make_index(self.top, wheel)
        packages.layer_dir.cache_clear()
        (self.data / f"packages-{ENVIRONMENT}.txt").write_text(f"joblib=={version} --hash=sha256:{digest}\n")

    @property
    def layer(self) -> Path:
        found = layer_dir(self.home, ENVIRONMENT)
        assert found is not None
        return found

    def install(self) -> bool:
        return install_packages(ENVIRONMENT, cache_dir=self.cache)

    def work(self) -> str:
        """What a server of this machine would do next."""
        found = Trainings(cache_dir=self.cache).next()
        return found.action if found is not None else ""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setattr(packages, "DATA", made.data)
    monkeypatch.setattr("brickyard.runtime.layers.declared", dict)  # they would come first
    packages.layer_dir.cache_clear()
    for name in [name for name in os.environ if name.startswith(("UV_", "PIP_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", made.index)
    monkeypatch.setenv("UV_NO_CACHE", "1")
    return made


def test_the_layer_has_its_name_once_it_is_whole(machine: Machine) -> None:
    assert (is_missing(ENVIRONMENT, machine.cache), machine.work()) == (True, "packages")
    (machine.layer.parent / f"{machine.layer.name}.draft" / "site").mkdir(parents=True)  # of a killed one
    assert machine.install()
    assert [path.name for path in machine.layer.parent.iterdir()] == [machine.layer.name]
    assert list(differences(machine.layer / "site")) == []
    assert list((machine.layer / "site" / "__pycache__").iterdir()), "nodes cannot write there"
    assert (is_missing(ENVIRONMENT, machine.cache), machine.work()) == (False, "train")
    assert machine.install()


def test_other_packages_come_beside_those_that_nodes_may_use(machine: Machine) -> None:
    machine.install()
    first = machine.layer
    use = RuntimeUse(machine.cache)
    use.begin(ENVIRONMENT)
    machine.publish("2.0")
    assert is_missing(ENVIRONMENT, machine.cache)
    machine.install()
    second = machine.layer
    assert first.is_dir() and second.is_dir() and first != second
    use.end()
    machine.publish("3.0")
    machine.install()
    assert [path.name for path in machine.layer.parent.iterdir()] == [machine.layer.name], "nobody uses the older ones"


def test_without_a_network_it_says_why_and_is_tried_again_later(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    with pytest.raises(PackagesFailed):
        machine.install()
    state = read_state(machine.home)
    assert state is not None and state.state == "failed" and state.message
    assert machine.work() == "train", "other work goes on"
    assert not packages.failed_lately(ENVIRONMENT, machine.cache, now_ms=state.at_ms + packages.AGAIN_MS)
    monkeypatch.setenv("PIP_INDEX_URL", machine.index)
    assert machine.install()


def test_what_is_not_what_was_locked_does_not_count(machine: Machine) -> None:
    lock = machine.data / f"packages-{ENVIRONMENT}.txt"
    lock.write_text(re.sub(r"sha256:\w+", f"sha256:{'0' * 64}", lock.read_text()))
    packages.layer_dir.cache_clear()
    with pytest.raises(PackagesFailed):
        machine.install()
    assert not machine.layer.exists()


def test_content_is_compared_with_what_the_packages_say(machine: Machine) -> None:
    machine.install()
    module = machine.layer / "site" / "joblib.py"
    module.write_text("VERSION = 'other'\n")
    assert list(differences(machine.layer / "site")) == ["joblib.py"]
    module.unlink()
    assert list(differences(machine.layer / "site")) == ["joblib.py"]


def test_a_killed_installation_leaves_nothing_that_counts(machine: Machine) -> None:
    program = (
        "import pathlib, sys\nfrom brickyard.runtime import packages\npackages.DATA = pathlib.Path(sys.argv[1])\n"
        f"packages.install_packages({ENVIRONMENT!r}, cache_dir=pathlib.Path(sys.argv[2]),"
        " wait=lambda _: print('begins', flush=True))"
    )
    for delay_s in (0.0, 0.02, 0.1, 0.3):
        command = [sys.executable, "-c", program, str(machine.data), str(machine.cache)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(delay_s)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not machine.layer.exists() or not list(differences(machine.layer / "site"))
    until(machine.install, "the lock of the killed one")
    assert not list(differences(machine.layer / "site"))


class Busy:
    """A machine on which others are always at work, and a node starts for a while. Each look takes ten seconds."""

    def __init__(self, *, starts_until: float) -> None:
        self.now, self._starts_until = 0.0, starts_until

    def see(self, _mine: object) -> Seen:
        self.now += 10.0
        return Seen(starting=self.now < self._starts_until, others=2.0, cores=2, free_mb=16_000)


@pytest.mark.parametrize("starts_until", [0.0, 100.0])
def test_it_begins_on_a_busy_machine_too_once_no_node_starts(tmp_path: Path, starts_until: float) -> None:
    machine, looks = Busy(starts_until=starts_until), 0

    def look() -> None:
        nonlocal looks
        looks += 1

    Background(tmp_path, lookout=machine, clock=lambda: machine.now).wait_for_a_while(look)
    assert looks
    assert max(WAITS_S, starts_until) <= machine.now <= max(WAITS_S, starts_until) + 40


def test_a_runtime_that_is_removed_has_no_layer(machine: Machine) -> None:
    (machine.home / "runtime.json").unlink()
    with pytest.raises(NoRuntime):
        machine.install()
    assert not is_missing(ENVIRONMENT, machine.cache)


def test_a_node_finds_the_layer_that_comes_later_and_users_versions_win(machine: Machine) -> None:
    config = make_config(machine.top)
    environment.make(config, machine.manifest, environ={"PIP_INDEX_URL": machine.index, "PIP_CONFIG_FILE": "/dev/null"})
    python = [str(config.python_dir / "bin" / "python"), "-c"]
    early = subprocess.Popen(
        [*python, "print('begun', flush=True); input(); import joblib; print(joblib.VERSION, joblib.__file__)"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert early.stdout is not None
    assert early.stdout.readline() == "begun\n"
    machine.install()
    assert early.communicate("go\n")[0].split() == ["1.0", str(machine.layer / "site" / "joblib.py")]
    env = {"PIP_CONFIG_FILE": str(config.libraries_dir / "pip.conf"), "HOME": str(config.node_dir)}
    wheel = make_wheel(machine.top, "joblib", "3.0")
    make_index(machine.top, wheel)
    pip = subprocess.run([python[0], "-m", "pip", "install", "joblib==3.0"], env=env, capture_output=True, text=True, check=False)
    assert pip.returncode == 0, pip.stdout + pip.stderr
    done = subprocess.run([*python, "import joblib; print(joblib.VERSION)"], capture_output=True, text=True, check=True)
    assert done.stdout == "3.0\n"


# ── processes that import too early ─────────────────────────────────────────────────────────────────────────────────────────


class Early:
    """A process that began before the layer was there, with a clock that goes on when it waits."""

    def __init__(self, top: Path) -> None:
        self.now, self.said = 1_000.0, io.StringIO()
        self.site, self.state = top / "site", top / "state.json"
        self.at: dict[float, Callable[[], None]] = {}
        self.finder = LatePackages(str(self.site), str(self.state), clock=lambda: self.now, sleep=self.sleep, output=self.said)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for moment in [moment for moment in self.at if moment <= self.now]:
            self.at.pop(moment)()

    def says(self, state: str, *, age_s: float = 0.0) -> None:
        found = packages.State(state=state, message="downloading", at_ms=int((self.now - age_s) * 1000))
        self.state.write_bytes(msgspec.json.encode(found))

    def arrives(self) -> None:
        self.site.mkdir()
        (self.site / "joblib.py").write_text("")

    def find(self, name: str = "joblib", *, user: bool = True) -> object:
        space = {"__name__": "__main__" if user else "library", "finder": self.finder, "name": name}
        exec("found = finder.find_spec(name)", space)  # noqa: S102 - an import has a frame of whoever wrote it
        return space["found"]


@pytest.fixture
def early(tmp_path: Path) -> Early:
    return Early(tmp_path)


def test_a_cell_waits_for_what_is_being_installed(early: Early) -> None:
    early.says("installing")
    early.at = {1_000.0 + each: lambda: early.says("installing") for each in range(10, 60, 10)} | {1_055.0: early.arrives}
    assert early.find() is not None
    assert 1_055 <= early.now < 1_057
    assert early.said.getvalue().count("joblib") >= 3
    assert early.find("scipy") is None, "the layer is there, and has it not"


@pytest.mark.parametrize(("state", "age_s", "limit_s"), [("", 0, BEGIN_S), ("installing", 100, BEGIN_S), ("failed", 9_999, 0)])
def test_a_cell_is_told_what_to_do(early: Early, state: str, age_s: float, limit_s: float) -> None:
    if state:
        early.says(state, age_s=age_s)
    with pytest.raises(ModuleNotFoundError, match="%pip install joblib") as found:
        early.find()
    assert found.value.name == "joblib"
    assert early.now - 1_000 <= limit_s + 1 < WAIT_S


def test_libraries_do_not_wait(early: Early) -> None:
    early.says("installing")
    assert early.find(user=False) is None
    assert early.find("unknown") is None
    assert early.find(NEVER_WAITS[0]) is None
    assert early.now == 1_000
    early.arrives()
    assert early.find(user=False) is not None


def test_whose_import_it_is() -> None:
    assert not asked_by_user(sys._getframe())
    assert not asked_by_user(None)


# ── the lists ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def locked(path: Path) -> set[str]:
    """What is installed on a machine, with CPython: packages of other systems alone do not count."""
    lines = re.findall(r"^([\w.-]+)==([^\\\n]*)", path.read_text(), re.MULTILINE)
    elsewhere = re.compile("== '(?:pypy|win32|darwin)'")
    return {environment.normalized(name) for name, rest in lines if not elsewhere.search(rest)}


def test_every_runtime_has_a_layer_beside_its_own_packages() -> None:
    asked = {line for line in (catalogue.DATA / "packages.in").read_text().split("\n") if line and not line.startswith("#")}
    for each in {row.environment for row in catalogue.rows()}:
        file = packages.lock_file(each)
        own, layer = locked(catalogue.DATA / f"{each}.txt"), locked(file)
        assert asked <= layer, each
        assert not own & layer, f"{each}: a package is in one of the two"
        assert "://" not in file.read_text().replace("# This file", "")
        assert set(MODULES.values()) <= layer, each


def test_the_page_has_the_locked_versions() -> None:
    assert layers.table() in layers.PAGE.read_text(), "write it with ./dev python -m tests.support.layers"
