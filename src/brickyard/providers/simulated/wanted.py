"""What simulated agents keep of their assignments, and what they make of the libraries in them."""

from __future__ import annotations

import sys
from collections.abc import Collection

import msgspec

from brickyard.domain.libraries import NO_R, Library, LibraryInstallStatus, LibraryReport
from brickyard.domain.node import Assignment, Role


class Wanted(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What an agent keeps of its assignment once it has followed it."""

    cluster_id: str
    generation: int
    role: Role
    node_type_id: str
    cores: int
    memory_mb: int

    @classmethod
    def of(cls, assignment: Assignment) -> Wanted:
        return cls(
            cluster_id=sys.intern(assignment.cluster_id),
            generation=assignment.generation,
            role=assignment.role,
            node_type_id=sys.intern(assignment.node_type_id),
            cores=assignment.cores,
            memory_mb=assignment.memory_mb,
        )


def installed(library: Library, *, bad: Collection[str]) -> LibraryReport:
    """What an agent reports of a library that it has tried to install. `bad`: names of those that fail."""
    if library.cran is not None:
        return LibraryReport(library=library, status=LibraryInstallStatus.SKIPPED, message=NO_R)
    address = library.whl or library.requirements or ""
    name = library.pypi.package if library.pypi is not None else address.rpartition("/")[2]
    if name in bad:
        return LibraryReport(library=library, status=LibraryInstallStatus.FAILED, message=f"simulated: no such library {name}")
    return LibraryReport(library=library, status=LibraryInstallStatus.INSTALLED)
