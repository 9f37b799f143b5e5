"""System calls for the launchers. Standard library only, because they run outside of any environment."""

from __future__ import annotations

import ctypes
import errno
import os
import signal

TYPE_CHECKING = False  # importing `typing` costs start-up time
if TYPE_CHECKING:
    from collections.abc import Callable

FAILED = 71  # EX_OSERR

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_NOATIME, MS_NODIRATIME, MS_BIND, MS_REC, MS_SILENT = 1024, 2048, 4096, 16384, 32768
MS_SLAVE, MS_SHARED, MS_RELATIME = 1 << 19, 1 << 20, 1 << 21
MNT_DETACH = 2
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000
CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP = 1, 4, 24
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP = 36, 38, 22
SECCOMP_MODE_FILTER = 2
CAPABILITY_VERSION_3 = 0x20080522
CAP_DAC_OVERRIDE, CAP_SETPCAP, CAP_SYS_ADMIN = 1, 8, 21

libc = ctypes.CDLL(None, use_errno=True)


class SetupError(Exception):
    """Part of the plan could not be set up; the message says which."""


def check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise SetupError(f"{what}: {os.strerror(code)} ({errno.errorcode.get(code, code)})")


def prctl(option: int, value: int) -> int:
    return int(libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)))


def hide_memory() -> None:
    """Keeps other processes of the same user from this process's memory, environment and open files, also after a fork. It lasts
    until the process runs another program."""
    check(prctl(PR_SET_DUMPABLE, 0), "cannot hide this process's memory")


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    result = libc.mount(source.encode(), target.encode(), kind.encode() or None, ctypes.c_ulong(flags), data.encode() or None)
    check(result, f"cannot mount {kind or source} at {target}")


def die_with_parent(parent: int, sig: int) -> None:
    """Receives `sig` when the parent dies. The check afterwards closes the race with a parent that has already died."""
    check(prctl(PR_SET_PDEATHSIG, sig), "cannot ask for the parent's death signal")
    if os.getppid() != parent:
        raise SetupError("the agent has ended")


class Filter(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("program", ctypes.c_char_p))


def filter_calls(program: bytes) -> None:
    """Installs the system call filter (`syscalls.py`) for this process and everything it starts."""
    if program:
        wanted = Filter(len(program) // 8, program)
        result = libc.prctl(PR_SET_SECCOMP, ctypes.c_ulong(SECCOMP_MODE_FILTER), ctypes.byref(wanted), None, None)
        check(result, "cannot filter system calls")


def close_pipes(null: int) -> None:
    """Closes our copies of the command's pipes, so that their reader sees the end once the command and its children have
    ended."""
    for fd in (0, 1):
        os.dup2(null, fd)
    os.close(null)


def run_command(argv: list[str], cwd: str, program: bytes, strict: bool = True) -> None:
    """Runs in a child: becomes the command, under the filter `program`. Goes on without the filter only if not `strict`."""
    os.setsid()
    check(prctl(PR_SET_PDEATHSIG, signal.SIGKILL), "cannot ask for the parent's death signal")
    for sig in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM):
        signal.signal(sig, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.umask(0o022)
    check(prctl(PR_SET_NO_NEW_PRIVS, 1), "cannot give up new privileges")
    os.chdir(cwd)
    try:
        filter_calls(program)
    except SetupError:
        if strict:
            raise
    os.execvp(argv[0], argv)  # noqa: S606 - deliberately without a shell


def guarded(step: Callable[..., None], *args: object) -> None:
    """Runs a child's part: reports errors, and never returns into the parent's code."""
    try:
        step(*args)
    except Exception as error:  # any error must be reported, and must end the child here
        complain(error)
    finally:
        os._exit(FAILED)


def complain(error: Exception) -> None:
    os.write(2, f"sandbox: {error}\n".encode(errors="replace"))


def wait_for(pid: int) -> int:
    while True:
        done, status = os.wait()
        if done == pid:
            return status


def drop_capabilities(keep: tuple[int, ...] = ()) -> None:
    """Drops every capability except `keep`, so that no program can regain them. Also disables core dumps, ptrace and
    /proc/PID/environ for this process."""
    capability = 0
    while capability in keep or prctl(PR_CAPBSET_DROP, capability) == 0:
        capability += 1
    kept = sum(1 << each for each in keep)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    check(libc.capset(header, (ctypes.c_uint32 * 6)(kept, kept)), "cannot drop capabilities")
    check(prctl(PR_SET_NO_NEW_PRIVS, 1), "cannot give up new privileges")
    hide_memory()
