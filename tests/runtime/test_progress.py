"""How far an installation is, as it is told and as it is shown."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from brickyard.cli.mainjob import _INSTALLING
from brickyard.cli.progress import installing
from brickyard.runtime import catalogue
from brickyard.runtime.lock import locked
from brickyard.runtime.progress import CLASSES, DOWNLOAD, ENVIRONMENT, JAVA, PACKAGES, STEPS, TRAINING, Board, Meter, Report
from tests.support.golden import Golden

LONGEST = Report(subject="Spark 4.0.5", step=2, done_mb=9_999, total_mb=9_999, share=0.5, left_s=59 * 60 + 59)
WHAT_HAPPENS = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 5_000), st.floats(0, 600)), max_size=40)


@given(WHAT_HAPPENS)
def test_it_only_goes_forward_and_never_claims_to_be_done(happens: list[tuple[object, int, float]]) -> None:
    now, meter, last = 0.0, Meter("Spark 4.0.5", now=0.0), 0.0
    for step, mb, seconds in happens:
        now += seconds
        meter.begin(step, now=now)  # type: ignore[arg-type] # one of STEPS
        meter.moved(mb)
        report = meter.report(now=now)
        # A pace that is found out after a step may set back how far the step without a measure is thought to be.
        assert 0 <= report.share < 1
        assert report.step >= last
        assert report.left_s is None or report.left_s > 0
        assert report.done_mb <= report.total_mb
        last = report.step


def test_the_time_left_follows_the_pace_of_what_was_done() -> None:
    def left(times: int) -> int:
        meter = Meter("Spark 4.0.5", now=0.0)
        done = (ENVIRONMENT, DOWNLOAD, PACKAGES)
        for before, step in zip(done, (DOWNLOAD, PACKAGES, JAVA), strict=True):
            meter.begin(step, now=times * sum(each.typical_s for each in STEPS[: STEPS.index(before) + 1]))
        found = meter.report(now=times * sum(each.typical_s for each in done)).left_s
        assert found is not None
        return found

    assert left(1) == sum(step.typical_s for step in STEPS[3:])
    assert left(3) == 3 * left(1)


def test_a_step_that_was_not_needed_says_nothing_of_the_pace() -> None:
    """A Java that is there already: nothing is fetched."""
    meter = Meter("Spark 4.0.5", now=0.0)
    meter.begin(DOWNLOAD, now=1.0)
    meter.begin(CLASSES, now=21.0)
    assert meter.report(now=21.0).left_s == CLASSES.typical_s


def test_nothing_is_said_of_the_end_of_a_step_that_takes_longer_than_it_should() -> None:
    meter = Meter("Spark 4.0.5", now=0.0)
    meter.begin(DOWNLOAD, now=1.0)
    meter.begin(CLASSES, now=21.0)
    assert meter.report(now=21.0 + CLASSES.typical_s).left_s is not None
    assert meter.report(now=22.0 + CLASSES.typical_s).left_s is None


@pytest.mark.parametrize("number", range(1, len(STEPS) + 1))
def test_a_step_fits_into_a_line_of_80_columns(number: int) -> None:
    head = Report(subject="Spark 4.0.5", step=number).head
    assert len(f"   599.9 s  PENDING: {head}") < 80, "as quickstart shows it"


def shown(reports: list[Report], *, terminal: bool) -> str:
    written = io.StringIO()
    with installing(
        console=Console(file=written, force_terminal=terminal, width=80, soft_wrap=True, highlight=False)
    ) as progress:
        for report in reports:
            progress(report)
    return written.getvalue()


def test_without_a_terminal_there_is_a_line_a_step(golden: Golden) -> None:
    steps = [Report(subject="Spark 4.0.5", step=step, left_s=left) for step in (1, 2, 3) for left in range(50)]
    note = "Going on without Spark Connect: the network is down"
    *lines, last = shown([*steps, Report(subject="Spark 4.0.5", step=3, note=note)], terminal=False).splitlines()
    assert (len(lines), last) == (3, note)
    for line in lines:
        golden(line, "Spark 4.0.5")


def test_on_a_terminal_one_line_lives_and_does_not_wrap(golden: Golden) -> None:
    text = shown([LONGEST] * 3, terminal=True)
    lines = [Text.from_ansi(line).plain.rstrip() for line in re.split(r"[\r\n]", text)]
    (bar,) = {line for line in lines if line.startswith("step 2")}
    golden(re.sub(r"\W{2,}(?=9999 of)", " {bar} ", bar))
    assert max(map(len, lines)) <= 80
    assert lines.count("Installing Spark 4.0.5") == 1


def test_a_waiting_node_says_how_far_the_installation_is(tmp_path: Path, golden: Golden) -> None:
    """`python -m brickyard.runtime` is what agents run: its lines become the state_message of the cluster."""
    runtime = catalogue.default()
    command = [sys.executable, "-m", "brickyard.runtime", "install", runtime.key, "--cache-dir", str(tmp_path), "--json"]
    with locked(runtime.environment, tmp_path, lambda report: None) as board:
        board.write(Report(subject="Spark 4.0.5", step=5, left_s=75))
        waiting = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert waiting.stdout is not None
        first = json.loads(waiting.stdout.readline())["message"]
        waiting.kill()
        waiting.communicate()
    golden(first, "Spark 4.0.5", "(1 min 15 s left)")
    assert _INSTALLING.sub(r"\1", f"PENDING: {first}") == f"PENDING: {first.partition(' (')[0]}"


def test_what_cannot_be_read_is_no_progress(tmp_path: Path) -> None:
    (tmp_path / "locks").mkdir()
    board = Board("e", tmp_path)
    assert board.read() is None
    (tmp_path / "locks" / "e.progress").write_text('{"subject": ')
    assert board.read() is None
    Board("e", tmp_path / "nowhere").write(LONGEST)


def test_a_training_says_what_it_is_for(golden: Golden) -> None:
    meter = Meter("Spark 4.0.5", now=0.0, steps=TRAINING)
    golden(meter.report(now=0.0).head)
    meter.begin(TRAINING[2], now=90.0)
    golden(meter.report(now=90.0).head)
