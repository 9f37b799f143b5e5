"""Init scripts: what runs on every node before Spark starts, and what became of it."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from brickyard.domain.places import Place
from brickyard.domain.spec import InitScriptInfo, Wire

MAX_SCRIPTS = 10  # of a cluster's own
MAX_SCRIPT = 500_000_000  # bytes
MAX_GLOBAL_SCRIPT = 64 * 1024
MAX_GLOBAL_SCRIPTS = 100
FAILURE, GLOBAL_FAILURE = "INIT_SCRIPT_FAILURE", "GLOBAL_INIT_SCRIPT_FAILURE"


class ScriptStatus(StrEnum):
    FAILED_EXECUTION = "FAILED_EXECUTION"
    FAILED_FETCH = "FAILED_FETCH"
    FUSE_MOUNT_FAILED = "FUSE_MOUNT_FAILED"
    NOT_EXECUTED = "NOT_EXECUTED"
    SKIPPED = "SKIPPED"
    SUCCEEDED = "SUCCEEDED"
    UNKNOWN = "UNKNOWN"


class InitScript(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One script in an assignment: a file or object, or a global script. `content` is base64, and is present only in what an
    agent receives: rows name a global script by its digest."""

    name: str
    place: Place | None = None
    script_id: str = ""
    digest: str = ""
    content: str = ""

    @property
    def address(self) -> str:
        """What it is, for people."""
        return self.place.address if self.place is not None else f"global init script {self.name!r}"

    @property
    def failure(self) -> str:
        """The termination code if it fails."""
        return FAILURE if self.place is not None else GLOBAL_FAILURE


class ScriptResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one script on one node."""

    status: ScriptStatus
    seconds: int = 0
    message: str = ""


class ScriptsReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The init scripts of one node. Once they do not run any more, there is a result for every one."""

    running: bool = False
    results: tuple[ScriptResult, ...] = ()


class GlobalScriptRef(msgspec.Struct, frozen=True, kw_only=True):
    """A global script as a start of a cluster found it."""

    script_id: str
    name: str
    digest: str


# ── events ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────


class InitScriptInfoAndExecutionDetails(InitScriptInfo, frozen=True, kw_only=True):
    error_message: str | None = None
    execution_duration_seconds: int | None = None
    status: ScriptStatus | None = None
    stderr: str | None = None


class InitScriptEventDetails(Wire, frozen=True, kw_only=True):
    """The scripts of an event. `reported_for_node`: the address of the node whose results these are."""

    cluster: list[InitScriptInfoAndExecutionDetails] | None = None
    global_: list[InitScriptInfoAndExecutionDetails] | None = msgspec.field(default=None, name="global")
    reported_for_node: str | None = None


# ── global init scripts ─────────────────────────────────────────────────────────────────────────────────────────────────────


class GlobalScript(msgspec.Struct, frozen=True, kw_only=True):
    """A global init script, as stored; its content is stored under its digest."""

    script_id: str
    name: str
    digest: str
    enabled: bool = False
    created_ms: int
    created_by: str
    updated_ms: int
    updated_by: str


class CreateGlobalInitScript(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    script: str
    enabled: bool = False
    position: int | None = None


class CreateGlobalInitScriptResponse(Wire, frozen=True, kw_only=True):
    script_id: str


class UpdateGlobalInitScript(msgspec.Struct, frozen=True, kw_only=True):
    """Absent fields stay as they are."""

    script_id: str
    name: str | None = None
    script: str | None = None
    enabled: bool | None = None
    position: int | None = None


class GlobalInitScriptId(msgspec.Struct, frozen=True, kw_only=True):
    script_id: str


class GlobalInitScriptDetails(msgspec.Struct, frozen=True, kw_only=True):
    script_id: str
    name: str
    position: int
    enabled: bool
    created_at: int
    created_by: str
    updated_at: int
    updated_by: str


class GlobalInitScriptDetailsWithContent(GlobalInitScriptDetails, frozen=True, kw_only=True):
    script: str


class ListGlobalInitScriptsResponse(msgspec.Struct, frozen=True, kw_only=True):
    scripts: list[GlobalInitScriptDetails]
