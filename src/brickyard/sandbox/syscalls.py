"""The system calls that a node's processes may not make: a BPF program, assembled here, installed by `enter.py` or bubblewrap.

It refuses what well-known container runtimes refuse, plus what this sandbox has its own reasons to refuse: kernel keyrings,
io_uring, namespaces, mounts, other processes' memory, set-user-ID bits (the host sees a node's files), rare socket families, and
what the kernel counts for the whole machine: asynchronous I/O, message queues, further filters, leases of files.
Calls newer than this list do not exist inside: libraries then fall back to older ones.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Mapping

import msgspec

# Refused with EPERM: numbers on x86-64 and on aarch64; None if the call does not exist there.
_REFUSED: dict[str, tuple[int | None, int | None]] = {
    # The kernel itself
    "acct": (163, 89), "adjtimex": (159, 171), "bpf": (321, 280), "clock_adjtime": (305, 266), "clock_settime": (227, 112),
    "create_module": (174, None), "delete_module": (176, 106), "finit_module": (313, 273), "init_module": (175, 105),
    "ioperm": (173, None), "iopl": (172, None), "kexec_file_load": (320, 294), "kexec_load": (246, 104),
    "lookup_dcookie": (212, 18), "modify_ldt": (154, None), "nfsservctl": (180, 42), "perf_event_open": (298, 241),
    "quotactl": (179, 60), "quotactl_fd": (443, 443), "reboot": (169, 142), "setdomainname": (171, 162),
    "sethostname": (170, 161), "settimeofday": (164, 170), "swapoff": (168, 225), "swapon": (167, 224), "_sysctl": (156, None),
    "sysfs": (139, None), "syslog": (103, 116), "uselib": (134, None), "userfaultfd": (323, 282), "ustat": (136, None),
    "vhangup": (153, 58),
    # Keyrings: they belong to a user, not to a namespace
    "add_key": (248, 217), "keyctl": (250, 219), "request_key": (249, 218),
    # Mounts and namespaces
    "chroot": (161, 51), "fanotify_init": (300, 262), "fsconfig": (431, 431), "fsmount": (432, 432), "fsopen": (430, 430),
    "fspick": (433, 433), "mount": (165, 40), "mount_setattr": (442, 442), "move_mount": (429, 429),
    "open_by_handle_at": (304, 265), "open_tree": (428, 428), "open_tree_attr": (467, 467), "pivot_root": (155, 41),
    "setns": (308, 268), "umount2": (166, 39),
    # Other processes' memory
    "kcmp": (312, 272), "migrate_pages": (256, 238), "move_pages": (279, 239), "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "ptrace": (101, 117),
}  # fmt: skip
# Refused as unknown to the kernel, so that libraries fall back: a filter cannot inspect their arguments, which are pointers.
_UNKNOWN = {"clone3": 435, "io_uring_enter": 426, "io_uring_register": 427, "io_uring_setup": 425, "openat2": 437}
# The same for another reason: what they make counts against a limit of the whole machine (contexts of asynchronous I/O, memory of
# filters), or against one of a user (message queues).
_SCARCE: dict[str, tuple[int, int]] = {
    "io_setup": (206, 0), "mq_getsetattr": (245, 185), "mq_notify": (244, 184), "mq_open": (240, 180),
    "mq_timedreceive": (243, 183), "mq_timedsend": (242, 182), "mq_unlink": (241, 181), "seccomp": (317, 277),
}  # fmt: skip
_NEWEST = 469  # the last call known to this list; newer calls have the same numbers on all machines

_NAMESPACES = 0x7E020080  # flags of clone and unshare: CLONE_NEWTIME, NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_CLONE_NAMESPACES = _NAMESPACES & ~0x80  # in clone, the low byte is a signal
_SET_ID = 0o6000
_CREATES = 0o100 | 0o20000000  # O_CREAT, __O_TMPFILE: a mode exists only with these
_FAMILIES = (0, 1, 2, 10, 16)  # unspecified, local, internet, netlink
_PERSONALITIES = (0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)  # as Docker's: none turns memory protection off
_F_SETLEASE = 1024  # it makes whoever opens the file wait for 45 s: the server, other clusters
_PR_SET_SECCOMP = 22
_SOL_SOCKET, _SOCKET_FILTERS = 1, (26, 51)  # SO_ATTACH_FILTER, SO_ATTACH_REUSEPORT_CBPF: programs, as seccomp's are
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C  # they inject terminal input

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_NUMBER_AT, _MACHINE_AT, _ARGUMENTS_AT = 0, 4, 16


class _Machine(msgspec.Struct, frozen=True):
    column: int  # in _REFUSED
    audit: int  # the kernel's name for the machine
    # Calls to check by argument: number -> the argument's index
    modes: Mapping[int, int]  # a mode
    opens: Mapping[int, int]  # flags, followed by a mode
    clone: int
    unshare: int
    personality: int
    ioctl: int
    sockets: tuple[int, int]
    fcntl: int
    prctl: int
    setsockopt: int


_MACHINES = {
    "x86_64": _Machine(
        column=0, audit=0xC000003E, clone=56, unshare=272, personality=135, ioctl=16, sockets=(41, 53),
        fcntl=72, prctl=157, setsockopt=54, opens={2: 1, 257: 2},
        # chmod, fchmod, fchmodat, fchmodat2, creat, mkdir, mkdirat, mknod, mknodat
        modes={90: 1, 91: 1, 268: 2, 452: 2, 85: 1, 83: 1, 258: 2, 133: 1, 259: 2},
    ),
    "aarch64": _Machine(
        column=1, audit=0xC00000B7, clone=220, unshare=97, personality=92, ioctl=29, sockets=(198, 199),
        fcntl=25, prctl=167, setsockopt=208, opens={56: 2},
        modes={52: 1, 53: 2, 452: 2, 34: 2, 33: 2},
    ),
}  # fmt: skip


def program(machine: str = "") -> bytes:
    """Returns the filter in the kernel's format; empty for machines without a list. `machine`: as in `uname -m`."""
    known = _MACHINES.get(machine or platform.machine())
    return b"" if known is None else b"".join(_assemble(known))


