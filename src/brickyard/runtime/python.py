"""The interpreter of a runtime, and the tool that makes its environment."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


class PythonMissing(Exception):
    """No interpreter is suitable; the message says which would be, and how to get one."""


def uv_binary() -> str:
    """Returns the path of `uv`: the one installed with this package, otherwise the one on PATH."""
    try:
        import uv  # noqa: PLC0415 - needed only to install

        return str(uv.find_uv_bin())
    except (ImportError, FileNotFoundError):
        if found := shutil.which("uv"):
            return found
        raise PythonMissing("the tool uv is missing: install it with `pip install uv`.") from None


def find_python(wanted: str, *, uv: str, download: bool = True) -> Path:
    """Returns an interpreter that satisfies the specifier: from this machine, otherwise, with `download`, fetched by uv. Raises
    PythonMissing."""
    for options in (["--no-python-downloads"], []) if download else (["--no-python-downloads"],):
        done = subprocess.run(
            [uv, "python", "find", "--no-project", "--system", *options, wanted], capture_output=True, text=True, check=False
        )
        if done.returncode == 0 and done.stdout.strip():
            return Path(done.stdout.strip())
        if not options or not download:
            break
        # `find` never downloads; `install` does, if the machine can.
        subprocess.run([uv, "python", "install", wanted], capture_output=True, text=True, check=False)
    raise PythonMissing(
        f"this runtime needs Python {wanted}, and none is here. Install one, for example python3.11, and try again."
    )
