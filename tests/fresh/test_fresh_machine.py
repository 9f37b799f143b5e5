"""A newcomer's machine: a clone, an empty HOME, and a PATH without Java, Node and uv. What a newcomer runs first, twice, with a
SIGKILL of the server in between."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import psutil
import pytest

from brickyard.runtime.python import uv_binary
from brickyard.server.datadir import Workspace
from tests.support.command import processes_of
from tests.support.depth import DEEP
from tests.support.patience import until

ROOT = Path(__file__).parents[2]
BUNDLE = ROOT / "src" / "brickyard" / "webui"
TOOLS = ("bash", "sh", "env", "dirname", "git", "uname", "cat", "rm", "mkdir", "sed", "tr")

pytestmark = [pytest.mark.fresh, pytest.mark.timeout(2400)]


def packages() -> dict[str, str]:
    """Where packages come from: the machine's index, and what it has fetched before, unless this is a deep run."""
    index = {key: value for key, value in os.environ.items() if key.startswith(("PIP_", "SSL_", "REQUESTS_"))}
    if DEEP:
        return index
    fetched = subprocess.run([uv_binary(), "cache", "dir"], capture_output=True, text=True, check=True).stdout.strip()
    return index | {"UV_CACHE_DIR": fetched}


def test_quickstart_from_a_clone_and_again_after_a_kill(tmp_path: Path) -> None:
    clone, home, tools = tmp_path / "clone", tmp_path / "home", tmp_path / "bin"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    if BUNDLE.is_dir():  # the web page that `./dev test` has built of the same sources: a minute of a processor less
        shutil.copytree(BUNDLE, clone / BUNDLE.relative_to(ROOT))
    home.mkdir()
    tools.mkdir()
    for name in TOOLS:
        if found := shutil.which(name):
            (tools / name).symlink_to(found)
    (tools / "python3").symlink_to(Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}")
    environment = {
        **packages(),
        "HOME": str(home),
        "PATH": str(tools),
        "LANG": "C.UTF-8",
        "BRICKYARD_IGNORE_SYSTEM_JAVA": "1",  # the test's machine may have one in a usual place
        "BRICKYARD_PORT": "0",
        "BRICKYARD_BACKGROUND_TRAINING": "false",  # it would begin, and be ended by `runtime train`
    }

    def dev(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(clone / "dev"), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=home)

    workspace = Workspace(home / ".local/share/brickyard")
    try:
        first = dev("quickstart")
        assert first.returncode == 0, first.stdout[-4000:] + first.stderr[-4000:]
        assert "United Air Lines Inc." in first.stdout
        assert "58,665" in first.stdout
        assert all(each in first.stdout for each in ("336,776", "cold", "warm", "2 of 2"))
        page = dev("ui", "--print")  # it waits for the page, which quickstart has begun to build
        assert page.returncode == 0, page.stderr
        with urllib.request.urlopen(page.stdout.strip()) as opened:  # noqa: S310 - the workspace's own link
            assert b'type="module"' in opened.read()
        for line in ("status", "runtime list", "configure", "cluster create mine --wait", "cluster logs mine"):
            done = dev(*line.split())
            assert done.returncode == 0, done.stdout + done.stderr
        assert dev("cluster", "exec", "mine", "spark.range(10).count()").stdout == "10\n"
        assert dev("kernel", "install", "mine").returncode == 0, "the checkout's environment gets what kernels need"
        (made,) = (home / ".cache" / "brickyard" / "runtimes").glob("*/runtime.json")
        assert dev("runtime", "train").returncode == 0, "what the server does in the background otherwise"
        manifest = json.loads(made.read_bytes())
        assert manifest["node_archive"], "the archives of a new runtime were not made: its starts are slow"
        for name, main in (("node", b"SparkContext"), ("executor", b"CoarseGrainedExecutorBackend")):
            archive = Path(manifest[f"{name}_archive"]).read_bytes()
            assert main in archive, f"the {name}'s archive was made without Spark's classes"
        doctor = dev("doctor")
        assert doctor.returncode == 0, doctor.stdout + doctor.stderr
        assert "Java" in doctor.stdout, "this machine has none: each runtime brings one"
        running = workspace.running()
        assert running is not None
        psutil.Process(running.pid).send_signal(signal.SIGKILL)
        until(lambda: workspace.running() is None, "the end of the server")
        again = dev("quickstart", "--no-pool")
        assert again.returncode == 0, again.stdout + again.stderr
        assert "is there" in again.stdout, "the cluster that ran on was adopted"
    finally:
        down = dev("down")
    assert down.returncode == 0, down.stdout + down.stderr
    until(lambda: not processes_of(home), "the end of every process")
