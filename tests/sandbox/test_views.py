"""What a view becomes: pure lists of mounts, and what the probe says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from brickyard.sandbox import launcher
from brickyard.sandbox.launcher import Isolation
from brickyard.sandbox.view import View, cells, device_nodes, hosts_text, mounts
from tests.agent.world import SOURCE
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S

TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108 - names of mounts


@pytest.fixture
def places(tmp_path: Path) -> Path:
    for name in ("data/instances/i-1/node/tmp", "data/dbfs", "data/volumes", "cache/runtime", "base/bin"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def view(places: Path, **changes: object) -> View:
    values = {
        "read_only": (str(places / "cache" / "runtime"), "/usr/share", str(places / "base")),
        "node_dir": str(places / "data" / "instances" / "i-1" / "node"),
        "trees": ((str(places / "data" / "dbfs"), "/dbfs"), (str(places / "data" / "volumes"), "/Volumes")),
        "hidden": (str(places / "data"),),
    }
    return View(**{**values, **changes})  # type: ignore[arg-type]


def test_outer_mounts_come_first_and_nothing_twice(places: Path) -> None:
    found = mounts(view(places))
    targets = [target for _, _, target, _ in found]
    assert len(targets) == len(set(targets))
    assert [target.count("/") for target in targets] == sorted(target.count("/") for target in targets)
    assert ("ro", "/usr", "/usr", "") in found
    assert "/usr/share" not in targets, "it is in /usr already"
    writable = {target for kind, _, target, _ in found if kind == "rw"}
    assert writable == {str(places / "data" / "instances" / "i-1" / "node"), *TEMPORARY, "/dbfs", "/Volumes"}


def test_a_cluster_has_a_directory_of_its_own_and_a_node_without_one_an_empty_place_for_it(places: Path) -> None:
    own = places / "data" / "clusters" / "a"
    own.mkdir(parents=True)
    assert ("rw", str(own), "/cluster", "") in mounts(view(places, cluster_dir=str(own)))
    assert ("rw", str(own), "/workspace", "") in mounts(view(places, workspace_dir=str(own)))
    kinds = {target: kind for kind, _, target, _ in mounts(view(places))}
    assert kinds["/cluster"] == kinds["/workspace"] == "tmpfs"


def test_what_scripts_add_is_the_nodes_own_and_kernels_in_cells_only_read_it(places: Path) -> None:
    jars = places / "data" / "instances" / "i-1" / "node" / "databricks" / "jars"
    jars.mkdir(parents=True)
    (places / "bin").mkdir()
    shown = view(places, databricks=((str(jars), "/databricks/jars"),), programs=str(places / "bin"))
    found = mounts(shown)
    assert ("rw", str(jars), "/databricks/jars", "") in found
    assert ("ro", str(places / "bin"), "/databricks/bin", "") in found
    assert ("keep", "", "/databricks/jars", "ro") in cells(shown)["kernel"]  # type: ignore[operator] # it is a list


def test_secrets_below_something_shown_are_hidden(places: Path) -> None:
    found = mounts(view(places, read_only=(str(places),)))
    kinds = {target: kind for kind, _, target, _ in found}
    assert kinds[str(places)] == "ro"
    assert kinds[str(places / "data")] == "tmpfs"
    assert kinds[str(places / "data" / "instances" / "i-1" / "node")] == "rw"


def test_what_is_shown_below_something_hidden_stays_shown(places: Path) -> None:
    inner = places / "data" / "runtime"
    inner.mkdir()
    found = mounts(view(places, read_only=(str(places), str(inner))))
    assert ("ro", str(inner), str(inner), "") in found


def test_aliases_of_an_interpreter_are_shown_too(places: Path) -> None:
    (places / "base" / "bin" / "python3").write_text("")
    (places / "alias").symlink_to(places / "base")
    venv = places / "cache" / "runtime" / "bin"
    venv.mkdir()
    (venv / "python").symlink_to(places / "alias" / "bin" / "python3")
    found = mounts(view(places, interpreter=str(venv / "python")))
    shown = {target: source for kind, source, target, _ in found if kind == "ro"}
    assert shown[str(places / "alias")] == shown[str(places / "base")] == str(places / "base")


def test_links_to_an_interpreter_are_shown_without_what_lies_beside_them(places: Path) -> None:
    (places / "base" / "bin" / "python3.11").write_text("")
    (places / "base" / "bin" / "python3").symlink_to("python3.11")
    bin_dir = places / "home" / ".local" / "bin"
    bin_dir.mkdir(parents=True)
    (bin_dir / "python3").symlink_to(places / "base" / "bin" / "python3")
    venv = places / "cache" / "runtime" / "bin"
    venv.mkdir()
    (venv / "python").symlink_to("python3")
    (venv / "python3").symlink_to(bin_dir / "python3")
    found = mounts(view(places, interpreter=str(venv / "python")))
    assert ("link", str(places / "base" / "bin" / "python3"), str(bin_dir / "python3"), "") in found
    assert [target for kind, _, target, _ in found if "home" in target or (kind == "link" and "base" in target)] == [
        str(bin_dir / "python3")
    ]


@pytest.mark.skipif(launcher.probe().kind == "none", reason="no isolation here")
def test_an_interpreter_that_is_reached_through_a_link_elsewhere_runs_inside(tmp_path: Path) -> None:
    bin_dir = tmp_path / "home" / ".local" / "bin"
    bin_dir.mkdir(parents=True)
    (bin_dir / "python3").symlink_to(os.path.realpath(sys.executable))
    (bin_dir / "secret").write_text("secret")
    subprocess.run([bin_dir / "python3", "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    shown = View(read_only=(str(tmp_path / "venv"), sys.base_prefix), interpreter=python)
    code = f"import json, os, sys; print(sys.prefix, os.listdir({str(bin_dir)!r}))"
    command = launcher.choose("auto", launcher.probe()).command([python, "-c", code], view=shown)
    found = subprocess.run(command, env={}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True, text=True)
    assert found.stdout == f"{tmp_path / 'venv'} ['python3']\n"


def test_devices_of_gpus_are_shown_to_those_who_have_them(places: Path, tmp_path: Path) -> None:
    (tmp_path / "nvidia-caps").mkdir()
    for name in ("nvidia0", "nvidia1", "nvidia10", "nvidiactl", "nvidia-uvm", "nvidia-caps/cap1"):
        (tmp_path / name).touch()
    found = [Path(each).relative_to(tmp_path).as_posix() for each in device_nodes((1,), tmp_path)]
    assert found == ["nvidia1", "nvidiactl", "nvidia-uvm", "nvidia-caps/cap1"]
    assert device_nodes((), tmp_path) == []
    assert not [each for each in mounts(view(places)) if each[0] == "device"]


def test_the_environment_is_an_allow_list(places: Path) -> None:
    source = {"TZ": "UTC", "AWS_SECRET_ACCESS_KEY": "x", "BRICKYARD_ADMIN_TOKEN": "x", "PATH": "/evil", "LANG": "de_DE.UTF-8"}
    env = launcher.environment("i-1", node_dir=places, tmp=TEMPORARY[0], source=source)
    assert env["LANG"] == "de_DE.UTF-8"
    assert env["TZ"] == "UTC"
    assert "x" not in env.values()
    assert "/evil" not in env["PATH"]


def test_the_choice(golden: Golden) -> None:
    assert launcher.choose("auto", Isolation("namespaces")).kind == "namespaces"
    assert launcher.choose("auto", Isolation("bubblewrap")).kind == "bubblewrap"
    assert launcher.choose("auto", Isolation("none", "why")).kind == "none"
    assert launcher.choose("off", Isolation("namespaces")).kind == "none"
    golden(launcher.probe(mode="off").text)


def test_a_probe_that_fails_says_why_and_what_to_do(tmp_path: Path) -> None:
    broken = tmp_path / "python"
    why = "cannot make namespaces: Operation not permitted"
    broken.write_text(f"#!/bin/sh\necho 'sandbox: {why} (EPERM)' >&2\nexit 71\n")
    broken.chmod(0o755)
    isolation = launcher.probe(python=str(broken))
    assert isolation.kind == "none"
    assert f"namespaces: {why}" in isolation.text
    assert isolation.reason.endswith(".") or isolation.reason.endswith(").")
    assert launcher.probe(python=str(tmp_path / "missing")).kind == "none"


def test_the_probe_of_the_command_line() -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "brickyard.agent", "--probe"],
        env={**os.environ, "PYTHONPATH": str(SOURCE)}, capture_output=True, check=True,
    )  # fmt: skip
    found = json.loads(answer.stdout)
    assert found["isolation"] == launcher.probe().kind
    wrong = subprocess.run(
        [sys.executable, "-m", "brickyard.agent"], env={**os.environ, "PYTHONPATH": str(SOURCE)}, capture_output=True, check=False
    )
    assert wrong.returncode == 2
    assert b"usage" in wrong.stderr


def test_starting_many_at_once_never_meets_a_half_built_root() -> None:
    isolation = launcher.probe()
    if isolation.kind == "none":
        pytest.skip(isolation.text)
    walls = launcher.choose("auto", isolation)
    command = walls.command(["/bin/true"], view=View())
    running = [subprocess.Popen(command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env={}) for _ in range(40)]
    for process in running:
        _, errors = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, errors


@pytest.mark.parametrize(
    ("machine", "others"),
    [
        ("", []),
        ("127.0.0.1 localhost vm\n\n# a comment\n", ["127.0.0.1 vm"]),
        ("10.0.0.7 localhost elsewhere # wrong\n::1 localhost lo6\n", ["10.0.0.7 elsewhere", "::1 localhost lo6"]),
        ("fe80::7 localhost\n10.0.0.8\n", []),
    ],
)  # fmt: skip
def test_localhost_is_the_node_whatever_the_machine_says(machine: str, others: list[str]) -> None:
    lines = hosts_text(machine, host="10.77.0.3", hostname="i-1").splitlines()
    assert lines == ["127.0.0.1 localhost", *others, "10.77.0.3 i-1"]
