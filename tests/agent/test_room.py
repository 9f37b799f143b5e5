"""One node's disk: bounded, told before it is full, and given back at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from brickyard.agent import cgroups
from brickyard.agent.pressure import Usage
from brickyard.agent.usage import Published, published, turn
from brickyard.domain.node import Phase
from tests.agent.world import World, assignment
from tests.support.patience import until

MIB = 1 << 20
WRITE = """
    import os
    with open(os.environ["TMPDIR"] + "/{name}", "wb") as file:
        file.write(os.urandom({mb} << 20))
        os.fsync(file.fileno())
"""
OPEN = """
    import os
    state["file"] = open(os.environ["TMPDIR"] + "/hidden", "wb")
    os.unlink(os.environ["TMPDIR"] + "/hidden")
    state["file"].write(os.urandom({mb} << 20))
    os.fsync(state["file"].fileno())
    open(os.environ["HOME"] + "/../logs/kept.log", "w").write("what it said")
"""


def test_a_node_that_takes_too_much_is_told_and_then_ended(here: World) -> None:
    instance = here.instance(node_disk=64 * MIB, min_free_disk=1 << 60).start()  # short of room by decree: it looks more often
    here.ready(instance)
    instance.execute(WRITE.format(name="shown", mb=54))
    told = here.server.status(instance.id, lambda status: status.disk_limit > 0)
    assert told.phase is Phase.READY
    assert told.disk_limit == 64 * MIB
    assert 54 * MIB <= told.disk_used <= 64 * MIB
    instance.execute(OPEN.format(mb=20))
    failed = here.server.phase(instance.id, Phase.FAILED)
    assert failed.failure is not None
    assert failed.failure.code == "DRIVER_OUT_OF_DISK"
    assert "may use 64 MiB (node_disk_gb)" in failed.failure.message
    until(lambda: not instance.node.exists(), "the room given back")
    kept = here.data_dir / "logs" / assignment().cluster_id / f"{instance.id}-1"
    assert (kept / "kept.log").read_text() == "what it said"


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
    monkeypatch.setenv("LOGNAME", "somebody")
    monkeypatch.setattr(cgroups, "probe", lambda: "watched: nothing can be written")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
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
