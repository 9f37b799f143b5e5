"""Kernels in cells of their own: what hostile code in one of them, or in Spark beside them, can do to another. Nothing."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from brickyard.machine import cgroups
from brickyard.machine.linux import FAILED
from brickyard.runtime import NODE_CODE
from brickyard.sandbox import cells, kernelgroups, launcher
from brickyard.sandbox.cells import MAX_KERNELS, Warden
from brickyard.sandbox.launcher import Namespaces
from brickyard.sandbox.view import View
from tests.agent.world import living
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S, until

pytestmark = pytest.mark.skipif(launcher.probe().kind != "namespaces", reason="cells need namespaces that we make ourselves")
HOST = Path(__file__).with_name("cell_host.py")
FOREVER = "\nimport time\nprint('ready', flush=True)\ntime.sleep(1000)"


class Kernel:
    """Code in a cell."""

    def __init__(self, node: Node, code: str, env: dict[str, str]) -> None:
        self.node = node
        answer = node.ask("start", code=textwrap.dedent(code), env=env)
        self.number = answer["number"]
        self.inside = answer["inside"]

    @property
    def said(self) -> str:
        return str(self.node.ask("told", number=self.number)["said"])

    @property
    def code(self) -> int | None:
        code: int | None = self.node.ask("told", number=self.number)["code"]
        return code

    def end(self) -> str:
        """Until it has ended by itself; what it printed."""
        until(lambda: self.code is not None, "the end of a kernel")
        return self.said.strip()

    def wait_ready(self) -> Kernel:
        until(lambda: "ready" in self.said or self.code is not None, "a kernel that is ready")
        assert self.code is None, self.said
        return self

    def kill(self) -> None:
        self.node.ask("kill", number=self.number)
        until(lambda: self.code is not None, "the end of a kernel")


class Node:
    """A node with cells, and the host in it."""

    def __init__(self, root: Path, *, groups: Sequence[str] = ()) -> None:
        self.dir = root / "node"
        for name in ("work", "tmp", "home", "logs"):
            (self.dir / name).mkdir(parents=True)
        (self.dir / "logs" / "eventlog").write_text("secret")
        (root / "dbfs").mkdir()
        (root / "cluster").mkdir()
        (root / "runtime").mkdir()
        (root / "runtime" / "file").write_text("the runtime's")
        (self.dir / "python").mkdir()
        view = View(
            read_only=(sys.prefix, sys.base_prefix, str(NODE_CODE), str(HOST.parent)), interpreter=sys.executable,
            node_dir=str(self.dir), environment=str(self.dir / "python"), trees=((str(root / "dbfs"), "/dbfs"),),
            cluster_dir=str(root / "cluster"), cells=True,
        )  # fmt: skip
        view = msgspec.structs.replace(view, read_only=(*view.read_only, str(root / "runtime")))
        command = Namespaces().command([sys.executable, str(HOST), str(NODE_CODE), str(self.dir)], view=view, cgroups=groups)
        env = launcher.environment("i-test", node_dir=self.dir, tmp="/tmp", source={})  # noqa: S108 - the node's own, inside
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps({"op": op, **fields}), file=self.process.stdin, flush=True)
        return dict(json.loads(self.process.stdout.readline()))

    def start(self, code: str, **env: str) -> Kernel:
        return Kernel(self, code, env)

    def run(self, code: str, **env: str) -> str:
        """Code in a cell, to its end."""
        return self.start(code, **env).end()

    def beside(self, code: str) -> str:
        """Code in the node host's own cell, where Spark is, and what it runs for users."""
        return str(self.ask("here", code=textwrap.dedent(code))["said"]).strip()

    def processes(self) -> set[int]:
        """Of the whole node, by the machine's numbers."""
        below: dict[int, list[int]] = {}
        for name in os.listdir("/proc"):  # noqa: PTH208 - names
            if name.isdigit():
                try:
                    fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                below.setdefault(int(fields[1]), []).append(int(name))
        found, queue = set(), [self.process.pid]
        while queue:
            there = below.get(queue.pop(), [])
            found |= set(there)
            queue += there
        return {pid for pid in found if living(pid)}

    def end(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=PATIENCE_S)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    made = Node(tmp_path_factory.mktemp("cells"))
    yield made
    inside = made.processes()
    made.end()
    until(lambda: not any(living(pid) for pid in inside), "the end of all cells")


