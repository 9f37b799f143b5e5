"""Hostile code inside a node: it tries to read, write, signal and mount what is not its own."""

from __future__ import annotations

import json
import os
import platform
import resource
import secrets
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from brickyard.agent.libraries import environment
from brickyard.domain.node import Phase
from brickyard.machine import cgroups
from brickyard.sandbox import launcher, ulimits
from brickyard.sandbox.view import View, write_unreadable
from tests.agent.world import Instance, World, assignment, living, world
from tests.support.patience import PATIENCE_S, until

pytestmark = pytest.mark.skipif(launcher.probe().kind == "none", reason=f"no isolation here: {launcher.probe().reason}")


KEYCTL = {"x86_64": 250, "aarch64": 219}.get(platform.machine(), 250)


class Prison:
    """A node with walls, and around it what it must not reach."""

    def __init__(self, here: World, home: Path) -> None:
        self.here = here
        self.secrets = [here.data_dir / name for name in ("workspace.key", "admin-token", "brickyard.db", "server.json")]
        for path in self.secrets[:3]:
            path.write_text("secret")
        self.ssh_key = home / ".ssh" / "id_ed25519"
        self.ssh_key.parent.mkdir(parents=True)
        self.ssh_key.write_text("secret")
        neighbour = here.data_dir / "instances" / "i-2" / "node" / "work"
        neighbour.mkdir(parents=True)
        (neighbour / "data").write_text("secret")
        (here.data_dir / "dbfs" / "shared").write_text("everybody's")
        other = here.data_dir / "clusters" / "0909-000000-othersss"
        other.mkdir(parents=True)
        (other / "rows").write_text("secret")
        self.instance: Instance = here.instance().start()
        self.status = here.ready(self.instance)
        self.secrets += [
            neighbour / "data",
            other / "rows",
            self.instance.directory / "agent.json",
            self.instance.directory / "agent.log",
            self.ssh_key,
        ]

    def run(self, code: str) -> str:
        return self.instance.execute(textwrap.dedent(code)).strip()

    def errors(self, code: str, **values: object) -> list[str]:
        """Run each line of `code` by itself inside; the names of the exceptions, "done" where there was none."""
        return list(json.loads(self.run(
            f"""
            import ctypes, json, os, signal, socket, subprocess, sys
            values = {json.dumps(values)!r}
            globals().update(json.loads(values))
            libc = ctypes.CDLL(None, use_errno=True)
            def check(result):
                if result != 0:
                    raise OSError(ctypes.get_errno(), "failed")
            def put(path, data):
                os.write(os.open(path, os.O_WRONLY), data)  # unbuffered: the kernel's answer, not a buffer's
            found = []
            for line in {json.dumps([line.strip() for line in code.strip().splitlines()])}:
                try:
                    exec(line)
                    found.append("done")
                except BaseException as error:
                    found.append(type(error).__name__)
            print(json.dumps(found))
            """
        )))  # fmt: skip


@pytest.fixture(scope="module")
def prison(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prison]:
    with world(tmp_path_factory.mktemp("world")) as here:
        yield Prison(here, tmp_path_factory.mktemp("home"))


def test_the_walls_are_what_the_status_says(prison: Prison) -> None:
    assert prison.status.isolation == launcher.probe().kind
    assert prison.run("import os; print(os.getpid() < 20, os.getuid() != 0)") == "True True"


def test_secrets_do_not_exist_inside(prison: Prison) -> None:
    paths = [str(path) for path in prison.secrets]
    assert all(Path(path).exists() for path in paths)
    visible = prison.run(f"import os; print([path for path in {paths!r} if os.path.lexists(path)])")
    assert visible == "[]"


def test_nothing_else_of_the_machine_is_there(prison: Prison) -> None:
    top = set(prison.run("import os; print(' '.join(os.listdir('/')))").split())
    allowed = {
        "bin",
        "sbin",
        "lib",
        "lib32",
        "lib64",
        "libx32",
        "usr",
        "etc",
        "proc",
        "sys",
        "dev",
        "run",
        "tmp",
        "var",
        "dbfs",
        "Volumes",
        "Workspace",
        "workspace",
        "cluster",
        "databricks",
        "nix",
    }
    shown = {Path(path).parts[1] for path in (*_shown(prison), str(prison.instance.node))}
    assert top <= allowed | shown
    etc = set(prison.run("import os; print(' '.join(os.listdir('/etc')))").split())
    assert not etc & {"shadow", "gshadow", "sudoers", "ssh", "machine-id", "krb5.keytab"}
    assert prison.run("print(open('/etc/passwd').read())").count("\n") < 3


