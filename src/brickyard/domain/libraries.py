"""The Libraries API: its bodies, with its field names, and what a cluster and its nodes record of libraries.

Source: databricks-sdk `service/compute.py`.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

import msgspec

from brickyard.domain.spec import Wire

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_VERSIONS = r"[<>=!~]=?=?\s*[A-Za-z0-9.*+!_-]+"
_REQUIREMENT = re.compile(
    rf"{_NAME}\s*(?:\[\s*{_NAME}(?:\s*,\s*{_NAME})*\s*\])?\s*(?:{_VERSIONS}(?:\s*,\s*{_VERSIONS})*)?\s*(?:;[^@/\\#]*)?"
)
_URL = re.compile(r"https?://[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+")

_PART = r"[A-Za-z0-9_][A-Za-z0-9._-]*"
_COORDINATES = re.compile(rf"{_PART}:{_PART}:(?!latest[.]){_PART}(?:[+]{_PART})?")
_R_PACKAGE = re.compile(r"[A-Za-z][A-Za-z0-9.]*[A-Za-z0-9]")
_EXCLUSION = re.compile(r"[A-Za-z0-9._*-]+:[A-Za-z0-9._*-]+")


def is_coordinates(text: str) -> bool:
    """Whether the text names one version of a Maven artifact: group:artifact:version."""
    return _COORDINATES.fullmatch(text) is not None


def is_exclusion(text: str) -> bool:
    """Whether the text names artifacts that are not wanted: group:artifact, where * stands for any."""
    return _EXCLUSION.fullmatch(text) is not None


def is_r_package(text: str) -> bool:
    """Whether the text is a name that a package of R can have."""
    return _R_PACKAGE.fullmatch(text) is not None


def is_requirement(text: str) -> bool:
    """Whether the text names a package, with or without versions and a marker. Anything else that an installer takes in its place
    (options, URLs, paths) would reach files and services of the machine that installs it."""
    return text.isprintable() and _REQUIREMENT.fullmatch(text.strip()) is not None


def is_url(text: str) -> bool:
    return _URL.fullmatch(text) is not None


class LibraryInstallStatus(StrEnum):
    PENDING = "PENDING"
    RESOLVING = "RESOLVING"
    INSTALLING = "INSTALLING"
    INSTALLED = "INSTALLED"
    SKIPPED = "SKIPPED"
    FAILED = "FAILED"
    UNINSTALL_ON_RESTART = "UNINSTALL_ON_RESTART"
    RESTORED = "RESTORED"


class PythonPyPiLibrary(Wire, frozen=True, kw_only=True):
    package: str
    repo: str | None = None


class MavenLibrary(Wire, frozen=True, kw_only=True):
    coordinates: str
    repo: str | None = None
    exclusions: tuple[str, ...] | None = None


class RCranLibrary(Wire, frozen=True, kw_only=True):
    package: str
    repo: str | None = None


class Library(Wire, frozen=True, kw_only=True):
    """Exactly one field is set."""

    pypi: PythonPyPiLibrary | None = None
    whl: str | None = None
    requirements: str | None = None
    jar: str | None = None
    maven: MavenLibrary | None = None
    cran: RCranLibrary | None = None
    egg: str | None = None


NO_R = (
    "there is no Rscript on this node. Install R on the machines of the workspace (Debian: r-base-core), then restart the cluster"
)


class InstallLibraries(Wire, frozen=True, kw_only=True):
    cluster_id: str
    libraries: list[Library]


class UninstallLibraries(Wire, frozen=True, kw_only=True):
    cluster_id: str
    libraries: list[Library]


class LibraryNodeStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one node says of a library: ours."""

    instance_id: str
    role: str
    status: LibraryInstallStatus
    message: str = ""


class LibraryFullStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`nodes`: only in the answer about one cluster."""

    library: Library
    status: LibraryInstallStatus
    messages: list[str] = []
    is_library_for_all_clusters: bool | None = None
    nodes: list[LibraryNodeStatus] = []


class ClusterLibraryStatuses(msgspec.Struct, frozen=True, kw_only=True):
    cluster_id: str
    library_statuses: list[LibraryFullStatus]


class ListAllClusterLibraryStatusesResponse(msgspec.Struct, frozen=True, kw_only=True):
    statuses: list[ClusterLibraryStatuses]


class ClusterLibrary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A library of a cluster. One that is `leaving` stays until the cluster starts again. `enforced`: the cluster's policy had it
    when the cluster last started."""

    library: Library
    leaving: bool = False
    enforced: bool = False
    revision: int = 0  # rises when it is installed again after it was to leave (its file may have changed) or has failed


class WantedLibrary(NamedTuple):
    """A library for a node to install. Another `revision` of it is installed anew."""

    library: Library
    revision: int


class LibraryReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a node says of one library."""

    library: Library
    status: LibraryInstallStatus
    message: str = ""
    revision: int = 0