@pytest.fixture(scope="module")
def victim(node: Node) -> Kernel:
    """A kernel with a subprocess, and files wherever it may have some."""
    code = f"""
    import os, subprocess, sys
    for place in ("/tmp", "/var/tmp/v", "/dev/shm", "/run", os.environ["HOME"], "."):
        os.makedirs(place, exist_ok=True)
        open(place + "/secret-file", "w").write("secret")
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)", "secret-argument"])
    {FOREVER.strip().splitlines()[0]}
    print("ready", flush=True)
    time.sleep(1000)
    """
    return node.start(code, SECRET="secret-variable").wait_ready()


def test_it_sees_its_own_processes_only(node: Node, victim: Kernel) -> None:
    look = "import os; print([open(f'/proc/{n}/cmdline').read() for n in os.listdir('/proc') if n.isdigit()])"
    assert len(node.processes()) >= 6, "two cells, each with its first process, and what runs in them"
    for found in (node.run(look), node.beside(look)):
        assert "secret" not in found
    assert node.run("import os; print(sorted(int(n) for n in os.listdir('/proc') if n.isdigit()))") == "[1, 2]"
    assert victim.code is None


def test_it_signals_and_traces_nobody(node: Node, victim: Kernel) -> None:
    harm = """
    import os
    done = []
    for pid in range(2, 100):
        if pid not in (os.getpid(), os.getppid()):
            try:
                os.kill(pid, 9)
                done.append(pid)
            except ProcessLookupError:
                pass
    os.kill(1, 9)
    os.kill(1, 15)
    print(done)
    """
    assert node.run(harm) == "[]"
    assert victim.code is None
    assert node.run("print('still there')") == "still there"


def test_its_files_are_its_own(node: Node, victim: Kernel) -> None:
    assert victim.code is None
    walk = """
    import os
    found = [os.path.join(top, name) for place in ("/tmp", "/var/tmp", "/dev/shm", "/run", NODE)
             for top, _, names in os.walk(place) for name in names]
    found = [each for each in found if "secret-file" in each]
    print(found, os.path.exists(NODE + "/logs"), sorted(os.listdir(NODE)))
    """.replace("NODE", repr(str(node.dir)))
    assert node.run(walk) == "[] False ['home', 'python', 'tmp', 'work']"
    assert node.beside(walk).startswith("[] True")
    assert node.run("import os; print(os.getcwd(), os.environ['HOME'])") == f"{node.dir}/work {node.dir}/home"
    assert node.run("import os; open('/dbfs/x', 'w'); open('/cluster/x', 'w'); print(os.path.exists('/dbfs/x'))") == "True"


def test_the_first_process_of_a_cell_can_neither_be_looked_into_nor_ended(node: Node) -> None:
    look = """
    import ctypes, os
    os.kill(1, 9); os.kill(1, 15)
    for name in ("environ", "mem", "maps", "auxv", "fd/3", "fdinfo/3", "ns/mnt", "root", "cwd", "exe", "stack", "syscall"):
        path = "/proc/1/" + name
        try:
            links = ("root", "cwd", "exe", "ns/mnt")
            print("read", name, os.readlink(path) if name in links else open(path, "rb").read(1))
        except OSError as error:
            assert type(error) in (PermissionError, FileNotFoundError), error
    wanted = ("CapEff", "CapPrm", "CapBnd", "NoNewPrivs", "Seccomp:")
    print([line.split()[1] for line in open("/proc/self/status") if line.startswith(wanted)])
    """
    assert node.run(look) == "['0000000000000000', '0000000000000000', '0000000000000000', '1', '2']"
    assert "secret" not in node.run("print(open('/proc/1/cmdline').read())")


def test_it_inherits_nothing_and_gets_no_power(node: Node) -> None:
    look = """
    import ctypes, os, resource
    assert resource.getrlimit(resource.RLIMIT_CORE) == (0, 0)
    print(sorted(int(n) for n in os.listdir("/proc/self/fd"))[:-1], [n for n in os.environ if "CELLS" in n])
    libc = ctypes.CDLL(None, use_errno=True)
    calls = [libc.unshare(flag) for flag in (0x20000, 0x10000000, 0x20000000, 0x8000000)]
    print({*calls, libc.mount(b"none", b"/tmp", b"tmpfs", 0, None)})
    for path in ("/proc/sys/kernel/hostname", "/proc/self/oom_score_adj", "/run/../x", NODE + "/x"):
        try:
            open(path, "w").write("0")
            print("wrote", path)
        except OSError:
            pass
    print(open("/proc/self/oom_score_adj").read().strip())
    """.replace("NODE", repr(str(node.dir)))
    assert node.run(look).splitlines() == ["[0, 1, 2] []", "{-1}", "900"]


