"""Init scripts on a real agent with real walls, run by the code of the real node host; only Spark is missing."""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from brickyard.domain.node import NodeStatus, Phase, Role
from brickyard.domain.places import parse
from brickyard.domain.scripts import InitScript, ScriptStatus
from brickyard.logs.credentials import MachineCredentials
from tests.agent.world import FAKES, SOURCE, Instance, World, assignment, living, world
from tests.sandbox.test_network import Net, isolated
from tests.support.golden import Golden
from tests.support.objectstore import KEYS, ObjectStore, serve
from tests.support.patience import Stopwatch, until

CLUSTER = "0101-000000-abcdefgh"


@pytest.fixture
def here(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as made:
        yield made


class Nodes:
    """Nodes with scripts in the workspace's files."""

    def __init__(self, here: World, code: Path) -> None:
        self.here = here
        self.code = code
        code.mkdir()
        shutil.copy(FAKES / "start.py", code)
        shutil.copy(SOURCE / "brickyard/runtime/node/host/scripts.py", code / "node_scripts.py")

    def start(self, **changes: Any) -> Instance:
        return self.here.instance(node_code_dir=str(self.code), **changes).start()

    def script(self, name: str, text: str | bytes) -> InitScript:
        path = self.here.data_dir / "dbfs" / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return InitScript(name=name, place=parse(f"dbfs:/{name}"))

    def run(self, instance: Instance, *scripts: InitScript, **more: Any) -> None:
        self.here.server.assign(instance.id, assignment(init_scripts=scripts, **more))

    def ready(self, *scripts: InitScript, **more: Any) -> tuple[Instance, NodeStatus]:
        instance = self.start()
        self.run(instance, *scripts, **more)
        return instance, self.here.server.phase(instance.id, Phase.READY)

    def failed(self, *scripts: InitScript, instance: Instance | None = None, **more: Any) -> NodeStatus:
        instance = instance or self.start()
        self.run(instance, *scripts, **more)
        return self.here.server.phase(instance.id, Phase.FAILED)

    def kept(self, pattern: str) -> list[Path]:
        """Logs that ended nodes have left."""
        try:
            return sorted((self.here.data_dir / "logs").rglob(pattern))
        except FileNotFoundError:  # a directory got its name while this looked
            return []


@pytest.fixture
def nodes(here: World, tmp_path: Path) -> Nodes:
    return Nodes(here, tmp_path / "code")


def _message(status: NodeStatus) -> str:
    assert status.failure is not None
    return status.failure.message


def test_scripts_run_in_order_with_the_documented_variables(nodes: Nodes) -> None:
    first = nodes.script("first.sh", "#!/bin/sh\necho first >>/tmp/order\nenv | grep -E '^(DB_|ENVIRONMENT|HOME)' | sort\n")
    shared = InitScript(name="for all", script_id="1", content=base64.b64encode(b"echo global >>/tmp/order").decode())
    second = nodes.script(
        "second one.sh", "echo second >>/tmp/order; cat /tmp/order; command -v pip python; echo oops >&2; sleep 1"
    )
    env = {"ENVIRONMENT": "production", "SPARK_HOME": "/nowhere"}
    instance, status = nodes.ready(shared, first, second, spark_env_vars=env, node_type_id="i3.xlarge", cluster_name="my cluster")
    assert status.scripts is not None and not status.scripts.running
    assert [result.status for result in status.scripts.results] == [ScriptStatus.SUCCEEDED] * 3
    logs = instance.node / "logs" / "init_scripts" / f"{CLUSTER}_127_0_0_1"
    names = sorted(path.name for path in logs.iterdir())
    assert [name.split("_", 2)[2] for name in names] == [
        "00_for_all.stderr.log", "00_for_all.stdout.log", "01_first.sh.stderr.log", "01_first.sh.stdout.log",
        "02_second_one.sh.stderr.log", "02_second_one.sh.stdout.log",
    ]  # fmt: skip
    said = dict(line.split("=", 1) for line in (logs / names[3]).read_text().splitlines())
    assert said.pop("HOME") == str(instance.node / "home")
    assert said == {
        "DB_CLUSTER_ID": CLUSTER, "DB_CLUSTER_NAME": "my cluster", "DB_CONTAINER_IP": "127.0.0.1", "DB_DRIVER_IP": "127.0.0.1",
        "DB_INSTANCE_TYPE": "i3.xlarge", "DB_IS_DRIVER": "TRUE", "DB_IS_JOB_CLUSTER": "FALSE", "DB_PYTHON_VERSION": "3",
        "ENVIRONMENT": "production",
    }  # fmt: skip
    programs = instance.node / "python" / "bin"
    assert (logs / names[5]).read_text() == f"global\nfirst\nsecond\n{programs}/pip\n{programs}/python\n"
    assert (logs / names[4]).read_text() == "oops\n"
    messages = [report.status.message for report in nodes.here.server.reports]  # a quick one's need not be reported
    assert any(message.startswith("init script ") and " of 3: " in message for message in messages)


def test_java_starts_beside_a_drivers_scripts_unless_they_may_make_what_it_starts_with(nodes: Nodes) -> None:
    """The fake node host writes the log when it is told to start Java."""
    nodes.ready(nodes.script("waits.sh", 'until [ -e "$HOME/../logs/driver.log" ]; do sleep 0.05; done'))
    first = nodes.script("first.sh", '[ ! -e "$HOME/../logs/driver.log" ]')
    nodes.ready(first, spark_env_vars={"MADE": "by the script"})


def test_a_workers_scripts_know_the_driver_and_run_before_the_role(nodes: Nodes) -> None:
    script = nodes.script("a.sh", "echo $DB_IS_DRIVER $DB_DRIVER_IP")
    instance = nodes.start()
    nodes.run(instance, script, role=Role.WORKER, master_url="")
    nodes.here.server.status(instance.id, lambda status: status.message == "starting Java")  # and waits for the driver
    nodes.run(instance, script, version=2, role=Role.WORKER, driver_host="127.0.0.7")
    nodes.here.server.status(instance.id, lambda status: status.message == "waiting for the master")
    (log,) = (instance.node / "logs").rglob("*_a.sh.stdout.log")
    assert log.read_text() == "FALSE 127.0.0.7\n"


def test_a_failing_script_ends_the_node_with_everything_that_helps(nodes: Nodes, golden: Golden) -> None:
    good, never = nodes.script("good.sh", "exit 0"), nodes.script("never.sh", "touch /dbfs/ran")
    bad = nodes.script("install.sh", "#!/bin/bash\nset -e\necho starting\nfor i in 1 2 3; do echo line $i >&2; done\nexit 7\n")
    status = nodes.failed(good, bad, never, role=Role.DRIVER)
    assert status.failure is not None
    assert status.failure.code == "INIT_SCRIPT_FAILURE"
    node = nodes.here.instances[0].id
    golden(status.failure.message, "init script 2 of 3, dbfs:/install.sh", node, node=node)
    assert status.failure.log_tail == "line 1\nline 2\nline 3"
    assert status.scripts is not None
    assert [result.status.value for result in status.scripts.results] == ["SUCCEEDED", "FAILED_EXECUTION", "NOT_EXECUTED"]
    assert status.scripts.results[1].message.endswith("line 3")
    assert not (nodes.here.data_dir / "dbfs/ran").exists()
    until(lambda: nodes.kept("*_01_install.sh.stdout.log"))
    assert nodes.kept("*_01_install.sh.stdout.log")[0].read_text() == "starting\n"


def test_a_script_of_600_mb_is_refused_before_it_is_copied(nodes: Nodes, golden: Golden) -> None:
    huge = nodes.script("huge.sh", "#!/bin/sh\n")
    os.truncate(nodes.here.data_dir / "dbfs" / "huge.sh", 600_000_000)
    golden(_message(nodes.failed(huge)), "init script 1 of 1, dbfs:/huge.sh", node=nodes.here.instances[0].id)


def test_a_global_script_that_fails_has_its_own_code(nodes: Nodes, golden: Golden) -> None:
    status = nodes.failed(InitScript(name="corporate proxy", script_id="1", content=base64.b64encode(b"exit 3").decode()))
    assert status.failure is not None
    assert status.failure.code == "GLOBAL_INIT_SCRIPT_FAILURE"
    golden(status.failure.message, "global init script 'corporate proxy'", node=nodes.here.instances[0].id)
    assert status.failure.log_tail == "(it printed nothing)"


def _sleeping(nodes: Nodes) -> list[int]:
    """The living processes on this machine that scripts of this test's nodes have left sleeping."""
    marker, found = str(nodes.here.data_dir).encode(), []
    for path in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            line = (path / "cmdline").read_bytes()
            if line == b"sleep\x0098765\0" and marker in (path / "environ").read_bytes() and living(int(path.name)):
                found.append(int(path.name))
    return found


@pytest.mark.parametrize("isolation", ["auto", "off"])
def test_a_script_that_never_ends_is_killed_with_all_that_it_started(nodes: Nodes, isolation: str, golden: Golden) -> None:
    detached = "(setsid sh -c 'sleep 98765 & exec sleep 98765' >/dev/null 2>&1 &)\nsleep 98765"
    instance = nodes.start(init_script_timeout_s=1.0, isolation=isolation)
    failed = nodes.failed(nodes.script("slow.sh", detached), instance=instance)
    golden(_message(failed), "1 s (init_script_timeout_s)", node=instance.id)
    until(lambda: not _sleeping(nodes))


def test_what_a_script_leaves_running_goes_on_and_ends_with_the_node(nodes: Nodes) -> None:
    script = nodes.script("daemon.sh", "setsid sleep 98765 >/dev/null 2>&1 &\n")
    instance, _ = nodes.ready(script)
    until(lambda: len(_sleeping(nodes)) == 1)  # it began in the background, and may not have become `sleep` yet
    nodes.here.server.assign(instance.id, None)
    until(lambda: not _sleeping(nodes))


def test_a_script_that_kills_the_node_host(nodes: Nodes, golden: Golden) -> None:
    failed = nodes.failed(nodes.script("ok.sh", ""), nodes.script("murder.sh", "kill -9 $PPID; sleep 30"))
    assert failed.failure is not None
    assert failed.failure.code == "INIT_SCRIPT_FAILURE"
    golden(failed.failure.message, "init script 2 of 2, dbfs:/murder.sh")
    assert failed.scripts is not None
    assert [result.status.value for result in failed.scripts.results] == ["SUCCEEDED", "FAILED_EXECUTION"]


def test_a_cluster_that_is_ended_does_not_wait_for_its_scripts(nodes: Nodes) -> None:
    instance = nodes.start()
    nodes.run(instance, nodes.script("quick.sh", "exit 0"), nodes.script("slow.sh", "sleep 98765"))
    nodes.here.server.status(instance.id, lambda status: status.message.startswith("init script 2 of 2: "))
    (log,) = until(lambda: list((instance.node / "logs").rglob("*_slow.sh.stdout.log")))
    watch = Stopwatch()
    nodes.here.server.assign(instance.id, None)
    nodes.here.server.status(instance.id, lambda status: status.phase is Phase.IDLE)
    until(lambda: not log.exists())
    assert watch.took_s < 15


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with serve() as store:
        yield store


def test_scripts_in_an_object_store(nodes: Nodes, store: ObjectStore, golden: Golden) -> None:
    store.put("a.sh", b"echo from the store")
    store.put("b.sh", b"echo too")
    places = [parse(f"s3://bucket/{name}", endpoint=store.endpoint) for name in ("a.sh", "b.sh", "c.sh")]
    scripts = [InitScript(name=place.name, place=place) for place in places]
    instance, _ = nodes.ready(*scripts[:2], spark_env_vars=KEYS)
    (log,) = (instance.node / "logs").rglob("*_00_a.sh.stdout.log")
    assert log.read_text() == "from the store\n"
    assert not list((instance.node / "scripts").glob("*.object"))
    failed = nodes.failed(*scripts, spark_env_vars=KEYS)
    golden(_message(failed), "init script 3 of 3, s3://bucket/c.sh", node=nodes.here.instances[-1].id)
    assert failed.scripts is not None
    states = [result.status.value for result in failed.scripts.results]
    assert states == ["NOT_EXECUTED", "NOT_EXECUTED", "FAILED_FETCH"]


def test_the_machines_credentials_go_to_a_listed_endpoint_alone(
    nodes: Nodes, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What this store has is not public."""
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    store.put("a.sh", b"echo from the store")
    script = InitScript(name="a.sh", place=parse("s3://bucket/a.sh", endpoint=store.endpoint))
    message = _message(nodes.failed(script))
    assert "machine_credentials_endpoints" in message and store.endpoint in message
    off = nodes.start(machine_credentials=MachineCredentials(False, (store.endpoint,)))
    assert "turned off" in _message(nodes.failed(script, instance=off))
    instance = nodes.start(machine_credentials=MachineCredentials(True, (store.endpoint,)))
    nodes.run(instance, script)
    nodes.here.server.phase(instance.id, Phase.READY)


@isolated
def test_an_object_store_is_reached_from_the_nodes_network(nodes: Nodes, store: ObjectStore) -> None:
    """A cluster must not reach through the agent what its nodes cannot: other services of the machine, or the internet."""
    net = Net(nodes.here)
    try:
        store.put("a.sh", b"echo from the store")
        script = InitScript(name="a.sh", place=parse("s3://bucket/a.sh", endpoint=store.endpoint))
        wanted = {"spark_env_vars": KEYS, "role": Role.DRIVER}
        for changes, reached in (({}, False), ({"network_allow": (store.endpoint.removeprefix("http://"),)}, True)):
            instance = net.instance(node_code_dir=str(nodes.code), init_script_timeout_s=15.0, **changes)
            nodes.run(instance, script, **wanted)
            if reached:
                nodes.here.server.phase(instance.id, Phase.READY)
            else:
                failed = nodes.here.server.phase(instance.id, Phase.FAILED)
                assert failed.scripts is not None
                assert [result.status for result in failed.scripts.results] == [ScriptStatus.FAILED_FETCH]
    finally:
        os.close(net.switchboard)


def test_an_agent_that_is_killed_leaves_nothing_of_a_script(nodes: Nodes) -> None:
    instance = nodes.start()
    nodes.run(instance, nodes.script("slow.sh", "setsid sleep 98765 & sleep 98765"))
    until(lambda: len(_sleeping(nodes)) == 2)
    assert instance.process is not None
    instance.process.kill()
    until(lambda: not _sleeping(nodes))


def test_logs_can_be_read_while_a_script_runs(nodes: Nodes) -> None:
    instance = nodes.start()
    nodes.run(instance, nodes.script("slow.sh", "echo begun; while [ ! -e /dbfs/go ]; do sleep 0.05; done"))

    def text() -> str:
        names = [each["name"] for each in instance.request("GET", "/v1/logs")[1]["files"]]
        found = [name for name in names if name.endswith("_slow.sh.stdout.log")]
        return str(instance.request("GET", f"/v1/logs?name={found[0]}")[1].get("text")) if found else ""

    until(lambda: text() == "begun\n")
    (nodes.here.data_dir / "dbfs/go").touch()
    nodes.here.server.phase(instance.id, Phase.READY)
