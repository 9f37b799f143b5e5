"""One node's disk: bounded, told before it is full, and given back at once."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from brickyard.agent.config import AgentConfig
from brickyard.agent.watching.meter import Watched
from brickyard.agent.watching.usage import Published, published, turn
from brickyard.agent.watching.watch import Watch
from brickyard.domain.node import Phase, Role
from brickyard.logs.bounded import LogFile
from brickyard.machine import cgroups, held, measure, processes
from brickyard.machine.disk import Amount, Disk, Lack
from brickyard.machine.pressure import Memory, Usage
from tests.agent.world import World, assignment
from tests.support.golden import Golden
from tests.support.patience import until

GIB = 1 << 30
MIB = 1 << 20
WRITE = """
    import os
    with open(os.environ["TMPDIR"] + "/{name}", "wb") as file:
        file.write(os.urandom({mb} << 20))
        os.fsync(file.fileno())
"""
OPEN = """
    import os
    with open(os.environ["HOME"] + "/../logs/kept.log", "w") as log:  # first: it is ended as soon as it has taken too much
        log.write("what it said")
    state["file"] = open(os.environ["TMPDIR"] + "/hidden", "wb")
    os.unlink(os.environ["TMPDIR"] + "/hidden")
    state["file"].write(os.urandom({mb} << 20))
    os.fsync(state["file"].fileno())
"""


def sizeless(text: str) -> str:
    return re.sub(r"[\d.]+ [KMG]iB", "{size}", text)


def test_a_node_that_takes_too_much_is_told_and_then_ended(here: World, golden: Golden) -> None:
    instance = here.instance(node_disk=64 * MIB, min_free_disk=1 << 60).start()  # short of room by decree: it looks more often
    here.ready(instance)
    instance.execute(WRITE.format(name="shown", mb=54))
    told = here.server.status(instance.id, lambda status: status.disk_used >= 54 * MIB)
    assert told.phase is Phase.READY
    assert told.disk_limit == 64 * MIB
    assert 54 * MIB <= told.disk_used <= 64 * MIB
    instance.begin(OPEN.format(mb=20))
    failed = here.server.phase(instance.id, Phase.FAILED)
    assert failed.failure is not None
    assert failed.failure.code == "DRIVER_OUT_OF_DISK"
    assert " 64 MiB (node_disk_gb)" in failed.failure.message
    golden(sizeless(failed.failure.message))
    until(lambda: not instance.node.exists(), "the room given back")
    kept = here.data_dir / "logs" / assignment().cluster_id / f"{instance.id}-1"
    assert (kept / "kept.log").read_text() == "what it said"


@pytest.mark.parametrize("deaf", [False, True])
def test_the_executors_of_a_worker_that_takes_too_much_have_failed_before_it_ends(here: World, *, deaf: bool) -> None:
    """Spark would run the tasks of a lost worker again without end. A host that does not answer ends all the same."""
    instance = here.instance(node_disk=64 * MIB, min_free_disk=1 << 60).start()
    conf = {"test.deaf": "yes"} if deaf else {}
    here.ready(instance, role=Role.WORKER, master_url="spark://127.0.0.1:1", spark_conf=conf)
    instance.begin(OPEN.format(mb=80))
    failed = here.server.phase(instance.id, Phase.FAILED).failure
    assert failed is not None and failed.code == "INSTANCE_UNREACHABLE"
    until(lambda: not instance.node.exists(), "the room given back")
    blamed = here.data_dir / "logs" / assignment().cluster_id / f"{instance.id}-1" / "blamed.log"
    assert blamed.read_text() == failed.message if not deaf else not blamed.exists()


INTO_CLUSTER = """
    import os
    with open(state["cluster_dir"] + "/{name}", "wb") as file:
        file.write(os.urandom({mb} << 20))
        os.fsync(file.fileno())
