"""LIBRARIES: install the cluster's libraries, one after the other. A library that fails is reported, and fails nothing else."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

import msgspec

from brickyard.agent.converge import Stage
from brickyard.agent.host import MAX_TEXT, HostError
from brickyard.agent.libraries import cran, jars, libraries, records
from brickyard.agent.libraries.builds import build
from brickyard.agent.libraries.installer import LibraryError, Target
from brickyard.agent.libraries.libraries import OnlySource, Wanted
from brickyard.agent.state import NodeState
from brickyard.agent.steps.work import Work
from brickyard.domain.libraries import NO_R, Library, LibraryInstallStatus, LibraryReport, WantedLibrary
from brickyard.domain.places import Kind, Place, parse
from brickyard.logs import transfers
from brickyard.logs.transfer import Job, TransferFailed

MAX_FILE = 4 << 30  # a wheel or a jar
MAX_REQUIREMENTS = 1 << 20
FETCH_S = 600.0
MAX_BUILDS = 20  # packages of one library that exist only as source
START_S = 120.0  # for so long a start waits for libraries; later ones are installed while the node works


async def _install(node: NodeState) -> None:
    try:
        async with asyncio.timeout(START_S if node.current.stage < Stage.JOINED else None):
            await _install_all(node)
    except TimeoutError:
        node.say("the libraries take too long: the node starts without them")
        node.current = msgspec.structs.replace(node.current, libraries_late=True)


async def _install_all(node: NodeState) -> None:
    for wanted in node.assignment.wanted_libraries:
        if wanted in node.current.libraries:
            continue
        if node.current.stage < Stage.JOINED:
            node.progress("installing libraries")
        report = msgspec.structs.replace(await install(node, wanted), revision=wanted.revision)
        _report(node, report)
        node.say(f"library {msgspec.json.encode(wanted.library).decode()}: {report.status.value} {report.message}")
        node.current = msgspec.structs.replace(node.current, libraries=(*node.current.libraries, wanted))


async def install(node: NodeState, wanted: WantedLibrary) -> LibraryReport:
    """Installs one library, or another revision of it. Returns how that went."""
    library = wanted.library
    java = library.jar is not None or library.maven is not None
    _say(node, wanted, LibraryInstallStatus.RESOLVING)
    try:
        if library.cran is not None:
            if not await cran.install(node, library.cran):
                return LibraryReport(library=library, status=LibraryInstallStatus.SKIPPED, message=NO_R)
            return LibraryReport(library=library, status=LibraryInstallStatus.INSTALLED)
        with tempfile.TemporaryDirectory(dir=node.config.directory, prefix="library-") as scratch:
            message = await (_install_jars if java else _install_python)(node, wanted, Path(scratch))
    except (LibraryError, TransferFailed, HostError, OSError) as error:
        text = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        return LibraryReport(library=library, status=LibraryInstallStatus.FAILED, message=text[:MAX_TEXT])
    return LibraryReport(library=library, status=LibraryInstallStatus.INSTALLED, message=message[:MAX_TEXT])


def target_of(node: NodeState, library: Library | None = None) -> Target:
    """The node as the place for a library."""
    assert node.manifest is not None  # noqa: S101 - `decide` installs the runtime first
    return Target(
        config=node.config, manifest=node.manifest, linked=node.walled, walls=node.walls, network=node.networks.descriptors,
        lend=node.networks.lend, name=records.name_of(library) if library is not None else "",
        leaving=frozenset(map(records.name_of, node.assignment.leaving)),
    )  # fmt: skip


async def _install_python(node: NodeState, library: WantedLibrary, scratch: Path) -> str:
    wanted = await _wanted(node, library.library, scratch)
    _say(node, library, LibraryInstallStatus.INSTALLING)
    asked = set[str]()
    while True:
        try:
            await libraries.install(wanted, target_of(node, library.library))
            return ""
        except OnlySource as error:
            if error.requirement in asked or len(asked) == MAX_BUILDS:
                raise
            asked.add(error.requirement)
            wheel = await build(node, error.requirement, wanted.repo)
            wanted = wanted._replace(built=(*wanted.built, wheel))


async def _install_jars(node: NodeState, wanted: WantedLibrary, scratch: Path) -> str:
    """Returns what to tell about it, or "". Workers have nothing to do: the driver's Spark sends jars to the executors."""
    if node.assignment.user_isolation:
        raise LibraryError(
            "this cluster keeps its users apart (data_security_mode USER_ISOLATION), and all of them share the driver's JVM, in"
            " which a jar would run. Use a cluster with data_security_mode SINGLE_USER or NONE"
        )
    if not node.is_driver:
        return ""
    library = wanted.library
    target = target_of(node, library)
    if library.maven is not None:
        (found, message), linked = await jars.maven(library.maven, target), target.linked
    else:
        found, message, linked = (await _fetch(node, parse(str(library.jar)), scratch, MAX_FILE),), "", True
        await asyncio.to_thread(jars.check_jar, found[0])
    _say(node, wanted, LibraryInstallStatus.INSTALLING)
    new = await asyncio.to_thread(jars.put, found, target, linked=linked)
    if node.current.stage is Stage.JOINED and new:
        await node.call("jars", paths=new)
    return message


async def _wanted(node: NodeState, library: Library, scratch: Path) -> Wanted:
    if library.pypi is not None:
        return Wanted(requirements=(library.pypi.package,), repo=library.pypi.repo or "")
    if library.requirements is not None:
        file = await _fetch(node, parse(library.requirements), scratch, MAX_REQUIREMENTS)
        return libraries.read_requirements(file.read_text(errors="replace"))
    if library.whl is not None:
        return Wanted(wheel=await _fetch(node, parse(library.whl), scratch, MAX_FILE))
    raise LibraryError("this version of Brickyard cannot install this kind of library")  # from a newer server


async def _fetch(node: NodeState, place: Place, scratch: Path, max_bytes: int) -> Path:
    """Gets a file of the workspace or of an object store."""
    config = node.config
    roots = {Kind.DBFS: config.dbfs_dir, Kind.VOLUMES: config.volumes_dir, Kind.WORKSPACE: config.workspace_dir}
    job = Job(
        place=place, local=str(scratch / place.name), roots={kind.value: root for kind, root in roots.items() if root},
        max_bytes=max_bytes, limit_s=FETCH_S,
    )  # fmt: skip
    env = transfers.credentials(
        place.kind, cluster=node.variables, machine=os.environ, endpoint=place.endpoint,
        rules=config.machine_credentials,
    )  # fmt: skip
    network = node.networks.descriptors if place.is_object else None
    await transfers.run_patiently(job, env=env, python=config.python, network=network)
    return scratch / place.name


def _say(node: NodeState, wanted: WantedLibrary, status: LibraryInstallStatus) -> None:
    """Tells of the progress with a library."""
    report = LibraryReport(library=wanted.library, status=status, revision=wanted.revision)
    node.update_unhurried(libraries=_with(node, report))


def _report(node: NodeState, report: LibraryReport) -> None:
    """Tells how it ended."""
    node.update(libraries=_with(node, report))


def _with(node: NodeState, report: LibraryReport) -> tuple[LibraryReport, ...]:
    return (*(each for each in node.status.libraries if each.library != report.library), report)


WORK = Work(_install)  # each library has a limit of its own
