"""The interpreter of a runtime, and the tool that makes its environment."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


class PythonMissing(Exception):
    """No interpreter suits; the message says which would, and how to have one."""


def uv_binary() -> str:
    """The path of `uv`: the one that came with this package, else the one on PATH."""
    try:
        import uv  # noqa: PLC0415 - only when something is installed

        return str(uv.find_uv_bin())
    except (ImportError, FileNotFoundError):
        if found := shutil.which("uv"):
            return found
        raise PythonMissing("the tool uv is missing: install it with `pip install uv`.") from None


def find_python(wanted: str, *, uv: str) -> Path:
    """An interpreter that satisfies the specifier: one of this machine, else one that uv can fetch. Raises PythonMissing."""
    for download in (["--no-python-downloads"], []):
        done = subprocess.run(
            [uv, "python", "find", "--no-project", "--system", *download, wanted], capture_output=True, text=True, check=False
        )
        if done.returncode == 0 and done.stdout.strip():
            return Path(done.stdout.strip())
        if not download:
            break
        # `find` never downloads; `install` does, where the machine may.
        subprocess.run([uv, "python", "install", wanted], capture_output=True, text=True, check=False)
    raise PythonMissing(
        f"this runtime needs Python {wanted}, and none is here. Install one, for example python3.11, and try again."
    )