def test_its_end_leaves_nothing(node: Node) -> None:
    before = node.processes()
    detached = """
    import os, time
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(1000)
        os._exit(0)
    os.wait()
    """
    by_itself = node.start(detached + "os._exit(5)")
    by_itself.end()
    assert by_itself.code == 5
    killed = node.start(detached + "print('ready', flush=True); time.sleep(1000)").wait_ready()
    assert len(node.processes()) >= len(before) + 3
    killed.kill()
    assert killed.code == -9
    assert node.processes() <= before
    assert [node.start(f"import os; os.kill(os.getpid(), {sig})").end() for sig in (11, 6)] == ["", ""]
    ends = node.start("import os; os.abort()")
    ends.end()
    assert ends.code == -6


def test_an_interrupt_reaches_it_and_what_it_started(node: Node) -> None:
    code = """
    import subprocess, sys, time
    code = "import time; print('ready', flush=True); time.sleep(1000)"
    child = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    try:
        time.sleep(1000)
    except KeyboardInterrupt:
        print("stopped", child.wait(), flush=True)
    """
    kernel = node.start(code).wait_ready()
    node.ask("interrupt", number=kernel.number)
    assert kernel.end().endswith("stopped -2")


def test_links_in_the_place_of_its_directories_are_not_followed(node: Node, victim: Kernel) -> None:
    assert victim.code is None
    for name in ("tmp", "home", "work"):
        for target in ("/", str(node.dir), "../../tmp"):
            answer = node.ask("plant", name=name, target=target)
            assert answer["code"] == 71, answer
            assert "sandbox:" in answer["said"]


@pytest.mark.skipif(not tempfile.gettempdir().startswith("/tmp"), reason="for places below /tmp")  # noqa: S108 - as it says
def test_what_lies_below_tmp_cannot_be_exchanged(tmp_path: Path, golden: Golden) -> None:
    runtime = tmp_path / "runtime"
    if any(Path(prefix).is_relative_to(Path(*runtime.parts[:3])) for prefix in (sys.prefix, sys.base_prefix)):
        pytest.skip("the interpreter itself is below the directory that would be moved")
    made = Node(tmp_path)
    assert made.run(f"print(open({str(runtime / 'file')!r}).read())") == "the runtime's"
    top = Path(*runtime.parts[:3])
    made.beside(f"""
    import os
    os.rename({str(top)!r}, {str(top)!r} + "-moved")
    os.makedirs({str(runtime)!r})
    open({str(runtime / "file")!r}, "w").write("somebody's")
    """)
    assert made.beside(f"print(open({str(runtime / 'file')!r}).read())") == "somebody's"
    golden.line(made.run("print(1)"), f"sandbox: {runtime} ")
    made.end()


def test_links_that_users_plant_lead_spark_nowhere(tmp_path: Path) -> None:
    """Where users are kept apart: a kernel's link to the node's logs, in files that Spark reads for it, would show it others'."""
    made = Node(tmp_path)
    try:
        logs, link = made.dir / "logs", "/dbfs/link"
        plant = (
            f"import os; os.symlink({str(logs)!r}, {link!r}); os.symlink('file', '/dbfs/own'); open('/dbfs/file', 'w').write('x')"
        )
        assert made.run(plant) == ""
        look = f"""
        import os
        for path in ({link + "/eventlog"!r}, "/dbfs/own", "/dbfs/file"):
            try:
                print(open(path).read())
            except OSError as error:
                print(error.strerror)
        """
        assert made.beside(look).splitlines() == ["secret", "x", "x"]
        command = launcher.without_links(sys.executable, targets=["/dbfs", "/cluster"], launcher=made.process.pid)
        subprocess.run(command, check=True, env={})
        refused = "Too many levels of symbolic links"
        assert made.beside(look).splitlines() == [refused, refused, "x"]
        assert made.run("print(open('/dbfs/own').read())") == "x", "kernels follow their own links"
    finally:
        made.end()


