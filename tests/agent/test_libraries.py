"""How an agent installs Python libraries: with real wheels and a package index of the test's own, without Spark."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest

from brickyard.agent.libraries import libraries
from brickyard.agent.libraries.installer import LibraryError, execute, locked, prune
from brickyard.agent.libraries.libraries import OnlySource, Wanted
from brickyard.domain.libraries import Library, PythonPyPiLibrary
from brickyard.domain.node import Phase
from brickyard.sandbox.view import View
from tests.agent.machine import WALLS, Machine, drafts, install, run
from tests.agent.world import FAKES, SOURCE, World, assignment
from tests.support.golden import Golden
from tests.support.maven import make_jar
from tests.support.packages import make_sdist
from tests.support.patience import PATIENCE_S, until

TOOL = "import base, helper, sys\ndef main(): print(base.VERSION, helper.VERSION, sys.prefix)\n"


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


async def test_the_second_node_costs_no_installation(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.index(machine.wheel("tool"))
    one, two, three = machine.node("i-1"), machine.node("i-2"), machine.node("i-3", linked=False)

    await asyncio.gather(*(libraries.install(Wanted(requirements=("tool",)), each) for each in (one, two)))
    monkeypatch.setattr(libraries, "uv_binary", lambda: "/bin/false")
    await asyncio.to_thread(install, three, "tool")
    for node in (one, two, three):
        assert run(node, "python", "-c", "import tool; print(tool.VERSION)") == "1.0"
    files = [(node.top / "site" / "tool.py").stat().st_ino for node in (one, two, three)]
    assert files[0] == files[1] != files[2], "a node whose processes could write to a link gets a copy"
    assert not drafts(machine)


def test_the_cache_is_bounded_and_keeps_what_is_in_use(tmp_path: Path) -> None:
    now = time.time()
    for name, age_s in {"now": 0, "hour": 3600, "hours": 7200, "day": 90_000}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(bytes(1000))
        (tmp_path / f"{name}.lock").touch()
        for path in (tmp_path / name, tmp_path / f"{name}.lock"):
            os.utime(path, (now - age_s, now - age_s))

    def left() -> set[str]:
        return {path.name for path in tmp_path.iterdir() if path.is_dir()}

    with (tmp_path / "day.lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        prune(tmp_path, limit=10_000)
        assert left() == {"now", "hour", "hours"}
        assert (tmp_path / "day.lock").exists(), "somebody holds it"
    prune(tmp_path, limit=2500)
    assert left() == {"now", "hour"}, "what was used longest ago goes first"
    assert not (tmp_path / "day.lock").exists()
    prune(tmp_path, limit=10)
    assert left() == {"now"}, "in use"


async def test_a_lock_that_was_removed_is_taken_anew(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"

    async def take() -> None:
        async with locked(path):
            with path.open() as other, pytest.raises(BlockingIOError):
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)

    async with locked(path):
        waiting = asyncio.create_task(take())
        await asyncio.sleep(0.1)
        path.unlink()
    await asyncio.wait_for(waiting, PATIENCE_S)


def test_uvs_cache_is_emptied_when_it_is_too_large(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.index(machine.wheel("tool"), machine.wheel("other"))
    node, marker = machine.node("i-1"), machine.top / "cache" / "libraries" / "installer" / "uv" / "wheels-v0" / "marker"
    marker.parent.mkdir(parents=True)
    marker.write_text("x")
    install(node, "tool")
    assert marker.exists()
    monkeypatch.setattr(libraries, "MAX_UV_BYTES", 0)
    monkeypatch.setattr(libraries, "MEASURE_S", 0.0)
    install(node, "other")
    assert not marker.exists()
    assert run(node, "python", "-c", "import tool, other") == ""


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
    assert not drafts(machine)


@pytest.mark.parametrize(
    ("wanted", "missing"),
    [
        ("source", "source==1.0"),
        ("source[x]>=0.5", "source==1.0"),
        ("many", "many"),
        ("many<2", "many==1.0"),
        ("needs", "old-thing==1.0"),
    ],
)
def test_a_package_without_a_wheel_is_built_by_nobody_but_the_node(machine: Machine, wanted: str, missing: str) -> None:
    sources = [make_sdist(machine.top, name) for name in ("source", "many", "old_thing")]
    machine.index(*sources, make_sdist(machine.top, "many", "2.0"), machine.wheel("needs", requires=["old-thing"]))
    with pytest.raises(OnlySource) as caught:
        install(machine.node("i-1"), wanted)
    assert caught.value.requirement == missing
    assert not drafts(machine)


def test_what_was_built_is_not_built_again_while_something_else_is_missing(tmp_path: Path) -> None:
    hint = "hint: Wheels are required for `{}` because building from source is disabled for all packages\n"
    said = "Because second==1.0 has no usable wheels\n" + hint.format("first") + hint.format("second")
    wanted = Wanted(requirements=("first>=1",), built=(tmp_path / "first-1.0-py3-none-any.whl",))
    missing = libraries.only_source(said, wanted)
    assert missing is not None and missing.requirement == "second==1.0"
    assert libraries.only_source("no solution", wanted) is None


def test_a_node_builds_what_exists_only_as_source(here: World, machine: Machine, golden: Golden) -> None:
    """By the code of the real node host, in whatever sandbox this machine has."""
    code, no_compiler = machine.top / "code", "no compiler was found"
    code.mkdir()
    shutil.copy(FAKES / "start.py", code)
    shutil.copy(SOURCE / "brickyard/runtime/node/host/scripts.py", code / "node_scripts.py")
    machine.index(
        make_sdist(machine.top, "first", requires=["second>=1", "helper"]),
        make_sdist(machine.top, "second"),
        make_sdist(machine.top, "ill", said=no_compiler),
        make_sdist(machine.top, "lost", build_requires=["no-such-backend"]),
        machine.wheel("helper"),
    )
    runtime = machine.top / "cache" / "runtimes" / "fake" / "runtime.json"
    known = json.loads(runtime.read_text()) | {"python_version": machine.manifest.python_version}
    runtime.write_text(json.dumps(known))  # with it, the node's Python finds pip
    wanted = tuple(Library(pypi=PythonPyPiLibrary(package=each)) for each in ("first", "ill", "lost", "helper"))
    status = here.ready(here.instance(node_code_dir=str(code)).start(), libraries=wanted)
    first, ill, lost, helper = status.libraries
    assert first.status.value == "INSTALLED", first.message
    assert ill.status.value == "FAILED" and no_compiler in ill.message
    golden(ill.message.splitlines()[-1], "whl")
    assert lost.status.value == "FAILED" and "no-such-backend" in lost.message
    assert helper.status.value == "INSTALLED", "the others do not suffer"
    (site,) = (here.data_dir / "instances").glob("*/libraries/site")
    assert {"first.py", "second.py", "helper.py"} <= {path.name for path in site.iterdir()}
    assert not list((here.data_dir / "instances").glob("*/node/scripts/*.out"))


def test_words_that_an_installer_writes_one_by_one_stay_lines(tmp_path: Path) -> None:
    text = "for word in no such '`package`'; do printf '%s ' $word; sleep 0.05; done; echo; printf 'the end'; exit 1"
    command, env = ["/bin/sh", "-c", f"PATH=/usr/bin:/bin; {text}"], dict[str, str]()
    view = View(trees=((str(tmp_path), str(tmp_path)),))
    running = execute(command, env=env, cwd=tmp_path, walls=WALLS, view=view, network=None, hints={})
    with pytest.raises(LibraryError, match=r"^no such `package`\nthe end$"):
        asyncio.run(running)


def test_an_index_that_is_away(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setattr(libraries, "AWAY_S", 0.0)
    with pytest.raises(LibraryError, match=r"127\.0\.0\.1:9"):
        install(machine.node("i-1"), "tool")


@pytest.fixture
def silent() -> Iterator[str]:
    """An index that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/simple"


