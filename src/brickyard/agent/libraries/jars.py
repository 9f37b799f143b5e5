"""Installs jars: files, and Maven artifacts with what they require, which Ivy resolves as Spark does for `spark.jars.packages`.

    CACHE/libraries/<key>/       the jars of one Maven library, complete or absent
    INSTANCE/libraries/jars/     the node's jars; jars.txt beside it has their names in the order in which they were installed

Only drivers have jars: Spark itself sends them to the executors. Ivy runs in the runtime's own Java and keeps nothing of its own,
so what one repository says of an artifact reaches no cluster that uses another repository.
"""

from __future__ import annotations

import asyncio
import hashlib
import html
import os
import re
import shutil
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from brickyard.agent.libraries import duplicates, records
from brickyard.agent.libraries.installer import LibraryError, Target, execute, network_of, prepared, put_file, view_of
from brickyard.domain.libraries import MavenLibrary
from brickyard.machine.mavenrepo import VARIABLE, repository

LIMIT_S = 900.0  # for one library
FRESH_S = 3600  # for so long a machine gives all clusters the same snapshot
CONNECT_MS, SILENCE_MS = 10_000, 20_000
HEAP_MB = 256
_HINTS = {
    "UNRESOLVED DEPENDENCIES": "Check the coordinates (group:artifact:version), and whether a repository has them.",
    "java.net.ConnectException": "The repository does not answer.",
    "SocketTimeoutException": "The repository does not answer in time.",
}
# Spark's own parts (as in its SparkSubmit) and Scala's library: the runtime has them, and others beside them would break it.
_SPARK = (
    "catalyst|core|graphx|kvstore|launcher|mllib|mllib-local|network-common|network-shuffle|repl|sketch|sql|streaming|tags|unsafe"
)
_OWN = (("org[.]apache[.]spark", f"spark-({_SPARK})_.*"), ("org[.]scala-lang", "scala-library"))


class Resolved(NamedTuple):
    """A Maven library in the machine's cache. `message`: what was left out, for users."""

    jars: tuple[Path, ...]
    message: str = ""


async def maven(library: MavenLibrary, target: Target, *, environ: Mapping[str, str] = os.environ) -> Resolved:
    """Returns the artifact's jar and those that it requires and the runtime lacks. Raises LibraryError, and OSError."""
    roots = tuple(filter(None, [(library.repo or "").rstrip("/"), repository(environ)]))
    if not roots:
        raise LibraryError(f"this machine has no Maven repository ({VARIABLE} is empty): name one as repo")

    async def prepare(new: Path) -> None:
        await _resolve(library, roots, target, new)

    try:
        async with asyncio.timeout(LIMIT_S):
            entry = await prepared(target.cache, _key(library, roots, target), prepare)
    except TimeoutError as error:
        raise LibraryError(f"it was not installed within {LIMIT_S:g} s. Check that the repository answers.") from error
    left = await asyncio.to_thread(duplicates.left_out, entry)
    return Resolved(tuple(sorted((entry / "jars").iterdir())), duplicates.sentence(left))


def _key(library: MavenLibrary, roots: tuple[str, ...], target: Target) -> str:
    snapshot = int(time.time()) // FRESH_S if library.coordinates.endswith("-SNAPSHOT") else 0
    runtime = (target.manifest.environment, target.manifest.spark_version)  # what it has is left out
    parts = ("maven", library.coordinates, sorted(library.exclusions or ()), roots, snapshot, runtime)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


async def _resolve(library: MavenLibrary, roots: tuple[str, ...], target: Target, new: Path) -> None:
    await asyncio.to_thread(_ask, library, roots, new)
    scratch = new / "ivy"
    command = [
        str(Path(target.manifest.java_home, "bin", "java")), f"-Xmx{HEAP_MB}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
        # What a repository sends may name no files of this machine, and gets nothing fetched but artifacts.
        "-Djavax.xml.accessExternalDTD=", "-Djavax.xml.accessExternalSchema=",
        f"-Duser.home={scratch}", f"-Djava.io.tmpdir={scratch}", "-cp", _ivy(target), "org.apache.ivy.Main", "-warn",
        "-settings", str(scratch / "settings.xml"), "-ivy", str(scratch / "ivy.xml"), "-cache", str(scratch / "cache"),
        "-retrieve", f"{new}/jars/[organisation]_[artifact]-[revision](-[classifier]).[ext]",
        "-types", "jar", "bundle", "test-jar",
    ]  # fmt: skip
    env = {name: os.environ[name] for name in ("LANG", "LC_ALL") if name in os.environ}
    reads = [target.manifest.java_home, *(root.path for each in roots if (root := urlsplit(each)).scheme == "file")]
    view = await asyncio.to_thread(view_of, target, etc=new.parent / "etc", reads=reads, writes=new)
    async with network_of(target, None if library.repo else roots) as network:
        await execute(command, env=env, cwd=scratch, walls=target.walls, view=view, network=network, hints=_HINTS)
        if not any((new / "jars").iterdir()):
            raise LibraryError(f"{library.coordinates} has no jar")
        group, name, version = library.coordinates.split(":")
        command = duplicates.removal(
            target.manifest.python,
            target.manifest.spark_home,
            new / "jars",
            new / duplicates.LIST,
            named=f"{group}_{name}-{version}",
        )
        await execute(command, env=env, cwd=scratch, walls=target.walls, view=view, network=network, hints={})
    await asyncio.to_thread(shutil.rmtree, scratch)


