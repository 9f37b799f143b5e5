"""Init scripts: what a specification may name, which scripts a node runs, what events say of them, and the order of global ones.
Pure."""

from __future__ import annotations

import base64
import binascii
import contextlib
from collections.abc import Sequence

import msgspec

from brickyard.domain.cluster import Cluster
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.places import Kind, Place, PlaceError, parse
from brickyard.domain.scripts import (
    MAX_GLOBAL_SCRIPT,
    MAX_SCRIPTS,
    GlobalScriptRef,
    InitScript,
    InitScriptEventDetails,
    InitScriptInfoAndExecutionDetails,
    ScriptResult,
    ScriptsReport,
    ScriptStatus,
)
from brickyard.domain.spec import InitScriptInfo, LocalFileInfo, S3StorageInfo

# Field of InitScriptInfo -> the kinds of places that its destination may be.
_KINDS: dict[str, tuple[Kind, ...]] = {
    "workspace": (Kind.WORKSPACE,), "volumes": (Kind.VOLUMES,), "dbfs": (Kind.DBFS, Kind.VOLUMES), "file": (Kind.FILE,),
    "s3": (Kind.S3,), "abfss": (Kind.ABFSS,), "gcs": (Kind.GS,),
}  # fmt: skip
_ONLY_FOR_LOGS = ("canned_acl", "enable_encryption", "encryption_type", "kms_key")
MAX_GLOBAL_NAME = 255
MAX_EVENT_MESSAGE = 1_000


def remembering(cluster: Cluster, scripts: Sequence[GlobalScriptRef]) -> Cluster:
    """The cluster, whose present incarnation runs these global scripts on each of its nodes."""
    return msgspec.structs.replace(cluster, global_scripts=tuple(scripts), scripts_incarnation=cluster.incarnation)


def check_init_scripts(scripts: Sequence[InitScriptInfo]) -> None:
    """Raises InvalidParameterValue."""
    if len(scripts) > MAX_SCRIPTS:
        raise InvalidParameterValue(f"init_scripts names {len(scripts)} scripts; at most {MAX_SCRIPTS} are allowed.")
    for number, info in enumerate(scripts):
        place_of(info, f"init_scripts[{number}]")


def place_of(info: InitScriptInfo, field: str = "init_scripts") -> Place:
    """Where a script is. Raises InvalidParameterValue."""
    named = [name for name in _KINDS if getattr(info, name) is not None]
    if len(named) != 1:
        said = " and ".join(named) or "none"
        raise InvalidParameterValue(f"{field} must have exactly one of {', '.join(_KINDS)}; it has {said}.")
    name = named[0]
    storage = getattr(info, name)
    field = f"{field}.{name}"
    if not storage.destination:
        raise InvalidParameterValue(f"Missing required field: {field}.destination")
    options = _s3_options(storage, field) if isinstance(storage, S3StorageInfo) else {}
    kinds = _KINDS[name]
    bare = kinds[0] if kinds[0] in (Kind.WORKSPACE, Kind.FILE) else None
    try:
        place = parse(storage.destination, bare=bare, **options)
    except PlaceError as error:
        raise InvalidParameterValue(f"{field}.destination: {error}") from error
    if place.kind not in kinds:
        raise InvalidParameterValue(f"{field}.destination: {storage.destination!r} is not in {kinds[0].value}.")
    if not place.path or storage.destination.endswith("/"):
        raise InvalidParameterValue(f"{field}.destination: {storage.destination!r} is not the address of a file.")
    return place


def script_places(scripts: Sequence[InitScriptInfo]) -> list[tuple[str, Place]]:
    """Where scripts are, each with the field that says so. Those that cannot be read are left out."""
    found = []
    for number, info in enumerate(scripts):
        with contextlib.suppress(InvalidParameterValue):
            found.append((f"init_scripts[{number}]", place_of(info)))
    return found


