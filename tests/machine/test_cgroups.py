"""Control groups on a made-up /proc and /sys, and on the real ones where they can be written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from brickyard.machine import cgroups
from brickyard.machine.cgroups import Group, Limits

LIMITS = Limits(memory_mb=100, cores=2)


def machine(root: Path, *, mounts: str, own: str) -> None:
    (root / "proc" / "self").mkdir(parents=True)
    (root / "proc" / "self" / "mountinfo").write_text(mounts)
    (root / "proc" / "self" / "cgroup").write_text(own)


def v2(root: Path, *groups: tuple[str, str, str]) -> Path:
    """A version 2 tree; each group: path, what its subtree may use, its own processes."""
    top = root / "sys" / "fs" / "cgroup"
    for path, control, pids in groups:
        (top / path).mkdir(parents=True, exist_ok=True)
        (top / path / "cgroup.subtree_control").write_text(control)
        (top / path / "cgroup.procs").write_text(pids)
    return top


def test_version_2_uses_the_nearest_group_without_processes(tmp_path: Path) -> None:
    machine(tmp_path, mounts="30 20 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", own="0::/app/me\n")
    top = v2(tmp_path, ("", "", ""), ("app", "memory pids", ""), ("app/me", "", "123\n"))
    group = cgroups.create("i-1", LIMITS, root=tmp_path)
    assert group.directories == (str(top / "app" / "brickyard-i-1"),)
    assert (top / "app" / "brickyard-i-1" / "memory.max").read_text() == str(100 << 20)
    assert (top / "app" / "brickyard-i-1" / "pids.max").read_text() == "4608"
    assert (top / "app" / "brickyard-i-1" / "cpu.weight").read_text() == "200"
    assert group.text == "cgroup"


def test_version_2_turns_limits_on_where_that_is_allowed(tmp_path: Path) -> None:
    machine(tmp_path, mounts="30 20 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", own="0::/\n")
    top = v2(tmp_path, ("", "cpu", "1\n"))
    assert cgroups.create("i-1", LIMITS, root=tmp_path).directories == (str(top / "brickyard-i-1"),)
    assert (top / "cgroup.subtree_control").read_text() == "+memory +pids"


def test_version_2_in_a_container_sees_a_part_of_the_tree(tmp_path: Path) -> None:
    machine(tmp_path, mounts="30 20 0:1 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", own="0::/docker/x/me\n")
    top = v2(tmp_path, ("", "memory pids", ""), ("me", "", "1\n"))
    assert cgroups.create("i-1", LIMITS, root=tmp_path).directories == (str(top / "brickyard-i-1"),)


def test_version_1_has_a_directory_for_each_controller(tmp_path: Path) -> None:
    mounts = "".join(
        f"3{n} 20 0:{n} / /sys/fs/cgroup/{c} rw - cgroup cgroup rw,{c}\n" for n, c in enumerate(("memory", "pids", "cpu"))
    )
    machine(tmp_path, mounts=mounts, own="3:memory:/mine\n2:pids:/\n1:cpu:/\n0::/\n")
    top = tmp_path / "sys" / "fs" / "cgroup"
    for path in ("memory/mine", "pids", "cpu"):
        (top / path).mkdir(parents=True)
    group = cgroups.create("i-1", LIMITS, root=tmp_path)
    assert group.directories == tuple(str(top / path / "brickyard-i-1") for path in ("memory/mine", "pids", "cpu"))
    assert (top / "memory" / "mine" / "brickyard-i-1" / "memory.limit_in_bytes").read_text() == str(100 << 20)


def test_groups_that_were_left_are_removed_by_the_next_that_is_made(tmp_path: Path) -> None:
    machine(tmp_path, mounts="30 20 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", own="0::/\n")
    top = v2(tmp_path, ("", "cpu", "1\n"))
    left, young, used, other = (top / name for name in ("brickyard-i-2", "brickyard-i-3", "brickyard-i-4", "system"))
    for group in (left, young, used, other):
        group.mkdir()
    (used / "process").touch()  # as the kernel does, the file system refuses to remove what is in use
    for group in (left, used, other):
        os.utime(group, (1, 1))
    assert cgroups.create("i-1", LIMITS, root=tmp_path).directories
    assert [group.exists() for group in (left, young, used, other)] == [False, True, True, True]


@pytest.mark.parametrize("mounts", ["", "30 20 0:1 / /sys/fs/cgroup ro - cgroup2 cgroup2 ro\n"])
def test_no_group_says_why(tmp_path: Path, mounts: str) -> None:
    machine(tmp_path, mounts=mounts, own="0::/\n")
    group = cgroups.create("i-1", LIMITS, root=tmp_path)
    assert not group.directories
    assert group.text.startswith("watched: ")
    assert group.remove()


def test_an_oom_kill_is_seen_in_both_versions(tmp_path: Path) -> None:
    group = Group((str(tmp_path),))
    assert not group.out_of_memory()
    (tmp_path / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    assert group.out_of_memory()
    (tmp_path / "memory.oom_control").write_text("oom_kill 0\n")
    assert not group.out_of_memory()
    (tmp_path / "memory.events").write_text("low 0\noom 1\noom_kill 1\n")
    assert group.out_of_memory() == "limit"
    (tmp_path / "memory.events").write_text("low 0\noom 0\noom_kill 1\n")
    assert group.out_of_memory() == "machine"


def test_a_real_group_is_made_and_removed() -> None:
    group = cgroups.create(f"i-test-{os.getpid()}", LIMITS)
    if not group.directories:
        pytest.skip(group.text)
    assert all(Path(directory).is_dir() for directory in group.directories)
    assert group.processes() == set()
    assert group.remove()
    assert not any(Path(directory).exists() for directory in group.directories)
    assert group.remove()
