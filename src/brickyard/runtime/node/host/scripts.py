"""Runs one init script. Standard library only."""

from __future__ import annotations

import base64
import contextlib
import errno
import os
import re
import select
import stat
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

CHUNK = 1 << 20
TAIL_BYTES, TAIL_LINES = 8_000, 20
NAME = 100  # characters of a script's name in the names of its logs
# What some editors write before a text, and what to choose in them instead.
_MARKS = {
    b"\xef\xbb\xbf": "UTF-8 without BOM",
    b"\xff\xfe": "UTF-8 instead of UTF-16",
    b"\xfe\xff": "UTF-8 instead of UTF-16",
}
_TEXT_BUSY_S = 20.0  # a child that was forked may wait that long for a processor on a machine that is overloaded

if TYPE_CHECKING:  # Python 3.8 cannot evaluate these
    from ..documents import ManifestDocument, ProgramRun

    Popen = Callable[..., "subprocess.Popen[bytes]"]


class Refused(Exception):
    """The script cannot be run; the message says why in a sentence. `status` as in the API."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status


def run_script(message: ProgramRun, *, popen: Popen, environ: Mapping[str, str]) -> dict[str, Any]:
    """Runs the script to its end, or until its time is over. Returns status, seconds, message and the last lines that it printed.

    `popen` starts a process in a session of its own that ends with us. What a script has left running goes on if it succeeded;
    otherwise the agent ends the whole node, and with it everything that a script has started, however detached.
    """
    node_dir, number = Path(message["node_dir"]), message["number"]
    name = safe_name(message["name"])
    began = time.monotonic()
    try:
        script = node_dir / "scripts" / f"{number:02}_{name}"
        _place_script(script, message)
        argv = _command(script)
        out, err = _open_logs(node_dir / "logs" / message["logs"], f"{message['stamp']}_{number:02}_{name}")
    except Refused as error:
        return {"status": error.status, "seconds": time.monotonic() - began, "message": str(error)}
    with out, err:
        options = {"env": dict(environ), "stdin": subprocess.DEVNULL, "stdout": out, "stderr": err, "cwd": node_dir / "work"}
        status, text = _run(popen, argv, options, message["limit_s"])
        tail = "" if status == "SUCCEEDED" else _tail(err) or _tail(out)
    return {"status": status, "seconds": time.monotonic() - began, "message": text, "tail": tail}


def environment(
    base: Mapping[str, str], own: Iterable[tuple[str, str]], manifest: ManifestDocument, *, venv: Path
) -> dict[str, str]:
    """Returns a script's whole environment: the node's, with the cluster's and the documented variables. `venv`: the node's
    Python environment, which is first on the PATH, so that `pip install` installs for notebooks and Spark."""
    env = {**base, "SPARK_HOME": manifest["spark_home"], "JAVA_HOME": manifest["java_home"], **dict(own)}
    if (venv / "bin" / "python").exists():
        env.update(VIRTUAL_ENV=str(venv), PATH=f"{venv / 'bin'}:{env.get('PATH', os.defpath)}")
    return env


def safe_name(name: str) -> str:
    """The name as a part of the names of files."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)[-NAME:].lstrip(".-") or "script"


def _run(popen: Popen, argv: list[str], options: dict[str, Any], limit_s: float) -> tuple[str, str]:
    """Returns the status, and a sentence that says what went wrong."""
    began = time.monotonic()
    try:
        process = _start(popen, argv, options)
    except OSError as error:
        return "FAILED_EXECUTION", f"it could not be started: {error.strerror}."
    if not _ended(process, limit_s):
        process.kill()
        return "FAILED_EXECUTION", f"it did not end within {limit_s:g} s (init_script_timeout_s) and was killed."
    code = process.wait()
    if code == 0:
        return "SUCCEEDED", ""
    how = f"exit code {code}" if code > 0 else f"killed by signal {-code}"
    return "FAILED_EXECUTION", f"{how} after {time.monotonic() - began:.1f} s."


def _start(popen: Popen, argv: list[str], options: dict[str, Any]) -> subprocess.Popen[bytes]:
    """Another thread's child may hold the script open for writing for a moment, between its fork and its exec."""
    deadline = time.monotonic() + _TEXT_BUSY_S
    while True:
        try:
            return popen(argv, **options)
        except OSError as error:
            if error.errno != errno.ETXTBSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _ended(process: subprocess.Popen[bytes], limit_s: float) -> bool:
    """Waits without polling where the system can."""
    if hasattr(os, "pidfd_open"):
        with contextlib.suppress(OSError):
            fd = os.pidfd_open(process.pid)
            try:
                return bool(select.select([fd], [], [], limit_s)[0])
            finally:
                os.close(fd)
    try:
        process.wait(limit_s)
    except subprocess.TimeoutExpired:
        return False
    return True


