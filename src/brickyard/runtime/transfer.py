"""Runtimes in one file, for machines without a package index: everything that a node needs, with checksums.

A runtime has paths in some of its files, so it is made to fit where it is imported: those files are written anew, and it gets an
interpreter of that machine, which must be of the same version. Java goes along. What a training has made fits one place alone and
stays behind: a training needs no index.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import posixpath
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from brickyard import __version__
from brickyard.domain.runtimes import Runtime, RuntimeManifest
from brickyard.machine import files
from brickyard.machine.bundles import BundleError, BundleReader, BundleWriter, Unreadable
from brickyard.machine.drafts import drafted
from brickyard.runtime import catalogue
from brickyard.runtime.installation import FACTS
from brickyard.runtime.installed import installed, runtime_home, write_manifest
from brickyard.runtime.inuse import RuntimeUse
from brickyard.runtime.java import probe
from brickyard.runtime.lock import locked
from brickyard.runtime.python import PythonMissing, find_python, uv_binary

KIND = "runtimes"
_PARTS = ("venv", "java", "classes", "packages", "layers", "installation.json")
_UNFINISHED = (".draft", ".tmp", "state.json", ".failure.json")
_JAVA = "exported"  # where a machine's Java is put, below the runtime's java/
_WITH_PATHS = ("venv/bin/*", "venv/pyvenv.cfg", "packages/*/site/bin/*", "layers/*/site/bin/*", "java/home-*/bin/java")
_LARGEST = 1 << 20  # of a file with paths in it
_decode_about = msgspec.json.Decoder(dict[str, RuntimeManifest]).decode
Tell = Callable[[int], None]  # so many more bytes are done


class TransferError(Exception):
    """Runtimes cannot be exported or imported. The message is one line: why, and what to do."""


class Imported(NamedTuple):
    """What an import did: environments."""

    added: list[str]
    there: list[str]  # that were installed before, and stay as they are


# ── export ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def export(runtimes: Sequence[Runtime], file: Path, *, cache_dir: Path, tell: Tell) -> list[str]:
    """Writes the installed runtimes to a new file; returns their environments. Raises TransferError."""
    file = file.absolute()
    if os.path.lexists(file):
        raise TransferError(f"{file} exists already. Choose another name.")
    with contextlib.ExitStack() as held:
        manifests = dict[str, RuntimeManifest]()
        for runtime in runtimes:
            use = RuntimeUse(cache_dir)
            use.begin(runtime.environment)  # it is not removed meanwhile
            held.callback(use.end)
            manifest = installed(runtime.environment, cache_dir)
            if manifest is None:
                raise TransferError(f"{runtime.key} is not installed. Install it with `brickyard runtime install {runtime.key}`.")
            manifests[runtime.environment] = manifest
        try:
            with drafted(file) as draft, (draft / file.name).open("wb") as stream:
                _write(BundleWriter(stream, KIND, _about(manifests), moved=tell), manifests)
        except Unreadable as error:
            raise TransferError(f"{error}. Run as the user who installed the runtimes.") from error
        except OSError as error:
            raise TransferError(
                f"cannot write to {file.parent}: {error.strerror or error}. Free space there, or choose another place."
            ) from error
    return list(manifests)


def _about(manifests: dict[str, RuntimeManifest]) -> dict[str, Any]:
    return {
        "version": __version__,
        "created_ms": time.time_ns() // 1_000_000,
        "system": platform.system(),
        "machine": platform.machine(),
        "environments": {name: msgspec.to_builtins(manifest) for name, manifest in manifests.items()},
    }


def _write(writer: BundleWriter, manifests: dict[str, RuntimeManifest]) -> None:
    for java in sorted({java for manifest in manifests.values() if (java := _java_outside(manifest))}):
        _add_java(writer, Path(java), f"java/{_java_name(java)}")
    for name, manifest in manifests.items():
        home = Path(manifest.home)
        for path in _belongs(home):
            inside, target = f"runtimes/{name}/{path.relative_to(home)}", path
            if path.is_symlink():
                leads = path.readlink()
                if leads.is_absolute() and leads.is_relative_to(home):
                    relative = posixpath.relpath(leads, path.parent)
                    writer.link(inside, relative)
                    continue
                if leads.is_absolute():
                    if path.parent == home / "venv" / "bin":
                        continue  # the interpreter: another one's there
                    target = path.resolve()
            writer.add(inside, target)
    writer.close()


def _belongs(home: Path) -> Iterator[Path]:
    """What of a runtime goes along."""
    left = [home / part for part in _PARTS]
    while left:
        path = left.pop()
        if path.name.endswith(_UNFINISHED) or (path.name in ("work", "logs") and path.parent.name == "pyspark"):
            continue
        if path.is_symlink() or path.is_file():
            yield path
        elif path.is_dir():
            yield path
            left.extend(sorted(path.iterdir(), reverse=True))


def _java_outside(manifest: RuntimeManifest) -> str:
    """The machine's Java that a runtime uses; "" if it has its own."""
    return "" if Path(manifest.java_real).is_relative_to(manifest.home) else manifest.java_real


