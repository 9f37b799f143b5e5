"""LIBRARIES: install the cluster's libraries, one after the other. A library that fails is reported, and fails nothing else."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

import msgspec

from brickyard.agent import libraries, transfers
from brickyard.agent.converge import Stage
from brickyard.agent.host import MAX_TEXT
from brickyard.agent.libraries import LibraryError, Target, Wanted
from brickyard.agent.state import NodeState
from brickyard.agent.steps.work import Work
from brickyard.agent.transfer import Job, TransferFailed
from brickyard.domain.libraries import Library, LibraryInstallStatus, LibraryReport
from brickyard.domain.places import Kind, Place, parse

MAX_WHEEL = 4 << 30
MAX_REQUIREMENTS = 1 << 20
FETCH_S = 600.0
START_S = 120.0  # for so long a start waits for libraries; later ones are installed while the node works


async def _install(node: NodeState) -> None:
    try:
        async with asyncio.timeout(START_S if node.current.stage < Stage.JOINED else None):
            await _install_all(node)
    except TimeoutError:
        node.say("the libraries take long: the node takes its role without them")
        node.current = msgspec.structs.replace(node.current, libraries_late=True)


async def _install_all(node: NodeState) -> None:
    for library in node.assignment.libraries:
        if library in node.current.libraries:
            continue
        if node.current.stage < Stage.JOINED:
            node.progress("installing libraries")
        report = await install(node, library)
        _report(node, report)
        node.say(f"library {msgspec.json.encode(library).decode()}: {report.status.value} {report.message}")
        node.current = msgspec.structs.replace(node.current, libraries=(*node.current.libraries, library))


async def install(node: NodeState, library: Library) -> LibraryReport:
    """Installs one library. Returns how that went."""
    if library.cran is not None:
        return LibraryReport(library=library, status=LibraryInstallStatus.SKIPPED, message="there is no R on this node")
    assert node.manifest is not None  # noqa: S101 - `decide` installs the runtime first
    network = node.networks.descriptors
    target = Target(config=node.config, manifest=node.manifest, linked=node.walled, network=network)
    _report(node, LibraryReport(library=library, status=LibraryInstallStatus.RESOLVING))
    try:
        with tempfile.TemporaryDirectory(dir=node.config.directory, prefix="library-") as scratch:
            wanted = await _wanted(node, library, Path(scratch))
            _report(node, LibraryReport(library=library, status=LibraryInstallStatus.INSTALLING))
            await libraries.install(wanted, target)
    except (LibraryError, TransferFailed, OSError) as error:
        text = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        return LibraryReport(library=library, status=LibraryInstallStatus.FAILED, message=text[:MAX_TEXT])
    return LibraryReport(library=library, status=LibraryInstallStatus.INSTALLED)


async def _wanted(node: NodeState, library: Library, scratch: Path) -> Wanted:
    if library.pypi is not None:
        return Wanted(requirements=(library.pypi.package,), repo=library.pypi.repo or "")
    if library.requirements is not None:
        file = await _fetch(node, parse(library.requirements), scratch, MAX_REQUIREMENTS)
        return libraries.read_requirements(file.read_text(errors="replace"))
    if library.whl is not None:
        return Wanted(wheel=await _fetch(node, parse(library.whl), scratch, MAX_WHEEL))
    raise LibraryError("this version of Brickyard cannot install this kind of library")  # from a newer server


async def _fetch(node: NodeState, place: Place, scratch: Path, max_bytes: int) -> Path:
    """Gets a file of the workspace or of an object store."""
    config = node.config
    roots = {Kind.DBFS: config.dbfs_dir, Kind.VOLUMES: config.volumes_dir, Kind.WORKSPACE: config.workspace_dir}
    job = Job(
        place=place, local=str(scratch / place.name), roots={kind.value: root for kind, root in roots.items() if root},
        max_bytes=max_bytes, limit_s=FETCH_S,
    )  # fmt: skip
    env = transfers.credentials(place.kind, cluster=node.assignment.spark_env_vars, machine=os.environ)
    network = node.networks.descriptors if place.is_object else None
    await transfers.run(job, env=env, python=config.python, network=network)
    return scratch / place.name


def _report(node: NodeState, report: LibraryReport) -> None:
    others = [each for each in node.status.libraries if each.library != report.library]
    node.update(libraries=(*others, report))


WORK = Work(_install)  # each library has a limit of its own
