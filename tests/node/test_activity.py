"""When a driver's activity is told."""

from __future__ import annotations

from typing import Any

from brickyard.runtime.node.spark import activity

NO_COMMANDS = (False, 0)


def idle(jobs: int = 1, connect: int = 0) -> Any:
    return activity.Activity(busy=False, jobs=jobs, connect=(connect,))


def meter() -> Any:
    made = activity.ActivityMeter()
    made.touch(1_000)
    assert made.sample(idle(), NO_COMMANDS, 2_000) is None
    return made


def test_beginning_and_end_are_told_at_once() -> None:
    made = meter()
    assert made.sample(activity.Activity(busy=True, jobs=2, connect=(0,)), NO_COMMANDS, 3_000) == {
        "busy": True,
        "last_activity_ms": 3_000,
    }
    assert made.sample(idle(2), NO_COMMANDS, 4_000) == {"busy": False, "last_activity_ms": 3_000}
    assert made.sample(idle(2), NO_COMMANDS, 60_000) is None


def test_a_job_between_two_samples_counts() -> None:
    made = meter()
    assert made.sample(idle(2), NO_COMMANDS, 9_000) == {"busy": False, "last_activity_ms": 9_000}


def test_a_long_job_moves_the_last_activity_every_few_seconds() -> None:
    made = meter()
    told = [
        made.sample(activity.Activity(busy=True, jobs=2, connect=(0,)), NO_COMMANDS, 3_000 + 1_000 * step) for step in range(11)
    ]
    assert [step for step, said in enumerate(told) if said] == [0, 5, 10]


def test_connect_and_commands_count() -> None:
    assert meter().sample(idle(connect=8_000), NO_COMMANDS, 9_000) == {"busy": False, "last_activity_ms": 9_000}
    assert meter().sample(idle(), (True, 8_900), 9_000) == {"busy": True, "last_activity_ms": 9_000}


def test_a_stream_counts_also_between_two_batches() -> None:
    made = meter()
    waiting = activity.Activity(busy=False, jobs=1, connect=(0,), streams=True)
    told = [made.sample(waiting, NO_COMMANDS, 3_000 + 1_000 * step) for step in range(11)]
    assert [step for step, said in enumerate(told) if said] == [0, 5, 10]
    assert made.sample(idle(), NO_COMMANDS, 14_000) == {"busy": False, "last_activity_ms": 13_000}


def test_each_use_of_connect_counts_once_whatever_its_clock_shows() -> None:
    made = meter()
    assert made.sample(idle(connect=99_000_000), NO_COMMANDS, 9_000) == {"busy": False, "last_activity_ms": 9_000}
    assert made.sample(idle(connect=99_000_000), NO_COMMANDS, 20_000) is None
    assert made.sample(idle(connect=5), NO_COMMANDS, 30_000) == {"busy": False, "last_activity_ms": 30_000}


def test_active_jobs_are_asked_for_until_several_looks_found_none() -> None:
    look = activity.JobsLook()
    asked = []
    for jobs in (1, 1, 1, 1, 1, 1, 2, 2):
        asked.append(look.due(jobs))
        if asked[-1]:
            look.saw(active=False)
    assert asked == [True, True, True, True, False, False, True, True]


def test_a_job_that_runs_for_long_is_asked_for_to_its_end() -> None:
    look = activity.JobsLook()
    for _ in range(20):
        assert look.due(7)
        look.saw(active=True)
    look.saw(active=False)
    assert look.due(7)


def test_jobs_that_ran_for_nobody_are_no_activity() -> None:
    made = meter()
    made.overlook(activity.Activity(busy=True, jobs=6, connect=(0,)))
    assert made.sample(idle(jobs=6), NO_COMMANDS, 60_000) is None
    assert made.sample(idle(jobs=7), NO_COMMANDS, 61_000) == {"busy": False, "last_activity_ms": 61_000}