def _shown(prison: Prison) -> list[str]:
    packages = environment.index_paths(os.environ)  # a package index on this machine's disk, where pip is configured with one
    return [sys.prefix, sys.base_prefix, str(prison.here.cache_dir), prison.instance.config.node_code_dir, *packages]


def test_its_environment_holds_no_token(prison: Prison) -> None:
    environ = prison.run("import os; print(dict(os.environ)); print(open('/proc/1/cmdline').read())")
    assert "secret" not in environ
    assert "BRICKYARD_INSTANCE_ID" in environ
    assert all(name not in environ for name in ("PYTHONPATH", "SSH_", "TOKEN", "BRICKYARD_ADMIN"))


def test_other_processes_cannot_be_seen_or_signalled(prison: Prison) -> None:
    outside = [os.getpid(), prison.instance.pid, os.getppid()]
    seen = prison.run("import os; print(sorted(int(name) for name in os.listdir('/proc') if name.isdigit()))")
    assert len(json.loads(seen)) < 10
    for pid in outside:
        if pid > 50:  # a number that cannot be one of its own
            assert prison.errors("os.kill(pid, 0)\nopen(f'/proc/{pid}/environ')", pid=pid) == [
                "ProcessLookupError",
                "FileNotFoundError",
            ]
    assert living(prison.instance.pid)


def test_the_launcher_inside_can_neither_be_killed_nor_looked_into(prison: Prison) -> None:
    answers = prison.errors(
        """
        open('/proc/1/environ').read()
        open('/proc/1/mem', 'rb').read(1)
        os.readlink('/proc/1/root')
        check(libc.ptrace(16, 1, 0, 0))
        """
    )
    if prison.status.isolation == "namespaces":  # bubblewrap's own may be looked into: it knows nothing and can do nothing
        assert answers == ["PermissionError"] * 4
    assert "secret" not in prison.run("print(open('/proc/1/environ').read())" if answers[0] == "done" else "print()")
    assert prison.run("import os; print(os.path.exists('/proc/1/root/etc/shadow'))") == "False"
    prison.run("import os; os.kill(1, 9); os.kill(1, 15); os.kill(1, 2)")
    assert prison.run("print('still here')") == "still here"


def test_the_runtime_and_the_system_cannot_be_written(prison: Prison) -> None:
    places = [
        *_shown(prison)[:2],
        str(prison.here.cache_dir / "runtimes" / "fake"),
        prison.instance.config.node_code_dir,
        "/usr",
        "/usr/bin",
        "/",
    ]
    for place in places:
        assert prison.errors("open(place + '/planted', 'w')", place=place)[0] in ("OSError", "PermissionError"), place
        assert not Path(place, "planted").exists()
    marker = str(prison.here.cache_dir / "runtimes" / "fake" / "marker")
    assert prison.errors("os.unlink(path)\nos.chmod(path, 0o777)\nopen(path, 'a')", path=marker) == ["OSError"] * 3


def test_the_kernel_cannot_be_written(prison: Prison) -> None:
    assert set(prison.errors(
        """
        open('/proc/sys/kernel/core_pattern', 'w')
        open('/proc/sys/vm/drop_caches', 'w')
        open('/proc/sys/user/max_user_namespaces', 'w')
        open('/proc/sysrq-trigger', 'w')
        open('/proc/kcore', 'rb').read(1)
        open('/sys/kernel/uevent_helper', 'w')
        put('/proc/1/oom_score_adj', b'-1000')
        put('/proc/self/oom_score_adj', b'-1000')
        put('/proc/self/oom_score_adj', b'0')
        """
    )) <= {"OSError", "PermissionError", "FileNotFoundError"}  # fmt: skip
    assert prison.run("print(open('/proc/self/oom_score_adj').read())") == "500"


def test_a_node_has_its_share_of_what_the_kernel_counts(prison: Prison) -> None:
    if prison.status.isolation != "namespaces":
        pytest.skip("only namespaces of our own have limits of their own")
    found = prison.run(
        """
        import resource
        print(open('/proc/sys/user/max_inotify_instances').read().strip(), *resource.getrlimit(resource.RLIMIT_NPROC))
        """
    )
    instances, soft, hard = map(int, found.split())
    assert instances == ulimits.share(int(Path("/proc/sys/fs/inotify/max_user_instances").read_text()))
    most = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    if ulimits.version() >= ulimits.COUNTED_SINCE and (most == resource.RLIM_INFINITY or most > 4352):
        assert soft == hard == 4096 + 256


