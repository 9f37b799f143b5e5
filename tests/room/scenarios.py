"""`python -m tests.room.scenarios NAME DISK`: see `apart.py`. Each is a test body on a small disk."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import requests
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import NotFound
from databricks.sdk.service.compute import ClusterDetails, Language, State

from brickyard.agent.watching.usage import published
from brickyard.config.settings import Settings
from brickyard.domain.node import Phase
from brickyard.domain.nodetypes import NodeType
from brickyard.providers import registry
from brickyard.providers.base import Setup
from brickyard.providers.capacity import Hardware
from brickyard.providers.fleet import Providers
from brickyard.providers.local import LocalProvider
from brickyard.reconcile import room
from brickyard.server import process
from brickyard.server.datadir import Workspace as Place
from brickyard.server.preflight import prepared
from brickyard.storage.snapshots import job as jobs
from brickyard.storage.snapshots.job import Job, JobFailed, JobKind, Line, Named
from brickyard.store.store import Store
from tests.agent.world import FAKES, Instance, World, world
from tests.support.patience import PATIENCE_S, SOON, until
from tests.support.server import Server

RUNTIME = "17.3.x-scala2.13"
SINGLE = {"spark.databricks.cluster.profile": "singleNode", "spark.master": "local[*]"}
SMALL = NodeType(node_type_id="small", num_cores=1, memory_mb=1024, category="test")
FILL = """
    import os, threading, time
    def fill():
        with open(os.environ["{place}"] + "/fill", "wb", buffering=0) as file:
            while True:
                try:
                    file.write(b"x" * 65536)
                    time.sleep({pause})
                except OSError:
                    time.sleep(0.001)
    threading.Thread(target=fill, daemon=True).start()
"""


FILES = """
    import os
    for number in range({files}):
        os.close(os.open(f"{os.environ['TMPDIR']}/{number}", os.O_CREAT | os.O_WRONLY))
"""
FILES_FOR_EVER = """
import os, sys, time
number = 0
while True:
    try:
        os.close(os.open(f"{sys.argv[1]}/{number}", os.O_CREAT | os.O_WRONLY))
        number += 1
    except OSError:
        time.sleep(0.001)
"""


class Workspace:
    """A server with the local provider, whose nodes run Python and no Spark."""

    def __init__(self, here: World, client: WorkspaceClient) -> None:
        self.here = here
        self.client = client

    def cluster(self, name: str) -> ClusterDetails:
        return self.client.clusters.create(
            cluster_name=name, spark_version=RUNTIME, node_type_id="small", num_workers=0, spark_conf=SINGLE
        ).result(SOON)

    def execute(self, cluster: ClusterDetails, code: str) -> None:
        context = self.client.command_execution.create(cluster_id=cluster.cluster_id, language=Language.PYTHON).result(SOON)
        self.client.command_execution.execute(
            cluster_id=cluster.cluster_id, context_id=context.id, language=Language.PYTHON, command=textwrap.dedent(code)
        ).result(SOON)

    def fill(self, cluster: ClusterDetails, place: str = "TMPDIR", pause: float = 0) -> None:
        """Begin to fill the disk, as fast as it goes and for ever, with a `pause` after each 64 KiB. The cluster
        may end before it has answered."""
        with contextlib.suppress(NotFound):
            self.execute(cluster, FILL.format(place=place, pause=pause))

    def state(self, cluster: ClusterDetails) -> ClusterDetails:
        return self.client.clusters.get(cluster.cluster_id or "")

    def ended(self, cluster: ClusterDetails) -> ClusterDetails:
        def found() -> ClusterDetails | None:
            now = self.state(cluster)
            return now if now.state is State.TERMINATED else None

        return until(found, "the cluster's end")

    @property
    def free(self) -> int:
        there = os.statvfs(self.here.data_dir)
        return there.f_bavail * there.f_frsize

    @property
    def inodes(self) -> int:
        return os.statvfs(self.here.data_dir).f_favail


@contextlib.contextmanager
def workspace(disk: Path, **settings: float) -> Iterator[Workspace]:
    here = World(disk)
    chosen = Settings(data_dir=here.data_dir, cache_dir=here.cache_dir, **settings)  # type: ignore[arg-type] # numbers only
    provider = LocalProvider(
        settings=chosen, server_file=here.server.file, node_types=(SMALL,), machine=Hardware(8, 64 * 1024, 0),
        environments={RUNTIME: "fake"}, node_code_dir=FAKES,
    )  # fmt: skip
    with Server.running(here.data_dir, instances=provider, cache_dir=here.cache_dir, connect_port=0, **settings) as server:  # type: ignore[arg-type]
        made = Workspace(here, server.client())
        until(lambda: (here.data_dir / "brickyard.db-wal").stat().st_size > 4 << 20, "the database's reserve")
        yield made
    assert not provider.observe(), "nodes are left"


def a_cluster_is_deleted_on_a_full_disk(disk: Path) -> None:
    """Nobody ends the offender by itself here, and so the disk stays full: deleting must work, and so must the server's stop."""
    with workspace(disk, min_free_disk_gb=0, node_disk_gb=1, dbfs_gb=1) as here:
        first, second = here.cluster("first"), here.cluster("second")
        here.fill(first)
        until(lambda: here.free == 0, "a full disk")
        for _ in range(20):  # the reserve is for more than one write
            here.client.clusters.pin(first.cluster_id or "")
            here.client.clusters.unpin(first.cluster_id or "")
        here.client.clusters.delete(first.cluster_id or "")
        here.ended(first)
        until(lambda: here.free > 16 << 20, "the room that the node took")
        here.fill(second)
        until(lambda: here.free == 0, "a full disk")


