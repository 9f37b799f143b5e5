"""What goes wrong on a person's machine: one line that says what and what to do, and an exit code that is not 0."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import runpy
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from databricks.sdk.service.compute import State

from brickyard.domain.runtimes import is_photon
from brickyard.runtime import NODE_CODE
from brickyard.runtime.sparkclasses import classes_path
from tests.support.command import COMMAND, Cli, one_line
from tests.support.databases import both_databases
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S, until
from tests.support.postgres import Postgres

ROOT = Path(__file__).parents[2]


def test_a_second_server_on_the_same_data_is_refused(cli: Cli) -> None:
    assert cli.run("up", "--detach").returncode == 0
    running = cli.workspace.running()
    assert running is not None
    said = one_line(cli.run("up"))
    assert str(running.pid) in said
    assert running.url in said


@both_databases
def test_a_second_server_on_the_same_database_is_refused(cli: Cli, tmp_path: Path, store_url: str, golden: Golden) -> None:
    """Its data directory is another one, so nothing but the database can tell."""
    assert cli.run("up", "--detach", "--database-url", store_url).returncode == 0
    running = cli.workspace.running()
    assert running is not None
    made = cli.client().clusters.create(spark_version="17.3.x-scala2.13", node_type_id="i3.xlarge", num_workers=1).result()
    for detach in ([], ["--detach"]):
        said = one_line(cli.run("up", "--database-url", store_url, *detach, BRICKYARD_DATA_DIR=str(tmp_path / "other")))
        assert f"(process {running.pid} on " in said
        golden(said)
    assert cli.client().clusters.get(str(made.cluster_id)).state is State.RUNNING


@pytest.mark.extended  # 45 s: each step of the end waits for as long as a database may take to answer
def test_a_database_that_hangs_does_not_keep_the_server_from_stopping(cli: Cli, postgres: Postgres) -> None:
    assert cli.run("up", "--detach", "--database-url", postgres.new_database()).returncode == 0
    cli.client().clusters.create(spark_version="17.3.x-scala2.13", node_type_id="i3.xlarge", num_workers=1).result()
    with postgres.hung():
        stopped = cli.run("down")  # which gives a server a minute
        assert stopped.returncode == 0, stopped.stderr
        assert cli.workspace.running() is None
    assert "stop_not_recorded" in cli.workspace.log_file.read_text()


def test_a_server_whose_connections_were_ended_joins_again(cli: Cli, postgres: Postgres) -> None:
    url = postgres.new_database()
    assert cli.run("up", "--detach", "--database-url", url).returncode == 0
    made = cli.client().clusters.create(spark_version="17.3.x-scala2.13", node_type_id="i3.xlarge", num_workers=1).result()
    with psycopg.connect(url, autocommit=True) as connection:
        sessions = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        connection.execute(f"SELECT pg_terminate_backend(pid) {sessions}")
    until(lambda: cli.workspace.log_file.read_text().count("joined") == 2, "the server to be a member again")
    assert cli.client().clusters.get(str(made.cluster_id)).state is State.RUNNING


def test_a_port_in_use_is_one_line(cli: Cli) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for detach in ([], ["--detach"]):
            assert f"127.0.0.1:{port}" in one_line(cli.run("up", "--port", port, *detach))


@pytest.mark.parametrize(
    "arguments",
    [
        ["--isolation", "maybe"],
        ["--provider", "k8s"],
        ["--database-url", "mysql://me:pass@db/x"],
        ["--default-runtime", "17.3"],
        ["--cache-dir", "/etc/passwd"],
        ["--task-files-dir", "/nonexistent"],
        ["--node-prices", "/nonexistent"],
        ["--port", "70000"],
        ["--config", "/nonexistent.toml"],
        ["--host", "192.0.2.1"],
        ["--host", "no such host"],
        ["--orphan-grace-s", "0"],
        ["--data-dir", "/proc/nothing"],
    ],
    ids=" ".join,
)
def test_a_bad_setting_is_one_line(cli: Cli, arguments: list[str], golden: Golden) -> None:
    option, value = arguments
    said = one_line(cli.run("up", *arguments))
    assert value in said or option in said
    golden(said)


def test_a_database_that_does_not_answer_is_one_line(cli: Cli) -> None:
    assert "postgresql://nobody@127.0.0.1:1/none" in one_line(
        cli.run("up", "--database-url", "postgresql://nobody@127.0.0.1:1/none", BRICKYARD_DATABASE_WAIT_S="1")
    )


@pytest.mark.parametrize(
    ("text", "field"),
    [("port = ", "TOML"), ("prot = 1", "prot"), ('port = "many"', "port"), ("isolation = 1", "isolation")],
)
def test_a_bad_configuration_file_is_one_line(cli: Cli, tmp_path: Path, text: str, field: str, golden: Golden) -> None:
    file = tmp_path / "brickyard.toml"
    file.write_text(text)
    golden(one_line(cli.run("up", "--config", str(file), BRICKYARD_PORT="", BRICKYARD_ISOLATION="")), field)


def test_a_data_directory_that_is_a_file_or_cannot_be_written(cli: Cli, tmp_path: Path, golden: Golden) -> None:
    file = tmp_path / "file"
    file.touch()
    for place in (file, file / "below", Path("/sys/brickyard")):
        for detach in ([], ["--detach"]):
            said = one_line(cli.run("up", *detach, BRICKYARD_DATA_DIR=str(place)))
            assert str(place) in said
            assert "--data-dir" in said
            if place != Path("/sys/brickyard"):  # why depends on the machine
                golden(said)


def test_a_full_disk_is_one_line(cli: Cli, tmp_path: Path, golden: Golden) -> None:
    """A file system of 64 KiB, seen by the command only."""
    unshare = ["unshare", "--user", "--map-root-user", "--mount"]
    if not shutil.which("unshare") or subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("a small file system needs unprivileged namespaces, and this machine has none")
    small = tmp_path / "small"
    small.mkdir()
    script = 'mount -t tmpfs -o size=64k tmpfs "$0" && exec "$@"'
    for detach in ([], ["--detach"]):
        done = subprocess.run(
            [*unshare, "sh", "-c", script, str(small), *COMMAND, "up", *detach],
            env={**cli.environment, "BRICKYARD_DATA_DIR": str(small / "data")},
            capture_output=True, text=True, check=False, timeout=PATIENCE_S,
        )  # fmt: skip
        golden(one_line(done))


def test_a_runtime_that_cannot_be_had_says_why_and_leaves_nothing_that_counts(cli: Cli, golden: Golden) -> None:
    with socket.socket() as bound:  # nobody listens there
        bound.bind(("127.0.0.1", 0))
        index = f"http://127.0.0.1:{bound.getsockname()[1]}/simple"
        done = cli.run("runtime", "install", UV_DEFAULT_INDEX=index, UV_HTTP_RETRIES="0")
    assert done.returncode == 1
    first, *why, last = done.stderr.splitlines()
    assert "Connection refused" in "".join(why), done.stderr
    golden(first, "17.3.x-scala2.13")
    golden(last)
    assert "installed" not in cli.run("runtime", "list").stdout


def test_a_runtime_without_spark_connect_says_so(cli: Cli, tmp_path: Path, golden: Golden) -> None:
    home = tmp_path / "cache" / "runtimes" / "spark-3.5"
    home.mkdir(parents=True)
    paths = dict.fromkeys(("python", "python_base", "spark_home", "java_home", "java_real"), "/none")
    versions = {"spark_version": "3.5.9", "scala_version": "2.12", "python_version": "3.11.7", "java_version": "17"}
    manifest = {"environment": "spark-3.5", "home": str(home), "connect_missing": "the network is down", **paths, **versions}
    (home / "runtime.json").write_text(json.dumps(manifest))
    classes = Path(classes_path(str(home), NODE_CODE))
    classes.parent.mkdir()
    classes.touch()  # what an installation compiles
    listed = cli.run("runtime", "list", "--cache-dir", str(tmp_path / "cache")).stdout.splitlines()
    without = "14.3.x-scala2.12, 15.4.x-scala2.12, 16.4.x-scala2.12"
    *table, no_connect, no_packages, no_delta, untrained, remedy = listed
    golden(no_connect, without)
    golden(no_packages, without)
    golden(no_delta, "Delta", "spark-3.5")
    golden(untrained, without)
    golden(remedy, "`brickyard runtime train KEY`")
    there = [line.split()[0] for line in table if line.split()[1] == "installed"]
    assert [key for key in there if not is_photon(key)] == without.split(", ") and len(there) == 6
    assert max(map(len, table)) <= 80
    installed = cli.run(
        "runtime", "install", "16.4.x-scala2.12", "--no-layers", "--no-packages", "--cache-dir", str(tmp_path / "cache")
    )
    golden.line(installed.stdout, manifest["connect_missing"], "brickyard runtime remove 16.4")


def test_an_unknown_runtime_is_one_line(cli: Cli, golden: Golden) -> None:
    golden(one_line(cli.run("runtime", "install", "17.3")), "17.3.x-scala2.13")
    golden(one_line(cli.run("runtime", "install", "99.9")))


def test_commands_without_a_server_say_how_to_start_one(cli: Cli, golden: Golden) -> None:
    said = one_line(cli.run("configure"))
    golden(said, str(cli.data), "BRICKYARD_DATA_DIR", "`brickyard up`")
    status = cli.run("status")
    assert (status.returncode, status.stderr) == (3, "")
    golden.line(status.stdout, "`brickyard up`")


def test_a_checkout_without_a_suitable_python_is_one_line(tmp_path: Path, golden: Golden) -> None:
    """`./dev` of a fresh checkout, where every Python is too old: this one says so of itself."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "env"):
        (tools / name).symlink_to(str(shutil.which(name)))
    for name in ("python3", "python3.11", "python"):
        old = tools / name
        old.write_text(f"#!{shutil.which('bash')}\nexit 1\n")
        old.chmod(0o755)
    shutil.copy(ROOT / "dev", tmp_path / "dev")
    done = subprocess.run(
        [str(tmp_path / "dev"), "version"],
        env={"PATH": str(tools)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    golden(done.stderr, "3.11")


@pytest.mark.parametrize("arguments", [["--help"], ["down"], ["up"]])
@pytest.mark.parametrize("module", ["click", "uvicorn"])
def test_ctrl_c_while_python_imports_is_one_line(cli: Cli, tmp_path: Path, module: str, arguments: list[str]) -> None:
    """A module that takes its time, and hides whatever interrupts it."""
    if module == "uvicorn" and arguments != ["up"]:
        pytest.skip("it is not imported")
    slow = tmp_path / "slow"
    slow.mkdir()
    (slow / f"{module}.py").write_text(
        "import time\nprint('importing', flush=True)\nfor _ in range(600):\n    try:\n        time.sleep(1)\n"
        "    except BaseException:\n        raise ImportError('hidden')\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "brickyard", *arguments], env={**cli.environment, "PYTHONPATH": str(slow)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # A test run in the background ignores Ctrl-C, and so would what it starts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - no other thread runs here
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "importing\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, said) == (130, "brickyard: interrupted.\n")


@pytest.mark.parametrize("ignored", [False, True])
def test_ctrl_c_before_the_first_line_of_ours_shows_no_traceback(cli: Cli, tmp_path: Path, ignored: bool) -> None:
    """Of the command that ./dev makes: Python itself would show where its own start was. Who ignores Ctrl-C goes on doing so."""
    entry, slow = tmp_path / "brickyard", tmp_path / "slow"
    given = runpy.run_path(str(ROOT / "requirements" / "environment.py"))["ENTRY"]
    entry.write_text(given.format(python=shlex.quote(sys.executable)))
    entry.chmod(0o755)
    slow.mkdir()
    (slow / "sitecustomize.py").write_text("import sys\nprint('starting', flush=True)\nsys.stdin.readline()\n")
    (slow / "click.py").write_text("print('importing', flush=True)\nimport sys\nsys.stdin.readline()\nsys.exit(7)\n")
    process = subprocess.Popen(
        [entry, "up"], env={**cli.environment, "PYTHONPATH": f"{slow}:{ROOT / 'src'}"},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN if ignored else signal.SIG_DFL),  # noqa: PLW1509 - as above
    )  # fmt: skip
    assert process.stdout is not None and process.stdin is not None
    for where in ("starting\n", "importing\n"):
        assert process.stdout.readline() == where
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write("go on\n")
            process.stdin.flush()
    _, said = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, said) == ((7, "") if ignored else (130, "brickyard: interrupted.\n"))


def test_too_few_files_are_refused_and_few_are_warned_of(cli: Cli, golden: Golden) -> None:
    limited = ["sh", "-c", 'ulimit -n "$0" && exec "$@"']
    command = [*COMMAND, "up", "--detach"]

    def up(number: str) -> subprocess.CompletedProcess[str]:
        environ = {**cli.environment}
        return subprocess.run(
            [*limited, number, *command], env=environ, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )

    golden(one_line(up("256")))
    assert up("2048").returncode == 0
    golden.line(cli.workspace.log_file.read_text(), "Warning: ", "2048")
    running = cli.workspace.running()
    assert running is not None
    assert resource.prlimit(running.pid, resource.RLIMIT_NOFILE) == (2048, 2048), "the soft limit is the hard one"


def test_an_old_python_is_told_before_anything_else_fails(golden: Golden) -> None:
    """Its own words, without its own Python: the version is all that is asked."""
    program = "import sys; sys.version_info = (3, 10, 4); from brickyard.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env={**os.environ})
    golden(one_line(done))