def test_files_can_neither_be_made_nor_changed_to_run_as_their_owner(prison: Prison) -> None:
    assert set(prison.errors(
        """
        os.chmod('/dbfs/shared', 0o4755)
        os.chmod('/dbfs/shared', 0o2755)
        os.fchmod(os.open('/dbfs/shared', os.O_RDONLY), 0o4755)
        os.chmod('shared', 0o4755, dir_fd=os.open('/dbfs', os.O_RDONLY))
        os.open('/dbfs/made', os.O_CREAT | os.O_WRONLY, 0o4755)
        os.mknod('/dbfs/made', 0o104755)
        os.mkdir('/dbfs/made', 0o2755)
        check(libc.syscall(437, -100, b'/dbfs/made', bytes(24), 24))
        """
    )) <= {"PermissionError", "OSError"}  # fmt: skip
    assert not (prison.here.data_dir / "dbfs" / "made").exists()
    assert not (prison.here.data_dir / "dbfs" / "shared").stat().st_mode & 0o6000
    assert prison.errors("os.chmod('/dbfs/shared', 0o700)\nopen('/dbfs/fine', 'w')\nos.mkdir('/dbfs/dir')") == ["done"] * 3


def test_parts_of_the_kernel_that_nobody_here_needs_are_out_of_reach(prison: Prison) -> None:
    assert set(prison.errors(
        """
        check(libc.syscall(425, 8, None))
        check(libc.syscall(435, None, 0))
        check(libc.ptrace(0, 0, 0, 0))
        check(libc.process_vm_readv(os.getppid(), None, 0, None, 0, 0))
        check(libc.personality(0x40000))
        check(libc.unshare(0x10000000))
        check(libc.setns(0, 0))
        check(libc.syscall(999))
        socket.socket(38, socket.SOCK_SEQPACKET)
        socket.socket(40, socket.SOCK_STREAM)
        """
    )) <= {"PermissionError", "OSError"}  # fmt: skip
    assert "Seccomp:\t2" in prison.run("print(open('/proc/self/status').read())")
    assert "done" not in prison.errors("check(libc.syscall(number, 3, -3, 0, 0, 0))", number=KEYCTL)


def test_the_callers_session_keyring_stays_behind() -> None:
    """Where a filter cannot be had, the keyring is still another one."""
    link = f"import ctypes, os; libc = ctypes.CDLL(None); print(libc.syscall({KEYCTL}, 0, -3, 1))"
    own = subprocess.run([sys.executable, "-c", link], stdout=subprocess.PIPE, check=True).stdout
    if int(own) <= 0:
        pytest.skip("this kernel has no keyrings, or they are kept from us")
    command = json.loads(launcher.Plain().command([sys.executable, "-c", link], view=View())[-1]) | {"filter": ""}
    inside = subprocess.run(
        [sys.executable, "-I", "-S", str(launcher.ENTER), json.dumps(command)], stdout=subprocess.PIPE, check=True, env={}
    )
    assert int(inside.stdout) > 0
    assert int(inside.stdout) != int(own)