def serve(disk: Path) -> None:
    """A server process, as `brickyard up --detach` starts one, with nodes as `workspace` has them."""
    chosen = Settings(
        data_dir=disk / "data",
        cache_dir=disk / "cache",
        port=0,
        connect_port=0,
        min_free_disk_gb=0,
        node_disk_gb=1,
        dbfs_gb=1,
        rate_limits="off",
    )

    def nodes(setup: Setup) -> Providers:
        return Providers(
            LocalProvider(
                settings=chosen, server_file=setup.server_file, node_types=(SMALL,), machine=Hardware(8, 64 * 1024, 0),
                environments={RUNTIME: "fake"}, node_code_dir=FAKES,
            )
        )  # fmt: skip

    registry.open_providers = nodes
    place = Place(chosen.data_dir, chosen.storage_dir)
    process.run(chosen, place, prepared(chosen, place), detached=True)


class Running:
    """A server that `serve` runs, seen from outside."""

    def __init__(self, disk: Path, process: subprocess.Popen[bytes]) -> None:
        self._place = Place(disk / "data")
        self.process = process

    @property
    def url(self) -> str:
        running = self._place.running()
        return running.url if running is not None else ""

    def readiness(self) -> tuple[int, str]:
        """Status and reason of /readyz; 0 if it does not answer."""
        try:
            answer = requests.get(f"{self.url}/readyz", timeout=PATIENCE_S)
        except requests.RequestException:
            return 0, ""
        return answer.status_code, answer.json().get("reason", "")

    def client(self) -> WorkspaceClient:
        return WorkspaceClient(host=self.url, token=self._place.stored_token())


@contextlib.contextmanager
def served(disk: Path) -> Iterator[Running]:
    """Runs `serve` until the block ends; its nodes end with it."""
    path = disk.parent / f"{disk.name}.log"  # not on that disk
    with path.open("ab") as log:
        server = subprocess.Popen([sys.executable, "-m", "tests.room.scenarios", "serve", str(disk)], stdout=log, stderr=log)
    running = Running(disk, server)
    try:
        until(lambda: server.poll() is not None or running.readiness()[0] == 200, "the server's start")
        assert server.poll() is None, path.read_text()[-4000:]
        yield running
    finally:
        server.terminate()
        server.wait(PATIENCE_S)