# ── the script ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _place_script(target: Path, message: ProgramRun) -> None:
    """Puts the script where it is run from: what runs cannot change any more while it is read."""
    source, content = message.get("path") or "", message.get("content")
    try:
        with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o700), "wb") as file:  # noqa: PTH123
            if content:
                file.write(base64.b64decode(content))
            else:
                _copy(source, file, message["max_bytes"])
    except OSError as error:
        if error.filename == source:
            why = "it does not exist" if isinstance(error, FileNotFoundError) else f"it cannot be read: {error.strerror}"
            raise Refused("FAILED_FETCH", f"{why}.") from error
        raise Refused("FAILED_FETCH", f"it cannot be copied to the node: {error.strerror}.") from error
    if source.endswith(".object"):
        with contextlib.suppress(OSError):
            os.unlink(source)  # noqa: PTH108 - fetched for us by the agent


def _copy(source: str, file: IO[bytes], limit: int) -> None:
    if not stat.S_ISREG(os.stat(source).st_mode):  # noqa: PTH116
        raise Refused("FAILED_FETCH", "it is not a file.")
    fd = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # if it has just become a FIFO, this must not hang
    with open(fd, "rb", buffering=0) as script:  # noqa: PTH123
        total = os.fstat(fd).st_size  # a file that is too large is refused before anything is copied
        while total <= limit and (chunk := script.read(CHUNK)):
            file.write(chunk)
            total = max(total, file.tell())
        if total > limit:
            most = f"{limit // 1_000_000} MB"
            raise Refused("FAILED_FETCH", f"it is larger than {most}, which is the most an init script may have.")


def _command(script: Path) -> list[str]:
    """Returns the command that runs the script: with the interpreter that it names, or with a shell."""
    with script.open("rb") as file:
        head = file.read(4096)
    if (mark := next((name for start, name in _MARKS.items() if head.startswith(start)), "")) != "":
        raise Refused("FAILED_EXECUTION", f"it begins with a byte order mark (BOM). Save it as {mark}.")
    first = head.split(b"\n", 1)[0]
    if first.endswith(b"\r"):
        raise Refused("FAILED_EXECUTION", "it has Windows line endings (CRLF). Save it with Unix line endings (LF).")
    if b"\0" in head:
        raise Refused("FAILED_EXECUTION", "it is not a script: it contains bytes that are not text.")
    if not first.startswith(b"#!"):
        return ["/bin/bash" if Path("/bin/bash").exists() else "/bin/sh", str(script)]
    interpreter = first[2:].split()[:1]
    path = interpreter[0].decode(errors="replace") if interpreter else ""
    if not os.access(path, os.X_OK):
        raise Refused(
            "FAILED_EXECUTION", f"its first line names {path or 'no interpreter'}, which is not a program on this node."
        )
    return [str(script)]


# ── logs ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _open_logs(directory: Path, name: str) -> tuple[IO[bytes], IO[bytes]]:
    """Opened for reading as well: their end is read from here even if the script removes them."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        out = (directory / f"{name}.stdout.log").open("a+b", buffering=0)
        return out, (directory / f"{name}.stderr.log").open("a+b", buffering=0)
    except OSError as error:
        raise Refused("FAILED_EXECUTION", f"its output cannot be kept in {directory}: {error.strerror}.") from error


def _tail(file: IO[bytes]) -> str:
    size = os.fstat(file.fileno()).st_size
    data = os.pread(file.fileno(), TAIL_BYTES, max(0, size - TAIL_BYTES))
    return "\n".join(data.decode(errors="replace").splitlines()[-TAIL_LINES:]).strip()


# ── what a waiting kernel has seen ──────────────────────────────────────────────────────────────────────────────────────────────


def python_files(node_dir: Path, venv: Path) -> dict[str, tuple[int, int, int]]:
    """Returns inode, size and time of everything in the node's Python environment and its home directory: what a kernel may have
    imported, or has found missing, when it started."""
    found: dict[str, tuple[int, int, int]] = {}
    for top in (venv, node_dir / "home"):
        for directory, _, names in os.walk(top):
            for path in (directory, *(os.path.join(directory, name) for name in names)):  # noqa: PTH118 - many, and strings anyway
                with contextlib.suppress(OSError):
                    info = os.lstat(path)
                    found[path] = (info.st_ino, info.st_size, info.st_mtime_ns)
    return found
