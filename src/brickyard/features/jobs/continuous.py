"""When a continuous job's next run begins. Pure.

One run is active at a time. The next one begins when it is over: soon after one that was not a failure, and after longer and
longer pauses while they fail.
"""

from __future__ import annotations

import msgspec

from brickyard.domain.run import FAILED, Run
from brickyard.features.jobs.model import Continuity, JobRow, PauseStatus

LOOK_MS = 30_000  # between two looks at a job whose run is active; the end of the run wakes it anyway
MOST_OFTEN_MS = 10_000  # between the starts of two runs
HEALTHY_MS = 15 * 60_000  # a run that took so long is no failure that follows from those before it
PAUSES_MS = (30_000, 30 * 60_000)  # after the first failure, and the longest


def is_on(row: JobRow) -> bool:
    """Whether a run of the job is to be active now."""
    continuous = row.settings.continuous
    return continuous is not None and continuous.pause_status is not PauseStatus.PAUSED and bool(row.settings.tasks)


def pause_ms(failures: int) -> int:
    """How long after so many failures in a row the next run begins."""
    first, longest = PAUSES_MS
    return min(first * 2 ** min(failures - 1, 20), longest) if failures else 0


def following(row: JobRow, *, active: bool, last: Run | None, now: int) -> tuple[JobRow, bool]:
    """The row as it is from now on, and whether a run begins. `last`: the job's run that ended last."""
    replace, known = msgspec.structs.replace, row.continuity
    if active:
        return replace(row, next_ms=now + LOOK_MS), False
    if last is not None and last.run_id != known.run_id:
        failed, took = last.result in FAILED, last.ended_ms - (last.dequeued_ms or last.created_ms)
        failures = (1 if took >= HEALTHY_MS else known.failures + 1) if failed else 0
        begin = max(last.ended_ms + pause_ms(failures), last.created_ms + MOST_OFTEN_MS)
        # Never longer than the pause from now on: the clock may have been set back.
        begin = min(begin, now + max(pause_ms(failures), MOST_OFTEN_MS))
        row = replace(row, continuity=Continuity(run_id=last.run_id, failures=failures, begin_ms=begin))
    if now < row.continuity.begin_ms:
        return replace(row, next_ms=row.continuity.begin_ms), False
    return replace(row, next_ms=now + LOOK_MS), True
