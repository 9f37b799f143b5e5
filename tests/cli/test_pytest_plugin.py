"""The pytest plugin and the knobs, as docs/testing.md shows them."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import psutil
import pytest

from brickyard.providers.simulated import Knobs, knobsfile
from brickyard.server.datadir import Workspace
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S, until
from tests.support.snippets import ROOT, blocks, home_environment

PAGE = ROOT / "docs" / "testing.md"


def test_the_page_s_tests_pass_with_the_plugin(tmp_path: Path) -> None:
    (example,) = [block.text for block in blocks(PAGE) if block.language == "python"]
    (tmp_path / "test_mine.py").write_text(example)
    command = [sys.executable, "-m", "pytest", "-p", "brickyard.pytest_plugin", "-p", "no:cacheprovider", "-q", "test_mine.py"]
    place = ["--basetemp", str(tmp_path / "run")]
    done = subprocess.run(
        [*command, *place],
        cwd=tmp_path,
        env=home_environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


WAITS = """
import time
def test_waits(brickyard_server):
    with open("url", "w") as file:
        file.write(brickyard_server.url)
    time.sleep(1000)
"""


def test_a_killed_test_run_leaves_no_server(tmp_path: Path) -> None:
    (tmp_path / "test_waits.py").write_text(WAITS)
    command = [sys.executable, "-m", "pytest", "-p", "brickyard.pytest_plugin", "-p", "no:cacheprovider", "-q", "test_waits.py"]
    place = ["--basetemp", str(tmp_path / "run")]
    with subprocess.Popen([*command, *place], cwd=tmp_path, env=home_environment(tmp_path), stdout=subprocess.DEVNULL) as run:
        workspace = Workspace(tmp_path / "run" / "brickyard0" / "data")
        until((tmp_path / "url").exists, "the run's server")
        running = workspace.running()
        assert running is not None
        run.kill()
    until(lambda: not psutil.pid_exists(running.pid), "the server ends with the run")
    assert f"process {run.pid}, " in workspace.log_file.read_text(), "why it ended"


def test_the_wheel_has_the_plugin_and_it_costs_next_to_nothing() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"brickyard.pytest_plugin": "brickyard.pytest_plugin"}
    program = (
        "import sys, pytest\nbefore = set(sys.modules)\nimport brickyard.pytest_plugin\n"
        "print([name for name in set(sys.modules) - before if not name.startswith('brickyard')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_knob_is_described_with_its_default(tmp_path: Path) -> None:
    described = dict(re.findall(r"^\| `(\w+)` \| `?(.*?)`? \|", PAGE.read_text(), re.MULTILINE))
    assert described.keys() == set(Knobs.__struct_fields__)
    file = tmp_path / "knobs.toml"
    file.write_text("".join(f"{name} = {value}\n" for name, value in described.items()))
    assert {name: getattr(knobsfile.read(file), name) for name in described} == {
        name: getattr(Knobs(), name) for name in described
    }


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("strat_s = 1\n", "strat_s"),
        ("node_failure = 2\n", ""),
        ("start_s = -1\n", "start_s"),
        ("start_s =", ""),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, text: str, field: str, golden: Golden) -> None:
    file = tmp_path / "knobs.toml"
    file.write_text(text)
    with golden.refused(knobsfile.KnobsError, field):
        knobsfile.read(file)
    with golden.refused(knobsfile.KnobsError):
        knobsfile.read(tmp_path / "nowhere")