"""
OUT_OF_CLUSTER = "import os; os.unlink(state['cluster_dir'] + '/{name}')"


def test_a_cluster_s_directory_is_its_driver_s_room_and_can_be_emptied_after_a_restart(here: World, golden: Golden) -> None:
    driver, worker = (here.instance(node_disk=64 * MIB, min_free_disk=1 << 60).start() for _ in range(2))
    here.ready(driver, role=Role.DRIVER)
    here.ready(worker, role=Role.WORKER, master_url="spark://127.0.0.1:1")
    worker.execute(INTO_CLUSTER.format(name="one", mb=54))
    # An earlier measurement may see the file grow.
    here.server.status(driver.id, lambda status: status.disk_limit > 0 and status.disk_used >= 54 * MIB)
    worker.execute(INTO_CLUSTER.format(name="two", mb=20))
    failed = here.server.phase(driver.id, Phase.FAILED).failure
    assert failed is not None
    assert failed.code == "DRIVER_OUT_OF_DISK"
    golden(sizeless(failed.message), "/cluster")
    bystander = here.server.status(worker.id, lambda _: True)
    assert (bystander.phase, bystander.disk_limit) == (Phase.READY, 0)

    here.server.assign(driver.id, assignment(2, 2, role=Role.DRIVER))
    here.server.status(driver.id, lambda status: status.generation == 2 and status.phase is Phase.READY and status.disk_limit > 0)
    worker.execute(INTO_CLUSTER.format(name="three", mb=20))
    here.server.status(driver.id, lambda status: status.generation == 2 and status.phase is Phase.FAILED)

    here.server.assign(driver.id, assignment(3, 3, role=Role.DRIVER))
    here.server.status(driver.id, lambda status: status.generation == 3 and status.phase is Phase.READY and status.disk_limit > 0)
    for name in ("one", "two"):
        driver.execute(OUT_OF_CLUSTER.format(name=name))
    kept = here.server.status(driver.id, lambda status: status.generation == 3 and not status.disk_limit)
    assert kept.phase is Phase.READY


def test_a_workspace_directory_that_is_larger_than_its_cluster_s_storage_ends_the_driver(here: World, golden: Golden) -> None:
    """Whoever writes there; and the next driver may empty it."""
    wanted = {"role": Role.DRIVER, "workspace_bytes": 64 * MIB}
    workspace = here.data_dir / "workspaces" / assignment().cluster_id / "current"
    workspace.mkdir(parents=True, exist_ok=True)
    driver = here.instance(min_free_disk=1 << 60).start()
    here.ready(driver, **wanted)
    (workspace / "one").write_bytes(os.urandom(54 * MIB))
    told = here.server.status(driver.id, lambda status: status.disk_limit > 0)
    assert (told.phase, told.disk_limit) == (Phase.READY, 64 * MIB)
    (workspace / "two").write_bytes(os.urandom(30 * MIB))
    failed = here.server.phase(driver.id, Phase.FAILED).failure
    assert failed is not None and failed.code == "DRIVER_OUT_OF_DISK"
    assert " 64 MiB (storage_gb)" in failed.message
    golden(sizeless(failed.message))
    here.server.assign(driver.id, assignment(2, 2, **wanted))
    here.server.status(driver.id, lambda status: status.generation == 2 and status.phase is Phase.READY and status.disk_limit > 0)
    (workspace / "one").unlink()
    kept = here.server.status(driver.id, lambda status: status.generation == 2 and not status.disk_limit)
    assert kept.phase is Phase.READY


class Ended:
    """A node that the watch may end."""

    def __init__(self, pid: int, shared_dir: Path | None = None) -> None:
        self.watched: Watched | None = Watched(
            pid=pid, group=cgroups.Group(), walled=False, limits=cgroups.Limits(memory_mb=9216, cores=1), share=1,
            shared_dirs=(str(shared_dir),) if shared_dir else (),
        )  # fmt: skip
        self.code = self.message = ""
        self.own_fault = True
        self.is_crowded = False
        self.low = (0, 0, Lack.SIZE)

    def end(self, code: str, message: str, *, own_fault: bool = True) -> None:
        self.code, self.message, self.watched = code, message, None
        self.own_fault = own_fault

    def starved(self, code: str, message: str) -> None:
        raise AssertionError(message)

    def killed_by_kernel(self) -> None:
        raise AssertionError

    def crowded(self) -> None:
        self.is_crowded = True

    def disk_is_low(self, used: int, limit: int, of: Lack = Lack.SIZE) -> None:
        self.low = (used, limit, of)


def watch(top: Path, name: str, node: Ended) -> Watch:
    config = AgentConfig(
        instance_id=name, agent_token="", server_token="", server_url="", instance_dir=str(top / "instances" / name),
        cache_dir="", logs_dir="", node_code_dir="",
    )  # fmt: skip
    return Watch(config=config, node=node, log=LogFile(top / f"{name}.log"))


@pytest.mark.parametrize("grows", [True, False])
def test_of_a_cluster_s_directory_what_was_not_there_before_makes_room_when_its_driver_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, grows: bool
) -> None:
    """A disk that is full of tables of yesterday is not helped by the end of a driver that only reads them."""
    shared = tmp_path / "clusters" / "c"
    for place in (shared, *(tmp_path / "instances" / name / "node" for name in ("i-1", "i-2"))):
        place.mkdir(parents=True)
    (shared / "yesterday").write_bytes(os.urandom(96 * MIB))
    (tmp_path / "instances" / "i-2" / "node" / "own").write_bytes(os.urandom(40 * MIB))
    os.sync()
    idle = [subprocess.Popen(["sleep", "600"]) for _ in range(2)]
    nodes = [Ended(idle[0].pid, shared), Ended(idle[1].pid)]
    watches = [watch(tmp_path, name, node) for name, node in zip(("i-1", "i-2"), nodes, strict=True)]
    low = False

    def disk(_: Path) -> Disk:
        size = 1 << 20 if low and all(node.watched for node in nodes) else 3 << 29
        return Disk(total=Amount(1 << 40), free=Amount(size))

    monkeypatch.setattr(measure, "disk", disk)
    monkeypatch.setattr(measure, "machine_memory", lambda: None)

    async def look() -> None:
        nonlocal low
        running = [asyncio.create_task(one.run()) for one in watches]
        try:
            await asyncio.to_thread(until, lambda: len(published(tmp_path / "instances")) == 2)
            if grows:
                (shared / "today").write_bytes(os.urandom(64 * MIB))
                os.sync()
                await asyncio.to_thread(until, lambda: any(usage.disk >= 64 * MIB for usage in published(tmp_path / "instances")))
            low = True
            await asyncio.to_thread(until, lambda: any(node.code for node in nodes))
        finally:
            for task in running:
                task.cancel()

    try:
        asyncio.run(look())
    finally:
        for process in idle:
            process.kill()
            process.wait()
    assert [node.code for node in nodes] == (["DRIVER_OUT_OF_DISK", ""] if grows else ["", "DRIVER_OUT_OF_DISK"])
    assert [node.own_fault for node in nodes if node.code] == [False], "it took no more than it may"


async def test_a_node_is_ended_for_what_it_takes_itself_and_not_for_other_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    (tmp_path / "instances" / "i-1" / "node").mkdir(parents=True)
    idle = subprocess.Popen(["sleep", "600"])
    node = Ended(idle.pid)
    assert node.watched is not None
    node.watched = msgspec.structs.replace(node.watched, share=8 * GIB)
    takes = 450 * MIB
    monkeypatch.setattr(measure, "memory_of", lambda _: {idle.pid: (takes, 0)})
    monkeypatch.setattr(measure, "exact_memory_of", lambda _: {})
    monkeypatch.setattr(measure, "machine_memory", lambda: Memory(total=24 * GIB, available=100 * MIB))
    said = tmp_path / "i-1.log"

    try:
        running = asyncio.create_task(watch(tmp_path, "i-1", node).run())
        try:
            await asyncio.to_thread(until, lambda: said.exists() and "other programs" in said.read_text())
            assert not node.code
            takes = 7 * GIB
            await asyncio.to_thread(until, lambda: bool(node.code))
        finally:
            running.cancel()
    finally:
        idle.kill()
        idle.wait()
    assert (node.code, node.own_fault) == ("DRIVER_EVICTION", False)
    golden(node.message, "16.9 GiB")
    golden.line(said.read_text(), "(memory_guard_share)")


def test_agents_see_each_other_and_take_turns(tmp_path: Path) -> None:
    for name in ("i-1", "i-2", ".half-made", "i-3"):
        (tmp_path / name).mkdir()
    usages = [Usage(instance_id=name, at_s=1.0, memory=5) for name in ("i-1", "i-2")]
    for usage in usages:
        Published(tmp_path / usage.instance_id).write(usage)
    (tmp_path / "i-3" / "usage.json").write_text("not yet")
    assert published(tmp_path) == usages
    with turn(tmp_path / "lock") as first, turn(tmp_path / "lock") as second:
        assert (first, second) == (True, False)
    with turn(tmp_path / "lock") as again:
        assert again


def test_systemd_is_asked_for_a_scope_only_where_it_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "systemd-run"
    program.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(cgroups, "probe", lambda: "watched: nothing can be written")
    monkeypatch.setattr("os.geteuid", lambda: 2**31 - 7)
    assert cgroups.scope(linger=tmp_path) == [], "a user without a name, as in a container"
    monkeypatch.setattr("pwd.getpwuid", lambda _: SimpleNamespace(pw_name="somebody"))
    assert cgroups.scope(linger=tmp_path) == [], "its nodes would end with the login"
    (tmp_path / "somebody").touch()
    prefix = cgroups.scope(linger=tmp_path)
    assert prefix[0] == str(program)
    assert {"--user", "--scope", "Delegate=yes"} <= set(prefix)
    monkeypatch.setattr(cgroups, "probe", lambda: "cgroup")
    assert cgroups.scope(linger=tmp_path) == [], "it is not needed"
    monkeypatch.setattr(cgroups, "probe", lambda: "watched: nothing can be written")
    program.write_text("#!/bin/sh\nexit 1\n")
    assert cgroups.scope(linger=tmp_path) == [], "no user manager runs"


MANY_THREADS = """
import subprocess, sys, threading, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
for _ in range(40):
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
print("ready", flush=True)
time.sleep(1000)
"""


def test_what_has_most_of_a_nodes_threads_is_ended_and_not_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "instances" / "i-1" / "node").mkdir(parents=True)
    start = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {MANY_THREADS!r}]).wait(); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", start], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as top:
        assert top.stdout is not None
        top.stdout.readline()
        node = Ended(top.pid)
        monkeypatch.setattr(cgroups.Limits, "tasks", 40)

        async def look() -> None:
            running = asyncio.create_task(watch(tmp_path, "i-1", node).run())
            try:
                await asyncio.to_thread(until, lambda: processes.descendants(top.pid) == [top.pid])
            finally:
                running.cancel()

        try:
            asyncio.run(look())
        finally:
            for pid in reversed(processes.descendants(top.pid)):
                os.kill(pid, signal.SIGKILL)
        assert (node.is_crowded, node.code) == (True, "")


async def test_a_node_is_warned_before_it_has_too_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "instances" / "i-1" / "node").mkdir(parents=True)
    for number in range(90):
        (tmp_path / "instances" / "i-1" / "node" / str(number)).touch()
    monkeypatch.setattr(held, "MAX_ENTRIES", 100)
    node = Ended(os.getpid())

    running = asyncio.create_task(watch(tmp_path, "i-1", node).run())
    try:
        await asyncio.to_thread(until, lambda: node.low[0])
    finally:
        running.cancel()
    assert (node.low[1:], node.code) == ((100, Lack.INODES), "")
    assert 90 <= node.low[0] <= 100


async def test_a_process_that_the_kernel_refused_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "instances" / "i-1" / "node").mkdir(parents=True)
    group = tmp_path / "group"
    group.mkdir()
    for name, text in (("cgroup.procs", f"{os.getpid()}\n"), ("pids.current", "3\n"), ("pids.events.local", "max 7\n")):
        (group / name).write_text(text)
    node = Ended(os.getpid())
    assert node.watched is not None
    node.watched = msgspec.structs.replace(node.watched, group=cgroups.Group(directories=(str(group),)))
    made = watch(tmp_path, "i-1", node)

    running = asyncio.create_task(made.run())
    try:
        await asyncio.to_thread(until, lambda: made.usage is not None)
        before = node.is_crowded
        assert not before, "what was before this node"
        (group / "pids.events.local").write_text("max 8\n")
        await asyncio.to_thread(until, lambda: node.is_crowded)
    finally:
        running.cancel()
    assert node.code == ""


def test_the_crowd_is_the_smallest_tree_that_is_not_the_nodes_own() -> None:
    def seen(**changes: tuple[int, int, str]) -> dict[int, processes.Seen]:
        node = {"1": (0, 1, "python"), "2": (1, 20, "python3"), "3": (2, 300, "java"), "4": (2, 12, "python"), **changes}
        return {int(pid): processes.Seen(*each) for pid, each in node.items()}

    assert processes.crowd(seen()) == []
    assert processes.crowd({}) == []
    assert processes.crowd(seen(**{"4": (2, 4000, "python")})) == [4]
    bomb = {str(pid): (5, 1, "sh") for pid in range(100, 1100)}
    assert processes.crowd(seen(**{"5": (4, 1, "sh")}, **bomb))[:2] == [5, 100], "the kernel stays"
    assert processes.crowd(seen(**{"5": (3, 1, "python")}, **bomb))[0] == 5, "Python workers of the driver"
    orphans = {str(pid): (2, 1, "sh") for pid in range(100, 1100)}
    assert processes.crowd(seen(**orphans)) == [], "no tree has most of them"
    assert processes.crowd(seen(**{"5": (4, 4000, "java")})) == [5], "a user's Java"
