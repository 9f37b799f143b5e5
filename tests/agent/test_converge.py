"""Properties of the decision: it always gets there, never by a wrong way, and then rests."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.agent.converge import Current, Size, Stage, Step, decide, size_of, starts_early, why_cold
from brickyard.domain.libraries import Library
from brickyard.domain.node import Assignment, Role
from brickyard.domain.scripts import InitScript
from tests.agent.world import assignment, preparation

OPTIONS = {"spark.driver.extraJavaOptions": "-javaagent:/tmp/made.jar"}

generations = st.integers(min_value=1, max_value=3)
runtimes = st.sampled_from(["fake", "another"])
sizes = st.builds(Size, runtimes, st.sampled_from([1, 2]), st.just(512), st.just(0))
own = st.builds(
    Current,
    generation=generations,
    stage=st.sampled_from(Stage),
    master_url=st.sampled_from(["", "spark://a:1"]),
    retiring=st.booleans(),
    scripted=st.booleans(),
    closed=st.booleans(),
)
nobodys = st.builds(Current, prepared=sizes, warm=st.booleans())
currents = own | nobodys | st.just(Current())
assignments = st.builds(
    lambda generation, runtime, role, master_url, retiring, scripts, closing, libraries: assignment(
        generation=generation,
        runtime=runtime,
        role=role,
        master_url=master_url,
        retiring=retiring,
        init_scripts=(InitScript(name="a.sh"),) if scripts else (),
        driver_host=scripts,
        closing=closing,
        libraries=(Library(jar="dbfs:/a.jar"),) if libraries else (),
    ),
    generations,
    runtimes,
    st.sampled_from([Role.DRIVER, Role.WORKER, Role.SINGLE]),
    st.sampled_from(["", "spark://a:1", "spark://b:2"]),
    st.booleans(),
    st.sampled_from(["", "198.18.0.9"]),
    st.booleans(),
    st.booleans(),
)
preparations = st.builds(
    lambda generation, runtime, cores: preparation(generation=generation, runtime=runtime, cores=cores),
    st.just(4),
    runtimes | st.just(""),
    st.sampled_from([1, 2]),
)
wishes = st.none() | preparations | assignments


def done(current: Current, step: Step, wanted: Assignment | None) -> Current:
    """What the executor makes of a step that goes well."""
    if step in (Step.RELEASE, Step.COOL):
        return Current()
    assert wanted is not None
    if step is Step.WARM:
        return Current(prepared=size_of(wanted), warm=True)
    if step in (Step.BEGIN, Step.TAKE):
        stage = Stage.STARTED if step is Step.TAKE else Stage.EMPTY
        return Current(generation=wanted.generation, stage=stage)
    changes: dict[Step, dict[str, object]] = {
        Step.INSTALL: {"stage": Stage.INSTALLED},
        Step.HOST: {"stage": Stage.HOSTED},
        Step.SCRIPTS: {"scripted": True},
        Step.START: {"stage": Stage.STARTED},
        Step.LIBRARIES: {"libraries": wanted.wanted_libraries},
        Step.JOIN: {"stage": Stage.JOINED, "master_url": wanted.master_url},
        Step.TELL_MASTER: {"master_url": wanted.master_url},
        Step.RETIRE: {"retiring": True},
        Step.CLOSE: {"closed": True},
    }
    return msgspec.structs.replace(current, **changes[step])


def is_of(current: Current, wanted: Assignment | None) -> bool:
    """Whether the node is the assignment's own already."""
    return wanted is not None and wanted.role is not Role.WARM and current.generation == wanted.generation


@given(currents, wishes)
def test_it_comes_to_rest_and_agrees(current: Current, wanted: Assignment | None) -> None:
    for _ in range(11):
        steps = decide(current, wanted)
        if not steps:
            break
        current = done(current, steps[0], wanted)
    assert not decide(current, wanted)
    if wanted is None or (wanted.role is Role.WARM and not wanted.runtime):
        assert current == Current()
    elif wanted.role is Role.WARM:
        assert current == Current(prepared=size_of(wanted), warm=True)
    else:
        assert is_of(current, wanted)
        if not wanted.retiring and not current.retiring and current.stage is not Stage.ENDED:
            assert current.stage is Stage.JOINED
            assert wanted.closing or current.master_url == (wanted.master_url or current.master_url)
        if wanted.closing and current.stage is Stage.JOINED:
            assert current.closed or current.retiring
        elif wanted.retiring:
            assert current.retiring or current.stage is Stage.ENDED