def _ask(library: MavenLibrary, roots: tuple[str, ...], new: Path) -> None:
    """Writes the questions for Ivy."""
    (new / "jars").mkdir(parents=True)
    (new / "ivy").mkdir()
    (new / "ivy" / "settings.xml").write_text(_settings(roots))
    (new / "ivy" / "ivy.xml").write_text(_module(library))


def _settings(roots: tuple[str, ...]) -> str:
    resolvers = "".join(
        f'<ibiblio name={_quoted(f"{number} {urlsplit(root).hostname}")} m2compatible="true" root={_quoted(root + "/")}'
        ' timeoutConstraint="limits"/>'
        for number, root in enumerate(roots, start=1)
    )
    return (
        '<ivysettings><settings defaultResolver="all"/><timeout-constraints><timeout-constraint name="limits"'
        f' connectionTimeout="{CONNECT_MS}" readTimeout="{SILENCE_MS}"/></timeout-constraints>'
        f'<resolvers><chain name="all" returnFirst="true">{resolvers}</chain></resolvers></ivysettings>'
    )


def _module(library: MavenLibrary) -> str:
    """Returns a module that requires the library, and nothing that the runtime has."""
    group, name, version = library.coordinates.split(":")
    excluded = "".join(f'<exclude org={_quoted(org)} module={_quoted(module)} matcher="regexp"/>' for org, module in _OWN)
    for each in library.exclusions or ():
        org, module = (re.escape(part).replace(r"\*", ".*") for part in each.split(":"))
        excluded += f'<exclude org={_quoted(org)} module={_quoted(module)} matcher="regexp"/>'
    return (
        '<ivy-module version="2.0"><info organisation="brickyard" module="library"/><configurations><conf name="default"/>'
        f"</configurations><dependencies><dependency org={_quoted(group)} name={_quoted(name)} rev={_quoted(version)}"
        f' conf="default->default"/>{excluded}</dependencies></ivy-module>'
    )


def _quoted(text: str) -> str:
    """Returns the text as the value of an attribute."""
    # Not xml.sax.saxutils.quoteattr: its import, with an HTTP client, would be a tenth of all that an agent imports.
    return f'"{html.escape(text)}"'


def _ivy(target: Target) -> str:
    found = sorted(Path(target.manifest.spark_home, "jars").glob("ivy-*.jar"))
    if not found:
        raise LibraryError("this runtime has no Ivy, which resolves Maven libraries")
    return str(found[-1])


# ── on the node ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def check_jar(path: Path) -> None:
    """Raises LibraryError unless the file is a jar."""
    if not zipfile.is_zipfile(path):
        raise LibraryError(f"{path.name} is not a jar: it is not a zip file")


def put(found: tuple[Path, ...], target: Target, *, linked: bool) -> tuple[str, ...]:
    """Puts jars onto the node, and returns the paths of those that it had not. Repeating it changes nothing. Raises LibraryError
    for a library whose jars have other content than before: Java keeps the classes that it has."""
    directory, before = target.top / "jars", installed(target)
    directory.mkdir(exist_ok=True)
    paths = tuple(sorted(str(_place(source, directory)) for source in found))
    known = records.read(target.top).get(target.name)
    if known is not None and known.jars != paths:
        raise LibraryError("its jars have other content than those that this cluster runs. Restart the cluster for the new ones")
    if target.name:
        records.write(target.top, target.name, records.Record(jars=paths), normalized=str)
    new = []
    for source in found:
        place = _place(source, directory)
        if str(place) not in before:
            put_file(source, place, linked=linked)
            new.append(str(place))
    (target.top / "jars.txt").write_text("".join(f"{Path(path).name}\n" for path in (*before, *new)))
    return tuple(new)


def _place(source: Path, directory: Path) -> Path:
    """Spark knows jars by their names: another file of the same name gets another one."""
    with source.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return directory / f"{source.stem}-{digest[:8]}.jar"


def installed(target: Target) -> tuple[str, ...]:
    """Returns the paths of the node's jars, in the order in which they were installed."""
    names = target.top / "jars.txt"
    return tuple(str(target.top / "jars" / name) for name in names.read_text().split("\n") if name) if names.exists() else ()