def test_calls_are_filtered_without_walls_too(tmp_path: Path) -> None:
    code = f"import os\nopen({str(tmp_path / 'x')!r}, 'w')\nos.chmod({str(tmp_path / 'x')!r}, 0o4755)"
    command = launcher.Plain().command([sys.executable, "-c", code], view=View())
    found = subprocess.run(command, env={}, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert b"PermissionError" in found.stderr
    assert not (tmp_path / "x").stat().st_mode & 0o6000


def test_it_cannot_mount_or_get_powers(prison: Prison) -> None:
    answers = prison.errors(
        """
        check(libc.mount(b"tmpfs", b"/tmp", b"tmpfs", 0, None))
        check(libc.mount(None, b"/usr", None, 32 | 4096, None))
        check(libc.umount2(b"/proc/sys", 2))
        check(libc.umount2(b"/usr", 2))
        check(libc.unshare(0x10000000))
        check(libc.unshare(0x20000))
        check(libc.pivot_root(b"/tmp", b"/tmp"))
        check(libc.chroot(b"/tmp"))
        check(libc.sethostname(b"x", 1))
        check(libc.setuid(0))
        check(libc.setgid(0))
        check(libc.setns(os.open('/proc/1/ns/mnt', os.O_RDONLY), 0))
        os.mknod('/tmp/disk', 0o60600, os.makedev(254, 0))
        os.chown('/tmp', 0, 0)
        put('/proc/self/uid_map', b'0 0 1')
        """
    )
    assert set(answers) <= {"OSError", "PermissionError"}, answers
    status = prison.run("print(open('/proc/self/status').read())")
    assert {line.split()[1] for line in status.splitlines() if line.startswith("Cap")} == {"0000000000000000"}
    assert "NoNewPrivs:\t1" in status


def test_its_own_places_can_be_written(prison: Prison) -> None:
    node = str(prison.instance.node)
    assert prison.errors(
        """
        open(node + '/work/mine', 'w').write('x')
        open(os.environ['HOME'] + '/mine', 'w').write('x')
        open('/tmp/mine', 'w').write('x')
        open('/var/tmp/mine2', 'w').write('x')
        open('/dev/shm/mine', 'w').write('x')
        open('/dbfs/mine', 'w').write('x')
        open('/Volumes/mine', 'w').write('x')
        open('/Workspace/mine', 'w').write('x')
        open('/dev/null', 'w').write('x')
        os.openpty()
        subprocess.run(['/bin/sh', '-c', 'true'], check=True)
        socket.create_server(('127.0.0.1', 0))
        """,
        node=node,
    ) == ["done"] * 12  # fmt: skip
    assert (prison.instance.node / "tmp" / "mine").exists()
    for tree in ("dbfs", "volumes", "workspace"):
        assert (prison.here.data_dir / tree / "mine").read_text() == "x"
    assert prison.run("print(open('/dbfs/shared').read())") == "everybody's"
    assert not Path("/dev/shm/mine").exists()  # noqa: S108 - of the machine, not of the node


def test_links_that_it_plants_are_not_followed(tmp_path: Path) -> None:
    with world(tmp_path) as here:
        one = here.instance().start()
        here.ready(one)
        secret = here.data_dir / "workspace.key"
        secret.write_text("secret")
        precious = here.data_dir / "precious"
        precious.mkdir()
        (precious / "file").write_text("x")
        logs, work = one.node / "logs", one.node / "work"
        (logs / "driver.log").unlink()  # as hostile code does, from inside or not
        (logs / "driver.log").symlink_to(secret)
        (logs / "all").symlink_to(here.data_dir)
        os.mkfifo(logs / "fifo.log")
        (work / "out").symlink_to(precious)
        deep = work
        for _ in range(60):
            deep = deep / ("d" * 60)
        one.execute(f"import os; os.makedirs({str(deep)!r}); os.chmod({str(work / ('d' * 60))!r}, 0)")
        one.execute(
            "import os\nos.chdir(os.environ['HOME'])\n"
            "for _ in range(3000):\n    os.mkdir('d'); os.chdir('d')\n"
        )  # deeper than Python's recursion, and than a path can be  # fmt: skip
        here.server.assign(one.id, None)
        here.server.phase(one.id, Phase.IDLE)
        assert not one.node.exists()
        assert (precious / "file").exists()
        kept = [path for path in (here.data_dir / "logs").rglob("*") if path.is_file()]
        assert kept
        assert not any("secret" in path.read_text() for path in kept)


LOOK = """
import os, subprocess, sys
hidden = subprocess.Popen(["/usr/bin/sleep", "1000"], env={"SECRET": "x"})
plain = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], env={"SECRET": "x"})
for process in (plain, hidden):
    while b"sleep" not in open(f"/proc/{process.pid}/cmdline", "rb").read(): pass
    for name in ("environ", "mem", "maps", "fd/0"):
        try:
            os.open(f"/proc/{process.pid}/{name}", os.O_RDONLY)
            print("done", end=" ")
        except OSError as error:
            print(type(error).__name__, end=" ")
    print()
"""


def test_nobody_looks_into_a_program_that_cannot_be_read(tmp_path: Path) -> None:
    write_unreadable(tmp_path / "sleep", Path("/usr/bin/sleep"))
    write_unreadable(tmp_path / "sleep", Path("/usr/bin/sleep"))  # a second node of the same instance
    view = View(
        read_only=(sys.prefix, sys.base_prefix), interpreter=sys.executable,
        unreadable=((str(tmp_path / "sleep"), "/usr/bin/sleep"),),
    )  # fmt: skip
    command = launcher.choose("auto", launcher.probe()).command([sys.executable, "-c", LOOK], view=view)
    found = subprocess.run(command, env={}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True, text=True)
    plain, hidden = found.stdout.splitlines()
    assert plain.split() == ["done"] * 4
    assert hidden.split() == ["PermissionError"] * 4


def test_a_fork_bomb_is_bounded_and_ends_with_the_node() -> None:
    group = cgroups.create(f"i-{secrets.token_hex(8)}", cgroups.Limits(memory_mb=1024, cores=1))
    if not group.directories:
        pytest.skip(group.text)
    try:
        limits = [Path(directory, "pids.max") for directory in group.directories]
        limit = next(path for path in limits if path.exists())
        assert limit.read_text().strip() == "4352"
        limit.write_text("60")  # as many as we care to fork here
        bomb = "import os, time\ncount = 0\ntry:\n    while count < 500:\n        if os.fork() == 0: time.sleep(1000)\n"
        bomb += "        count += 1\nexcept BlockingIOError: pass\nprint(count, flush=True)\ntime.sleep(1000)"
        walls = launcher.choose("auto", launcher.probe())
        view = View(read_only=(sys.prefix, sys.base_prefix), interpreter=sys.executable)
        command = walls.command([sys.executable, "-c", bomb], view=view, cgroups=group.entries)
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env={})
        assert process.stdout is not None
        assert 40 < int(process.stdout.readline()) < 60
        inside = group.processes()
        assert len(inside) == 60
        process.kill()
        process.communicate(timeout=PATIENCE_S)
        until(lambda: not any(living(pid) for pid in inside))
    finally:
        assert group.remove()