def test_what_all_kernels_run_can_be_made_read_only_for_the_whole_node(tmp_path: Path) -> None:
    """The node's Python environment: Spark's cell, where users' functions run, must not change what other users' kernels run."""
    made = Node(tmp_path)
    try:
        place = made.dir / "python"
        (place / "module.py").write_text("good")
        before = made.start(f"import time\nwhile open({str(place / 'module.py')!r}).read() != 'new':\n    time.sleep(0.05)")
        change = f"""
        import os
        said = []
        for change in (
            lambda: open({str(place / "module.py")!r}, "w"), lambda: open({str(place / "more.py")!r}, "w"),
            lambda: os.rename({str(place)!r}, {str(made.dir / "moved")!r}), lambda: os.unlink({str(place / "module.py")!r}),
            lambda: os.chmod({str(place / "module.py")!r}, 0o777),
        ):
            try:
                change()
            except OSError as error:
                said.append(error.strerror)
        print(said)
        """
        command = launcher.reveal(
            sys.executable, shown={str(place): place}, launcher=made.process.pid, kind="namespaces", read_only=True
        )
        subprocess.run(command, check=True, env={})
        refused, busy = "Read-only file system", "Device or resource busy"
        assert made.beside(change) == str([refused, refused, busy, refused, refused])
        (place / "module.py").write_text("new")  # the agent may
        before.end()
        assert made.run(f"print(open({str(place / 'module.py')!r}).read())") == "new"
    finally:
        made.end()


def test_nonsense_is_dropped(node: Node) -> None:
    argv = [sys.executable, "-c", "open('/dbfs/escaped', 'w')"]
    start = {"op": "start", "id": 900, "name": "x", "argv": argv, "env": {}}
    for data, fds in (
        ("no json", 0), ("[]", 0), ("{}", 2), ("[" * 100_000, 0), ('{"op": "kill", "id": 9}', 0), ('{"op": "kill", "id": []}', 0),
        ('{"op": "expendable", "pid": "1/../1"}', 0), ('{"op": "expendable", "pid": -1}', 0), (json.dumps(start), 0),
        (json.dumps(start), 1), (json.dumps({**start, "name": "../tmp"}), 2), (json.dumps({**start, "name": ""}), 2),
        (json.dumps({**start, "id": "x"}), 2), (json.dumps({**start, "argv": 3}), 2), (json.dumps({**start, "env": []}), 2),
        (json.dumps(start), 3), (json.dumps({**start, "env": {"A": "x" * 200_000}}), 2),
    ):  # fmt: skip
        node.ask("raw", data=data, fds=fds)
    assert node.run("import os; print(os.path.exists('/dbfs/escaped'))") == "False"


@pytest.mark.parametrize(("running", "given"), [(MAX_KERNELS, 2), (0, 3), (0, 0)], ids=["full", "too many descriptors", "none"])
def test_a_start_that_is_not_done_is_answered(running: int, given: int) -> None:
    warden = Warden.__new__(Warden)
    warden._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    warden._kernels = dict.fromkeys(range(running), 1)
    request = json.dumps({"op": "start", "id": MAX_KERNELS, "name": "kernel-a", "argv": ["true"], "env": {}}).encode()
    reading, writing = os.pipe()
    with warden._socket, theirs, os.fdopen(reading, "rb") as said:
        if given:
            socket.send_fds(theirs, [request], [writing] * given)
        else:
            theirs.send(request)
        os.close(writing)
        assert warden._take()
        assert json.loads(theirs.recv(1000)) == {"id": MAX_KERNELS, "status": FAILED << 8}
        assert bool(said.read()) is (given == 2)


def test_a_cell_that_cannot_be_forked_costs_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> Any:
        raise BlockingIOError

    warden = Warden.__new__(Warden)
    warden._own_pids = -1
    descriptors = Path("/proc/self/fd")
    monkeypatch.setattr(os, "fork", refuse)
    for unshare in (lambda _: 0, refuse):
        monkeypatch.setattr(cells, "libc", SimpleNamespace(unshare=unshare, setns=lambda *_: 0))
        before = len(list(descriptors.iterdir()))
        with pytest.raises(BlockingIOError):
            warden._fork(refuse)
        assert len(list(descriptors.iterdir())) == before


