"""What becomes of instances when Ray's parts die, hang or come back (docs/ray.md has the table)."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from brickyard.providers.base import ProviderError, TransientError
from tests.support.patience import until
from tests.support.rays import HEAD, THIRD, RayCluster, ray_cluster
from tests.support.rayworld import World

pytestmark = [pytest.mark.spark, pytest.mark.extended]  # it starts much, and waits: not beside the fast tests


def spread(world: World) -> str:
    """Launches an instance on each machine; returns the one on the third."""
    provider = world.open()
    names = ("i-1", "i-2", "i-3")
    world.launch(*names, node_type=provider.node_types()[1])
    return next(name for name in names if world.host_of(name) == THIRD)


def ended(processes: list[psutil.Process]) -> bool:
    return not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in processes)


@pytest.mark.parametrize("adopted", [False, True])
def test_a_raylet_that_is_killed_takes_its_agents_along(world: World, ray: RayCluster, adopted: bool) -> None:
    """Also where orphans do not become process 1's children, by which Ray's workers know that their raylet is dead."""
    ray.kill(THIRD)
    ray.start_node(THIRD, adopted=adopted)
    lost = spread(world)
    agents = world.agent_processes(lost)
    ray.raylet(THIRD).kill()
    message = world.ended(lost)
    assert "node" in message and "died" in message, message
    until(lambda: ended(agents), "its agent has ended")
    listed = world.providers[-1].observe()
    assert {name for name, seen in listed.items() if seen.alive} == {"i-1", "i-2", "i-3"} - {lost}
    until(lambda: world.cores() == 4.0, "the machine is gone")
    world.end(lost)
    ray.kill(THIRD)
    ray.start_node(THIRD)
    until(lambda: world.cores() == 6.0, "a machine has joined")


def test_a_machine_that_was_cut_off_does_not_go_on_when_it_is_back(world: World, ray: RayCluster) -> None:
    lost = spread(world)
    agents = world.agent_processes(lost)
    ray.raylet(THIRD).suspend()  # Ray no longer hears of the machine; what runs on it goes on
    assert "node" in world.ended(lost)
    world.end(lost)
    assert world.seen(lost) is None
    ray.raylet(THIRD).resume()
    until(lambda: ended(agents), "the agent that nobody knows has ended")
    assert world.seen(lost) is None
    ray.kill(THIRD)
    ray.start_node(THIRD)


@pytest.mark.parametrize("old_state", [False, True])
def test_while_the_head_is_dead_there_is_no_list(tmp_path: Path, old_state: bool) -> None:
    with ray_cluster(old_state=old_state) as ray:
        world = World(tmp_path, ray)
        lost = spread(world)
        names = {"i-1", "i-2", "i-3"}
        on_head = {name for name in names if world.host_of(name) == HEAD}
        agents = {name: world.agent_processes(name) for name in names}
        ray.kill_head()
        with pytest.raises(TransientError):
            world.providers[-1].observe()
        with pytest.raises(TransientError):
            world.providers[-1].terminate(lost, reason="it cannot be reached")
        ray.start_node(HEAD)

        def back() -> dict[str, bool] | None:
            try:
                return {name: seen.alive for name, seen in world.providers[-1].observe().items()} or {"nothing": True}
            except ProviderError:
                return None

        seen = until(back, "Ray answers again")
        if old_state:
            assert set(seen) >= names - on_head, "what runs on other machines is known"
            until(lambda: {name for name, alive in (back() or {}).items() if alive} == names - on_head, "and goes on")
            assert all(world.agents(name) == 1 for name in names - on_head)
            world.end(*names)
        else:
            assert seen == {"nothing": True}, "a head without its old state knows of nothing"
            # Servers forget these instances, so their agents end when they next call home. Without a server, Ray ends them.
        until(lambda: all(ended(each) for each in agents.values()), "nothing is left running that nobody knows of")
        world.close()
