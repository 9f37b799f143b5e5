"""Spark's Python workers where users are kept apart: what their code reaches of the JVM that has it run. Nothing."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from brickyard.runtime import NODE_CODE
from brickyard.sandbox import launcher
from tests.agent.world import living
from tests.sandbox.test_cells import Node
from tests.support.patience import until

pytestmark = pytest.mark.skipif(launcher.probe().kind != "namespaces", reason="cells need namespaces that we make ourselves")
# In the place of PySpark's, whose worker takes tasks from the JVM: this one takes a line of Python and answers with its value.
DAEMON = """
def worker(sock, authenticated):
    file = sock.makefile("rwb")
    line = file.readline()
    if not line:
        return 1
    try:
        said = repr(eval(line, {}))
    except Exception as error:
        said = repr(type(error).__name__)
    file.write(said.encode() + b"\\n")
    file.flush()
    return 0
"""
# What Spark's JVM does with its Python workers. Each task is a line for a worker.
SPARK = """
import os, socket, struct, subprocess, sys
node, session = sys.argv[1:]
front = [sys.executable, "-I", "-S", FRONT, node]
env = {**os.environ, "PYTHONPATH": RUNTIME, "SPARK_REUSE_WORKER": "1", "_SPARK_AUTH_SECRET": "the-secret",
       "PYTHON_WORKER_FACTORY_SECRET": "worker-secret", "SPARK_JOB_ARTIFACT_UUID": session}
cwd = node + "/work/files/" + session if session != "default" else node + "/work"
pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=cwd)

class Worker:
    def __init__(self, sock, daemon=None):
        self.sock, self.file, self.daemon = sock, sock.makefile("rwb"), daemon
        (self.pid,) = struct.unpack("!i", self.file.read(4))

    def do(self, task):
        self.file.write(task.encode() + b"\\n")
        self.file.flush()
        return self.file.readline().decode().strip()

class Daemon:
    def __init__(self):
        self.process = subprocess.Popen([*front, "-m", "pyspark.daemon", "pyspark.worker"], env=env, **pipes)
        (self.port,) = struct.unpack("!i", self.process.stdout.read(4))

    def worker(self):
        return Worker(socket.create_connection(("127.0.0.1", self.port)), self)

    def kill(self, worker):
        self.process.stdin.write(struct.pack("!i", worker.pid))
        self.process.stdin.flush()
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    root = tmp_path_factory.mktemp("workers")
    made = Node(root)
    (root / "runtime" / "pyspark").mkdir()
    (root / "runtime" / "pyspark" / "__init__.py").touch()
    (root / "runtime" / "pyspark" / "daemon.py").write_text(DAEMON)
    for name in ("one", "other"):
        (made.dir / "work" / "files" / name).mkdir(parents=True)
        (made.dir / "work" / "files" / name / "artifact").write_text(name)
    (made.dir / "conf").mkdir()
    for file in WRITABLE:
        (made.dir / file).parent.mkdir(parents=True, exist_ok=True)
        (made.dir / file).write_text("the JVM's")
    made.ask("door")
    yield made
    inside = made.processes()
    made.end()
    until(lambda: not any(living(pid) for pid in inside), "the end of all cells")


# What the JVM maps, runs and reads again; in its own mounts, `tmp` is also /tmp.
WRITABLE = (
    "tmp/liblz4-java-1.so", "tmp/hsperfdata_spark/7", "tmp/.attach_pid7", "tmp/artifacts-1/x.jar", "conf/log4j2.properties",
    "logs/log4j-active.log", "logs/events/local-1", "work/local/blockmgr-1/00/shuffle_0_0_0.data", "work/executors/app-1/0/x.jar",
)  # fmt: skip


FRONT = NODE_CODE / "pythonworkers" / "front.py"


def as_spark(node: Node, code: str, *, session: str = "one", front: Path = FRONT) -> Any:
    """Runs code beside the JVM, with SPARK before it; returns the list that it prints."""
    runtime = node.dir.parent / "runtime"
    head = SPARK.replace("FRONT", repr(str(front))).replace("RUNTIME", repr(str(runtime)))
    begin = f"import sys; sys.argv[1:] = [{str(node.dir)!r}, {session!r}]\n"
    said = node.beside(begin + head + textwrap.dedent(code))
    answers = [line for line in said.splitlines() if line.startswith("[")]
    assert answers, said
    return ast.literal_eval(answers[0])


def test_a_worker_reaches_none_of_the_files_that_the_jvm_uses(node: Node) -> None:
    places = [str(node.dir / file) for file in WRITABLE] + ["/" + file for file in WRITABLE if file.startswith("tmp/")]
    tasks = [f"open({path!r}, 'r+')" for path in places]
    found = as_spark(node, f"w = Daemon().worker(); print([w.do(each) for each in {tasks}])")
    assert set(found) == {"'FileNotFoundError'"}
    assert (node.dir / WRITABLE[0]).read_text() == "the JVM's"


def test_a_worker_sees_no_process_of_the_jvm_and_no_secret(node: Node) -> None:
    look = [
        "[n for n in __import__('os').listdir('/proc') if n.isdigit() and int(n) > 3]",
        "sorted(n for n in __import__('os').environ if 'SECRET' in n)",
        "__import__('os').kill(-1, 0)",
        "__import__('os').environ['SPARK_LOCAL_DIRS']",
        "__import__('os').path.exists('/tmp/liblz4-java-1.so')",
    ]
    processes, secrets, _, spills, temporary = as_spark(
        node, f"w = Daemon().worker(); print([eval(w.do(each)) for each in {look}])"
    )
    assert processes == [], "the first of the cell, the one that forks, and itself"
    assert secrets == ["PYTHON_WORKER_FACTORY_SECRET"]
    assert spills == "/tmp"  # noqa: S108 - the cell's own
    assert temporary is False