def test_an_index_that_hangs(machine: Machine, monkeypatch: pytest.MonkeyPatch, silent: str) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", silent)
    monkeypatch.setattr(libraries, "HTTP_S", "1")
    monkeypatch.setattr(libraries, "AWAY_S", 0.0)
    with pytest.raises(LibraryError, match=r"127\.0\.0\.1.*tool"):
        install(machine.node("i-1"), "tool")


def test_a_disk_that_is_full_while_a_library_is_put_there_is_its_error(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.index(machine.wheel("tool"))
    node = machine.node("i-1")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(libraries, "put_file", full)
        with pytest.raises(OSError, match="No space left"):
            install(node, "tool")
    install(node, "tool")
    assert run(node, "python", "-c", "import tool; print(tool.VERSION)") == "1.0", "tried again, it is whole"


ON_A_FULL_DISK = """
import sys
from pathlib import Path
from tests.agent.test_libraries import LibraryError, Machine, install
node = Machine(Path(sys.argv[1])).node("i-1")
try:
    install(node, "tool")
except LibraryError as error:
    print(error)
print(sorted(path.name for path in node.cache.iterdir() if path.is_dir()))
"""


def test_a_disk_that_is_full_while_uv_unpacks(machine: Machine, golden: Golden) -> None:
    """The machine's cache is on a file system of 512 KiB, seen by one process and its uv only."""
    unshare = ["unshare", "--user", "--map-root-user", "--mount"]
    if not shutil.which("unshare") or subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("a small file system needs unprivileged namespaces, and this machine has none")
    machine.index(machine.wheel("tool", files={"tool.py": "VERSION = '1.0'\n", "data.py": "#" * 1_000_000}))
    top = machine.top / "full"
    (top / "cache" / "libraries").mkdir(parents=True)
    mounted = ["sh", "-c", 'mount -t tmpfs -o size=512k tmpfs "$0" && exec "$@"', str(top / "cache" / "libraries")]
    done = subprocess.run(
        [*unshare, *mounted, sys.executable, "-c", ON_A_FULL_DISK, str(top)],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    *said, hint, left = (done.stdout + done.stderr).splitlines()
    assert "No space left on device" in "".join(said), done
    golden(hint, "(cache_dir)")
    assert left == "['installer']", "no part of the library"


def test_a_killed_agent_leaves_no_installer(here: World, machine: Machine, monkeypatch: pytest.MonkeyPatch, silent: str) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", silent)
    one = here.instance().start()
    here.server.assign(one.id, assignment(libraries=(Library(pypi=PythonPyPiLibrary(package="tool")),)))
    mine = str(Path(one.config.cache_dir, "libraries"))
    found = until(lambda: installers(mine), "the installer never starts")
    os.kill(one.pid, signal.SIGKILL)
    one.wait()
    until(lambda: not any(psutil.pid_exists(pid) for pid in found), "the installer outlives its agent")


class Index(ThreadingHTTPServer):
    """The package index over HTTP. `mode`: it serves, is ill (503), or hangs."""

    def __init__(self, top: Path) -> None:
        self.mode, self.asked, self.going = "serve", 0, threading.Event()
        super().__init__(("127.0.0.1", 0), partial(Answering, directory=str(top)))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/simple"


class Answering(SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Index)
        self.server.asked += 1
        if self.server.mode == "hang":
            self.server.going.wait(60)
        if self.server.mode == "ill":
            self.send_error(503)
        else:
            super().do_GET()

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@pytest.fixture
def served(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    index = Index(machine.top)
    machine.index(machine.wheel("tool"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", index.url)
    thread = threading.Thread(target=index.serve_forever, daemon=True)
    thread.start()
    yield index
    index.mode = "serve"
    index.going.set()
    index.shutdown()
    index.server_close()


def test_an_index_that_is_away_for_a_while(machine: Machine, monkeypatch: pytest.MonkeyPatch, served: Index) -> None:
    monkeypatch.setattr(libraries, "AGAIN_S", 0.1)
    served.mode = "ill"

    def heal() -> None:
        until(lambda: served.asked > 3, "nobody asks")
        served.mode = "serve"

    threading.Thread(target=heal).start()
    node = machine.node("i-1")
    install(node, "tool")
    assert run(node, "python", "-c", "import tool; print(tool.VERSION)") == "1.0"


def test_an_agent_that_is_killed_while_it_installs_holds_up_no_other_one(here: World, machine: Machine, served: Index) -> None:
    served.mode = "hang"
    wanted = (Library(pypi=PythonPyPiLibrary(package="tool")),)
    one, two = here.instance().start(), here.instance().start()
    here.server.assign(one.id, assignment(libraries=wanted))
    until(lambda: served.asked, "the index is never asked")
    here.server.assign(two.id, assignment(libraries=wanted))
    os.kill(one.pid, signal.SIGKILL)
    one.wait()
    served.mode = "serve"
    served.going.set()
    status = here.server.status(two.id, lambda each: bool(each.libraries) and each.libraries[0].status.value == "INSTALLED")
    assert status.libraries[0].message == ""


def test_a_server_that_is_killed_while_a_node_installs_hears_of_it_later(here: World, machine: Machine, served: Index) -> None:
    served.mode = "hang"
    one = here.instance().start()
    here.server.assign(one.id, assignment(libraries=(Library(pypi=PythonPyPiLibrary(package="tool")),)))
    until(lambda: served.asked, "the index is never asked")
    here.server.stop()
    served.mode = "serve"
    served.going.set()
    until((one.directory / "libraries" / "site" / "tool.py").exists, "it is never installed")
    here.server.start()
    status = here.server.phase(one.id, Phase.READY)
    assert [each.status.value for each in status.libraries] == ["INSTALLED"]


def installers(mark: str) -> list[int]:
    """The processes of uv that work for this test."""
    return [each.pid for each in psutil.process_iter(["cmdline"]) if any(mark in word for word in each.info["cmdline"] or ())]


def test_a_users_index_gets_nothing_of_the_machines(machine: Machine) -> None:
    wanted = Wanted(requirements=("a",), repo="https://theirs.test/simple")
    environ = {"UV_INDEX": "https://me:secret@ours.test", "AWS_SECRET_ACCESS_KEY": "x", "PATH": "/bin"}
    env = libraries.uv_variables(wanted, machine.node("i-1"), environ, links="")
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


SHOWS = (
    "import importlib.metadata as m, mine; print(mine.VERSION, *sorted(d.version for d in m.distributions() if d.name == 'mine'))"
)


def test_a_wheel_that_is_installed_again_has_the_content_of_its_file_now(machine: Machine) -> None:
    machine.index(machine.wheel("helper"))
    node = machine.node("i-1")._replace(name="mine")
    for content in (
        {"mine/__init__.py": "VERSION = 'old'\n", "mine/gone.py": "", "gone/__init__.py": ""},
        {"mine/__init__.py": "VERSION = 'new'\n"},
    ):
        old = "gone.py" in str(content)
        wheel = machine.wheel("mine", files=content, requires=["helper"], scripts={"old" if old else "new": "mine:x"})
        install(node, wheel=wheel)
        assert run(node, "python", "-c", "import helper; " + SHOWS) == f"{'old' if old else 'new'} 1.0"
        left = {
            str(path.relative_to(node.top)) for path in node.top.rglob("*") if "mine/gone" in str(path) or path.stem == "gone"
        }
        assert left == ({"site/gone", "site/mine/gone.py"} if old else set()) | {each for each in left if "pyc" in each and old}
        assert {path.name for path in (node.top / "bin").iterdir()} == {"old" if old else "new"}


def test_a_library_that_leaves_is_no_requirement_for_its_successor(machine: Machine) -> None:
    machine.index(
        *(machine.wheel("mine", version, requires=[f"helper=={version}"]) for version in ("1.0", "2.0")),
        *(machine.wheel("helper", version) for version in ("1.0", "2.0")),
        machine.wheel("user", requires=["helper"]),
    )
    node, other = machine.node("i-1"), machine.node("i-2")
    install(node._replace(name="one"), "mine==1.0")
    with pytest.raises(LibraryError, match="mine"):
        install(node._replace(name="two"), "mine==2.0")
    install(node._replace(name="two", leaving=frozenset({"one"})), "mine==2.0")
    assert run(node, "python", "-c", SHOWS) == "2.0 2.0"
    assert sorted(node.pins.split()) == ["helper==2.0", "mine==2.0"]
    install(other._replace(name="one"), "mine==1.0")
    install(other._replace(name="user"), "user")
    with pytest.raises(LibraryError, match="helper"):  # what stays was resolved to it
        install(other._replace(name="two", leaving=frozenset({"one"})), "mine==2.0")
    assert run(other, "python", "-c", SHOWS) == "1.0 1.0"


def test_a_wheel_removes_no_file_but_its_own(machine: Machine) -> None:
    node = machine.node("i-1")._replace(name="mine")
    outside = machine.top / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    install(node, wheel=machine.wheel("mine"))
    (node.top / "site" / "link").symlink_to(outside)
    record = next((node.top / "site").glob("mine-*.dist-info/RECORD"))
    bad = [str(outside / "precious"), "../../../outside/precious", "link/precious", "../bin/../../outside/precious", "."]
    text = record.read_text() + "".join(f"{name},,\n" for name in bad)
    record.unlink()
    record.write_text(text)
    install(node, wheel=machine.wheel("mine", files={"mine.py": "VERSION = 'new'\n"}))
    assert run(node, "python", "-c", SHOWS) == "new 1.0"
    assert (outside / "precious").exists()


def test_an_agent_installs_again_what_was_to_leave(here: World, machine: Machine) -> None:
    machine.index(machine.wheel("helper"))
    place = here.data_dir / "dbfs" / "mine-1.0-py3-none-any.whl"
    place.parent.mkdir(exist_ok=True)
    machine.wheel("mine", files={"mine.py": "VERSION = 'old'\n"}).rename(place)
    jar, wheel = Library(jar="dbfs:/some.jar"), Library(whl=f"dbfs:/{place.name}")
    make_jar(place.with_name("some.jar"), {"a.txt": b"old"})
    one = here.instance().start()
    here.ready(one, libraries=(wheel, jar))
    (module,) = (here.data_dir / "instances").glob("*/libraries/site/mine.py")
    assert "old" in module.read_text()
    machine.wheel("mine", files={"mine.py": "VERSION = 'new'\n"}).rename(place)
    make_jar(place.with_name("some.jar"), {"a.txt": b"new"})
    here.server.assign(one.id, assignment(version=2, libraries=(wheel, jar), library_revisions=(1, 1)))
    status = here.server.status(
        one.id,
        lambda each: [report.revision for report in each.libraries] == [1, 1] and each.libraries[1].status.value == "FAILED",
    )
    assert status.libraries[0].status.value == "INSTALLED"
    assert "new" in module.read_text()
    assert "Restart the cluster" in status.libraries[1].message, "Java keeps the classes that it has"


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
    make_jar(here.data_dir / "dbfs" / "late.jar", {"a.txt": b"x"})
    jar = Library(jar="dbfs:/late.jar")
    here.server.assign(one.id, assignment(version=3, libraries=(first, missing, *later, jar)))
    status = here.server.status(one.id, lambda each: len(each.libraries) == 5 and each.libraries[4].status.value == "INSTALLED")
    (path,) = one.execute("print(*state['jars'])").split()
    assert Path(path).parent == one.directory / "libraries" / "jars" and Path(path).is_file()
    assert {"first.py", "mine.py"} <= {path.name for path in (one.directory / "libraries" / "site").iterdir()}
    here.server.assign(one.id, None)
    here.server.phase(one.id, Phase.IDLE)
    assert not (one.directory / "libraries").exists()
