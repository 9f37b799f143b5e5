"""A node that is nobody's: made ready, taken over by a cluster, cleaned after it and made anew; all but Spark is real."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Any, Literal

import pytest

from brickyard.domain.node import NodeStatus, Phase, Role
from tests.agent.world import Instance, World, assignment, living, preparation
from tests.support.golden import Golden
from tests.support.patience import until


def knob(here: World, name: str) -> Path:
    """A file that the fake node host looks for while it warms up."""
    return here.cache_dir / "runtimes" / "fake" / name


def marked(instance_id: str) -> set[int]:
    """The living processes of an instance's node."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"BRICKYARD_INSTANCE_ID={instance_id}".encode() in (entry / "environ").read_bytes():
                found.add(int(entry.name))
        except OSError:
            continue
    return {pid for pid in found if living(pid)}


def warm(here: World, version: int = 1) -> Instance:
    one = here.instance().start()
    here.server.assign(one.id, preparation(version, version))
    here.server.warm(one.id, version)
    return one


def ready(here: World, one: Instance, version: int, **changes: Any) -> NodeStatus:
    """Give it to a cluster. Every tenant is a new generation of the instance, so versions serve as generations here."""
    here.server.assign(one.id, assignment(version=version, generation=version, **changes))
    return here.server.status(one.id, lambda each: (each.phase, each.generation) == (Phase.READY, version))


def test_a_cluster_takes_over_what_is_warm(here: World) -> None:
    one = warm(here)
    idle = here.server.warm(one.id)
    assert (idle.phase, idle.warm, idle.generation, idle.assignment_version) == (Phase.IDLE, "fake", 1, 1)
    processes = marked(one.id)
    status = ready(here, one, 2)
    assert processes <= marked(one.id), "the very processes"
    assert status.warm_start
    assert (status.warm, status.cold_reason, status.generation) == ("", "", 2)
    assert one.execute("print(state['prepared']['heap_mb'], state['prepared']['warm'])") == "384 True\n"
    assert (one.directory / "node.json").exists(), "whose node it is stands on record"


def test_what_a_cluster_has_used_is_ended_and_made_anew(here: World) -> None:
    one = warm(here)
    ready(here, one, 2, spark_conf={"test.child": "yes"})
    (one.node / "work" / "secret").write_text("of the first cluster")
    (one.node / "home" / ".profile").write_text("export TRAP=1")
    before = marked(one.id)
    assert len(before) >= 4
    here.server.assign(one.id, preparation(3, 3))
    clean = here.server.status(one.id, lambda status: status.generation == 3)
    assert not any(living(pid) for pid in before), "it says so when everything has ended"
    assert (clean.phase, clean.warm, clean.warm_start) == (Phase.IDLE, "", False)
    here.server.warm(one.id, 3)
    found = [path.relative_to(one.node).parts for path in one.node.rglob("*") if path.is_file()]
    assert [parts for parts in found if parts[0] != "python"] == [("logs", "driver.log")], "the new JVM's own"
    assert not (one.directory / "node.json").exists()
    kept = here.data_dir / "logs" / "0101-000000-abcdefgh" / f"{one.id}-2"
    assert (kept / "stopped.log").exists(), "it was stopped in order, and its logs are kept"
    assert ready(here, one, 4, cluster_id="0202-000000-ijklmnop").warm_start


def test_the_next_cluster_finds_nothing_even_if_it_was_nobodys_for_no_time(here: World) -> None:
    one = here.instance().start()
    ready(here, one, 1)
    (one.node / "work" / "secret").write_text("of the first cluster")
    ready(here, one, 2, cluster_id="0202-000000-ijklmnop")
    assert not (one.node / "work" / "secret").exists()


def test_another_size_or_runtime_goes_the_cold_way_and_says_why(here: World) -> None:
    one = warm(here)
    before = marked(one.id)
    status = ready(here, one, 2, cores=2)
    assert not status.warm_start
    assert "another size" in status.cold_reason
    until(lambda: not any(living(pid) for pid in before))
    assert ready(here, one, 3, cores=2).cold_reason == "", "a reason is told of one generation only"


def test_what_the_host_cannot_serve_is_told(here: World) -> None:
    one = warm(here)
    why = "the heap is another"
    status = ready(here, one, 2, role=Role.SINGLE, spark_conf={"test.cold": why})
    assert (status.cold_reason, status.warm_start) == (why, False)


def test_a_cluster_does_not_wait_for_what_is_not_ready(here: World) -> None:
    knob(here, "slow").write_text("")
    one = here.instance().start()
    here.server.assign(one.id, preparation(1))
    here.server.status(one.id, lambda status: status.message == "running Spark once")
    status = ready(here, one, 2)
    assert "still being prepared" in status.cold_reason
    assert not status.warm_start


