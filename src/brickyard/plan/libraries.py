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
    LibraryNodeStatus,
    LibraryReport,
    MavenLibrary,
    is_coordinates,
    is_exclusion,
    is_r_package,
    is_requirement,
    is_url,
)
from brickyard.domain.node import Role
from brickyard.domain.places import Kind, PlaceError, parse
from brickyard.domain.policies import PolicyRow
from brickyard.domain.states import State
from brickyard.plan.changes import Changed

MAX_LIBRARIES = 500
MAX_TEXT = 1000
MAX_MESSAGES = 10
MAX_EXCLUSIONS = 100
_FILES = {"whl": ".whl", "requirements": ".txt", "jar": ".jar"}


def install(cluster: Cluster, libraries: Sequence[Library], nodes: Sequence[Instance], policy: PolicyRow | None) -> Changed:
    """Adds libraries to the cluster. One that is there already stays as it is; if it has failed on some node, it is tried again.
    One that was to leave stays, and is installed anew, since its file may have been replaced. `policy` is the cluster's."""
    _check_all(libraries)
    check_enforced(libraries, policy)
    failed = {each.library for each in statuses(cluster, nodes) if each.status is LibraryInstallStatus.FAILED}
    wanted = {each.library: each for each in known(libraries)}
    enforced = policy is not None and bool(policy.libraries)
    kept = [
        _again(each, failed=each.library in failed, enforced=enforced) if wanted.pop(each.library, None) is not None else each
        for each in cluster.libraries
    ]
    found = tuple(kept) if enforced else (*kept, *wanted.values())
    if len(found) > MAX_LIBRARIES:
        raise InvalidParameterValue(
            f"A cluster can have {MAX_LIBRARIES} libraries; this would make {len(found)}. Uninstall some."
        )
    return Changed(msgspec.structs.replace(cluster, libraries=found))


def _again(library: ClusterLibrary, *, failed: bool, enforced: bool) -> ClusterLibrary:
    """A library of a cluster that is asked for once more. Where libraries are `enforced`, it remains what it is to the policy."""
    anew = failed or (library.leaving and not enforced)
    again = msgspec.structs.replace(library, revision=library.revision + anew)
    return again if enforced else msgspec.structs.replace(again, leaving=False, enforced=False)


def uninstall(cluster: Cluster, libraries: Sequence[Library], policy: PolicyRow | None) -> Changed:
    """Removes libraries: at once from a terminated cluster, otherwise when it starts again. Others are ignored. `policy` is the
    cluster's."""
    if policy is not None and policy.libraries:
        raise _enforced(policy)
    gone = set(map(key_of, libraries))
    if cluster.target is Target.TERMINATED:
        found = tuple(each for each in cluster.libraries if key_of(each.library) not in gone)
    else:
        found = tuple(
            msgspec.structs.replace(each, leaving=each.leaving or key_of(each.library) in gone) for each in cluster.libraries
        )
    return Changed(msgspec.structs.replace(cluster, libraries=found))


def copied(source: Cluster) -> tuple[ClusterLibrary, ...]:
    """The libraries of a cluster that is made from another one. Those that a policy enforces come with the policy."""
    return tuple(each for each in source.libraries if not each.leaving and not each.enforced)


# ── libraries of a policy ───────────────────────────────────────────────────────────────────────────────────────────────────────


def enforceable(libraries: Sequence[Library]) -> tuple[Library, ...]:
    """The libraries of a policy, each once. Raises InvalidParameterValue for those that no cluster can have, and for too many."""
    _check_all(libraries)
    if len(libraries) > MAX_LIBRARIES:
        raise InvalidParameterValue(f"libraries has {len(libraries)} entries; a policy can have at most {MAX_LIBRARIES}.")
    return tuple(dict.fromkeys(map(key_of, libraries)))


def governed(cluster: Cluster, policy: PolicyRow | None) -> Cluster:
    """The cluster as it starts: with its policy's libraries alone if the policy has any, otherwise with its own. What a policy
    enforced before, and no longer does, is gone."""
    enforced = policy.libraries if policy is not None else ()
    found = tuple(ClusterLibrary(library=each, enforced=True) for each in enforced)
    return msgspec.structs.replace(cluster, libraries=found or tuple(each for each in cluster.libraries if not each.enforced))


def check_enforced(libraries: Sequence[Library], policy: PolicyRow | None) -> None:
    """Raises InvalidParameterValue if the policy has libraries, and not all of these are among them."""
    if policy is not None and policy.libraries and not set(map(key_of, libraries)) <= set(policy.libraries):
        raise _enforced(policy)


def _enforced(policy: PolicyRow) -> InvalidParameterValue:
    return InvalidParameterValue(
        f"libraries are set by the cluster policy {policy.name}: clusters that use it have its libraries and no others, and users"
        " can neither install nor uninstall any. An administrator can change the libraries of the policy."
    )


# ── what is refused ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _check_all(libraries: Sequence[Library]) -> None:
    for number, library in enumerate(libraries):
        check(library, f"libraries[{number}]")


