"""Installs Python libraries: resolves and unpacks them once for all nodes of this machine, then puts them onto the node.

    CACHE/libraries/<key>/           what one library needs besides the runtime, unpacked: site/, pins.txt. Complete or absent
    CACHE/libraries/installer/uv/    uv's own cache: indexes, wheels

Only this program writes there, and it runs no code of the packages: uv unpacks wheels with the runtime's own interpreter, and
builds nothing (`builds.py` does, on the node). So no cluster can change what another one gets. A node's copy consists of hard
links where the node can only read it, otherwise of copies.

Packages are found by name, in the index alone. What a wheel requires by an address (`name @ URL`) would make this machine fetch
it, read its files or run git: uv refuses this of packages that it finds by name, and `check_wheel` of those that it is given.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import shutil
import time
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from brickyard.agent.libraries import environment, records
from brickyard.agent.libraries.installer import (
    NOWHERE,
    LibraryError,
    Target,
    execute,
    network_of,
    prepared,
    put_file,
    size_of,
    view_of,
)
from brickyard.domain.libraries import is_requirement, is_url
from brickyard.machine.packageindex import certificate_files, index_files, index_urls, uv_environment
from brickyard.sandbox.launcher import Network

LIMIT_S = 900.0  # for one library
HTTP_S = "20"  # how long an index may be silent
AWAY_S = 75.0  # for so long a package index may be away
AGAIN_S = 5.0  # between two attempts then
MAX_METADATA = 16 << 20
MAX_UV_BYTES = 5 << 30  # of uv's own cache
MEASURE_S = 3600.0  # between two looks at its size
FRESH_S = 3600  # for so long a machine gives all nodes the same versions of what a library does not pin
_HINTS = {
    "is not compatible": "The wheel is for another platform or Python.",
    "incompatible with the current": "The wheel is for another platform or Python.",
    "was included as a URL dependency": "What a package requires by an address (name @ URL) is not fetched.",
    "No space left on device": "The disk of the machine's cache is full (cache_dir): free space there, then install it again.",
}
_REQUIRES = ("requires-dist", "requires", "setup-requires-dist")
_AWAY = re.compile(r"error sending request|HTTP status server error")
_SOURCE = re.compile(r"Wheels are required for `([A-Za-z0-9._-]+)` because building from source is disabled")
_INDEX = re.compile(r"(?:-i|--index-url)[ =]\s*(\S+)")


class Wanted(NamedTuple):
    """What to install: requirements, or one wheel, from the machine's package index or from `repo`. `built`: wheels that were
    made of packages that exist there only as source."""

    requirements: tuple[str, ...] = ()
    wheel: Path | None = None
    repo: str = ""
    built: tuple[Path, ...] = ()


class OnlySource(LibraryError):
    """A package has no wheel; `requirement` names it, with its version if only one will do."""

    def __init__(self, message: str, requirement: str) -> None:
        super().__init__(message)
        self.requirement = requirement


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
            name = await asyncio.to_thread(key, wanted, target)
            entry = await prepared(target.cache, name, lambda new: prepare(wanted, target, new))
    except TimeoutError as error:
        raise LibraryError(f"it was not installed within {LIMIT_S:g} s. Check that the package index answers.") from error
    await asyncio.to_thread(put, entry, target)


def key(wanted: Wanted, target: Target) -> str:
    """Returns the name of what is prepared: it follows from everything that decides about the content."""
    digest = hashlib.sha256()
    index = sorted((name, value) for name, value in uv_environment(os.environ).items())
    manifest = (target.manifest.environment, target.manifest.python_version)
    for part in (manifest, wanted.requirements, wanted.repo, index, target.pins, int(time.time()) // FRESH_S):
        digest.update(f"{part!r}\n".encode())
    for wheel in filter(None, (wanted.wheel, *wanted.built)):
        with wheel.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:32]


async def prepare(wanted: Wanted, target: Target, new: Path) -> None:
    """Resolves and unpacks. The runtime's versions are kept wherever they will do."""
    for wheel in filter(None, (wanted.wheel, *wanted.built)):
        await asyncio.to_thread(check_wheel, wheel)
    await asyncio.to_thread(ask, wanted, target, new)
    await bound_uv_cache(target, cwd=new)
    async with network_of(target, None if wanted.repo else index_urls(os.environ)) as network:
        options = ["-c", "fixed.txt", "--no-header", "--no-annotate", "--no-build", "-q"]
        try:
            await uv(("pip", "compile", "in.txt", "-o", "out.txt", *options), wanted, target, network, cwd=new)
        except LibraryError as error:
            raise only_source(str(error), wanted) or error from error
        if await asyncio.to_thread(missing, target, new):
            options = ["--target", "site", "--no-deps", "--no-build", "--compile-bytecode", "-q"]
            await uv(("pip", "install", "-r", "missing.txt", *options), wanted, target, network, cwd=new)
    await asyncio.to_thread(shutil.rmtree, new / "runtime")