@contextlib.contextmanager
def no_inode(disk: Path) -> Iterator[None]:
    """Another program takes every inode, as soon as it is free."""
    place = disk / "others"
    place.mkdir()
    filler = subprocess.Popen([sys.executable, "-c", FILES_FOR_EVER, str(place)])
    try:
        until(lambda: os.statvfs(disk).f_favail == 0, "a disk without an inode")
        yield
    finally:
        filler.kill()
        filler.wait()


@contextlib.contextmanager
def no_byte(disk: Path) -> Iterator[None]:
    """The same for bytes."""
    code = (
        "import sys, time\nwhile True:\n  try: open(sys.argv[1], 'ab', 0).write(bytes(4096))\n  except OSError: time.sleep(0.001)"
    )
    filler = subprocess.Popen([sys.executable, "-c", code, str(disk / "others")])
    try:
        until(lambda: os.statvfs(disk).f_bavail == 0, "a full disk")
        yield
    finally:
        filler.kill()
        filler.wait()


def a_killed_server_starts_on_a_full_disk(disk: Path) -> None:
    """What fills the disk goes on, and only a server can end it."""
    here = World(disk)
    with served(disk) as server:
        first = Workspace(here, server.client())
        until(lambda: (here.data_dir / "brickyard.db-wal").stat().st_size > 4 << 20, "the database's reserve")
        first.client.dbfs.put("/large", contents=base64.b64encode(bytes(512 << 10)).decode())
        assert server.readiness() == (200, "")
        greedy = first.cluster("greedy")
        first.fill(greedy)
        until(lambda: first.free == 0, "a full disk")
        server.process.kill()
        server.process.wait(PATIENCE_S)
    with served(disk) as server:
        again = Workspace(here, server.client())
        status, reason = server.readiness()
        assert status == 200 and "disk is full" in reason, reason
        assert again.state(greedy).state is State.RUNNING
        again.client.dbfs.delete("/large")
        again.client.clusters.delete(greedy.cluster_id or "")
        again.ended(greedy)
        until(lambda: again.free > 16 << 20, "the room that the node took")
        until(lambda: server.readiness() == (200, ""), "nothing to say")
        again.client.clusters.start(greedy.cluster_id or "").result(SOON)


def a_server_starts_without_an_inode(disk: Path) -> None:
    """After a kill and after a clean stop; and it can end what holds the inodes."""
    here = World(disk)
    with served(disk) as server:
        first = Workspace(here, server.client())
        until(lambda: (here.data_dir / "brickyard.db-wal").stat().st_size > 4 << 20, "the database's reserve")
        greedy = first.cluster("greedy")
        first.execute(greedy, FILES.replace("{files}", "6000"))
        filling = contextlib.ExitStack()
        filling.enter_context(no_inode(disk))
        server.process.kill()
        server.process.wait(PATIENCE_S)
    with filling:
        with served(disk) as server:
            again = Workspace(here, server.client())
            status, reason = server.readiness()
            assert status == 200 and "0 of 20,000" in reason and "inodes" in reason, reason
            assert again.state(greedy).state is State.RUNNING
            again.client.clusters.delete(greedy.cluster_id or "")
            again.ended(greedy)
            until(lambda: again.inodes == 0, "others take what the node had")
            started = again.client.clusters.start(greedy.cluster_id or "")
            until(lambda: again.state(greedy).state is State.TERMINATED, "the end of a start without an inode")
            why = again.state(greedy)
            assert "inodes" in str(why.termination_reason), why
            del started
        with served(disk) as server:  # the one before has been told to end
            assert "inodes" in server.readiness()[1]
            shutil.rmtree(disk / "others", ignore_errors=True)


def a_server_starts_on_a_full_disk_after_a_clean_stop(disk: Path) -> None:
    """Whatever it gives back is taken by others."""
    here = World(disk)
    with served(disk) as server:
        first = Workspace(here, server.client())
        until(lambda: (here.data_dir / "brickyard.db-wal").stat().st_size > 4 << 20, "the database's reserve")
        kept = first.cluster("kept")
    with no_byte(disk):
        for _ in range(2):  # the second follows one that found the disk full
            with served(disk) as server:
                again = Workspace(here, server.client())
                assert "disk is full" in server.readiness()[1]
                again.client.clusters.pin(kept.cluster_id or "")
                again.client.clusters.unpin(kept.cluster_id or "")