def check(library: Library, field: str) -> None:
    """Raises InvalidParameterValue if the library cannot be installed on any cluster."""
    given = [name for name in library.__struct_fields__ if getattr(library, name) is not None]
    if len(given) != 1:
        names = ", ".join(library.__struct_fields__)
        raise InvalidParameterValue(f"{field} must have exactly one of {names}; it has {' and '.join(given) or 'none'}.")
    name = given[0]
    if library.egg is not None:
        raise InvalidParameterValue(
            f"{field}.egg is not supported: eggs are not supported any more; build a wheel and install it as whl."
        )
    if library.pypi is not None:
        check_requirement(library.pypi.package, f"{field}.pypi.package")
        check_repo(library.pypi.repo, f"{field}.pypi.repo")
    elif library.maven is not None:
        _maven(library.maven, f"{field}.maven")
    elif library.cran is not None:
        _text(library.cran.package, f"{field}.cran.package")
        if not is_r_package(library.cran.package):
            raise InvalidParameterValue(
                f"{field}.cran.package is {library.cran.package[:100]!r}, which is not the name of an R package, like forecast."
                " Versions cannot be given: name a repository that has the version you want (repo)."
            )
        check_repo(library.cran.repo, f"{field}.cran.repo")
    else:
        _file(str(getattr(library, name)), f"{field}.{name}", _FILES[name])


def check_requirement(text: str, field: str) -> None:
    """Raises InvalidParameterValue unless the text names a package, with or without versions."""
    _text(text, field)
    if not is_requirement(text):
        raise InvalidParameterValue(
            f"{field} is {text[:100]!r}, which is not a package with or without versions, like simplejson==3.8.0. URLs, paths and"
            " options are not allowed; install a file as whl."
        )


def _maven(wanted: MavenLibrary, field: str) -> None:
    _text(wanted.coordinates, f"{field}.coordinates")
    if not is_coordinates(wanted.coordinates):
        raise InvalidParameterValue(
            f"{field}.coordinates is {wanted.coordinates[:100]!r}, which is not group:artifact:version with one exact version,"
            " like org.jsoup:jsoup:1.7.2."
        )
    check_repo(wanted.repo, f"{field}.repo")
    if wanted.repo and "@" in wanted.repo.split("/")[2]:
        raise InvalidParameterValue(f"{field}.repo has a user name in it, which is not supported: no repository gets a password.")
    exclusions = wanted.exclusions or ()
    if len(exclusions) > MAX_EXCLUSIONS:
        raise InvalidParameterValue(f"{field}.exclusions has {len(exclusions)} entries; at most {MAX_EXCLUSIONS} are allowed.")
    for each in exclusions:
        if len(each) > MAX_TEXT or not is_exclusion(each):
            raise InvalidParameterValue(
                f"{field}.exclusions has {each[:100]!r}, which is not group:artifact, like slf4j:slf4j or *:hadoop-client."
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


def known(libraries: Sequence[Library]) -> tuple[ClusterLibrary, ...]:
    """The libraries as a cluster records them, each once."""
    return tuple(ClusterLibrary(library=each) for each in dict.fromkeys(map(key_of, libraries)))


def key_of(library: Library) -> Library:
    """The library as it is compared: an empty repo is none, and so are no exclusions."""
    if library.pypi is not None and not library.pypi.repo:
        return msgspec.structs.replace(library, pypi=msgspec.structs.replace(library.pypi, repo=None))
    if library.maven is not None:
        repo, exclusions = library.maven.repo or None, library.maven.exclusions or None
        return msgspec.structs.replace(library, maven=msgspec.structs.replace(library.maven, repo=repo, exclusions=exclusions))
    if library.cran is not None and not library.cran.repo:
        return msgspec.structs.replace(library, cran=msgspec.structs.replace(library.cran, repo=None))
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


def statuses(cluster: Cluster, nodes: Sequence[Instance], *, by_node: bool = False) -> list[LibraryFullStatus]:
    """The libraries' statuses: those to be installed, in the order they were added, then those that leave. `by_node`: also what
    each node says, the driver first."""
    counted = sorted(_counted(cluster, nodes), key=lambda node: (node.role is Role.WORKER, node.instance_id))
    ordered = [each for each in cluster.libraries if not each.leaving] + [each for each in cluster.libraries if each.leaving]
    return [_status(each, counted, by_node=by_node) for each in ordered]


def _counted(cluster: Cluster, nodes: Sequence[Instance]) -> list[Instance]:
    """The nodes whose libraries count. A node that joins a running cluster installs its libraries before it takes part."""
    if public_state(cluster) in (State.TERMINATED, State.TERMINATING):
        return []
    live = [node for node in nodes if node.live and not node.retiring and node.generation == cluster.incarnation]
    return [node for node in live if node.ready] if cluster.up else live


def _status(wanted: ClusterLibrary, nodes: Sequence[Instance], *, by_node: bool) -> LibraryFullStatus:
    if wanted.leaving:
        return LibraryFullStatus(
            library=wanted.library, status=LibraryInstallStatus.UNINSTALL_ON_RESTART, is_library_for_all_clusters=False
        )
    reports = [_report(node, wanted) for node in nodes]
    found = {each.status for each in reports} or {LibraryInstallStatus.PENDING}
    status = next((each for each in _ORDER if each in found), LibraryInstallStatus.PENDING)
    messages = list(dict.fromkeys(each.message for each in reports if each.message and each.status is status))
    said = [
        LibraryNodeStatus(instance_id=node.instance_id, role=node.role.value, status=each.status, message=each.message)
        for node, each in zip(nodes, reports, strict=True)
    ]
    return LibraryFullStatus(
        library=wanted.library, status=status, messages=messages[:MAX_MESSAGES], is_library_for_all_clusters=False,
        nodes=said if by_node else [],
    )  # fmt: skip


def _report(node: Instance, wanted: ClusterLibrary) -> LibraryReport:
    for each in node.current_status.libraries:
        if (each.library, each.revision) == (wanted.library, wanted.revision):
            return each
    return LibraryReport(library=wanted.library, status=LibraryInstallStatus.PENDING)
