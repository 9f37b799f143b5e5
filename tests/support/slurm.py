"""A real Slurm for one test: munged, slurmctld and three slurmd on this machine, as the user who runs the test."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil

from tests.support.patience import PATIENCE_S, until
from tests.support.ports import free_port

NODES = ("node1", "node2", "node3")
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"

CONF = """
ClusterName=brickyard
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={home}/munge.socket{jwt}
CredType=cred/munge
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool-%n
SlurmctldPidFile={home}/slurmctld.pid
SlurmdPidFile={home}/slurmd-%n.pid
SlurmctldLogFile={home}/slurmctld.log
SlurmdLogFile={home}/slurmd-%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=sched_min_interval=10000,bf_interval=5
ReturnToService=2
SlurmdTimeout=5
SlurmctldTimeout=5
KillWait=12
MinJobAge=60
EnforcePartLimits=NO
GresTypes=gpu
{nodes}
PartitionName=main Nodes=node1,node2,node3 Default=YES MaxTime=INFINITE State=UP
PartitionName=short Nodes=node1 MaxTime=00:30:00 State=UP
PartitionName=down Nodes=node1 State=DOWN
PartitionName=urgent Nodes=node1,node2,node3 PriorityTier=10 Hidden=YES State=UP
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
"""


class SlurmMissing(Exception):
    """Slurm is not installed here; the message says what to install."""


def require(*programs: str) -> None:
    """Raises SlurmMissing."""
    missing = [program for program in (*PROGRAMS, *programs) if shutil.which(program, path=_PATH) is None]
    if missing:
        raise SlurmMissing(
            f"tests on a real Slurm are skipped: {', '.join(missing)} missing (Debian: apt install slurm-wlm slurmrestd munge)"
        )


class Slurm:
    """Use `running`. Every part can be killed and started again."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environ = {**_clean(os.environ), "SLURM_CONF": str(home / "slurm.conf"), "PATH": _PATH}
        self.environ["SLURMRESTD_SECURITY"] = "disable_user_check"  # it refuses Slurm's own user, who is the user of the tests
        self.parts: dict[str, subprocess.Popen[bytes]] = {}
        self._ports = {name: free_port() for name in ("slurmctld", *NODES)}

    @classmethod
    @contextlib.contextmanager
    def running(cls, *, cpus: int = 4, memory_mb: int = 8192, more: str = "") -> Iterator[Slurm]:
        """`more`: further lines of its configuration. Raises SlurmMissing. At the end, nothing of it is left.
        The directory's name is short, since it holds sockets."""
        require()
        home = Path(tempfile.mkdtemp(prefix="bk-slurm-"))
        made = cls(home)
        try:
            made._configure(cpus, memory_mb, more)
            made.start("munged")
            until((home / "munge.socket").exists, "munged listens")
            made.start("slurmctld")
            for node in NODES:
                made.start(node)
            until(lambda: made.idle() == len(NODES), f"three idle nodes: {made.says('sinfo', '-N')}")
            yield made
        finally:
            made._end()
            shutil.rmtree(home, ignore_errors=True)

    def start(self, part: str) -> None:
        """Starts munged, slurmctld, or a node's slurmd."""
        log = (self.home / f"{part}.out").open("ab")
        with log:
            self.parts[part] = subprocess.Popen(
                self._command(part), env=self.environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.home,
                preexec_fn=_end_with_parent,  # noqa: PLW1509 - it makes one system call
                start_new_session=True,
            )  # fmt: skip

    def kill(self, part: str) -> None:
        """SIGKILL, and waits until it is dead."""
        self.parts[part].kill()
        self.parts[part].wait(PATIENCE_S)

    def serve_rest(self) -> str:
        """Starts slurmrestd; returns its URL."""
        require("slurmrestd")
        path = self.home / "rest.socket"
        if "slurmrestd" in self.parts:
            return f"unix:{path}"
        self.start("slurmrestd")
        until(lambda: path.exists() and _answers(path), f"slurmrestd listens: {self.read('slurmrestd.out')}")
        return f"unix:{path}"

    def serve_rest_with_tokens(self) -> tuple[str, Path]:
        """Starts slurmrestd on loopback; returns its URL and the file of a token."""
        require("slurmrestd")
        if not self._jwt():
            raise SlurmMissing("slurmrestd with tokens is not tested: apt install slurm-wlm-jwt-plugin")
        file = self.home / "token"
        file.write_text(self.says("scontrol", "token", "lifespan=3600"))
        port = self._ports.setdefault("slurmrestd-tcp", free_port())
        if "slurmrestd-tcp" not in self.parts:
            self.environ["SLURM_JWT"] = "daemon"
            self.start("slurmrestd-tcp")
            del self.environ["SLURM_JWT"]
            until(lambda: _listens(port), f"slurmrestd listens: {self.read('slurmrestd-tcp.out')}")
        return f"http://127.0.0.1:{port}", file

    def says(self, *command: str) -> str:
        """The output of a command of Slurm, and its complaints."""
        done = subprocess.run(
            command, env=self.environ, capture_output=True, text=True, check=False, timeout=PATIENCE_S, cwd=self.home
        )
        return done.stdout + done.stderr

    def idle(self) -> int:
        return self.says("sinfo", "-N", "-h", "-p", "main", "-t", "idle", "-o", "%N").count("node")

    def read(self, name: str) -> str:
        """A log."""
        return (self.home / name).read_text(errors="replace")[-2000:]

    def processes(self) -> list[psutil.Process]:
        """Everything that runs with this Slurm's configuration."""
        found = []
        needle = str(self.home)
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.pid != os.getpid() and (
                    needle in " ".join(process.cmdline()) or process.environ().get("SLURM_CONF") == f"{needle}/slurm.conf"
                ):
                    found.append(process)
        return found

    def _command(self, part: str) -> list[str]:
        home = self.home
        if part == "munged":
            files = {"key-file": "munge.key", "socket": "munge.socket", "pid-file": "munge.pid", "log-file": "munge.log"}
            files |= {"seed-file": "munge.seed"}
            return ["munged", "--foreground", *(f"--{name}={home / file}" for name, file in files.items())]
        if part == "slurmctld":
            return ["slurmctld", "-D"]
        if part == "slurmrestd":
            plugins = ",".join(f"openapi/v0.0.{version}" for version in (36, 37, 38))  # the others need slurmdbd
            return ["slurmrestd", "-s", plugins, "-a", "rest_auth/local", f"unix:{home / 'rest.socket'}"]
        if part == "slurmrestd-tcp":
            return ["slurmrestd", "-s", "openapi/v0.0.38", "-a", "rest_auth/jwt", f"127.0.0.1:{self._ports[part]}"]
        return ["slurmd", "-D", "-N", part]

    def _configure(self, cpus: int, memory_mb: int, more: str) -> None:
        nodes = "\n".join(
            f"NodeName={name} NodeHostname={_host()} NodeAddr=127.0.0.{index} Port={self._ports[name]} CPUs={cpus} "
            f"RealMemory={memory_mb} {'Gres=gpu:fake:2 Feature=fast' if name == NODES[-1] else ''} State=UNKNOWN"
            for index, name in enumerate(NODES, start=2)
        )
        text = CONF.format(
            jwt=self._jwt(), host=_host(), port=self._ports["slurmctld"], user=_user(), home=self.home, nodes=nodes
        )
        (self.home / "slurm.conf").write_text(f"{text}{more}\n")
        (self.home / "gres.conf").write_text(f"NodeName={NODES[-1]} Name=gpu Type=fake File=/dev/tty[0-1]\n")
        (self.home / "cgroup.conf").write_text("CgroupAutomount=no\n")
        (self.home / "munge.key").write_bytes(os.urandom(128))
        (self.home / "munge.key").chmod(0o600)
        for name in ("state", *(f"spool-{node}" for node in NODES)):
            (self.home / name).mkdir(mode=0o755)
        self.home.chmod(0o755)  # munged looks after its own

    def _jwt(self) -> str:
        """Lines for tokens, where the plugin is installed: without it, the controller does not start."""
        if not any(Path("/usr/lib").glob("*/slurm*/auth_jwt.so")):
            return ""
        (self.home / "jwt.key").write_bytes(os.urandom(32))
        (self.home / "jwt.key").chmod(0o600)
        return f"\nAuthAltTypes=auth/jwt\nAuthAltParameters=jwt_key={self.home}/jwt.key"

    def _end(self) -> None:
        if "slurmctld" in self.parts and self.parts["slurmctld"].poll() is None:
            self.says("scancel", "--full", f"--user={_user()}")
            with contextlib.suppress(AssertionError):
                until(lambda: not self.says("squeue", "-h").strip(), "jobs end", patience_s=20)
        for part in reversed(self.parts.values()):
            part.terminate()
        for part in self.parts.values():
            try:
                part.wait(10)
            except subprocess.TimeoutExpired:
                part.kill()
                part.wait(PATIENCE_S)
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def _clean(environ: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in environ.items() if not key.startswith(("SLURM", "SBATCH", "BRICKYARD_"))}


def _user() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name


def _host() -> str:
    return socket.gethostname().partition(".")[0]


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _end_with_parent() -> None:
    """Runs in the child: it ends with a test run that is killed. Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, int(signal.SIGTERM), 0, 0, 0)  # PR_SET_PDEATHSIG