def _java_name(java: str) -> str:
    return Path(java).name


def _add_java(writer: BundleWriter, java: Path, name: str) -> None:
    """Adds a Java with what its links lead to: a distribution has some of its files elsewhere."""
    left = [(java, name)]
    while left:
        path, inside = left.pop()
        if not writer.add(inside, path.resolve()):
            continue  # a link that leads nowhere, as to sources that are not installed
        if path.is_dir():
            left.extend((each, f"{inside}/{each.name}") for each in sorted(path.iterdir(), reverse=True))


# ── import ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def bring_in(file: Path, *, cache_dir: Path, tell: Tell) -> Imported:
    """Installs the runtimes of a file, each complete or not at all. Raises TransferError."""
    try:
        stream = file.open("rb")
    except OSError as error:
        raise TransferError(f"cannot read {file}: {error.strerror}.") from error
    with stream, contextlib.ExitStack() as opened:
        try:
            reader = BundleReader(stream, KIND)
            manifests = _checked(reader.about)
            staged = opened.enter_context(_staged(cache_dir))
            reader.extract(staged, accepts=lambda name: _accepts(name, manifests), leads=_stays, moved=tell)
            os.sync()  # the content is on the disk before anything names it
            return _install_all(staged, manifests, cache_dir)
        except BundleError as error:
            raise TransferError(f"{file} {error}. Nothing was installed.") from error
        except OSError as error:
            raise TransferError(
                f"cannot write to {error.filename or cache_dir}: {error.strerror or error}. Free space there, or choose another "
                "cache_dir, and run the command again."
            ) from error


def _checked(about: dict[str, Any]) -> dict[str, RuntimeManifest]:
    """The runtimes that a file says it has, if this machine can run them. Raises BundleError."""
    ours = f"{platform.system()} {platform.machine()}"
    if (theirs := f"{about.get('system')} {about.get('machine')}") != ours:
        raise BundleError(f"has runtimes for {theirs}, and this machine is {ours}")
    try:
        manifests = _decode_about(json.dumps(about.get("environments")))
    except msgspec.MsgspecError as error:
        raise BundleError(f"is damaged: its list of runtimes cannot be read ({error})") from error
    known = {each.environment for each in catalogue.rows()}
    if strange := sorted(manifests.keys() - known):
        raise BundleError(
            f"has {', '.join(strange)} of Brickyard {about.get('version')}, which Brickyard {__version__} does not know"
        )
    for manifest in manifests.values():
        _python_of(manifest)
    return manifests


def _python_of(manifest: RuntimeManifest) -> Path:
    """An interpreter of this machine of the same version. Raises BundleError."""
    version = ".".join(manifest.python_version.split(".")[:2])
    try:
        return find_python(f"=={version}.*", uv=uv_binary(), download=False)
    except PythonMissing as error:
        raise BundleError(f"needs Python {version} for {manifest.environment}, and this machine has none") from error