def _s3_options(storage: S3StorageInfo, field: str) -> dict[str, str]:
    for name in _ONLY_FOR_LOGS:
        if getattr(storage, name):
            raise InvalidParameterValue(f"{field}.{name} is for the delivery of logs; a script is only read. Leave it out.")
    if not (storage.region or storage.endpoint):
        raise InvalidParameterValue(f"{field} needs region or endpoint.")
    return {"region": storage.region or "", "endpoint": storage.endpoint or ""}


def scripts_of(cluster: Cluster) -> tuple[InitScript, ...]:
    """The scripts that every node of the cluster's incarnation runs, in their order: first the global ones."""
    found = [InitScript(name=ref.name, script_id=ref.script_id, digest=ref.digest) for ref in cluster.global_scripts]
    for info in cluster.spec.init_scripts or ():
        place = place_of(info)
        found.append(InitScript(name=place.name, place=place))
    return tuple(found)


# ── events ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def event_details(cluster: Cluster, report: ScriptsReport | None, *, node: str = "") -> InitScriptEventDetails:
    """The details of an event about the cluster's scripts, with the results of one node if there is a report."""
    infos = [InitScriptInfo(file=LocalFileInfo(destination=_shown(ref.script_id, ref.name))) for ref in cluster.global_scripts]
    count = len(infos)
    infos += cluster.spec.init_scripts or []
    results: list[ScriptResult | None] = list(report.results) if report is not None else []
    results += [None] * (len(infos) - len(results))
    shown = [_with_result(info, result) for info, result in zip(infos, results, strict=False)]
    return InitScriptEventDetails(global_=shown[:count] or None, cluster=shown[count:] or None, reported_for_node=node or None)


def _shown(script_id: str, name: str) -> str:
    """A global script has no address: this says which one it is."""
    return f"global-init-scripts/{script_id}/{name}"


def _with_result(info: InitScriptInfo, result: ScriptResult | None) -> InitScriptInfoAndExecutionDetails:
    fields = {name: getattr(info, name) for name in InitScriptInfo.__struct_fields__}
    if result is None:
        return InitScriptInfoAndExecutionDetails(**fields)
    ran = result.status in (ScriptStatus.SUCCEEDED, ScriptStatus.FAILED_EXECUTION)
    return InitScriptInfoAndExecutionDetails(
        **fields,
        status=result.status,
        execution_duration_seconds=result.seconds if ran else None,
        error_message=result.message[:MAX_EVENT_MESSAGE] or None,
    )


# ── global init scripts ─────────────────────────────────────────────────────────────────────────────────────────────────────


def check_global_name(name: str) -> str:
    """Returns the name of a global script. Raises InvalidParameterValue."""
    if not name.strip() or len(name) > MAX_GLOBAL_NAME or not name.isprintable():
        raise InvalidParameterValue(f"name must have 1 to {MAX_GLOBAL_NAME} printable characters.")
    return name


def check_global_script(script: str) -> bytes:
    """Returns the content of a global script. Raises InvalidParameterValue."""
    try:
        data = base64.b64decode(script, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidParameterValue(
            f"script is not valid base64: {error}. Send the script's content encoded with base64."
        ) from error
    if not data:
        raise InvalidParameterValue("script is empty.")
    if len(data) > MAX_GLOBAL_SCRIPT:
        raise InvalidParameterValue(f"script has {len(data)} bytes; a global init script has at most {MAX_GLOBAL_SCRIPT}.")
    return data


def moved(order: Sequence[str], script_id: str, position: int | None) -> list[str]:
    """The ids of all global scripts in their new order: `script_id` at `position`, and those from there on one later. Any
    position beyond the last, or none for a new script, is the last. Raises InvalidParameterValue."""
    if position is not None and position < 0:
        raise InvalidParameterValue(f"position is {position}; it must be 0 or greater.")
    others = [each for each in order if each != script_id]
    if position is None:
        return list(order) if script_id in order else [*others, script_id]
    return [*others[:position], script_id, *others[position:]]