def test_running_out_of_memory_ends_the_node_with_that_reason(tmp_path: Path) -> None:
    with world(tmp_path) as here:
        one = here.instance().start()
        status = here.ready(one, memory_mb=1)  # and what daemons may use
        if status.limits != "cgroup":
            pytest.skip(f"limits: {status.limits}")
        one.request("POST", "/v1/contexts", {"context_id": "c", "language": "python"})
        code = "keep = []\nwhile True: keep.append(bytearray(b'x' * (64 << 20)))"
        one.request("POST", "/v1/contexts/c/commands", {"command_id": "x", "language": "python", "command": code})
        failure = here.server.phase(one.id, Phase.FAILED).failure
        assert failure is not None
        assert failure.code == "DRIVER_OUT_OF_MEMORY"
        assert "memory" in failure.message


def test_nothing_outlives_a_killed_agent(tmp_path: Path) -> None:
    with world(tmp_path) as here:
        one = here.instance().start()
        here.ready(one, spark_conf={"test.child": "yes"})
        inside = {child.pid for child in psutil.Process(one.pid).children(recursive=True)}
        assert len(inside) >= 5, "the walls, pid 1, the node host and its children"
        os.kill(one.pid, signal.SIGKILL)
        until(lambda: not any(living(pid) for pid in inside))


def test_floods_of_messages_do_not_stop_the_agent(tmp_path: Path) -> None:
    with world(tmp_path) as here:
        one = here.instance().start()
        here.ready(one)
        one.execute("for n in range(3000): send({'event': 'status', 'last_activity_ms': n, 'message': 'x' * 5000})")
        one.execute("with lock: answers.write(b'x' * (17 << 20) + b'\\n')")
        one.execute("send({'event': 'status', 'phase': 'idle'}); send({'event': 'log', 'line': 'a\\x1b[31mb\\nc'})")
        status = here.server.status(one.id, lambda status: status.last_activity_ms == 2999)
        assert len(status.message) == 2000
        assert status.phase is Phase.READY
        assert "\x1b" not in (one.directory / "node.log").read_text()
        assert len(here.server.reports) < 400


def test_a_second_node_on_the_instance_sees_nothing_of_the_first(tmp_path: Path) -> None:
    with world(tmp_path) as here:
        one = here.instance().start()
        here.ready(one)
        one.execute("import os; [open(p + '/left', 'w') for p in ('/tmp', os.environ['HOME'], '/dev/shm')]")
        here.server.assign(one.id, assignment(version=2, generation=2))
        here.server.status(one.id, lambda status: status.generation == 2 and status.phase is Phase.READY)
        left = one.execute(
            "import os; print([p for p in ('/tmp', os.environ['HOME'], '/dev/shm') if os.path.exists(p + '/left')])"
        )
        assert left.strip() == "[]"