def test_a_worker_reads_the_files_of_its_own_session_alone(node: Node) -> None:
    look = "[open('artifact').read(), __import__('os').getcwd(), __import__('os').listdir('..')]"
    write = "open('artifact', 'w')"
    for session in ("one", "other"):
        seen, written = as_spark(node, f"w = Daemon().worker(); print([w.do({look!r}), w.do({write!r})])", session=session)
        assert ast.literal_eval(seen) == [session, f"{node.dir}/work/files/{session}", [session]]
        assert written == "'OSError'", "the file system is read-only"
    assert (
        ast.literal_eval(as_spark(node, f"print([Daemon().worker().do({look!r})])", session="default")[0]) == "FileNotFoundError"
    )


def test_spark_ends_workers_by_their_pids_and_reuses_them(node: Node) -> None:
    said = as_spark(
        node,
        """
        daemon = Daemon()
        one, other = daemon.worker(), daemon.worker()
        first = one.do("__import__('os').getpid()")
        seen = [one.do("__import__('os').getpid()") == first, other.do("1 + 1"), one.pid != other.pid]
        seen += [os.path.exists(f"/proc/{each.pid}/stat") for each in (one, other)]
        daemon.kill(one)
        seen += [one.file.read() == b"", other.do("2 + 2")]  # its connection ends with it
        other.sock.shutdown(socket.SHUT_RDWR)
        while os.path.exists(f"/proc/{other.pid}/stat"):  # a worker that ends by itself takes its stand-in along
            pass
        daemon.process.stdin.close()
        seen.append(daemon.process.wait())
        print(seen)
        """,
    )
    assert said == [True, "2", True, True, True, True, "4", 0]


def test_a_single_worker_connects_to_spark_and_ends_with_its_front(node: Node) -> None:
    said = as_spark(
        node,
        """
        server = socket.create_server(("127.0.0.1", 0))
        env["PYTHON_WORKER_FACTORY_PORT"] = str(server.getsockname()[1])
        process = subprocess.Popen([*front, "-m", "pyspark.sql.worker.analyze"], env=env, **pipes)
        link = server.accept()[0]
        file = link.makefile("rwb")
        (size,) = struct.unpack("!i", file.read(4))
        seen = [file.read(size)]
        file.write(struct.pack("!i", 2) + b"ok")
        file.flush()
        worker = Worker(link)
        seen += [worker.pid == process.pid, worker.do("__import__('sys').argv[1]"), worker.file.read()]
        seen.append(process.wait())
        print(seen)
        """,
    )
    assert said == [b"worker-secret", True, "'pyspark.sql.worker.analyze'", b"", 0]


def test_a_cell_ends_with_its_front_whatever_runs_in_it(node: Node) -> None:
    before = node.processes()
    as_spark(
        node,
        """
        daemon = Daemon()
        worker = daemon.worker()
        worker.do("__import__('subprocess').Popen(['sleep', '1000'], start_new_session=True).pid")
        daemon.process.kill()
        print([worker.file.read() == b""])
        """,
    )
    until(lambda: node.processes() <= before, "the end of the cell")


def test_a_cell_ends_when_spark_needs_it_no_more(node: Node) -> None:
    """Spark does not say that a session has ended, and a long-lived cluster has many."""
    quick = node.dir.parent / "runtime" / "front.py"
    quick.write_text(FRONT.read_text().replace("IDLE_S = 120.0", "IDLE_S = 0.5"))
    before = node.processes()
    code = """
        daemon = Daemon()
        worker = daemon.worker()
        seen = [worker.do("__import__('time').sleep(1)"), daemon.process.poll()]
        worker.sock.shutdown(socket.SHUT_RDWR)
        print([*seen, daemon.process.wait()])
        """
    assert as_spark(node, code, front=quick) == ["None", None, 0]
    until(lambda: node.processes() <= before, "the end of the cell")


def test_the_front_starts_nothing_else(node: Node) -> None:
    for arguments in (["x.py"], ["-m"], ["-m", "a", "b", "c"], []):
        said = as_spark(node, f"print([subprocess.run([*front, *{arguments}], env=env, capture_output=True).returncode])")
        assert said == [1]
    version = as_spark(node, "print([subprocess.check_output([*front, '-c', 'import sys; print(sys.version_info[0])'])])")
    assert version == [b"3\n"]


@pytest.mark.parametrize(
    "files", ["/etc", "{node}/work", "{node}/work/../logs", "{node}/logs", "{node}/work//files", "{node}/work/link"]
)
def test_a_cell_shows_nothing_but_files_below_work(node: Node, files: str) -> None:
    link = node.dir / "work" / "link"
    link.unlink(missing_ok=True)
    link.symlink_to(node.dir / "logs")
    ask = """
        import array, json
        control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        os.chdir(node + "/conf")
        door.connect("python-workers")
        request = json.dumps({"module": "pyspark.worker", "files": FILES, "env": env}).encode()
        socket.send_fds(door, [request], [theirs.fileno(), 2])
        theirs.close()
        print([control.recv(10)])
        """
    assert as_spark(node, ask.replace("FILES", repr(files.format(node=node.dir)))) == [b""]