def a_database_opens_while_others_take_every_byte(disk: Path) -> None:
    """After a kill SQLite needs a file of its own anew: somebody else is faster."""
    url = f"sqlite:///{disk / 'a.db'}"
    if (child := os.fork()) == 0:
        store = Store.open(url)
        asyncio.run(store.keep_reserve())
        store.write_sync(lambda tx: tx.set_meta("before", "kept"))
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    code = textwrap.dedent("""
        import sys
        with open(sys.argv[1], "wb", buffering=0) as file:
            while True:
                try:
                    file.write(bytes(4096))
                except OSError:
                    pass
    """)
    fillers = [subprocess.Popen([sys.executable, "-c", code, str(disk / name)]) for name in ("one", "two")]
    try:
        until(lambda: os.statvfs(disk).f_bavail == 0, "a full disk")
        store = Store.open(url)
        assert store.read_sync(lambda tx: tx.get_meta("before")) == "kept"
        for _ in range(20):
            store.write_sync(lambda tx: tx.set_meta("after", "written"))
        assert store.read_sync(lambda tx: tx.get_meta("after")) == "written"
        store.close()
    finally:
        for each in fillers:
            each.kill()
            each.wait()


def the_one_that_fills_the_disk_is_ended(disk: Path) -> None:
    with workspace(disk, node_disk_gb=1) as here:
        quiet, greedy = here.cluster("quiet"), here.cluster("greedy")
        here.fill(greedy)
        reason = here.ended(greedy).termination_reason
        assert reason is not None and reason.code is not None and reason.code.value == "DRIVER_OUT_OF_DISK", reason
        assert "disk ran full" in (reason.parameters or {})["databricks_error_message"]
        until(lambda: here.free > 16 << 20, "the room that the node took")
        assert here.state(quiet).state is State.RUNNING
        here.execute(quiet, "import os; open(os.environ['TMPDIR'] + '/x', 'w').write('it goes on')")
        here.client.clusters.start(greedy.cluster_id or "").result(SOON)


def the_one_that_takes_the_inodes_is_ended(disk: Path) -> None:
    with workspace(disk, node_disk_gb=1) as here:
        quiet, other, greedy = here.cluster("quiet"), here.cluster("other"), here.cluster("greedy")
        place = disk / "others"  # another program's, so that the node need not take half of all
        place.mkdir()
        for number in range(12_000):
            (place / str(number)).touch()
        with contextlib.suppress(NotFound):
            here.execute(greedy, FILES.replace("{files}", "9000"))
        reason = here.ended(greedy).termination_reason
        assert reason is not None and reason.code is not None and reason.code.value == "DRIVER_OUT_OF_DISK", reason
        assert "inodes are free" in (reason.parameters or {})["databricks_error_message"], reason
        until(lambda: here.inodes > 5_000, "the room that the node took")
        for each in (quiet, other):
            assert here.state(each).state is State.RUNNING
            here.execute(each, "import os; open(os.environ['TMPDIR'] + '/x', 'w').write('it goes on')")
        here.client.clusters.start(greedy.cluster_id or "").result(SOON)


def who_fills_dbfs_is_ended(disk: Path) -> None:
    """What is written to the workspace's files belongs to nobody; who goes on writing is known all the same. Here that is the
    process on which the node depends."""
    room.SCAN_S = 2.0  # so small a disk is too small for the step after which the files are counted sooner
    with workspace(disk, dbfs_gb=0.01) as here:
        quiet, greedy = here.cluster("quiet"), here.cluster("greedy")
        here.fill(greedy, "DBFS_ROOT", pause=0.01)
        reason = here.ended(greedy).termination_reason
        assert reason is not None and reason.code is not None and reason.code.value == "DRIVER_OUT_OF_DISK", reason
        assert "dbfs_gb" in (reason.parameters or {})["databricks_error_message"]
        assert here.state(quiet).state is State.RUNNING
        here.client.dbfs.delete("/fill")

        def accepted() -> bool:
            with contextlib.suppress(Exception):
                here.client.dbfs.put("/more", contents="eA==", overwrite=True)
                return True
            return False

        until(accepted, "room for the workspace's files")


