"""The operations that the server may ask of an instance's agent: `Authorization: Bearer <server token>`, JSON in and out.

Every operation is one row of OPERATIONS: its route, its request and its reply. Request fields that are not part of the path go
into the query of GET and DELETE and into the JSON body of POST. The agent passes most operations on to the node host, which has
a handler of the same name, and handles those in AGENT itself. The server calls them through `nodes/calls.py`.

Errors: `{"error": {"code", "message"}}` with 401 UNAUTHENTICATED, 404 NOT_FOUND, 409 DEAD or LIMIT, 400 INVALID, 503 NO_NODE
(no node host is running) or TIMEOUT, 500 for any other error of the node host.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Generic, Literal, Protocol, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from brickyard.domain.decoding import describe
from brickyard.domain.node import StatusReport
from brickyard.domain.notebookcells import NotebookCell

MAX_COMMAND = 8 << 20  # characters
AGENT_LOGS = ("agent.log", "agent.log.1", "node.log")  # the agent's own, beside those of the node
Id = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_.-]{1,100}\Z")]
Request = TypeVar("Request", bound=msgspec.Struct)
Reply = TypeVar("Reply", bound=msgspec.Struct)


# ── requests ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Nothing(msgspec.Struct, frozen=True):
    """An empty request or reply."""


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    reason: str = ""


class NewContext(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    context_id: Id
    language: str
    user: str = ""
    ticket: str = ""  # for the agent alone: proves to any server that this context on this instance is the user's
    generation: int = 0  # of the intended node: a node of another generation refuses; 0: any
    share: int = 0  # of the contexts that the driver can have, the user may have so many; 0: any number
    reserve: int = 0  # and none of the last ones


class OfContext(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    context_id: Id
    user: str = ""  # who asks: another user's context does not exist for them; "": the workspace itself asks


class WithdrawContexts(msgspec.Struct, frozen=True, kw_only=True):
    """Ends what runs in a user's contexts and Spark Connect sessions, because the user may no longer run code there."""

    user: str
    reason: str  # what the running commands fail with


class UseSession(msgspec.Struct, frozen=True, kw_only=True):
    """Tells the agent that a user's calls go to a session of Spark Connect. Spark knows the session by `session_user`, which need
    not be the user's name, and its id."""

    user: str
    session_user: str
    session_id: str
    generation: int = 0  # 0: any


