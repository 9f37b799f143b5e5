"""What to do instead of what works on a machine: the lines are what programs print."""

from __future__ import annotations

import pytest

from brickyard.runtime.node.host.advice import advice


@pytest.mark.parametrize(
    ("output", "names"),
    [
        ("E: Could not open lock file /var/lib/dpkg/lock-frontend - open (13: Permission denied)", "pip install"),
        ("a.sh: line 2: apt-get: command not found", "pip install"),
        ("E: Unable to locate package foo", "pip install"),
        ("a.sh: 3: yum: not found", "pip install"),
        ("System has not been booted with systemd as init system (PID 1). Can't operate.", "&"),
        ("line 1: docker: command not found", "containers"),
        ("mount: /mnt: must be superuser to use mount.", "volumes"),
        ("useradd: Permission denied.", "one user"),
        ("cp: cannot create regular file '/etc/x.conf': Read-only file system", "$HOME"),
        ("mkdir: cannot create directory '/opt/tool': Permission denied", "$HOME"),
        ("touch: cannot touch '/usr/local/x': Read-only file system", "$HOME"),
        ("a.sh: line 1: /databricks/spark/conf/x: No such file or directory", "driver/conf"),
        ("a.sh: line 1: /databricks/hive/x: Read-only file system", "driver/conf"),
        ("ModuleNotFoundError: No module named 'x'", ""),
        ("", ""),
    ],
)
def test_advice(output: str, names: str) -> None:
    found = advice(output)
    assert (names in found) if names else not found
