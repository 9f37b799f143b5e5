"""Users without an entry in /etc/passwd, as in containers that run as any number.

Hadoop asks Java for the user's name, and Java fails where there is none. Such a user's JVMs start through a class of ours, which
gives Hadoop a name first (java/LoginUser.java). All others start as they are.
"""

from __future__ import annotations

import os
import pwd
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..documents import ManifestDocument

MAIN = "brickyard.LoginUser"
NAME = "-Duser.name=spark"  # Java's own would be a question mark


def is_nameless() -> bool:
    """Whether our user has no name on this machine."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return True
    return False


def classes(manifest: ManifestDocument) -> str:
    """Returns the JAR that such a user's JVMs need on their class path, or "". A training runs without our classes, except for
    such a user: `login_classes`."""
    return (manifest.get("classes") or manifest.get("login_classes") or "") if is_nameless() else ""


def words(manifest: ManifestDocument) -> list[str]:
    """Returns what stands before the main class in a JVM's command line."""
    return [NAME, MAIN] if classes(manifest) else []