class NewCommand(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    context_id: Id
    command_id: Id
    language: str
    command: str  # at most MAX_COMMAND
    widgets: dict[str, str] = {}  # the values that a person has chosen
    user: str = ""  # as in OfContext


class OfCommand(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    context_id: Id
    command_id: Id
    user: str = ""  # as in OfContext


class CellsOfCommand(OfCommand, frozen=True, kw_only=True, omit_defaults=True):
    """Asks for the cells of a notebook task that have changed after a version, those that changed first."""

    after: int


class OpenPortOf(msgspec.Struct, frozen=True, kw_only=True):
    """Opens the way to a port on which users' programs may listen. `generation`: as in ReadLogs."""

    port: Annotated[int, msgspec.Meta(ge=1, le=65535)]
    generation: int = 0


class ReadLogs(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Reads the end of a log of the node, or of agent.log or node.log; without a name, lists the logs."""

    name: str = ""
    tail: Annotated[int, msgspec.Meta(ge=0)] = 65536  # bytes
    generation: int = 0  # of the intended node: a node of another generation has no such log; 0: any


class ReadLog(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Reads a log of the node from an offset (a negative one counts from the end), or from a `position` in an earlier reply."""

    name: str
    offset: int = 0
    position: str = ""
    limit: Annotated[int, msgspec.Meta(ge=1)] = 65536  # bytes; a reply may have fewer
    generation: int = 0  # as in ReadLogs


# ── replies. Users control what a node says: treat every field here as their input ──────────────────────────────────────────


class ContextState(msgspec.Struct, frozen=True, kw_only=True):
    status: str = "Error"  # Pending, Running
    message: str = ""  # why it is Error


class Withdrawn(msgspec.Struct, frozen=True, kw_only=True):
    context_ids: list[str] = []  # the user's contexts: none of them runs anything any more


class RunningJob(msgspec.Struct, frozen=True, kw_only=True):
    """A Spark job that a command runs. Skipped tasks and stages do not count."""

    job_id: int
    tasks: int = 0
    completed_tasks: int = 0
    active_tasks: int = 0
    failed_tasks: int = 0
    stages: int = 0
    completed_stages: int = 0


class CommandProgress(msgspec.Struct, frozen=True, kw_only=True):
    """What a command does while it runs. `printed`: the last lines of what it has printed so far."""

    printed: str = ""
    jobs: list[RunningJob] = []


MAX_TRACED_JOBS = 100  # of one command


class SparkJobTrace(msgspec.Struct, frozen=True, kw_only=True):
    """A Spark job of a command that is over, in epoch milliseconds. `ended_ms` is 0 if Spark has not ended it."""

    job_id: int
    began_ms: int
    ended_ms: int = 0
    status: str = ""
    tasks: int = 0
    stages: int = 0


class CommandTrace(msgspec.Struct, frozen=True, kw_only=True):
    """When a command ran whose call was traced, in epoch milliseconds: told once, with the status in which it has ended."""

    traceparent: str  # of that call: the agent's own word
    status: str
    began_ms: int = 0
    ended_ms: int = 0
    jobs: list[SparkJobTrace] = []


class Widget(msgspec.Struct, frozen=True, kw_only=True):
    """A parameter of a notebook (`dbutils.widgets`). `value` of a multiselect: choices, separated by commas."""

    name: str
    kind: Literal["text", "dropdown", "combobox", "multiselect"]
    label: str = ""
    value: str = ""
    default: str = ""
    choices: list[str] = []


class CommandState(msgspec.Struct, frozen=True, kw_only=True):
    status: str = "Error"  # Queued, Running, Cancelling, Finished, Cancelled
    results: dict[str, Any] | None = None  # in the API's format, once the command is over
    progress: CommandProgress | None = None  # while it runs
    trace: CommandTrace | None = None
    widgets: list[Widget] | None = None  # of its context; None: its process has made none


class ChangedCells(msgspec.Struct, frozen=True, kw_only=True):
    """`more`: ask again, after the last one. `now_ms`: what time it is on the node."""

    cells: list[NotebookCell] = []
    more: bool = False
    now_ms: int = 0


class OpenPort(msgspec.Struct, frozen=True, kw_only=True):
    """A port on the node's address. If the node has a private network, `way` is a Unix socket that leads to it."""

    port: Annotated[int, msgspec.Meta(ge=1, le=65535)]
    way: str = ""
    key: str = ""  # for the web UI: signs tokens for it


class AttachedContext(msgspec.Struct, frozen=True, kw_only=True):
    """An execution context of the 1.2 API, as notebooks use. Times are epoch milliseconds."""

    context_id: str
    user: str = ""
    language: str = ""
    status: str = ""  # Pending, Running, Error
    created_ms: int = 0
    last_used_ms: int = 0
    commands: int = 0  # queued or running


class ConnectSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session of a Spark Connect client. `user` is the name that the client gives (or that the gateway gives, where users are
    isolated). `user_name` is the owner of the token that its calls bear and `client_type` is its program; both are "" until this
    server has seen a call of the session."""

    session_id: str
    user: str = ""
    user_name: str = ""
    client_type: str = ""
    started_ms: int = 0
    last_used_ms: int = 0


class AttachedTo(msgspec.Struct, frozen=True, kw_only=True):
    """Who is attached to a cluster. Empty while the cluster is not running."""

    contexts: list[AttachedContext] = []
    connect_sessions: list[ConnectSession] = []


class LogFile(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    size: int


class Logs(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`files`, or the text of one file."""

    files: tuple[LogFile, ...] = ()
    name: str = ""
    text: str = ""


class LogPiece(msgspec.Struct, frozen=True, kw_only=True):
    """Part of a log. `start` is the position of `data` and `next` the one after it; `offset` is where `data` is in its file, and
    `size` the size of that file. `name` is the file's present name: it changes when the log is rolled. `skipped`: bytes before
    `data` no longer exist. `at_end`: no more has been written so far."""

    name: str
    start: str
    next: str
    offset: int
    data: bytes
    size: int
    skipped: bool
    at_end: bool


def place(position: str) -> tuple[str, int]:
    """The file that a position is in, and the offset: what two positions of the same place have in common."""
    return position.partition(".")[0], int(position.rpartition(".")[2])


def moved(position: str, count: int) -> str:
    """The position that many bytes after one of a reply."""
    file, _, offset = position.rpartition(".")
    return f"{file}.{int(offset) + count}"


# ── operations ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


TUNNEL = "/v1/tunnel"  # POST, with OpenPortOf as query, at agents that speak TLS: a connection to that port (machine/frames.py)


class NodeOp(msgspec.Struct, Generic[Request, Reply], frozen=True):
    """One operation: the node host's name for it, and its route. If it `opens` a port, the agent adds the way to that port."""

    name: str
    method: str
    path: str
    request: type[Request]
    reply: type[Reply]
    opens: bool = False

    def call(self, request: Request) -> tuple[str, dict[str, Any] | None]:
        """The path with its query, and the body."""
        fields = msgspec.to_builtins(request)
        path = "/".join(quote(str(fields.pop(part[1:-1])), safe="") if part[:1] == "{" else part for part in self.path.split("/"))
        if self.method == "POST":
            return path, fields
        return path + (f"?{urlencode(fields)}" if fields else ""), None


STATUS = NodeOp("status", "GET", "/v1/status", Nothing, StatusReport)
STOP = NodeOp("stop", "POST", "/v1/stop", Stop, Nothing)
LOGS = NodeOp("logs", "GET", "/v1/logs", ReadLogs, Logs)
READ_LOG = NodeOp("read_log", "GET", "/v1/logs/read", ReadLog, LogPiece)
CONTEXT_CREATE = NodeOp("context_create", "POST", "/v1/contexts", NewContext, Nothing)
CONTEXT_STATUS = NodeOp("context_status", "GET", "/v1/contexts/{context_id}", OfContext, ContextState)
CONTEXT_DESTROY = NodeOp("context_destroy", "DELETE", "/v1/contexts/{context_id}", OfContext, Nothing)
CONTEXTS_WITHDRAW = NodeOp("contexts_withdraw", "POST", "/v1/withdrawn", WithdrawContexts, Withdrawn)
COMMAND_EXECUTE = NodeOp("command_execute", "POST", "/v1/contexts/{context_id}/commands", NewCommand, Nothing)
COMMAND_STATUS = NodeOp("command_status", "GET", "/v1/contexts/{context_id}/commands/{command_id}", OfCommand, CommandState)
COMMAND_CELLS = NodeOp(
    "command_cells", "GET", "/v1/contexts/{context_id}/commands/{command_id}/cells", CellsOfCommand, ChangedCells
)
COMMAND_CANCEL = NodeOp("command_cancel", "POST", "/v1/contexts/{context_id}/commands/{command_id}/cancel", OfCommand, Nothing)
CONNECT_OPEN = NodeOp("connect_open", "POST", "/v1/connect", Nothing, OpenPort, opens=True)
SESSION_USE = NodeOp("session_use", "POST", "/v1/connect/sessions", UseSession, Nothing)
UI_OPEN = NodeOp("ui_open", "POST", "/v1/ui", Nothing, OpenPort, opens=True)
PORT_OPEN = NodeOp("port_open", "POST", "/v1/ports", OpenPortOf, OpenPort)
ATTACHED = NodeOp("attached", "GET", "/v1/attached", Nothing, AttachedTo)

AGENT: tuple[NodeOp[Any, Any], ...] = (STATUS, STOP, LOGS, READ_LOG, PORT_OPEN, SESSION_USE)
OPERATIONS: tuple[NodeOp[Any, Any], ...] = (
    *AGENT, CONTEXT_CREATE, CONTEXT_STATUS, CONTEXT_DESTROY, CONTEXTS_WITHDRAW, COMMAND_EXECUTE, COMMAND_STATUS,
    COMMAND_CELLS, COMMAND_CANCEL, CONNECT_OPEN, UI_OPEN, ATTACHED,
)  # fmt: skip
for _op in OPERATIONS:
    describe(_op.request)
    describe(_op.reply)


def no_context(context_id: str) -> str:
    """What is said of a context that does not exist, or not for the user who asks."""
    return f"Execution context {context_id} does not exist: it was destroyed, or its cluster restarted."


def asked(method: str, path: str, given: Mapping[str, Any]) -> tuple[NodeOp[Any, Any], Any] | None:
    """The operation of a route, with its request built from the path and from `given` (the query or body), or None if there is
    no such route. Raises msgspec.ValidationError."""
    parts = path.split("/")
    for op in OPERATIONS:
        names = op.path.split("/")
        if op.method == method and len(names) == len(parts):
            pairs = list(zip(names, parts, strict=True))
            if all(name == part or name[:1] == "{" for name, part in pairs):
                named = {name[1:-1]: part for name, part in pairs if name[:1] == "{"}
                return op, msgspec.convert({**given, **named}, op.request, strict=False)  # a query is all text
    return None


# ── calling ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────


class AgentUnreachable(Exception):
    """No answer: the agent is gone, is too slow, or has no node. `sent` is false if the request definitely did not reach it."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class AgentRefused(Exception):
    """The agent, or the node behind it, refused. `code`: NOT_FOUND, LIMIT, DEAD, INVALID, or another code for a defect."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class AgentClient(Protocol):
    """One client for all agents. Safe for concurrent use on one event loop."""

    async def call(
        self, endpoint: str, server_token: str, method: str, path: str, body: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Sends one request to the agent at `endpoint` (a base URL). Raises AgentUnreachable or AgentRefused."""
        ...

    async def close(self) -> None:
        """Closes its connections."""
        ...
