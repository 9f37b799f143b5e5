"""Installs Python libraries: resolves and unpacks them once for all nodes of this machine, then puts them onto the node.

    CACHE/libraries/uv/       uv's own cache: indexes, wheels
    CACHE/libraries/<key>/    what one library needs besides the runtime, unpacked: site/, pins.txt. Complete or absent

Only this program writes there, and it runs no code of the packages: uv unpacks wheels with the runtime's own interpreter, and
builds nothing. So no cluster can change what another one gets. A node's copy consists of hard links where the node can only
read it, otherwise of copies.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import hashlib
import os
import re
import shutil
import signal
import tempfile
import time
import zipfile
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from brickyard.agent import environment, locks
from brickyard.agent.config import AgentConfig
from brickyard.agent.sandbox import Network, enter
from brickyard.domain.libraries import is_requirement, is_url
from brickyard.domain.runtimes import RuntimeManifest
from brickyard.lifecycle.packageindex import uv_environment

LIMIT_S = 900.0  # for one library
HTTP_S = "20"  # how long an index may be silent
FRESH_S = 3600  # for so long a machine gives all nodes the same versions of what a library does not pin
KEPT_S = 24 * 3600.0
MESSAGE = 2000  # characters of what the installer says
_HINTS = {
    "no usable wheels": "Only wheels are installed, never source packages: build a wheel (pip wheel) and install it as whl.",
    "is not compatible": "The wheel is for another platform or Python.",
    "incompatible with the current": "The wheel is for another platform or Python.",
}
_INDEX = re.compile(r"(?:-i|--index-url)[ =]\s*(\S+)")


class LibraryError(Exception):
    """The library cannot be installed; the message says why, for users."""


class Wanted(NamedTuple):
    """What to install: requirements, or one wheel, from the machine's package index or from `repo`."""

    requirements: tuple[str, ...] = ()
    wheel: Path | None = None
    repo: str = ""


class Target(NamedTuple):
    """The node on which to install. `linked`: its processes cannot write to what is linked there."""

    config: AgentConfig
    manifest: RuntimeManifest
    linked: bool
    network: Network | None  # the node's network, through which a user's `repo` is reached

    @property
    def top(self) -> Path:
        return self.config.libraries_dir

    @property
    def pins(self) -> str:
        """What the libraries installed so far have brought; a later one may not change it."""
        pins = self.top / "pins.txt"
        return pins.read_text() if pins.exists() else ""


def read_requirements(text: str) -> Wanted:
    """Reads a requirements file: packages by name, and at most one index. Raises LibraryError for anything else."""
    found, repo = [], ""
    for number, raw in enumerate(text.replace("\\\n", " ").splitlines(), start=1):
        line = re.sub(r"(^|\s)#.*", "", raw).strip()
        if index := _INDEX.fullmatch(line):
            repo = index[1]
            if not is_url(repo):
                raise LibraryError(f"line {number}: {repo[:100]!r} is not an http or https URL")
        elif is_requirement(line):
            found.append(line)
        elif line:
            raise LibraryError(
                f"line {number}: {line[:100]!r} is not supported: write packages by name with or without versions, and at most"
                " one --index-url; other options, URLs and paths are not read"
            )
    return Wanted(requirements=tuple(found), repo=repo)


async def install(wanted: Wanted, target: Target) -> None:
    """Installs onto the node. Raises LibraryError, and OSError for problems with the disk. Cancelling ends the installer."""
    if not wanted.requirements and wanted.wheel is None:
        return
    try:
        async with asyncio.timeout(LIMIT_S):
            entry = await prepared(wanted, target)
    except TimeoutError as error:
        raise LibraryError(f"it was not installed after {LIMIT_S:g} s; does the package index answer?") from error
    await asyncio.to_thread(put, entry, target)


async def prepared(wanted: Wanted, target: Target) -> Path:
    """Returns what the library needs, unpacked in the machine's cache. One agent prepares it, and the others wait."""
    cache = Path(target.config.cache_dir, "libraries")
    entry = cache / await asyncio.to_thread(key, wanted, target)
    await asyncio.to_thread(cache.mkdir, parents=True, exist_ok=True)
    async with locked(cache / f"{entry.name}.lock"):
        if not entry.is_dir():
            await asyncio.to_thread(prune, cache)
            with tempfile.TemporaryDirectory(dir=cache, prefix="draft-") as draft:
                new = Path(draft, "new")
                await prepare(wanted, target, new)
                await asyncio.to_thread(new.rename, entry)
    return entry


