"""How a package is added to the Python that runs this: for messages. Brickyard is on no index, so it is never named there."""

from __future__ import annotations

import importlib.util
import shlex
import shutil
import sys
from pathlib import Path


def command(requirement: str) -> str:
    """What to type to add a package to our Python's environment. That of a checkout has uv in place of pip."""
    python = shlex.quote(sys.executable)
    if importlib.util.find_spec("pip") is not None:
        return f"{python} -m pip install {shlex.quote(requirement)}"
    beside = Path(sys.executable).with_name("uv")
    uv = shlex.quote(str(beside)) if beside.exists() else shutil.which("uv") or "uv"
    return f"{uv} pip install --python {python} {shlex.quote(requirement)}"
