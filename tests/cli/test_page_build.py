"""The build of the web page in the background, which quickstart leaves behind: one at a time, and safe against kills."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.patience import PATIENCE_S, until

ROOT = Path(__file__).parents[2]
NODE = """#!/bin/sh
case "$*" in
  --version) echo v22.0.0 ;;
  *vite.js*)
    echo begun >> ../calls
    while [ -e ../hold ]; do sleep 0.02; done
    while [ "$1" != --outDir ]; do shift; done
    mkdir -p "$2/.vite" && touch "$2/index.html" "$2/a.js.gz"
    echo '{"index.html": {"file": "a.js"}, "src/main.tsx": {"file": "a.js"}}' > "$2/.vite/manifest.json" ;;
esac
"""


class Checkout:
    """A checkout whose Node only makes what a bundle must have, once the file `hold` has gone."""

    def __init__(self, place: Path) -> None:
        self.ui, self.log = place / "ui", place / ".venv" / "web-page.log"
        self.bundle = place / "src" / "brickyard" / "webui"
        self._programs = place / "programs"
        for folder in (self.ui / "src", self._programs, self.log.parent, self.bundle.parent / "machine"):
            folder.mkdir(parents=True)
        for name in ("build.py", "background.py", "package.json", "package-lock.json"):
            shutil.copy(ROOT / "ui" / name, self.ui)
        shutil.copy(ROOT / "src/brickyard/machine/packageindex.py", self.bundle.parent / "machine")
        (place / "requirements").mkdir()
        (self.ui / "node_modules").mkdir()
        for name, text in (("node", NODE), ("npm", "#!/bin/sh\n")):
            (self._programs / name).write_text(text)
            (self._programs / name).chmod(0o755)
        (self.ui.parent / "hold").touch()

    def run(self, task: str) -> str:
        """What it says."""
        return self.start(task).communicate(timeout=PATIENCE_S)[1]

    def start(self, task: str) -> subprocess.Popen[str]:
        environment = {**os.environ, "PATH": f"{self._programs}:{os.environ['PATH']}"}
        command = [sys.executable, str(self.ui / "build.py"), task]
        return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)

    def begun(self) -> int:
        calls = self.ui.parent / "calls"
        return len(calls.read_text().splitlines()) if calls.exists() else 0

    def begin(self) -> psutil.Process:
        """A build in the background that has begun to write."""
        said = self.run("background")
        assert str(self.log) in said
        until(self.begun, "the first program of the build")
        [pid] = re.findall(r"^Process (\d+) ", self.log.read_text())
        return psutil.Process(int(pid))

    def go_on(self) -> None:
        (self.ui.parent / "hold").unlink()

    @property
    def is_built(self) -> bool:
        return (self.bundle / "stamp").exists() and (self.bundle / "index.html").exists()

    def processes(self) -> list[psutil.Process]:
        found = []
        for each in psutil.process_iter(["cmdline"]):
            if str(self.ui) in " ".join(each.info["cmdline"] or ()):
                found.append(each)
        return found


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Checkout]:
    made = Checkout(tmp_path)
    yield made
    for each in made.processes():
        each.kill()


def test_the_prompt_comes_back_and_others_wait_for_the_same_build(checkout: Checkout) -> None:
    process = checkout.begin()
    assert os.getsid(process.pid) == process.pid, "a closed terminal does not end it"
    assert not checkout.is_built
    assert str(checkout.log) in checkout.run("background"), "a second quickstart begins none"
    waiting = checkout.start("build")
    assert waiting.stderr is not None
    assert str(checkout.log) in waiting.stderr.readline(), "it says what it waits for"
    checkout.go_on()
    assert waiting.wait(PATIENCE_S) == 0
    assert checkout.is_built and checkout.begun() == 1
    assert checkout.run("background") == checkout.run("build") == ""


def test_after_a_kill_nobody_builds_beside_what_it_had_started(checkout: Checkout) -> None:
    process = checkout.begin()
    process.send_signal(signal.SIGKILL)
    until(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE, "its end")
    waiting = checkout.start("build")
    assert waiting.stderr is not None and waiting.stderr.readline()
    assert checkout.begun() == 1
    checkout.go_on()
    assert waiting.wait(PATIENCE_S) == 0
    assert checkout.is_built and checkout.begun() == 2


def test_down_ends_it_with_what_it_has_started(checkout: Checkout) -> None:
    checkout.begin()
    assert checkout.run("stop")
    until(lambda: not checkout.processes(), "the end of all")
    assert checkout.run("stop") == "" and not checkout.is_built


def test_a_process_with_the_number_of_an_earlier_build_is_left_alone(checkout: Checkout) -> None:
    waiting = checkout.start("build")
    until(checkout.begun, "the build")
    checkout.log.write_text(f"Process {os.getpid()} builds the web page.\n")
    assert checkout.run("stop") == ""
    checkout.go_on()
    assert waiting.wait(PATIENCE_S) == 0