def test_a_preparation_that_fails_says_why_and_is_tried_again(here: World, golden: Golden) -> None:
    knob(here, "broken").write_text("")
    one = here.instance().start()
    here.server.assign(one.id, preparation(1))
    status = here.server.status(one.id, lambda status: bool(status.warm_error))
    golden(status.warm_error)
    assert (status.phase, status.warm) == (Phase.IDLE, "")
    knob(here, "broken").unlink()
    assert here.server.warm(one.id).warm_error == ""


def test_a_warm_node_that_dies_is_told_and_made_anew(here: World) -> None:
    one = warm(here)
    before = marked(one.id)
    for pid in before:
        with contextlib.suppress(ProcessLookupError):  # one takes others along
            os.kill(pid, signal.SIGKILL)
    lost = here.server.status(one.id, lambda status: bool(status.warm_error))
    assert lost.warm == ""
    assert "ended unexpectedly" in lost.warm_error
    here.server.warm(one.id)
    assert not marked(one.id) & before


def test_nothing_is_left_of_a_warm_node_that_is_no_longer_wanted(here: World) -> None:
    one = warm(here)
    processes = marked(one.id)
    here.server.assign(one.id, preparation(2, 2, runtime=""))
    status = here.server.status(one.id, lambda status: status.assignment_version == 2 and not status.warm)
    assert status.phase is Phase.IDLE
    until(lambda: not any(living(pid) for pid in processes))
    assert not one.node.exists()
    os.kill(one.pid, signal.SIGTERM)
    assert one.wait() == 0


def test_an_agent_that_leaves_takes_its_warm_node_along(here: World) -> None:
    one = warm(here)
    processes = marked(one.id)
    os.kill(one.pid, signal.SIGTERM)
    assert one.wait() == 0
    until(lambda: not any(living(pid) for pid in processes))
    assert not one.node.exists()


WRITE = "import os; open(os.path.join(state['cluster_dir'], 'rows'), 'a').write('5')"
READ = "import os; top = state['cluster_dir']; print(open(os.path.join(top, 'rows')).read(), sorted(os.listdir(top)))"


def test_nodes_of_a_cluster_share_a_directory_whether_they_were_warm_or_not(here: World) -> None:
    other = here.data_dir / "clusters" / "0202-000000-ijklmnop"
    other.mkdir(parents=True)
    (other / "rows").write_text("of another cluster")
    first, second = warm(here), here.instance().start()
    assert ready(here, first, 2).warm_start
    assert not ready(here, second, 2, role=Role.WORKER, master_url="spark://127.0.0.1:1").warm_start
    first.execute(WRITE)
    second.execute(WRITE)
    for node in (first, second):
        assert node.execute(READ).strip() == "55 ['rows', 'scratch']"
    here.server.assign(first.id, preparation(3, 3))
    here.server.warm(first.id, 3)
    assert ready(here, first, 4).warm_start, "the same cluster, started again"
    assert first.execute(READ).strip() == "55 ['rows', 'scratch']"


NOTE = "import os; open(os.environ['CLUSTER_WORKSPACE'] + '/note', 'a').write('5')"
NOTES = "import os; top = os.environ['CLUSTER_WORKSPACE']; print(top, sorted(os.listdir(top)), os.path.exists(top + '/note'))"


@pytest.mark.parametrize("isolation", ["auto", "off"])
def test_nodes_of_a_cluster_share_its_workspace_directory_and_find_it_again(
    here: World, isolation: Literal["auto", "off"]
) -> None:
    first, second = here.instance(isolation=isolation).start(), here.instance(isolation=isolation).start()
    here.server.assign(first.id, preparation(1, 1))
    here.server.warm(first.id, 1)
    assert ready(here, first, 2).warm_start
    assert not ready(here, second, 2, role=Role.WORKER, master_url="spark://127.0.0.1:1").warm_start
    first.execute(NOTE)
    for node in (first, second):
        seen = "/workspace" if isolation == "auto" else str(node.node / "workspace")
        assert node.execute(NOTES).strip() == f"{seen} ['note'] True"
    here.server.assign(first.id, preparation(3, 3))
    here.server.warm(first.id, 3)
    ready(here, first, 4, cluster_id="0303-000000-abcdefgh")
    assert first.execute(NOTES).strip().endswith("[] False"), "another cluster's is another one"
    ready(here, second, 3)
    assert second.execute(NOTES).strip().endswith("['note'] True"), "the same cluster, started again"
