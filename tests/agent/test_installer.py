"""What an installer can reach: hostile packages, with uv, the walls and the networks of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import threading
import warnings
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest

from brickyard.agent.libraries import libraries
from brickyard.agent.libraries.installer import LibraryError, Target, execute, view_of
from brickyard.agent.libraries.libraries import Wanted, check_wheel
from brickyard.agent.networks import Networks
from brickyard.machine.packageindex import index_files, index_urls
from brickyard.sandbox import launcher, network
from tests.agent.machine import WALLS, Machine, drafts, install, run
from tests.support.packages import make_wheel

HERE = network.allowed(WALLS)
isolated = pytest.mark.skipif(HERE.kind == "shared", reason=f"no networks here: {HERE.reason}")
walled = pytest.mark.skipif(WALLS.kind == "none", reason="no isolation here")


class Port:
    """A service of this machine that no installer may reach; it counts who tries."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self.number = int(listener.getsockname()[1])

    @property
    def asked(self) -> bool:
        self._listener.settimeout(0)
        with contextlib.suppress(BlockingIOError):
            self._listener.accept()[0].close()
            return True
        return False


@pytest.fixture
def port() -> Iterator[Port]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield Port(listener)


# ── what packages require ───────────────────────────────────────────────────────────────────────────────────────────────────────

ADDRESSES = ["http://127.0.0.1:{port}/x-1.0-py3-none-any.whl", "git+http://127.0.0.1:{port}/x", "{private}"]


def given(machine: Machine, required: str) -> Wanted:
    return Wanted(wheel=machine.wheel("outer", requires=[required]))


def built(machine: Machine, required: str) -> Wanted:
    return Wanted(requirements=("outer",), built=(machine.wheel("outer", requires=[required]),))


def indexed(machine: Machine, required: str) -> Wanted:
    machine.index(machine.wheel("outer", requires=[required]))
    return Wanted(requirements=("outer",))


def further(machine: Machine, required: str) -> Wanted:
    machine.index(
        machine.wheel("middle", requires=["outer[more]"]), machine.wheel("outer", requires=[f'{required} ; extra == "more"'])
    )
    return Wanted(wheel=machine.wheel("first", requires=["middle"]))


@pytest.mark.parametrize("address", ADDRESSES, ids=["http", "git", "file"])
@pytest.mark.parametrize("level", [given, built, indexed, further])
def test_what_a_package_requires_by_its_address_is_refused(
    machine: Machine, port: Port, level: Callable[[Machine, str], Wanted], address: str
) -> None:
    (machine.top / "private").mkdir()
    private = make_wheel(machine.top / "private", "x").as_uri()
    wanted = level(machine, "x @ " + address.format(port=port.number, private=private))
    node = machine.node("i-1")
    with pytest.raises(LibraryError, match="name @ URL"):
        asyncio.run(libraries.install(wanted, node))
    assert not port.asked
    assert not (node.top / "site" / "x.py").exists()
    assert not drafts(machine)
    assert not list(machine.top.rglob("git-v*")), "git was run"


@pytest.mark.parametrize("more", ["outer-1.0.dist-info/METADATA", "Outer-1.0.dist-info/METADATA"])
def test_a_wheel_says_once_what_it_requires(machine: Machine, more: str) -> None:
    wheel = machine.wheel("outer")
    check_wheel(wheel)
    with zipfile.ZipFile(wheel, "a") as archive, warnings.catch_warnings(action="ignore"):
        archive.writestr(more, "Metadata-Version: 2.1\nName: outer\nVersion: 1.0\nRequires-Dist: x @ file:///x\n")
    with pytest.raises(LibraryError, match="one METADATA"):
        check_wheel(wheel)


@pytest.mark.parametrize("header", ["requires-dist: x@file:///x", "Requires-Dist: x\n  @ file:///x", "Requires-Dist: x[a] @ ./x"])
def test_a_requirement_by_address_is_found_in_every_spelling(tmp_path: Path, header: str) -> None:
    wheel = tmp_path / "outer-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("outer-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: outer\nVersion: 1.0\n{header}\n\ntext")
    with pytest.raises(LibraryError, match="name @ URL"):
        check_wheel(wheel)


# ── what an installer sees ──────────────────────────────────────────────────────────────────────────────────────────────────────


def inside(node: Target, script: str, *, walls: launcher.Sandbox = WALLS) -> None:
    """Runs a shell script in the place of an installer. Raises LibraryError unless it ends well."""
    node.workshop.mkdir(parents=True, exist_ok=True)
    view = view_of(node, etc=node.workshop / "etc", reads=(), writes=node.workshop)
    command = ["/bin/sh", "-c", script]
    asyncio.run(execute(command, env={}, cwd=node.workshop, walls=walls, view=view, network=None, hints={}))


