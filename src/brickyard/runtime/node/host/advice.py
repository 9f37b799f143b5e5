"""What to do instead where an init script did what works on a machine and not on a node. Pure."""

from __future__ import annotations

import re
from typing import Any

_PLACES = (
    "The node sees the machine's /usr and /etc read-only. Write to $HOME, /tmp, /databricks/jars (class path), "
    "/databricks/driver/conf (the driver's settings) or the workspace's files."
)
_PACKAGES = (
    "System packages cannot be installed on a node: have them installed on its machine or in its image. Use pip install for "
    "Python packages, libraries or spark.jars.packages for JARs, or download a program to $HOME."
)
# (what the script printed, what to do), in this order.
_ADVICE: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"/var/(?:lib|cache)/(?:dpkg|apt)|/var/(?:lib/rpm|cache/(?:yum|dnf))|dpkg: error"
            r"|^E: .*(?:lock|install|permission|locate)"
            r"|\b(?:apt|apt-get|dpkg|yum|dnf|microdnf|apk|zypper|snap|add-apt-repository): (?:command )?not found",
            re.MULTILINE | re.IGNORECASE,
        ),
        _PACKAGES,
    ),
    (
        re.compile(
            r"not been booted with systemd|\b(?:systemctl|service|initctl): (?:command )?not found|Failed to connect to bus"
        ),
        "A node has no services: start the program in the background (program &). It runs until the node ends.",
    ),
    (
        re.compile(r"\b(?:docker|podman): (?:command )?not found|docker\.sock"),
        "A node runs no containers. Start the program itself.",
    ),
    (re.compile(r"\bmount: |\bmount\.\w+: "), "A node cannot mount. Read object stores with Spark, or use volumes and /dbfs."),
    (
        re.compile(r"\b(?:useradd|adduser|usermod|groupadd|chpasswd): |\bchown: .*not permitted"),
        "A node has one user, which owns what it may write. Leave users and owners as they are.",
    ),
    (
        re.compile(r"\b(?:sysctl|modprobe|iptables|ip6tables|ufw|swapon): "),
        "The machine's kernel and network are set up by its administrator. Leave this out.",
    ),
    (
        re.compile(r"/databricks/(?!jars\b|driver/conf\b|python3?\b)\S*: (?:No such file|Read-only|Permission denied)"),
        "Of /databricks, a node has jars (class path), driver/conf (the driver's settings) and python (the Python environment).",
    ),
    (re.compile(r"Read-only file system|(?:/usr|/etc|/opt|/var|/lib|/srv)/?\S*'?: Permission denied"), _PLACES),
    (re.compile(r"(?:/opt|/etc|/var|/srv|/mnt)/?\S*'?: No such file"), _PLACES),
)


def added(result: dict[str, Any]) -> dict[str, Any]:
    """Returns a script's result, with what to do instead if it failed."""
    instead = advice(str(result.get("tail") or ""))
    return {**result, "message": f"{result['message']} {instead}"} if instead else result


def advice(output: str) -> str:
    """Returns what to do instead, a sentence or two; "" if nothing in the script's last lines is known."""
    return next((what for pattern, what in _ADVICE if pattern.search(output)), "")