@given(currents, wishes)
def test_doing_one_step_leaves_the_others_to_do(current: Current, wanted: Assignment | None) -> None:
    steps = decide(current, wanted)
    if steps:
        following = decide(done(current, steps[0], wanted), wanted)
        assert following[: len(steps) - 1] == steps[1:]


@given(own, wishes)
def test_nothing_of_a_generation_is_touched_by_another(current: Current, wanted: Assignment | None) -> None:
    steps = decide(current, wanted)
    assert (Step.RELEASE in steps) == (not is_of(current, wanted))
    if Step.RELEASE in steps:
        assert steps[0] is Step.RELEASE
    assert Step.TAKE not in steps, "what a cluster has used is nobody's again"


@given(currents, wishes)
def test_what_is_there_is_cleaned_before_anything_begins(current: Current, wanted: Assignment | None) -> None:
    steps = decide(current, wanted)
    if Step.BEGIN in steps or Step.WARM in steps:
        first = Step.BEGIN if Step.BEGIN in steps else Step.WARM
        assert (steps[0] in (Step.RELEASE, Step.COOL)) == (current != Current())
        assert steps.index(first) == (0 if current == Current() else 1)


@given(nobodys, assignments)
def test_only_what_is_complete_and_suits_is_taken_over(current: Current, wanted: Assignment) -> None:
    suits = current.warm and current.prepared == size_of(wanted)
    assert (Step.TAKE in decide(current, wanted)) == suits
    assert bool(why_cold(current, wanted)) == (not suits)


@given(currents, assignments)
def test_a_failure_is_final_for_its_generation(current: Current, wanted: Assignment) -> None:
    if current.stage is Stage.ENDED and is_of(current, wanted):
        assert decide(current, wanted) == ()


@given(currents, assignments)
def test_init_scripts_run_before_spark_and_once(current: Current, wanted: Assignment) -> None:
    steps = decide(current, wanted)
    if Step.SCRIPTS in steps:
        assert wanted.init_scripts
        later = steps[steps.index(Step.SCRIPTS) + 1 :]
        assert set(later) <= {Step.START, Step.JOIN, Step.TELL_MASTER, Step.LIBRARIES}
        assert Step.SCRIPTS not in decide(done(current, steps[0], wanted), wanted) or steps[0] is not Step.SCRIPTS
    elif Step.JOIN in steps:
        assert not wanted.init_scripts or (is_of(current, wanted) and current.scripted)


def test_a_worker_runs_init_scripts_once_it_knows_the_driver() -> None:
    wanted = assignment(role=Role.WORKER, runtime="fake", init_scripts=(InitScript(name="a.sh"),))
    hosted = Current(generation=wanted.generation, stage=Stage.HOSTED)
    started = msgspec.structs.replace(hosted, stage=Stage.STARTED)
    assert (decide(hosted, wanted), decide(started, wanted)) == ((Step.START,), ()), "its JVM starts meanwhile"
    known = msgspec.structs.replace(wanted, driver_host="198.18.0.9")
    assert decide(hosted, known) == (Step.START, Step.SCRIPTS, Step.JOIN), "and is not given up when the address comes"
    assert decide(started, known) == (Step.SCRIPTS, Step.JOIN)


@pytest.mark.parametrize("setting", [{"spark_env_vars": {"LD_PRELOAD": "made.so"}}, {"spark_conf": OPTIONS}])
@pytest.mark.parametrize("role", [Role.WORKER, Role.DRIVER])
def test_no_jvm_starts_before_scripts_that_may_make_what_it_is_started_with(role: Role, setting: dict[str, Any]) -> None:
    wanted = assignment(
        role=role, runtime="fake", init_scripts=(InitScript(name="a.sh"),), driver_host="198.18.0.9", **setting
    )  # fmt: skip
    hosted = Current(generation=wanted.generation, stage=Stage.HOSTED)
    assert starts_early(wanted) == (role is Role.WORKER and "spark_conf" in setting), "a worker has no Java options"
    if not starts_early(wanted):
        assert decide(hosted, wanted) == (Step.SCRIPTS, Step.START, Step.JOIN)