def key(wanted: Wanted, target: Target) -> str:
    """Returns the name of what is prepared: it follows from everything that decides about the content."""
    digest = hashlib.sha256()
    index = sorted((name, value) for name, value in uv_environment(os.environ).items())
    manifest = (target.manifest.environment, target.manifest.python_version)
    for part in (manifest, wanted.requirements, wanted.repo, index, target.pins, int(time.time()) // FRESH_S):
        digest.update(f"{part!r}\n".encode())
    if wanted.wheel is not None:
        with wanted.wheel.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:32]


async def prepare(wanted: Wanted, target: Target, new: Path) -> None:
    """Resolves and unpacks. The runtime's versions are kept wherever they will do."""
    await asyncio.to_thread(ask, wanted, target, new)
    options = ["-c", "fixed.txt", "--no-header", "--no-annotate", "--no-build", "-q"]
    await uv(("pip", "compile", "in.txt", "-o", "out.txt", *options), wanted, target, cwd=new)
    if await asyncio.to_thread(missing, target, new):
        options = ["--target", "site", "--no-deps", "--no-build", "--compile-bytecode", "-q"]
        await uv(("pip", "install", "-r", "missing.txt", *options), wanted, target, cwd=new)
    await asyncio.to_thread(shutil.rmtree, new / "runtime")


def ask(wanted: Wanted, target: Target, new: Path) -> None:
    """Writes the questions for uv."""
    (new / "site").mkdir(parents=True)
    packages = environment.runtime_packages(target.manifest)
    runtime = environment.installed(packages)
    lines = wanted.requirements if wanted.wheel is None else (str(wanted.wheel),)
    (new / "in.txt").write_text("".join(f"{line}\n" for line in lines))
    pinned = "".join(f"{name}=={runtime[name]}\n" for name in environment.PINNED if name in runtime)
    (new / "fixed.txt").write_text(pinned + target.pins)
    # What is in the output already is preferred, which is how uv keeps the versions of a lock file.
    (new / "out.txt").write_text("".join(f"{name}=={version}\n" for name, version in sorted(runtime.items())))
    stand_ins(packages, new / "runtime")


def missing(target: Target, new: Path) -> bool:
    """Writes down which of uv's answers neither the runtime nor the node has. Returns whether there are any."""
    runtime = environment.installed(environment.runtime_packages(target.manifest))
    there = {*(f"{name}=={version}" for name, version in runtime.items()), *target.pins.split()}
    found = [line for line in (new / "out.txt").read_text().splitlines() if line.strip() and line.strip() not in there]
    (new / "missing.txt").write_text("".join(f"{line}\n" for line in found))
    (new / "pins.txt").write_text("".join(f"{line}\n" for line in found if "==" in line))
    return bool(found)


def stand_ins(packages: Path, directory: Path) -> None:
    """Makes wheels that have only the names, versions and requirements of the runtime's packages: for uv to choose them, wherever
    the package index has others."""
    directory.mkdir()
    for about in packages.glob("*.dist-info"):
        name = about.name.removesuffix(".dist-info")
        with zipfile.ZipFile(directory / f"{name}-py3-none-any.whl", "w") as wheel:
            wheel.write(about / "METADATA", f"{about.name}/METADATA")
            wheel.writestr(f"{about.name}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{about.name}/RECORD", "")


async def uv(arguments: Sequence[str], wanted: Wanted, target: Target, *, cwd: Path) -> None:
    """Runs uv. Raises LibraryError with what it said last."""
    command = [uv_binary(), *arguments, "--python", target.manifest.python, "--color", "never"]
    there = ["/bin/sh", "-c", 'cd "$0" && exec "$@"', str(cwd), *command]
    pipe, network = asyncio.subprocess.PIPE, target.network if wanted.repo else None
    try:
        # Under the launcher, so that it ends when we do.
        process = await asyncio.create_subprocess_exec(
            *enter(target.config.python, "plain", there, network=network), stdin=asyncio.subprocess.DEVNULL, stdout=pipe,
            stderr=asyncio.subprocess.STDOUT, env=uv_variables(wanted, target.config, os.environ, links=str(cwd / "runtime")),
            start_new_session=True, pass_fds=network or (),
        )  # fmt: skip
    except OSError as error:
        raise LibraryError(f"the installer cannot be started: {error}") from error
    lines: collections.deque[str] = collections.deque(maxlen=20)
    try:
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        while data := await process.stdout.read(16 << 10):
            lines.extend(data.decode(errors="replace").splitlines())
        if await process.wait():
            raise LibraryError(explain(lines))
    finally:
        for sig in (signal.SIGTERM, signal.SIGKILL):
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(sig)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(2):
                        await process.wait()