def check_wheel(wheel: Path) -> None:
    """Raises LibraryError for a wheel that requires something by its address. It must have one METADATA, which all programs read
    alike."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            found = [name for name in names if re.fullmatch(r"[^/]+\.dist-info/METADATA", name, re.IGNORECASE)]
            if len(names) != len(set(names)) or len(found) != 1 or archive.getinfo(found[0]).file_size > MAX_METADATA:
                raise LibraryError(f"{wheel.name} is not a wheel: it needs one METADATA, and no file twice")
            text = archive.read(found[0]).decode(errors="replace")
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, zlib.error) as error:
        raise LibraryError(f"{wheel.name} is not a wheel: {error}") from error
    import email.parser  # noqa: PLC0415 - only an agent that installs needs it

    about = email.parser.HeaderParser().parsestr(text)
    for required in (value for name, value in about.items() if name.lower() in _REQUIRES):
        if "@" in str(required).partition(";")[0]:
            raise LibraryError(
                f"{wheel.name} requires {str(required)[:200]!r}: what a wheel requires by an address (name @ URL) is not fetched."
                " Require it by name, from a package index"
            )


def only_source(said: str, wanted: Wanted) -> OnlySource | None:
    """Reads from uv's words which package exists only as source. They may also name, in any order, packages that were built."""
    built = {environment.normalized(wheel.name.split("-")[0]) for wheel in wanted.built}
    names = sorted(_SOURCE.findall(said), key=lambda each: each in built)
    if not names:
        return None
    name = names[0]
    exact = re.search(rf"\b{re.escape(name)}(?:\[[^\]]*\])?==(\S+) has no usable wheels", said)
    own = [each for each in wanted.requirements if environment.normalized(re.split(r"[^A-Za-z0-9._-]", each)[0]) == name]
    return OnlySource(said, f"{name}=={exact[1]}" if exact else own[0] if own else name)


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
    there = {*(f"{name}=={version}" for name, version in runtime.items()), *target.there}
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


async def bound_uv_cache(target: Target, *, cwd: Path) -> None:
    """Empties uv's own cache when it has become too large. uv itself waits for others that use it."""
    cache, stamp = target.workshop / "uv", target.workshop / "uv.stamp"
    with contextlib.suppress(OSError):
        if time.time() - stamp.stat().st_mtime < MEASURE_S:
            return
    await asyncio.to_thread(stamp.touch)
    if await asyncio.to_thread(size_of, cache) > MAX_UV_BYTES:
        with contextlib.suppress(LibraryError):  # it is still in use: next time
            await uv(("cache", "clean", "-q"), Wanted(), target, None, cwd=cwd)


