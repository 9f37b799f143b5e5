"""Decides about the libraries of a cluster: what a request does to them, and what clients see of them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from brickyard.domain.cluster import Cluster, Instance, Target, public_state
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.libraries import (
    ClusterLibrary,
    Library,
    LibraryFullStatus,
    LibraryInstallStatus,
    LibraryReport,
    is_requirement,
    is_url,
)
from brickyard.domain.places import Kind, PlaceError, parse
from brickyard.domain.states import State
from brickyard.plan.changes import Asked, Changed

MAX_LIBRARIES = 500
MAX_TEXT = 1000
MAX_MESSAGES = 10
_NOT_YET = {
    "jar": "name the file in spark.jars of the cluster's spark_conf",
    "maven": "name the package in spark.jars.packages of the cluster's spark_conf",
    "egg": "eggs are not supported any more; build a wheel and install it as whl",
}  # fmt: skip


def install(cluster: Cluster, libraries: Sequence[Library], _asked: Asked) -> Changed:
    """Adds libraries to the cluster. One that is there already stays as it is; one that was to leave stays."""
    for number, library in enumerate(libraries):
        check(library, f"libraries[{number}]")
    wanted = {each.library: each for each in map(_known, libraries)}
    kept = [each if each.library not in wanted else wanted.pop(each.library) for each in cluster.libraries]
    found = (*kept, *wanted.values())
    if len(found) > MAX_LIBRARIES:
        raise InvalidParameterValue(
            f"A cluster can have {MAX_LIBRARIES} libraries; this would make {len(found)}. Uninstall some."
        )
    return Changed(msgspec.structs.replace(cluster, libraries=found))


def uninstall(cluster: Cluster, libraries: Sequence[Library], _asked: Asked) -> Changed:
    """Removes libraries: at once from a terminated cluster, otherwise when it starts again. Others are ignored."""
    gone = set(map(_key, libraries))
    if cluster.target is Target.TERMINATED:
        found = tuple(each for each in cluster.libraries if _key(each.library) not in gone)
    else:
        found = tuple(
            msgspec.structs.replace(each, leaving=each.leaving or _key(each.library) in gone) for each in cluster.libraries
        )
    return Changed(msgspec.structs.replace(cluster, libraries=found))


def copied(source: Cluster) -> tuple[ClusterLibrary, ...]:
    """The libraries of a cluster that is made from another one."""
    return tuple(each for each in source.libraries if not each.leaving)


def check(library: Library, field: str) -> None:
    """Raises InvalidParameterValue if the library cannot be installed on any cluster."""
    given = [name for name in library.__struct_fields__ if getattr(library, name) is not None]
    if len(given) != 1:
        names = ", ".join(library.__struct_fields__)
        raise InvalidParameterValue(f"{field} must have exactly one of {names}; it has {' and '.join(given) or 'none'}.")
    name = given[0]
    if name in _NOT_YET:
        raise InvalidParameterValue(f"{field}.{name} is not supported here: {_NOT_YET[name]}.")
    if library.pypi is not None:
        check_requirement(library.pypi.package, f"{field}.pypi.package")
        check_repo(library.pypi.repo, f"{field}.pypi.repo")
    elif library.cran is not None:
        _text(library.cran.package, f"{field}.cran.package")
    else:
        suffix = {"whl": ".whl", "requirements": ".txt"}[name]
        _file(str(getattr(library, name)), f"{field}.{name}", suffix)


def check_requirement(text: str, field: str) -> None:
    """Raises InvalidParameterValue unless the text names a package, with or without versions."""
    _text(text, field)
    if not is_requirement(text):
        raise InvalidParameterValue(
            f"{field} is {text[:100]!r}, which is not a package with or without versions, like simplejson==3.8.0. URLs, paths and"
            " options are not allowed; install a file as whl."
        )


def check_repo(repo: str | None, field: str) -> None:
    if repo and (len(repo) > MAX_TEXT or not is_url(repo)):
        raise InvalidParameterValue(f"{field} is {repo[:100]!r}, which is not an http or https URL.")


def _text(text: str, field: str) -> None:
    if not text.strip() or len(text) > MAX_TEXT or not text.isprintable():
        raise InvalidParameterValue(f"{field} must be 1 to {MAX_TEXT} printable characters.")


def _file(address: str, field: str, suffix: str) -> None:
    try:
        place = parse(address)
    except PlaceError as error:
        raise InvalidParameterValue(f"{field}: {error}") from error
    if place.kind is Kind.FILE:
        raise InvalidParameterValue(f"{field} is a file of the node; put it into the workspace's files, a volume or dbfs:/.")
    if not place.name.endswith(suffix):
        raise InvalidParameterValue(f"{field} is {address[:200]!r}; its name must end in {suffix}.")


def _known(library: Library) -> ClusterLibrary:
    return ClusterLibrary(library=_key(library))


def _key(library: Library) -> Library:
    """The library as it is compared: an empty repo is none."""
    if library.pypi is not None and not library.pypi.repo:
        return msgspec.structs.replace(library, pypi=msgspec.structs.replace(library.pypi, repo=None))
    return library


# ── what clients see ────────────────────────────────────────────────────────────────────────────────────────────────────────────

# The first status that any node reports is the cluster's: a library is INSTALLED when it is on all nodes.
_ORDER = (
    LibraryInstallStatus.FAILED,
    LibraryInstallStatus.INSTALLING,
    LibraryInstallStatus.RESOLVING,
    LibraryInstallStatus.PENDING,
    LibraryInstallStatus.SKIPPED,
    LibraryInstallStatus.INSTALLED,
)


def statuses(cluster: Cluster, nodes: Sequence[Instance]) -> list[LibraryFullStatus]:
    """The libraries' statuses: those to be installed, in the order they were added, then those that leave."""
    counted = _counted(cluster, nodes)
    ordered = [each for each in cluster.libraries if not each.leaving] + [each for each in cluster.libraries if each.leaving]
    return [_status(each, counted) for each in ordered]


def _counted(cluster: Cluster, nodes: Sequence[Instance]) -> list[Instance]:
    """The nodes whose libraries count. A node that joins a running cluster installs its libraries before it takes part."""
    if public_state(cluster) in (State.TERMINATED, State.TERMINATING):
        return []
    live = [node for node in nodes if node.live and not node.retiring and node.generation == cluster.incarnation]
    return [node for node in live if node.ready] if cluster.up else live


def _status(wanted: ClusterLibrary, nodes: Sequence[Instance]) -> LibraryFullStatus:
    if wanted.leaving:
        return LibraryFullStatus(
            library=wanted.library, status=LibraryInstallStatus.UNINSTALL_ON_RESTART, is_library_for_all_clusters=False
        )
    reports = [_report(node, wanted.library) for node in nodes]
    found = {each.status for each in reports} or {LibraryInstallStatus.PENDING}
    status = next((each for each in _ORDER if each in found), LibraryInstallStatus.PENDING)
    messages = list(dict.fromkeys(each.message for each in reports if each.message and each.status is status))
    return LibraryFullStatus(
        library=wanted.library, status=status, messages=messages[:MAX_MESSAGES], is_library_for_all_clusters=False
    )


def _report(node: Instance, library: Library) -> LibraryReport:
    for each in node.current_status.libraries:
        if each.library == library:
            return each
    return LibraryReport(library=library, status=LibraryInstallStatus.PENDING)
