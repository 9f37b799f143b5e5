"""Properties of the decision: it always gets there, never by a wrong way, and then rests."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from brickyard.agent.converge import Current, Stage, Step, decide
from brickyard.domain.node import Assignment, Role
from tests.agent.world import assignment

generations = st.integers(min_value=1, max_value=3)
currents = st.builds(
    Current,
    generation=generations,
    stage=st.sampled_from(Stage),
    master_url=st.sampled_from(["", "spark://a:1"]),
    retiring=st.booleans(),
) | st.just(Current())
assignments = st.none() | st.builds(
    lambda generation, role, master_url, retiring: assignment(
        generation=generation, role=role, master_url=master_url, retiring=retiring
    ),
    generations,
    st.sampled_from(Role),
    st.sampled_from(["", "spark://a:1", "spark://b:2"]),
    st.booleans(),
)


def done(current: Current, step: Step, wanted: Assignment | None) -> Current:
    """What the executor makes of a step that goes well."""
    if step is Step.RELEASE:
        return Current()
    assert wanted is not None
    if step is Step.BEGIN:
        return Current(generation=wanted.generation)
    if step is Step.JOIN:
        return msgspec.structs.replace(current, stage=Stage.JOINED, master_url=wanted.master_url)
    if step is Step.TELL_MASTER:
        return msgspec.structs.replace(current, master_url=wanted.master_url)
    if step is Step.RETIRE:
        return msgspec.structs.replace(current, retiring=True)
    return msgspec.structs.replace(current, stage={Step.INSTALL: Stage.INSTALLED, Step.START: Stage.STARTED}[step])


@given(currents, assignments)
def test_it_comes_to_rest_and_agrees(current: Current, wanted: Assignment | None) -> None:
    for _ in range(8):
        steps = decide(current, wanted)
        if not steps:
            break
        current = done(current, steps[0], wanted)
    assert not decide(current, wanted)
    if wanted is None:
        assert current == Current()
    else:
        assert current.generation == wanted.generation
        if not wanted.retiring and not current.retiring and current.stage is not Stage.ENDED:
            assert current.stage is Stage.JOINED
            assert current.master_url == (wanted.master_url or current.master_url)
        if wanted.retiring:
            assert current.retiring or current.stage is Stage.ENDED


@given(currents, assignments)
def test_doing_one_step_leaves_the_others_to_do(current: Current, wanted: Assignment | None) -> None:
    steps = decide(current, wanted)
    if steps:
        following = decide(done(current, steps[0], wanted), wanted)
        assert following[: len(steps) - 1] == steps[1:]


@given(currents, assignments)
def test_nothing_of_a_generation_is_touched_by_another(current: Current, wanted: Assignment | None) -> None:
    steps = decide(current, wanted)
    other = current.generation and (wanted is None or wanted.generation != current.generation)
    assert (Step.RELEASE in steps) == bool(other)
    if other:
        assert steps[0] is Step.RELEASE
    if Step.BEGIN in steps:
        assert steps.index(Step.BEGIN) == (1 if other else 0)


@given(currents, assignments)
def test_a_failure_is_final_for_its_generation(current: Current, wanted: Assignment | None) -> None:
    if current.stage is Stage.ENDED and wanted is not None and wanted.generation == current.generation:
        assert decide(current, wanted) == ()