async def uv(arguments: Sequence[str], wanted: Wanted, target: Target, network: Network | None, *, cwd: Path) -> None:
    """Runs uv, again and again for a while if the package index is away. Raises LibraryError with what it said last."""
    python = ("--python", target.manifest.python) if arguments[0] == "pip" else ()
    command = [uv_binary(), *arguments, *python, "--color", "never"]
    links = ",".join([str(cwd / "runtime"), *(str(wheel.parent) for wheel in wanted.built)])
    env = uv_variables(wanted, target, os.environ, links=links)
    own = certificate_files(os.environ) if wanted.repo else index_files(os.environ)
    wheels = [str(wheel) for wheel in filter(None, (wanted.wheel, *wanted.built))]
    view = await asyncio.to_thread(
        view_of, target, etc=cwd.parent / "etc", reads=(command[0], *own, *wheels), writes=target.workshop
    )  # fmt: skip
    patient_until = time.monotonic() + AWAY_S
    while True:
        try:
            return await execute(command, env=env, cwd=cwd, walls=target.walls, view=view, network=network, hints=_HINTS)
        except LibraryError as error:
            if not _AWAY.search(str(error)) or time.monotonic() > patient_until:
                raise
        await asyncio.sleep(AGAIN_S)


def uv_variables(wanted: Wanted, target: Target, environ: Mapping[str, str], *, links: str) -> dict[str, str]:
    """Returns uv's environment: the machine's package index, or a user's `repo` alone, without anything of the machine's; besides
    it, the wheels in the directories `links`."""
    if wanted.repo:
        env = {name: environ[name] for name in ("LANG", "LC_ALL", "SSL_CERT_FILE", "SSL_CERT_DIR") if name in environ}
        env |= {"UV_DEFAULT_INDEX": wanted.repo, "UV_NO_CONFIG": "1", "HOME": NOWHERE}
    else:
        env = {name: value for name, value in environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME")}
        env |= uv_environment(environ)
    cache = str(target.workshop / "uv")
    env["UV_FIND_LINKS"] = ",".join(filter(None, [env.get("UV_FIND_LINKS"), links]))
    return env | {"UV_CACHE_DIR": cache, "UV_HTTP_TIMEOUT": HTTP_S, "UV_HTTP_RETRIES": "1", "UV_NO_PROGRESS": "1"}


def uv_binary() -> str:
    import uv  # noqa: PLC0415 - only an agent that installs needs it

    return str(uv.find_uv_bin())


# ── on the node ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def put(entry: Path, target: Target) -> None:
    """Puts what was prepared onto the node, in place of other versions of its packages. Repeating it changes nothing."""
    site, scripts = target.top / "site", target.top / "bin"
    scripts.mkdir(exist_ok=True)
    old = records.replaced(site, entry / "site", normalized=environment.normalized)
    for source in (entry / "site" / "bin").glob("*"):
        if source.is_file() and not source.is_symlink():
            write_script(source, scripts / source.name, target)
    for directory, names, found in os.walk(entry / "site"):
        inner = Path(directory).relative_to(entry / "site")
        if not inner.parts:
            names[:] = [name for name in names if name != "bin"]
        (site / inner).mkdir(exist_ok=True)
        for name in found:
            put_file(Path(directory, name), site / inner / name, linked=target.linked)
    records.remove(site, old, kept=entry / "site")
    for name in records.scripts(old):
        if not (entry / "site" / "bin" / name).exists():
            (scripts / name).unlink(missing_ok=True)
    brought, needs = ((entry / name).read_text().splitlines() for name in ("pins.txt", "out.txt"))
    record = records.Record(brought=tuple(brought), needs=tuple(line for line in needs if "==" in line))
    records.write(target.top, target.name or entry.name, record, normalized=environment.normalized)


def write_script(source: Path, place: Path, target: Target) -> None:
    """Copies a script. It was made for the runtime's interpreter, and is to run the node's."""
    data = source.read_bytes()
    first, newline, rest = data.partition(b"\n")
    own, runtime = (str(python).encode() for python in (target.config.python_dir / "bin" / "python", target.manifest.python))
    if first.startswith(b"#!"):
        data = first.replace(runtime, own) + newline + rest
    place.write_bytes(data)
    place.chmod(0o755)