@contextlib.contextmanager
def _staged(cache_dir: Path) -> Iterator[Path]:
    """An empty directory on the disk of the runtimes, for one import at a time."""
    (cache_dir / "locks").mkdir(parents=True, exist_ok=True)
    staged = cache_dir / "importing"
    with (cache_dir / "locks" / "import").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        files.make_empty(staged) if staged.exists() else staged.mkdir(mode=0o700)
        try:
            yield staged
        finally:
            with contextlib.suppress(OSError):
                files.remove_tree(staged)


def _accepts(name: str, manifests: dict[str, RuntimeManifest]) -> bool:
    top, _, rest = name.partition("/")
    if top == "java":
        return rest.partition("/")[0] in {_java_name(java) for each in manifests.values() if (java := _java_outside(each))}
    environment, _, inside = rest.partition("/")
    return top == "runtimes" and environment in manifests and inside.partition("/")[0] in _PARTS


def _stays(name: str, target: str) -> bool:
    """Whether a link leads to something of the same runtime."""
    top = "/".join(name.split("/")[:2])
    where = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
    return not target.startswith("/") and where.startswith(f"{top}/")


def _install_all(staged: Path, manifests: dict[str, RuntimeManifest], cache_dir: Path) -> Imported:
    done = Imported([], [])
    for name, manifest in manifests.items():
        with locked(name, cache_dir, lambda _: None):
            if installed(name, cache_dir) is not None:
                done.there.append(name)
                continue
            home = runtime_home(name, cache_dir)
            fitted = _fit(staged, manifest, home)
            files.remove_tree(home)  # of an installation or an import that was killed
            home.parent.mkdir(parents=True, exist_ok=True)
            (staged / "runtimes" / name).rename(home)
            if probe(Path(fitted.java_home)) is None:
                files.remove_tree(home)
                raise BundleError(f"has a Java for {name} that does not run on this machine")
            write_manifest(fitted)  # from here on it is installed
            done.added.append(name)
    return done


def _fit(staged: Path, manifest: RuntimeManifest, home: Path) -> RuntimeManifest:
    """Makes what was unpacked fit its place; returns its manifest. Raises BundleError."""
    here, python = staged / "runtimes" / manifest.environment, _python_of(manifest)
    facts = json.loads(subprocess.run([python, "-I", "-c", FACTS], capture_output=True, check=True).stdout)
    old, new = manifest.home, str(home)
    for pattern in _WITH_PATHS:
        for path in here.glob(pattern):
            if path.is_file() and not path.is_symlink() and path.stat().st_size < _LARGEST:
                _replace(path, old.encode(), new.encode())
    config = here / "venv" / "pyvenv.cfg"
    lines = [line for line in config.read_text().splitlines() if line.partition(" ")[0] not in ("home", "version_info")]
    config.write_text("\n".join([f"home = {python.parent}", f"version_info = {facts['python_version']}", *lines]) + "\n")
    (here / "venv" / "bin" / "python").unlink(missing_ok=True)
    (here / "venv" / "bin" / "python").symlink_to(python)
    if java := _java_outside(manifest):
        target = here / "java" / _JAVA
        shutil.copytree(staged / "java" / _java_name(java), target, copy_function=os.link)  # runtimes share it
        java_home = java_real = str(home / "java" / _JAVA)
    else:
        java_home, java_real = (_moved(path, old, new) for path in (manifest.java_home, manifest.java_real))
    return msgspec.structs.replace(
        manifest,
        home=new,
        python=_moved(manifest.python, old, new),
        spark_home=_moved(manifest.spark_home, old, new),
        python_version=facts["python_version"],
        python_base=facts["python_base"],
        java_home=java_home,
        java_real=java_real,
        node_archive="",
        worker_archive="",
        executor_archive="",
        rewritten="",
        trained_with="",
    )


def _moved(path: str, old: str, new: str) -> str:
    if not Path(path).is_relative_to(old):
        raise BundleError(f"is damaged: its runtime in {old} has a part in {path}")
    return str(Path(new) / Path(path).relative_to(old))


def _replace(path: Path, old: bytes, new: bytes) -> None:
    content = path.read_bytes()
    if old in content and b"\0" not in content:
        path.write_bytes(content.replace(old, new))