def uv_variables(wanted: Wanted, config: AgentConfig, environ: Mapping[str, str], *, links: str) -> dict[str, str]:
    """Returns uv's environment: the machine's package index, or a user's `repo` alone, without anything of the machine's; besides
    it, the wheels in the directory `links`."""
    if wanted.repo:
        env = {name: environ[name] for name in ("PATH", "LANG", "SSL_CERT_FILE", "SSL_CERT_DIR") if name in environ}
        env |= {"UV_DEFAULT_INDEX": wanted.repo, "UV_NO_CONFIG": "1", "HOME": "/nonexistent"}
    else:
        env = {name: value for name, value in environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME")}
        env |= uv_environment(environ)
    cache = str(Path(config.cache_dir, "libraries", "uv"))
    env["UV_FIND_LINKS"] = ",".join(filter(None, [env.get("UV_FIND_LINKS"), links]))
    return env | {"UV_CACHE_DIR": cache, "UV_HTTP_TIMEOUT": HTTP_S, "UV_HTTP_RETRIES": "1", "UV_NO_PROGRESS": "1"}


def uv_binary() -> str:
    import uv  # noqa: PLC0415 - only an agent that installs needs it

    return str(uv.find_uv_bin())


def explain(lines: Sequence[str]) -> str:
    """Returns the installer's last lines, with a hint where it is not obvious what to do."""
    text = "\n".join(line.rstrip() for line in lines if line.strip())[-MESSAGE:] or "the installer failed without a message"
    hint = next((hint for words, hint in _HINTS.items() if words in " ".join(text.split())), "")
    return f"{text}\n{hint}".strip()


# ── on the node ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def put(entry: Path, target: Target) -> None:
    """Puts what was prepared onto the node. Repeating it changes nothing."""
    site, scripts = target.top / "site", target.top / "bin"
    scripts.mkdir(exist_ok=True)
    for source in (entry / "site" / "bin").glob("*"):
        if source.is_file():
            write_script(source, scripts / source.name, target)
    for directory, names, found in os.walk(entry / "site"):
        inner = Path(directory).relative_to(entry / "site")
        if not inner.parts:
            names[:] = [name for name in names if name != "bin"]
        (site / inner).mkdir(exist_ok=True)
        for name in found:
            put_file(Path(directory, name), site / inner / name, linked=target.linked)
    old = target.pins.splitlines()
    new = [line for line in (entry / "pins.txt").read_text().splitlines() if line not in old]
    (target.top / "pins.txt").write_text("".join(f"{line}\n" for line in (*old, *new)))


def put_file(source: Path, place: Path, *, linked: bool) -> None:
    place.unlink(missing_ok=True)  # two packages may bring the same file; the later one counts, as with pip
    if linked:
        try:
            os.link(source, place)
        except OSError:  # another file system, or too many links
            linked = False
    if not linked:
        shutil.copy2(source, place)


def write_script(source: Path, place: Path, target: Target) -> None:
    """Copies a script. It was made for the runtime's interpreter, and is to run the node's."""
    data = source.read_bytes()
    first, newline, rest = data.partition(b"\n")
    own, runtime = (str(python).encode() for python in (target.config.python_dir / "bin" / "python", target.manifest.python))
    if first.startswith(b"#!"):
        data = first.replace(runtime, own) + newline + rest
    place.write_bytes(data)
    place.chmod(0o755)


# ── the cache ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────


@contextlib.asynccontextmanager
async def locked(path: Path) -> AsyncIterator[None]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while not locks.take(fd):  # noqa: ASYNC110 - no event tells of another process's lock
            await asyncio.sleep(0.05)
        yield
    finally:
        os.close(fd)


def prune(cache: Path) -> None:
    """Removes what was prepared long ago: nodes have links or copies of their own."""
    now = time.time()
    for path in cache.iterdir():
        with contextlib.suppress(OSError):
            if path.name != "uv" and now - path.stat().st_mtime > KEPT_S:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