def a_node_without_groups_gives_way(disk: Path) -> None:
    """A machine of 560 MiB, as /proc/meminfo tells; a node may use 304 of them. No walls can be built over such a /proc."""
    told = disk / "meminfo"

    def machine(available_mb: int) -> None:
        told.write_text(f"MemTotal: {560 << 10:8} kB\nMemAvailable: {available_mb << 10:8} kB\n")

    machine(500)
    assert os.system(f"mount --bind '{told}' /proc/meminfo") == 0  # noqa: S605 - a path of our own
    grow = "kept = [bytearray(b'x' * (1 << 20)) for _ in range({mb})]"
    try:
        with world(disk) as here:
            first, second = here.instance(isolation="off").start(), here.instance(isolation="off").start()
            for instance in (first, second):
                limits = here.ready(instance).limits
                assert limits.startswith("watched: "), limits
            child = grow.format(mb=400) + "; import time; time.sleep(600)"
            first.execute(f"import subprocess, sys; state['child'] = subprocess.Popen([sys.executable, '-c', {child!r}])")
            first.execute("state['child'].wait()")  # the greatest process alone is ended, and the node lives
            assert "-9" in first.execute("print(state['child'].returncode)")
            assert first.report().status.phase is Phase.READY

            first.execute(f"state['kept'] = b'x' * {60 << 20}")
            second.execute(f"state['kept'] = b'x' * {200 << 20}")

            def told_by(instance: Instance) -> int:
                return next((each.memory for each in published(instance.directory.parent) if each.instance_id == instance.id), 0)

            until(lambda: told_by(second) > 190 << 20 and told_by(first) > 50 << 20, "what they take is known to both")
            machine(20)
            failed = here.server.phase(second.id, Phase.FAILED)
            assert failed.failure is not None and failed.failure.code == "DRIVER_EVICTION", failed
            assert "out of memory" in failed.failure.message
            assert not failed.failure.log_tail
            machine(500)
            assert first.report().status.phase is Phase.READY
    finally:
        os.system("umount /proc/meminfo")  # noqa: S605 - as above


def snapshots_on_a_full_disk(disk: Path) -> None:
    """Taking and restoring fail with the reason, leave everything as it was, and work once there is room."""
    current, store = disk / "workspace" / "current", disk / "store"
    current.mkdir(parents=True)

    def do(kind: JobKind, number: int, sha256: str = "") -> Line:
        snapshot, room = Named("one", sha256), 1 << 40
        asked = {"kind": kind, "store": str(store), "directory": str(disk / "workspace"), "number": number, "snapshot": snapshot}
        return asyncio.run(jobs.run(Job(**asked, max_bytes=room, max_stored=room)))  # type: ignore[arg-type] # a struct's fields

    def refused(kind: JobKind, number: int, sha256: str = "") -> str:
        try:
            do(kind, number, sha256)
        except JobFailed as failed:
            return str(failed)
        raise AssertionError("it succeeded")

    (current / "model").write_bytes(os.urandom(20 << 20))
    (disk / "fill").write_bytes(bytes(34 << 20))  # of 64 MiB
    assert "disk is full" in refused("take", 0)
    assert not list(store.rglob(".new-*")), "what was being written is gone"
    (disk / "fill").unlink()
    taken = do("take", 0).sha256
    data = (current / "model").read_bytes()
    (current / "model").write_bytes(b"spoilt")
    (disk / "fill").write_bytes(bytes(34 << 20))
    assert "disk is full" in refused("restore", 1, taken)
    do("give_up", 1)
    assert (current / "model").read_bytes() == b"spoilt"
    (disk / "fill").unlink()
    do("restore", 2, taken)
    assert (current / "model").read_bytes() == data


if __name__ == "__main__":
    globals()[sys.argv[1]](Path(sys.argv[2]))
