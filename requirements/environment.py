"""Makes the project's environment: `.venv`, with exactly the packages of requirements/dev.txt, hashes checked. With the argument
`main`, those of requirements/main.txt are enough: what Brickyard needs to run; with `jupyter`, what its kernels need as well.

Run by `./dev` with any Python 3.11 or newer; standard library only. Safe to run twice at once: the second waits.
uv does the work: the one on PATH, else the locked one from the package index.
"""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "stamp"
LOCK_FILES = {name: ROOT / "requirements" / f"{name}.txt" for name in ("dev", "jupyter", "main")}

ENOUGH = {"dev": ("dev",), "jupyter": ("dev", "jupyter"), "main": ("dev", "jupyter", "main")}  # as in ./dev

sys.path.insert(0, str(ROOT / "src"))
from brickyard.machine.packageindex import uv_environment  # noqa: E402 - the package is not installed yet

# Not a Python script: the path of an interpreter behind #! may hold no space and at most 126 characters.
# Until our first line runs, Python answers Ctrl-C with a traceback: so it is ignored until then (brickyard/interrupts.py), unless
# whoever started us ignores it anyway. A shell tells that by not acting on it.
ENTRY = """\
#!/bin/sh
trap heard=yes INT; kill -INT $$
if [ "$heard" ]; then trap '' INT; export BRICKYARD_CTRL_C_HELD_BACK=yes; fi
exec {python} -P -m brickyard "$@"
"""


class SetupError(Exception):
    """One line: what went wrong and what to do."""


def main(packages: str = "dev") -> int:
    folder = os.open(LOCK_FILES[packages].parent, os.O_RDONLY)  # a lock on the folder itself leaves no file behind
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        if (VENV / "bin" / "ruff").exists():
            packages = "dev"  # who has developed here goes on
        elif packages == "main" and [*VENV.glob("lib/python*/site-packages/ipykernel")]:
            packages = "jupyter"  # kernels run in it
        if not any(up_to_date(enough) for enough in ENOUGH[packages]):
            make(packages)
    except SetupError as error:
        print(f"dev: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        say(f"dev: cannot make {VENV}: {error.strerror or error}. Free space there or fix its owner, then run again.")
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        os.close(folder)
    return 0


def wanted(packages: str) -> str:
    """What the stamp holds when the environment is right: where it was made, and for which packages."""
    return f"{ROOT}\n{LOCK_FILES[packages].read_text()}"


def up_to_date(packages: str) -> bool:
    return STAMP.is_file() and PYTHON.exists() and STAMP.read_bytes() == os.fsencode(wanted(packages))


def make(packages: str) -> None:
    """Everything, in order; the stamp comes last, so that a kill in the middle is repaired by the next run."""
    say("Making the project's environment in .venv (once; about a minute) ...")
    made_here = STAMP.is_file() and STAMP.read_bytes().partition(b"\n")[0] == os.fsencode(ROOT)
    if VENV.exists() and not (made_here and works(PYTHON)):
        shutil.rmtree(VENV)
    STAMP.unlink(missing_ok=True)
    environ = {**os.environ, **uv_environment(os.environ), "UV_NO_PROGRESS": "1"}
    environ.pop("VIRTUAL_ENV", None)
    uv = shutil.which("uv")
    if uv is None or not works(Path(uv)):
        uv = bootstrap()
    elif not PYTHON.exists():
        run([uv, "venv", "--quiet", "--no-project", "--python", sys.executable, str(VENV)], environ, "make a virtual environment")
    # To compile everything takes longer than to install it. Brickyard imports a part, which is compiled when it is used.
    compiled = ["--compile-bytecode"] if packages == "dev" else []
    sync = [uv, "pip", "sync", "--quiet", "--require-hashes", *compiled, "--python", str(PYTHON)]
    run([*sync, str(LOCK_FILES[packages])], environ, "install the locked packages")
    link_project()
    STAMP.write_bytes(os.fsencode(wanted(packages)))


def bootstrap() -> str:
    """A virtual environment made by Python itself, with the locked uv put in by pip. Returns uv's path."""
    if not PYTHON.exists():
        make_venv = [sys.executable, "-m", "venv", "--without-pip", str(VENV)]
        run(make_venv, dict(os.environ), "make a virtual environment")
    uv = VENV / "bin" / "uv"
    if not works(uv):
        pin = VENV / "uv.txt"
        pin.write_text(locked("uv"))
        install = [*pip(), "install", "--quiet", "--disable-pip-version-check", "--no-compile", "--require-hashes"]
        run([*install, "-r", str(pin)], dict(os.environ), "install uv")
    return str(uv)


def pip() -> list[str]:
    """The command that runs pip in the environment: the copy that Python brings, where it lies. To install that first would take
    seconds."""
    try:
        import ensurepip  # noqa: PLC0415 - Debian has it in a package of its own
    except ImportError as error:
        shutil.rmtree(VENV, ignore_errors=True)
        raise SetupError(
            f"{sys.executable} cannot make virtual environments (ensurepip is missing). Install what it lacks (Debian: "
            f"apt install python3-venv), or uv, then run again."
        ) from error
    for place in (sysconfig.get_config_var("WHEEL_PKG_DIR"), Path(ensurepip.__file__).parent / "_bundled"):
        if place and (wheels := sorted(Path(place).glob("pip-*.whl"))):
            return [str(PYTHON), str(wheels[-1] / "pip")]
    run([str(PYTHON), "-m", "ensurepip"], dict(os.environ), "install pip")
    return [str(PYTHON), "-m", "pip"]


def locked(package: str) -> str:
    """The lines of one package in the lock file, hashes and all."""
    lock_file = LOCK_FILES["main"]
    entry = re.search(rf"^{package}==.*?(?=^\S|\Z)", lock_file.read_text(), re.MULTILINE | re.DOTALL)
    if entry is None:
        raise SetupError(f"{lock_file} has no {package}. Restore it with git checkout requirements.")
    return entry.group()


def link_project() -> None:
    """Put src/ on the environment's path and write the `brickyard` command: an editable install without a build."""
    site = next((VENV / "lib").glob("python*/site-packages"))
    (site / "brickyard.pth").write_text(path_line(str(ROOT / "src")))
    entry = VENV / "bin" / "brickyard"
    entry.write_bytes(os.fsencode(ENTRY.format(python=shlex.quote(str(PYTHON)))))
    entry.chmod(0o755)


def path_line(path: str) -> str:
    """The line of a .pth file that adds the path. Python 3.11 reads the file in the locale's encoding, and does not start where
    it cannot: so a path that is not ASCII is written as Python, in ASCII."""
    return f"{path}\n" if path.isascii() else f"import sys; sys.path.append({path!a})\n"


def works(program: Path) -> bool:
    try:
        return subprocess.run([str(program), "--version"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def run(command: list[str], environ: dict[str, str], purpose: str) -> None:
    done = subprocess.run(command, env=environ, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        raise SetupError(
            f"could not {purpose} (see above). Check the package index (pip config list; PIP_INDEX_URL), the network and "
            f"the disk, then run again."
        )


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