def test_a_process_beside_the_node_host_can_go_first(node: Node) -> None:
    code = """
    import subprocess, sys
    null = subprocess.DEVNULL
    argv = [sys.executable, "-c", "import time; time.sleep(1000)"]
    print(subprocess.Popen(argv, stdin=null, stdout=null, stderr=null).pid)
    """
    pid = int(node.beside(code))
    score = f"print(open('/proc/{pid}/oom_score_adj').read())"
    assert node.beside(score) == "500"
    node.ask("expendable", pid=pid)
    until(lambda: node.beside(score) == "900")
    node.beside(f"import os; os.kill({pid}, 9)")


BOMB = """
import os, time
count = 0
try:
    while count < 500:
        if os.fork() == 0:
            time.sleep(1000)
        count += 1
except BlockingIOError:
    pass
print("ready", count, flush=True)
time.sleep(1000)
"""


def test_what_runs_beside_the_node_host_has_a_group_until_it_ends(tmp_path: Path) -> None:
    group = cgroups.create(f"i-{secrets.token_hex(8)}", cgroups.Limits(memory_mb=1024, cores=1))
    if not group.directories:
        pytest.skip(group.text)
    sleepers = [subprocess.Popen(["sleep", "1000"]) for _ in range(2)]
    try:
        opened = kernelgroups.opened(group.entries)
        assert len(kernelgroups.opened(group.entries)) == len(opened) == 1, "again for the instance's next node"
        top = Path(f"/proc/self/fd/{opened[0]}")
        limit = int((top / "../pids.max").read_text())
        assert int((top / "pids.max").read_text()) == limit * 3 // 4
        for sleeper in sleepers:
            kernelgroups.join_beside(opened[0], sleeper.pid)
            assert int((top / f"beside-{sleeper.pid}" / "pids.max").read_text()) == limit // 2
            assert sleeper.pid in group.processes()
            assert group.tasks() == 1
            sleeper.kill()
            sleeper.wait()
        until(lambda: not group.tasks(), "the end of its processes")
        assert len(list(top.glob("beside-*"))) == 1
    finally:
        for sleeper in sleepers:
            sleeper.kill()
        assert group.remove()


def test_a_fork_bomb_in_one_leaves_room_for_the_others(tmp_path: Path) -> None:
    group = cgroups.create(f"i-{secrets.token_hex(8)}", cgroups.Limits(memory_mb=1024, cores=1))
    if not group.directories:
        pytest.skip(group.text)
    limit = next(path for each in group.directories if (path := Path(each, "pids.max")).exists())
    try:
        limit.write_text("240")  # as many as we care to fork here
        made = Node(tmp_path, groups=group.entries)
        bombs = [made.start(BOMB).wait_ready() for _ in range(2)]
        for bomb in bombs:
            assert 50 < int(bomb.said.split()[1]) < 60, "a quarter, with itself and the first process of its cell"
        assert made.run("import os; print(os.waitstatus_to_exitcode(os.system('true')))") == "0"
        assert len(group.processes()) > 120
        bombs[0].kill()
        until(lambda: len(list(limit.parent.glob("kernels/kernel-*"))) == 1, "the end of its group")
        made.end()
    finally:
        assert group.remove(), "with the group of a kernel that was killed with its node"
    assert not any(Path(each).exists() for each in group.directories)


@pytest.mark.parametrize("how", ["host", "launcher", "exit"])
def test_nothing_outlives_the_node(tmp_path: Path, how: str) -> None:
    made = Node(tmp_path)
    made.start(FOREVER).wait_ready()
    inside = made.processes()
    assert len(inside) >= 5
    host = next(pid for pid in inside if str(HOST) in Path(f"/proc/{pid}/cmdline").read_text().split("\0")[1:3])
    if how == "exit":
        assert made.process.stdin is not None
        print('{"op": "end"}', file=made.process.stdin, flush=True)
    else:
        os.kill(host if how == "host" else made.process.pid, 9)
    assert made.process.wait(PATIENCE_S) == {"host": 137, "launcher": -9, "exit": 7}[how]
    until(lambda: not any(living(pid) for pid in inside), "the end of all that was in it")
    made.end()
