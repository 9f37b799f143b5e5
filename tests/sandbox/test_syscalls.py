"""The filter of system calls, run by a small machine of our own: what it decides on either architecture."""

from __future__ import annotations

import errno
import struct

import pytest

from brickyard.sandbox import syscalls

ALLOWED = 0
AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
I386 = 0x40000003
EVERYWHERE = {"clone3": 435, "io_uring_setup": 425, "openat2": 437, "pidfd_getfd": 438, "fsopen": 430, "fchmodat2": 452}
NUMBERS = {
    "x86_64": {"read": 0, "keyctl": 250, "ptrace": 101, "mount": 165, "openat": 257, "fchmod": 91, "clone": 56, "unshare": 272,
               "socket": 41, "personality": 135, "bpf": 321, "userfaultfd": 323, "setns": 308, "ioctl": 16,
               "io_setup": 206, "mq_open": 240, "mq_timedsend": 242, "seccomp": 317, "fcntl": 72, "prctl": 157, "setsockopt": 54,
               **EVERYWHERE},
    "aarch64": {"read": 63, "keyctl": 219, "ptrace": 117, "mount": 40, "openat": 56, "fchmod": 52, "clone": 220, "unshare": 97,
                "socket": 198, "personality": 92, "bpf": 280, "userfaultfd": 282, "setns": 268, "ioctl": 29,
                "io_setup": 0, "mq_open": 180, "mq_timedsend": 182, "seccomp": 277, "fcntl": 25, "prctl": 167, "setsockopt": 208,
                **EVERYWHERE},
}  # fmt: skip


def decide(machine: str, number: int, *arguments: int, audit: int = 0) -> int:
    """The error that a call is answered with; 0: it is made."""
    data = struct.pack("=IIQ6Q", number, audit or AUDIT[machine], 0, *[*arguments, 0, 0, 0, 0, 0, 0][:6])
    program = list(struct.iter_unpack("=HBBI", syscalls.program(machine)))
    at, loaded = 0, 0
    while True:
        code, if_so, if_not, value = program[at]
        at += 1
        if code == 0x20:
            (loaded,) = struct.unpack_from("=I", data, value)
        elif code == 0x06:
            return ALLOWED if value == 0x7FFF0000 else value & 0xFFFF
        else:
            met = {0x15: loaded == value, 0x35: loaded >= value, 0x45: bool(loaded & value)}[code]
            at += if_so if met else if_not


@pytest.mark.parametrize("machine", sorted(NUMBERS))
def test_what_is_refused(machine: str) -> None:
    call = NUMBERS[machine]
    assert decide(machine, call["read"]) == ALLOWED
    for name in ("keyctl", "ptrace", "mount", "bpf", "userfaultfd", "setns", "pidfd_getfd", "fsopen"):
        assert decide(machine, call[name]) == errno.EPERM, name
    for name in ("clone3", "io_uring_setup", "openat2", "io_setup", "mq_open", "mq_timedsend", "seccomp"):
        assert decide(machine, call[name]) == errno.ENOSYS, name
    assert decide(machine, 600) == errno.ENOSYS, "what is newer than the list"
    assert decide(machine, call["read"], audit=I386) == errno.ENOSYS
    assert decide(machine, 0x40000000 | 0) == errno.ENOSYS, "x32"


@pytest.mark.parametrize("machine", sorted(NUMBERS))
def test_what_the_arguments_decide(machine: str) -> None:
    call = NUMBERS[machine]
    creates, at = 0o101, -100 & 0xFFFFFFFF
    assert decide(machine, call["openat"], at, 0, creates, 0o644) == ALLOWED
    assert decide(machine, call["openat"], at, 0, creates, 0o4755) == errno.EPERM
    assert decide(machine, call["openat"], at, 0, 0o20200002, 0o2755) == errno.EPERM, "O_TMPFILE"
    assert decide(machine, call["openat"], at, 0, 0, 0o4755) == ALLOWED, "without O_CREAT there is no mode"
    assert decide(machine, call["fchmod"], 3, 0o1777) == ALLOWED
    assert decide(machine, call["fchmod"], 3, 0o4755) == errno.EPERM
    assert decide(machine, call["fchmodat2"], at, 0, 0o2755) == errno.EPERM
    assert decide(machine, call["clone"], 17 | 0x3D0F00) == ALLOWED, "a thread, or a fork"
    for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert decide(machine, call["clone"], flag | 17) == errno.EPERM
        assert decide(machine, call["unshare"], flag) == errno.EPERM
    assert decide(machine, call["unshare"], 0x200 | 0x400) == ALLOWED
    assert [decide(machine, call["socket"], family) for family in (1, 2, 10, 16)] == [ALLOWED] * 4
    assert decide(machine, call["socket"], 40) == errno.EAFNOSUPPORT
    assert decide(machine, call["personality"], 0xFFFFFFFF) == ALLOWED
    assert decide(machine, call["personality"], 0x40000) == errno.EPERM
    assert decide(machine, call["ioctl"], 0, 0x5412) == errno.EPERM
    assert decide(machine, call["ioctl"], 0, 0x5401) == ALLOWED
    assert decide(machine, call["fcntl"], 3, 1024, 0) == errno.EPERM, "a lease"
    assert decide(machine, call["fcntl"], 3, 1030, 0) == ALLOWED
    assert decide(machine, call["prctl"], 22, 2) == errno.EINVAL
    assert decide(machine, call["prctl"], 15) == ALLOWED
    assert [decide(machine, call["setsockopt"], 3, 1, name) for name in (26, 51, 2)] == [errno.EPERM, errno.EPERM, ALLOWED]
    assert decide(machine, call["setsockopt"], 3, 41, 26) == ALLOWED, "IPV6_V6ONLY"


def test_a_machine_that_is_not_known_has_no_filter() -> None:
    assert syscalls.program("riscv64") == b""
