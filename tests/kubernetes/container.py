"""Becomes a container's first process on the fake cluster: `python container.py PLAN`, where PLAN is JSON.

It has user and mount namespaces of its own and no rights in them: it runs as the pod's user, sees the pod's volumes where the pod
mounts them, and can make no namespaces, as under the seccomp profile RuntimeDefault. Everything else is the machine's.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from brickyard.machine.linux import CLONE_NEWNS, CLONE_NEWUSER, check, drop_capabilities, guarded, libc
from brickyard.sandbox.enter import forbid_user_namespaces, write_map
from brickyard.sandbox.roots import build_root

TEMPORARY = (Path("/tmp"), Path("/var/tmp"))  # noqa: S108 - nothing is written to the machine's


def shown(targets: list[str], visible: list[str]) -> list[list[str]]:
    """Mounts of all that the machine has, down to where the volumes go. Directories of temporary files are its own, and
    have `visible` in them: what else is there comes and goes."""
    found: list[list[str]] = []

    def show(directory: Path, *, all_of_it: bool) -> None:
        for each in sorted(directory.iterdir()):
            inside = [path for path in (*targets, *visible) if path.startswith(f"{each}/")]
            if str(each) in targets or not (all_of_it or inside or str(each) in visible):
                continue
            if each in TEMPORARY:
                found.append(["tmpfs", "", str(each), "mode=1777"])
                show(each, all_of_it=False)
            elif each == Path("/dev"):
                found.append(["device", "/dev", "/dev", ""])  # with what is there
            elif each.is_symlink():
                found.append(["link", str(each.readlink()), str(each), ""])
            elif inside and each != Path("/proc"):
                show(each, all_of_it=all_of_it or str(each) in visible)
            elif each.exists():
                found.append(["show", str(each), str(each), ""])

    show(Path("/"), all_of_it=True)
    return found


def enter(plan: dict[str, Any], uid: int, gid: int) -> None:
    mine, ours = os.getuid(), os.getgid()
    if not mine:
        os.setgroups([])
    check(libc.unshare(CLONE_NEWUSER | CLONE_NEWNS), "cannot make namespaces")
    write_map("setgroups", "deny")
    write_map("uid_map", f"{uid} {mine} 1")
    write_map("gid_map", f"{gid} {ours} 1")
    forbid_user_namespaces()
    build_root([*shown([target for _, _, target, _ in plan["mounts"]], plan["visible"]), *plan["mounts"]])


def main() -> None:
    plan = json.loads(sys.argv[1])
    enter(plan, plan["uid"], plan["gid"])
    drop_capabilities()
    os.execvp(plan["argv"][0], plan["argv"])  # noqa: S606 - this is how a program is started


if __name__ == "__main__":
    guarded(main)