def _assemble(machine: _Machine) -> list[bytes]:
    unknown = _REFUSE | errno.ENOSYS
    code = [
        # Other ABIs (32-bit calls on x86-64) use other numbers. None of our programs make such calls.
        _load(_MACHINE_AT), _jump(_EQUAL, machine.audit, 1, 0), _return(unknown),
        _load(_NUMBER_AT), _jump(_AT_LEAST, _NEWEST + 1, 0, 1), _return(unknown),
    ]  # fmt: skip
    for number in _UNKNOWN.values():
        code += _when(number, [_return(unknown)])
    for scarce in _SCARCE.values():
        code += _when(scarce[machine.column], [_return(unknown)])
    for numbers in _REFUSED.values():
        if (refused := numbers[machine.column]) is not None:
            code += _when(refused, [_return(_REFUSE | errno.EPERM)])
    for number, index in machine.modes.items():
        code += _when(number, [*_refuse_bits(index, _SET_ID), _return(_ALLOW)])
    for number, index in machine.opens.items():
        no_mode = [_load(_argument(index)), _jump(_ANY_BIT, _CREATES, 1, 0), _return(_ALLOW)]
        code += _when(number, [*no_mode, *_refuse_bits(index + 1, _SET_ID), _return(_ALLOW)])
    code += _when(machine.clone, [*_refuse_bits(0, _CLONE_NAMESPACES), _return(_ALLOW)])
    code += _when(machine.unshare, [*_refuse_bits(0, _NAMESPACES), _return(_ALLOW)])
    code += _when(machine.personality, _allow_only(0, _PERSONALITIES, errno.EPERM))
    for number in machine.sockets:
        code += _when(number, _allow_only(0, _FAMILIES, errno.EAFNOSUPPORT))
    code += _when(machine.ioctl, _allow_all_but(1, (_TIOCSTI, _TIOCLINUX), errno.EPERM))
    code += _when(machine.fcntl, _allow_all_but(1, (_F_SETLEASE,), errno.EPERM))
    code += _when(machine.prctl, _allow_all_but(0, (_PR_SET_SECCOMP,), errno.EINVAL))
    other_levels = [_load(_argument(1)), _jump(_EQUAL, _SOL_SOCKET, 1, 0), _return(_ALLOW)]
    code += _when(machine.setsockopt, [*other_levels, *_allow_all_but(2, _SOCKET_FILTERS, errno.EPERM)])
    return [*code, _return(_ALLOW)]


def _when(number: int, then: list[bytes]) -> list[bytes]:
    """Returns the instructions for a call with that number; `then` ends in a return."""
    return [_jump(_EQUAL, number, 0, len(then)), *then]


def _refuse_bits(index: int, bits: int) -> list[bytes]:
    return [_load(_argument(index)), _jump(_ANY_BIT, bits, 0, 1), _return(_REFUSE | errno.EPERM)]


def _allow_only(index: int, values: tuple[int, ...], error: int) -> list[bytes]:
    tests = [_jump(_EQUAL, value, len(values) - position, 0) for position, value in enumerate(values)]
    return [_load(_argument(index)), *tests, _return(_REFUSE | error), _return(_ALLOW)]


def _allow_all_but(index: int, values: tuple[int, ...], error: int) -> list[bytes]:
    tests = [_jump(_EQUAL, value, len(values) - position, 0) for position, value in enumerate(values)]
    return [_load(_argument(index)), *tests, _return(_ALLOW), _return(_REFUSE | error)]


def _argument(index: int) -> int:
    """Returns the offset of the lower half of an argument: little-endian, and no checked flag is in the upper half."""
    return _ARGUMENTS_AT + 8 * index


def _load(offset: int) -> bytes:
    return _instruction(_LOAD, 0, 0, offset)


def _jump(kind: int, value: int, if_so: int, if_not: int) -> bytes:
    return _instruction(kind, if_so, if_not, value)


def _return(value: int) -> bytes:
    return _instruction(_RETURN, 0, 0, value)


def _instruction(code: int, if_so: int, if_not: int, value: int) -> bytes:
    return struct.pack("=HBBI", code, if_so, if_not, value)
