"""An agent process against a small server and a node host without Spark: what a status says, and what is left behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from pathlib import Path

import msgspec
import psutil
import pytest

from brickyard.domain.node import LogDestination, Phase, Role
from brickyard.logs.keep import NodeRecord
from brickyard.runtime import installer
from brickyard.runtime.inuse import RuntimeInUse
from tests.agent.world import World, assignment, living
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S, until


def test_it_becomes_what_its_assignment_says_and_cleans_up_after_it(here: World) -> None:
    one = here.instance().start()
    assert here.server.phase(one.id, Phase.IDLE).generation == 0
    status = here.ready(one)
    assert (status.master_url, status.connect_port, status.generation) == ("spark://127.0.0.1:7077", 15002, 1)
    assert status.assignment_version == 1
    assert status.host == "127.0.0.1"
    assert (one.node / "logs" / "driver.log").exists()
    (one.node / "logs").rename(one.node / "work" / "hidden")  # as a program of the node may
    (one.node / "logs").symlink_to("work/hidden")
    here.server.assign(one.id, None)
    status = here.server.phase(one.id, Phase.IDLE)
    assert status.master_url == ""
    assert not one.node.exists()
    kept = here.data_dir / "logs" / "0101-000000-abcdefgh" / f"{one.id}-1"
    assert (kept / "driver.log").read_text() == "the driver's log\n"
    assert (kept / "stopped.log").exists(), "it was stopped in order"
    assert "the host is prepared" in (kept / "agent.log").read_text()


def test_logs_are_delivered_while_the_node_runs_and_when_it_ends(here: World) -> None:
    one = here.instance(log_delivery_s=0.2).start()
    there = here.data_dir / "dbfs" / "logs" / "0101-000000-abcdefgh" / "driver"
    here.ready(one, logs=LogDestination(kind="dbfs", path="logs"))
    delivered = there / "driver.log"
    until(lambda: delivered.exists() and delivered.read_text() == "the driver's log\n", "the first delivery")
    done = here.server.status(one.id, lambda status: status.log_delivery is not None).log_delivery
    assert done is not None and done.error == "" and done.attempted_ms > 0
    with (one.node / "logs" / "driver.log").open("a") as log:
        log.write("last words")
    there.parents[2].rename(here.data_dir / "away")
    here.server.status(one.id, lambda status: status.log_delivery is not None and "dbfs" in status.log_delivery.error)
    (here.data_dir / "away").rename(there.parents[2])
    here.server.assign(one.id, None)
    here.server.phase(one.id, Phase.IDLE)
    assert (there / "driver.log").read_text() == "the driver's log\nlast words"
    assert (there / "stopped.log").exists()
    assert not (one.directory / "delivery.json").exists()
    assert not (here.data_dir / "logs" / "0101-000000-abcdefgh" / f"{one.id}-1" / ".delivery.json").exists()


def test_a_new_generation_is_a_new_node(here: World) -> None:
    one = here.instance().start()
    here.ready(one)
    (one.node / "work" / "of-the-first").write_text("")
    here.server.assign(one.id, assignment(version=2, generation=2))
    here.server.status(one.id, lambda status: status.generation == 2 and status.phase is Phase.READY)
    assert not (one.node / "work" / "of-the-first").exists()


def test_a_worker_waits_for_its_master_and_retires(here: World) -> None:
    one = here.instance().start()
    here.server.assign(one.id, assignment(role=Role.WORKER))
    here.server.status(one.id, lambda status: status.message == "waiting for the master")
    here.server.assign(one.id, assignment(version=2, role=Role.WORKER, master_url="spark://127.0.0.1:7077"))
    status = here.server.phase(one.id, Phase.READY)
    assert status.worker_address == "127.0.0.1:7001"
    assert "spark://127.0.0.1:7077" in status.message
    here.server.assign(one.id, assignment(version=3, role=Role.WORKER, master_url="spark://127.0.0.1:7077", retiring=True))
    assert here.server.phase(one.id, Phase.RETIRED).assignment_version == 3


@pytest.mark.parametrize(
    ("role", "code"),
    [(Role.SINGLE, "SPARK_STARTUP_FAILURE"), (Role.DRIVER, "SPARK_STARTUP_FAILURE"), (Role.WORKER, "WORKER_SETUP_FAILURE")],
)
def test_a_host_that_dies_while_starting_is_a_failure_with_its_last_words(here: World, role: Role, code: str) -> None:
    one = here.instance().start()
    here.server.assign(one.id, assignment(role=role, spark_conf={"test.exit": "3"}))
    failure = here.server.phase(one.id, Phase.FAILED).failure
    assert failure is not None
    assert failure.code == code
    assert "with code 3" in failure.message
    assert "last words" in failure.log_tail


def test_a_host_that_dies_later_makes_the_driver_unreachable(here: World) -> None:
    one = here.instance().start()
    here.ready(one)
    one.request("POST", "/v1/contexts", {"context_id": "c", "language": "python"})
    one.request("POST", "/v1/contexts/c/commands", {"command_id": "x", "language": "python", "command": "import os; os._exit(9)"})
    failure = here.server.phase(one.id, Phase.FAILED).failure
    assert failure is not None
    assert failure.code == "DRIVER_UNREACHABLE"
    assert one.request("GET", "/v1/contexts/c")[0] == 503
    here.ready(one, version=2, generation=2)


def test_a_failure_that_the_host_reports_is_passed_on(here: World) -> None:
    one = here.instance().start()
    why = "spark.foo must be a number"
    here.server.assign(one.id, assignment(spark_conf={"test.fail": why}))
    failure = here.server.phase(one.id, Phase.FAILED).failure
    assert failure is not None
    assert (failure.code, failure.message) == ("SPARK_STARTUP_FAILURE", why)


@pytest.mark.parametrize(
    "raw", ["not json", "[]", '{"event": "status", "busy": "yes"}', "[" * 5000, '{"id": "x"}', '{"id": 99, "result": 1}']
)
def test_messages_that_make_no_sense_are_dropped(here: World, raw: str) -> None:
    one = here.instance().start()
    here.ready(one, spark_conf={"test.raw": raw})


def test_a_stop_does_not_wait_for_a_slow_start(here: World) -> None:
    one = here.instance().start()
    here.server.assign(one.id, assignment(spark_conf={"test.slow": "1000"}))
    here.server.status(one.id, lambda status: status.message == "taking its role")
    here.server.assign(one.id, None)
    here.server.phase(one.id, Phase.IDLE)


def test_contexts_and_commands_are_passed_on(here: World) -> None:
    one = here.instance().start()
    assert one.request("POST", "/v1/contexts", {"context_id": "c", "language": "python"})[0] == 503
    here.ready(one)
    assert one.request("POST", "/v1/contexts", {"context_id": "c", "language": "python"}) == (200, {"status": "Running"})
    assert one.request("GET", "/v1/contexts/c")[1] == {"status": "Running"}
    assert one.execute("print(6 * 7)") == "42\n"
    status, answer = one.request("GET", "/v1/contexts/other")
    assert (status, answer["error"]["code"]) == (404, "NOT_FOUND")
    assert one.request("POST", "/v1/contexts/c/commands/nothing/cancel", {})[0] == 200
    assert one.request("POST", "/v1/contexts", {"context_id": 5})[0] == 400
    current = one.request("GET", "/v1/status")[1]["status"]["generation"]
    for generation, status in ((current, 200), (current + 1, 400)):  # meant for this start of the cluster, and for another
        asked = {"context_id": f"g{generation}", "language": "python", "generation": generation}
        assert one.request("POST", "/v1/contexts", asked)[0] == status
    assert one.request("DELETE", "/v1/contexts/c")[0] == 200
    assert one.request("GET", "/v1/contexts/c")[0] == 404
    assert one.request("GET", "/v1/nothing")[0] == 404


def test_a_context_is_its_users_alone(here: World) -> None:
    """The agent knows whose it is; it tells the server who has contexts, and ends those of a user."""
    one = here.instance().start()
    here.ready(one)
    for name, user in (("a1", "anna"), ("a2", "anna"), ("b1", "bob")):
        assert one.request("POST", "/v1/contexts", {"context_id": name, "language": "python", "user": user})[0] == 200
    here.server.status(one.id, lambda status: status.users == ("anna", "bob"))
    command = {"command_id": "x", "language": "python", "command": "1"}
    for method, path, body in (
        ("GET", "/v1/contexts/a1", None),
        ("POST", "/v1/contexts/a1/commands", command),
        ("GET", "/v1/contexts/a1/commands/x", None),
        ("POST", "/v1/contexts/a1/commands/x/cancel", {}),
        ("DELETE", "/v1/contexts/a1", None),
    ):
        for user, status in (("bob", 404), ("anna", 200)):
            given = (path, {**body, "user": user}) if body is not None else (f"{path}?user={user}", None)
            found, answer = one.request(method, *given)
            assert found == status, (method, path, user, answer)
    for user, session in (("anna", "s1"), ("anna", "s2"), ("carla", "s2")):
        used = {"user": user, "session_user": "root", "session_id": session}
        assert one.request("POST", "/v1/connect/sessions", used)[0] == 200
    assert one.request("POST", "/v1/connect/sessions", {**used, "generation": 99})[0] == 400
    here.server.status(one.id, lambda status: status.users == ("anna", "bob", "carla"))
    withdrawn = one.request("POST", "/v1/withdrawn", {"user": "anna", "reason": "she left"})
    assert withdrawn == (200, {"context_ids": ["a2"]})
    here.server.status(one.id, lambda status: status.users == ("bob", "carla"))
    assert one.request("POST", "/v1/withdrawn", {"user": "carla", "reason": "so did she"}) == (200, {"context_ids": []})
    here.server.status(one.id, lambda status: status.users == ("bob",))
    assert (one.node / "work" / "ended").read_text() == "root s1\nroot s2\nroot s2\n"
    assert one.request("GET", "/v1/contexts/a2?user=anna")[0] == 200, "it stays hers, and tells why it ended"
    one.request("DELETE", "/v1/contexts/b1?user=bob")
    here.server.status(one.id, lambda status: status.users == ())


def test_strangers_are_turned_away(here: World) -> None:
    one = here.instance().start()
    for token in ("", "wrong", "agent-secret"):
        assert one.request("GET", "/v1/status", token=token)[0] == 401
    assert one.request("GET", "/v1/status")[1]["instance_id"] == one.id
    host, port = one.report().endpoint.removeprefix("http://").split(":")
    for rubbish in (
        b"\x00\xff\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"a: " + b"b" * 100_000 + b"\r\n\r\n",
        b"POST /v1/stop HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n",
    ):
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
            connection.sendall(rubbish)
            assert connection.recv(100).startswith((b"HTTP/1.1 400", b"HTTP/1.1 401"))


def test_logs_can_be_read_but_no_other_file(here: World) -> None:
    one = here.instance().start()
    here.ready(one)
    names = {file["name"] for file in one.request("GET", "/v1/logs")[1]["files"]}
    assert {"agent.log", "node.log", "driver.log"} <= names
    assert one.request("GET", "/v1/logs?name=driver.log")[1]["text"] == "the driver's log\n"
    assert one.request("GET", "/v1/logs?name=driver.log&tail=5")[1]["text"] == " log\n"
    (one.node / "logs" / "link.log").symlink_to(one.directory / "agent.json")
    for name in ("../../agent.json", "link.log", "/etc/passwd", "nothing", "agent.json", ".."):
        assert one.request("GET", f"/v1/logs?name={name}")[0] in (400, 404), name


def test_it_leaves_when_the_server_does_not_know_it(here: World) -> None:
    one = here.instance().start()
    here.ready(one)
    here.server.forget()
    assert one.wait() == 0
    assert not one.node.exists()


def test_it_leaves_when_it_is_told_to(here: World) -> None:
    one = here.instance().start()
    here.ready(one)
    why = "the test is over"
    assert one.request("POST", "/v1/stop", {"reason": why})[0] == 202
    assert one.wait() == 0
    assert why in (one.directory / "agent.log").read_text()
    assert not one.node.exists()


def test_a_runtime_in_use_cannot_be_removed(here: World) -> None:
    one = here.instance().start()
    here.ready(one)
    with pytest.raises(RuntimeInUse):
        installer.remove("fake", cache_dir=here.cache_dir)
    assert (here.cache_dir / "runtimes" / "fake" / "marker").exists()
    here.server.assign(one.id, None)
    here.server.phase(one.id, Phase.IDLE)
    assert installer.remove("fake", cache_dir=here.cache_dir)


def test_it_tells_since_when_spark_does_not_answer(here: World) -> None:
    one = here.instance().start()
    here.ready(one)
    one.execute("state['silent_s'] = 42.0")
    told = here.server.status(one.id, lambda status: bool(status.silent_since_ms))
    assert 42 <= time.time() - told.silent_since_ms / 1000 < 42 + PATIENCE_S
    one.execute("state['silent_s'] = 3.0")
    here.server.status(one.id, lambda status: not status.silent_since_ms)


def test_a_node_host_that_hangs_is_silent_too(here: World) -> None:
    one = here.instance().start()
    here.ready(one)
    hosts = [each for each in psutil.Process(one.pid).children(recursive=True) if "start.py host" in " ".join(each.cmdline())]
    assert hosts
    for host in hosts:
        host.suspend()
    here.server.status(one.id, lambda status: bool(status.silent_since_ms))
    for host in hosts:
        host.resume()
    here.server.status(one.id, lambda status: not status.silent_since_ms)


def test_sigterm_ends_the_node_in_order_even_if_it_does_not_listen(here: World) -> None:
    one = here.instance().start()
    here.ready(one, spark_conf={"test.deaf": "yes", "test.child": "yes"})
    os.kill(one.pid, signal.SIGTERM)
    assert one.wait() == 0
    assert not one.node.exists()


def test_it_leaves_when_it_hears_nothing_for_the_grace_period(here: World) -> None:
    one = here.instance(orphan_grace_s=10.0).start()  # longer than a busy machine keeps it from being heard
    here.ready(one)
    here.server.stop()
    assert one.wait() == 0
    assert "nothing was heard" in (one.directory / "agent.log").read_text()


def test_a_server_without_its_database_counts_as_heard(here: World) -> None:
    one = here.instance(orphan_grace_s=6.0).start()  # longer than between two heartbeats
    here.ready(one)
    here.server.database_away = True
    since = time.monotonic()
    until(lambda: "answered 503" in (one.directory / "agent.log").read_text())
    until(lambda: time.monotonic() > since + 9 and len(here.server.reports) > 5, "longer than the grace period")
    assert living(one.pid)
    here.server.server_token = "an impostor's"  # anybody can say 503
    assert one.wait() == 0
    assert "nothing was heard" in (one.directory / "agent.log").read_text()


def test_it_finds_a_server_that_comes_back_elsewhere(here: World) -> None:
    one = here.instance().start()
    here.ready(one)
    first = here.server.url
    here.server.stop()
    here.server.reports.clear()
    here.server.start()
    assert here.server.url != first
    assert here.server.phase(one.id, Phase.READY).generation == 1


def test_its_token_goes_to_no_process_that_took_the_port(here: World) -> None:
    one = here.instance().start()
    here.server.phase(one.id, Phase.IDLE)
    here.server.file.write_text(json.dumps({"pid": 2**22 - 1, "url": here.server.url}))
    polls, reports = here.server.polls, len(here.server.reports)
    here.server.assign(one.id, assignment())  # answers the poll that is under way, if any
    here.server.file.unlink()
    until(lambda: "cannot be reached" in (one.directory / "agent.log").read_text())
    assert here.server.polls <= polls + 1
    assert len(here.server.reports) <= reports + 2


def test_an_answer_without_the_right_token_is_not_our_server(here: World, golden: Golden) -> None:
    here.server.server_token = "an impostor's"
    here.server.known = False
    one = here.instance(orphan_grace_s=1.0).start()
    assert one.wait() == 0
    log = (one.directory / "agent.log").read_text()
    golden(next(line for line in log.splitlines() if here.server.url in line), url=here.server.url)
    assert "(orphan_grace_s is 1)" in log


def test_a_second_agent_of_an_instance_ends_at_once(here: World) -> None:
    one = here.instance().start()
    here.server.phase(one.id, Phase.IDLE)
    second = here.instance(one.id).start()
    assert second.wait() == 0
    assert living(one.pid)


@pytest.mark.parametrize("mode", ["auto", "off"])
def test_a_sigkill_of_the_agent_ends_everything(here: World, mode: str) -> None:
    one = here.instance(isolation=mode).start()
    status = here.ready(one, spark_conf={"test.child": "yes"}, redact=("hunter2",), sealed="c2VhbGVk")
    assert status.isolation.startswith("none") == (mode == "off")
    record = msgspec.json.decode((one.directory / "node.json").read_bytes(), type=NodeRecord)
    assert record.sealed == ("c2VhbGVk",), "whoever keeps the logs knows what to hide"
    inside = one.execute("import os; print(os.getpid())")
    mine = set(_marked(one.id))
    assert len(mine) >= 3, inside
    os.kill(one.pid, signal.SIGKILL)
    one.wait()
    until(lambda: not any(living(pid) for pid in mine))


def _marked(instance_id: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"BRICKYARD_INSTANCE_ID={instance_id}".encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_required_isolation_starts_nothing_without_it(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = here.root / "python"
    broken.write_text("#!/bin/sh\necho 'sandbox: not permitted here' >&2\nexit 71\n")
    broken.chmod(0o755)
    one = here.instance(isolation="required", python=str(broken)).start()
    here.server.assign(one.id, assignment())
    status = here.server.phase(one.id, Phase.FAILED)
    assert status.failure is not None
    assert status.failure.code == "WORKSPACE_CONFIGURATION_ERROR"
    assert "not permitted here" in status.failure.message
    assert not _marked(one.id)


def test_users_are_not_kept_apart_where_nodes_have_no_walls(here: World) -> None:
    one = here.instance(isolation="off").start()
    here.server.assign(one.id, assignment(user_isolation=True))
    failure = here.server.phase(one.id, Phase.FAILED).failure
    assert failure is not None
    assert failure.code == "WORKSPACE_CONFIGURATION_ERROR"
    assert "USER_ISOLATION" in failure.message


def test_an_idle_agent_is_small(here: World) -> None:
    one = here.instance().start()
    here.server.phase(one.id, Phase.IDLE)
    here.server.status(one.id, lambda _: len(here.server.reports) >= 1)
    status = Path(f"/proc/{one.pid}/status").read_text()
    resident_kib = int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])
    assert resident_kib < 45 * 1024