@walled
def test_an_installer_sees_the_runtime_and_its_own_files_alone(machine: Machine) -> None:
    node, others = machine.node("i-1"), machine.top / "cache" / "libraries" / "others"
    others.mkdir(parents=True)
    (others / "pins.txt").write_text("")
    (machine.top / "secret").write_text("secret")
    inside(node, f"test -r {node.manifest.python} && echo fine >{node.workshop}/draft-x")
    assert (node.workshop / "draft-x").read_text() == "fine\n"
    for path in (machine.top / "secret", others / "pins.txt", node.config.directory, Path("/etc/shadow")):
        assert path.exists()
        inside(node, f"test ! -e {path}")
    for script in (f"echo x >{node.manifest.home}/x", "echo x >/usr/x", f"echo x >{others}/x"):
        with pytest.raises(LibraryError):
            inside(node, script)


@pytest.mark.parametrize("walls", [WALLS, launcher.Plain()], ids=["walls", "none"])
def test_an_installer_finds_no_other_program(machine: Machine, walls: launcher.Sandbox) -> None:
    assert shutil.which("sh")
    with pytest.raises(LibraryError):
        inside(machine.node("i-1"), "command -v git || command -v ls", walls=walls)


def test_the_machines_index_is_shown_whichever_way_it_is_named(tmp_path: Path) -> None:
    for name in ("wheels", "more", "uv", "uv/simple"):
        (tmp_path / name).mkdir()
    (tmp_path / "uv" / "uv.toml").write_text(
        f'find-links = ["{tmp_path}/more"]\n[[index]]\nurl = "https://u:p@three.test/simple"\n'
    )
    (tmp_path / "netrc").write_text("")
    environ = {
        "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "PIP_CONFIG_FILE": os.devnull, "NETRC": f"{tmp_path}/netrc",
        "UV_FIND_LINKS": f"{tmp_path}/wheels,/nowhere",
        "UV_INDEX": f"own=https://one.test/simple {(tmp_path / 'uv/simple').as_uri()}",
        "UV_DEFAULT_INDEX": "http://127.0.0.1:3141/simple",
    }  # fmt: skip
    shown = {Path(each).relative_to(tmp_path).as_posix() for each in index_files(environ) if each.startswith(str(tmp_path))}
    assert shown == {"wheels", "more", "uv/uv.toml", "uv/simple", "netrc"}
    urls = [each for each in index_urls(environ) if each.startswith("http")]
    assert urls == ["http://127.0.0.1:3141/simple", "https://one.test/simple", "https://u:p@three.test/simple"]
    assert index_urls({"HOME": "/nowhere", "PIP_CONFIG_FILE": os.devnull}) == ["https://pypi.org/simple"]


@pytest.mark.parametrize("linked", [True, False])
def test_a_link_that_an_installer_leaves_leads_to_no_file_of_the_machine(machine: Machine, linked: bool) -> None:
    """None makes one; a package that misuses a fault of uv could."""
    node, entry = machine.node("i-1", linked=linked), machine.top / "entry"
    secret = machine.top / "secret"
    secret.write_text("secret")
    (entry / "site" / "bin").mkdir(parents=True)
    (entry / "pins.txt").write_text("")
    (entry / "out.txt").write_text("")
    for name in ("bin/tool", "module.py"):
        (entry / "site" / name).symlink_to(secret)
    libraries.put(entry, node)
    assert not (node.top / "bin" / "tool").exists()
    assert (node.top / "site" / "module.py").is_symlink()
    assert secret.stat().st_nlink == 1


# ── what an installer reaches ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def index(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadingHTTPServer]:
    """The machine's package index, on its loopback."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(machine.top))) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("PIP_INDEX_URL", f"http://localhost:{made.server_port}/simple")
        yield made
        made.shutdown()
        thread.join()


@isolated
@pytest.mark.parametrize("internet", [True, False], ids=["internet", "no internet"])
def test_an_installer_reaches_the_index_on_this_machine_and_no_other_service(
    machine: Machine, port: Port, index: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch, internet: bool
) -> None:
    monkeypatch.setattr(libraries, "AWAY_S", 0.0)
    monkeypatch.setattr(libraries, "HTTP_S", "1")
    machine.index(machine.wheel("tool"), machine.wheel("other"))
    page = machine.top / "simple" / "elsewhere" / "index.html"
    page.parent.mkdir()
    page.write_text(
        f'<a href="http://127.0.0.1:{port.number}/elsewhere-1.0-py3-none-any.whl">elsewhere-1.0-py3-none-any.whl</a>\n'
    )
    node, switchboard = machine.node("i-1"), network.make_switchboard()
    config = msgspec.structs.replace(
        node.config, network="isolated", ways_dir=str(machine.top / "ways" / "i-1"), internet=internet
    )  # fmt: skip
    networks = Networks(config=config, switchboard=switchboard)
    walled_in = node._replace(config=config, lend=networks.lend)
    try:
        install(walled_in, "tool")
        with pytest.raises(LibraryError, match=f"127.0.0.1:{port.number}"):
            install(walled_in, "elsewhere")
        assert not port.asked, "the index names a file on another port"
        if internet:
            monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{port.number}/simple")
            with pytest.raises(LibraryError):
                install(walled_in, "other")
            assert port.asked, "what the administrators name is reached"
    finally:
        os.close(switchboard)
    assert run(node, "python", "-c", "import tool; print(tool.VERSION)") == "1.0"
    assert not list((machine.top / "ways").iterdir())
