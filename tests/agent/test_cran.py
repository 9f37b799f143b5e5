"""How an agent installs R packages: with a repository of the test's own, without Spark."""

from __future__ import annotations

import asyncio
import io
import shutil
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from brickyard.agent.config import AgentConfig
from brickyard.agent.host import NodeHost
from brickyard.agent.libraries import cran
from brickyard.agent.libraries.installer import LibraryError
from brickyard.agent.networks import Networks
from brickyard.agent.state import NodeState
from brickyard.domain.libraries import NO_R, Library, RCranLibrary
from brickyard.logs.bounded import LogFile
from tests.agent.owner import Listener, Owner
from tests.agent.runtime import make_config, make_runtime
from tests.agent.world import FAKES, SOURCE, Instance, World, assignment
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S
from tests.support.rpackages import add_package

NO_COMPILER = "no compiler was found"

needs_r = pytest.mark.skipif(shutil.which("Rscript") is None, reason="this machine has no R (Debian: r-base-core)")


def package(name: str, repo: str | None = None) -> Library:
    return Library(cran=RCranLibrary(package=name, repo=repo))


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The machine's repository of R packages."""
    top = tmp_path / "cran"
    add_package(top, "helper", code="word <- function() 'hello'\n", exports=["word"])
    code = "hello <- function() paste(helper::word(), 'from R')\n"
    add_package(top, "greeting", code=code, exports=["hello"], imports=["helper"])
    add_package(top, "ill", code=f"stop('{NO_COMPILER}')\n")
    monkeypatch.setenv("BRICKYARD_CRAN_URL", top.as_uri())
    return top


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """The code for nodes: the fake node host, which runs programs by the code of the real one."""
    top = tmp_path / "code"
    top.mkdir()
    shutil.copy(FAKES / "start.py", top)
    shutil.copy(SOURCE / "brickyard/runtime/node/host/scripts.py", top / "node_scripts.py")
    return top


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """Another repository, on a web server."""
    add_package(tmp_path / "other", "remote", code="place <- function() 'elsewhere'\n", exports=["place"])
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "other"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def r(node: Instance, code: str) -> str:
    """What R prints on the node."""
    return node.execute(
        f"""
        import subprocess
        done = subprocess.run(["Rscript", "-e", {code!r}], capture_output=True, text=True)
        print(done.stdout + done.stderr)
        """
    ).strip()


@needs_r
def test_packages_with_what_they_require_are_there_for_every_r_on_the_node(
    here: World, repository: Path, code: Path, served: str
) -> None:
    node = here.instance(node_code_dir=str(code)).start()
    status = here.ready(node, libraries=(package("greeting"), package("remote", served), package("ill"), package("nowhere")))
    greeting, remote, ill, nowhere = status.libraries
    assert (greeting.status.value, greeting.message) == ("INSTALLED", "")
    assert (remote.status.value, remote.message) == ("INSTALLED", ""), "from its own repository"
    assert ill.status.value == "FAILED" and NO_COMPILER in ill.message
    assert nowhere.status.value == "FAILED" and "nowhere" in nowhere.message and "not available" in nowhere.message
    assert r(node, "cat(greeting::hello(), remote::place())") == "hello from R elsewhere"
    installed = {path.name for path in (node.directory / "libraries" / "R").iterdir()}
    assert installed == {"greeting", "helper", "remote"}, "nothing of what failed"
    assert not list((node.node / "scripts").glob("*.out"))


@needs_r
def test_users_install_beside_the_clusters_packages(here: World, repository: Path, code: Path) -> None:
    node = here.instance(node_code_dir=str(code)).start()
    here.ready(node, libraries=(package("helper"),))
    said = r(node, f"install.packages('greeting', repos = '{repository.as_uri()}'); cat(greeting::hello())")
    assert "hello from R" in said, said
    assert {path.name for path in (node.node / "python" / "lib" / "R").iterdir()} == {"greeting"}


def test_a_node_without_r_skips_them_and_says_what_to_do(here: World, code: Path) -> None:
    node = here.instance(node_code_dir=str(code)).start()
    status = here.ready(node, libraries=(package("greeting"),), spark_env_vars={"PATH": "/nowhere"})
    assert [(each.status.value, each.message) for each in status.libraries] == [("SKIPPED", NO_R)]


class _Host(NodeHost):
    """A node host that runs one program at a time, to its end when the test says so."""

    def __init__(self) -> None:
        super().__init__(Listener())
        self.programs = list[str]()
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()

    async def call(self, op: str, *, timeout_s: float | None = None, **fields: Any) -> dict[str, Any]:
        self.programs.append(fields["name"])
        self.begun.set()
        await self.may_end.wait()
        return {"status": "SUCCEEDED"}


async def test_a_start_that_waits_no_longer_lets_the_installation_go_on(tmp_path: Path) -> None:
    manifest, config = make_runtime(tmp_path), make_config(tmp_path, "i-1")

    node, host = _state(config), _Host()
    node.host, node.manifest, node.wanted = host, manifest, assignment()
    config.node_dir.mkdir(parents=True, exist_ok=True)
    first = asyncio.create_task(cran.install(node, RCranLibrary(package="slow")))
    await host.begun.wait()
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    second = asyncio.create_task(cran.install(node, RCranLibrary(package="slow")))
    host.may_end.set()
    async with asyncio.timeout(PATIENCE_S):
        assert await second is False, "the program found no R"
    assert len(host.programs) == 1
    assert node.background == {}


def _state(config: AgentConfig) -> NodeState:
    networks, log = Networks(config=config, switchboard=-1), LogFile(config.directory / "agent.log")
    return NodeState(config=config, owner=Owner(), listener=Listener(), networks=networks, log=log)


def _packed(*members: tuple[tarfile.TarInfo, bytes]) -> io.BytesIO:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for info, data in members:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    made.seek(0)
    return made


@pytest.mark.parametrize("name", ["../outside", "/outside", "a/../../outside", ""])
def test_nothing_is_unpacked_elsewhere(tmp_path: Path, name: str, golden: Golden) -> None:
    target = tmp_path / "target"
    target.mkdir()
    with golden.refused(ValueError, name):
        cran.unpack(_packed((tarfile.TarInfo(name), b"x")), target)
    assert list(tmp_path.rglob("*")) == [target]


def test_links_and_devices_are_not_unpacked(tmp_path: Path) -> None:
    link, pipe, through = tarfile.TarInfo("link"), tarfile.TarInfo("pipe"), tarfile.TarInfo("link/file")
    link.type, link.linkname, pipe.type = tarfile.SYMTYPE, "/etc", tarfile.FIFOTYPE
    program = tarfile.TarInfo("program")
    program.mode = 0o4755
    cran.unpack(_packed((link, b""), (pipe, b""), (through, b"x"), (program, b"y")), tmp_path)
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")} == {"link", "link/file", "program"}
    assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "program").stat().st_mode & 0o7777 == 0o755


def test_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden) -> None:
    monkeypatch.setattr(cran, "MAX_BYTES", 10)
    with golden.refused(LibraryError):
        cran.unpack(_packed((tarfile.TarInfo("a"), b"123456"), (tarfile.TarInfo("b"), b"123456")), tmp_path)
