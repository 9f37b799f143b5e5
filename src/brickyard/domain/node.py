"""The agent protocol: what the server asks of a node, and what the node reports.

Server and agent speak JSON over HTTP, and each calls the other:

* the agent calls home: `POST /agent/v1/status` (`StatusReport` -> `StatusReply`) on every change and as a heartbeat, and
  `GET /agent/v1/assignment?instance_id=&have=VERSION&wait=SECONDS&same=true` (-> `AssignmentReply`), a long poll that answers
  as soon as the assignment's version differs from `have`; with `same`, one that the agent has already is not sent again.
  Where the server wants few reports, `POST /agent/v1/poll` (`Poll` -> `AssignmentReply`) takes the place of that and of the
  heartbeat: a long poll that brings the samples. Authorization: `Bearer <agent token>`.
* the server calls the agent at its `endpoint` for work that needs an immediate answer, contexts and commands (see
  `agent/link/server.py`). Authorization: `Bearer <server token>`.

Both tokens belong to one instance; `StatusReply.server_token` lets the agent check that it is talking to its own server and not
to something else that took the port. The assignment is level-triggered: the agent compares it with its state and acts on the
difference, so a repeated or lost message changes nothing.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from brickyard.domain.libraries import Library, LibraryReport, WantedLibrary
from brickyard.domain.packedsamples import PackedSamples
from brickyard.domain.samples import NodeSamples
from brickyard.domain.scripts import InitScript, ScriptsReport

PARQUET = "parquet"  # the format of tables that name none, unless the workspace has another


class Role(StrEnum):
    """The role of a node in its cluster."""

    DRIVER = "driver"  # Spark master and driver in one JVM
    WORKER = "worker"
    SINGLE = "single"  # driver with local[*]: a cluster without workers
    WARM = "warm"  # no role yet: an idle pool instance that prepares `runtime`, if one is named, and waits


class Phase(StrEnum):
    """How far a node has got with its assignment."""

    IDLE = "idle"  # no assignment
    PREPARING = "preparing"  # the runtime is being installed, or a JVM is starting
    STARTING = "starting"  # it is taking its role: master up, driver starting, worker registering
    READY = "ready"  # driver: it has run a Spark job; worker: its master has accepted it
    RETIRING = "retiring"  # decommissioning: blocks move away, running tasks finish
    RETIRED = "retired"  # nothing of value is left on it
    FAILED = "failed"  # see `failure`; final for this generation


class LogDestination(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a node delivers its logs: a directory of the workspace's files, whose first `volume` parts must exist, or in S3."""

    kind: str  # domain.places.Kind
    path: str
    volume: int = 0
    # S3
    bucket: str = ""
    region: str = ""
    endpoint: str = ""
    encryption: str = ""  # "sse-s3", "sse-kms"; "": the bucket's default
    kms_key: str = ""
    # As delivered to nodes: the cluster's own credentials, sealed, for the server that finishes what a node could not deliver.
    sealed: str = ""


class LogDelivery(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last delivery of a node's logs: when it was tried, and why it failed ("": it did not)."""

    attempted_ms: int
    error: str = ""


class Assignment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a node should be. The server makes a new `version` with every change.

    A new `generation` is a new node: the agent ends everything of the previous one, cleans its directories and starts over.
    Within one generation only `driver_host` and `master_url` (from empty to set), `retiring` and `closing` (from false to true),
    `libraries` (which grow, and whose revisions rise) and `leaving` change. Generations and versions belong to the instance and
    only increase, across all the clusters it works for.
    """

    version: int
    generation: int
    cluster_id: str
    cluster_name: str = ""
    role: Role
    runtime: str  # runtime key
    node_type_id: str = ""
    cores: int
    memory_mb: int
    gpus: int = 0
    worker_cores: int = 0  # per worker, which may differ in size from the driver; 0: the cluster has no workers
    worker_memory_mb: int = 0
    worker_gpus: int = 0
    most_workers: int = 0  # drivers: how many workers the cluster may have
    table_format: str = PARQUET  # of tables that name none, where the driver has it
    spark_conf: dict[str, str] = {}
    spark_env_vars: dict[str, str] = {}
    secret: str  # spark.authenticate.secret, one per cluster and driver start
    encrypted: bool = False  # Spark encrypts what nodes send each other: they may be on different machines
    connect_token: str = ""  # Spark Connect's pre-shared token
    spark_context_id: int = 0
    user: str = ""  # the cluster's owner
    user_isolation: bool = False  # contexts are Spark Connect sessions: users share no JVM and cannot see one another
    default_tags: dict[str, str] = {}
    custom_tags: dict[str, str] = {}
    workspace_bytes: int = 0  # drivers: what the cluster's workspace directory may take; 0: no limit of its own
    job_cluster: bool = False  # it was made for a run
    init_scripts: tuple[InitScript, ...] = ()  # run in this order before Spark starts
    driver_host: str = ""  # workers with init scripts: the driver's address; empty until that is known
    logs: LogDestination | None = None  # where its logs are delivered; None: they are only kept
    libraries: tuple[Library, ...] = ()  # to be installed, in this order
    library_revisions: tuple[int, ...] = ()  # of each of them; empty: all are 0
    leaving: tuple[Library, ...] = ()  # those of them that others may replace: they go when the cluster starts again
    master_url: str = ""  # workers: spark://host:port; empty until the driver's master listens
    retiring: bool = False
    closing: bool = False  # drivers: the cluster stops soon; what runs may finish, and nothing new begins
    # As delivered; never stored. In the database, conf and variables only name secrets (features/secrets/values.py).
    redact: tuple[str, ...] = ()  # the values of secrets in this assignment
    sealed: str = ""  # the same, as the agent may write them to a file (storage/sealer.py)
    refusal: Failure | None = None  # why this node must not start

    @property
    def wanted_libraries(self) -> tuple[WantedLibrary, ...]:
        """The libraries with their revisions."""
        revisions = self.library_revisions or (0,) * len(self.libraries)
        return tuple(map(WantedLibrary, self.libraries, revisions))


class Failure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a node failed: a TerminationReasonCode, a sentence for people, and the last lines of the relevant log."""

    code: str
    message: str
    log_tail: str = ""


class WorkerLoad(msgspec.Struct, frozen=True, array_like=True):
    """The load of one worker, as the driver sees it."""

    address: str  # as in `NodeStatus.alive_workers`
    slots: int  # how many tasks it can run at once
    running: int
    idle_since_ms: int  # epoch ms; 0 while it runs tasks
    held_mb: int  # cached blocks and the shuffle files it has written


class Load(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The load of a driver: the waiting tasks, and what each worker with an executor runs."""

    pending: int = 0  # tasks of active stages that are waiting for a slot
    backlog_since_ms: int = 0  # since when tasks have been waiting without a break; 0: none are waiting
    workers: tuple[WorkerLoad, ...] = ()


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of a node as its agent sees it. `generation` is 0 if it has never had an assignment."""

    phase: Phase = Phase.IDLE
    assignment_version: int = 0  # the newest version the agent has acted on
    generation: int = 0
    message: str = ""  # progress, for people
    failure: Failure | None = None
    isolation: str = ""  # "namespaces", "bubblewrap", or "none: <why>"
    network: str = ""  # "isolated" and what is unreachable, or "shared: <why>"
    limits: str = ""  # "cgroup", or "none: <why>"
    host: str = ""  # the address that Spark's ports bind to
    master_url: str = ""  # driver: as soon as the master listens
    connect_port: int = 0  # driver: Spark Connect; 0 if there is none
    spark_ports: tuple[int, ...] = ()  # driver: others that Spark has opened there
    worker_address: str = ""  # worker: host:port as the master lists it
    alive_workers: tuple[str, ...] = ()  # driver: addresses of the workers that the master considers alive
    last_activity_ms: int = 0  # driver: the last time a job, command or Connect operation was running; epoch ms
    busy: bool = False  # driver: one of those is running
    silent_since_ms: int = 0  # since when its Spark has not answered although the JVM exists; 0: it answers. Epoch ms
    silent_reason: str = ""  # why it does not answer, if that is known
    started_ms: int = 0
    load: Load | None = None  # driver with workers; kept only in the server's memory, never stored
    scripts: ScriptsReport | None = None  # its init scripts, once they have begun
    disk_used: int = 0  # bytes; set once the node's files take most of the limit
    disk_limit: int = 0
    files_used: int = 0  # their number, likewise
    files_limit: int = 0
    warm: str = ""  # role WARM: the runtime key of the waiting JVM; "" if there is none
    warm_error: str = ""  # role WARM: why it could not be prepared; the agent retries
    warm_start: bool = False  # a cluster's node: it took over the waiting JVM
    libraries: tuple[LibraryReport, ...] = ()
    cold_reason: str = ""  # a cluster's node: why it could not use the waiting JVM; "" if it did or there was none
    log_delivery: LogDelivery | None = None  # None: nothing has been delivered
    users: tuple[str, ...] = ()  # driver: who has execution contexts that run, in order
    told_ms: int = 0  # driver that is closing: when users' programs had been told; 0: not yet. Epoch ms
    quiet_ms: int = 0  # driver that is closing: when nothing ran any more
    leaving: bool = False  # worker: its machine is about to be taken away; until then it can hand over what it has


class ServerAddress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One server of the workspace. `file` is its server.json, by which agents on the same machine tell whether it is alive."""

    url: str
    file: str = ""


class StatusReport(msgspec.Struct, frozen=True, kw_only=True):
    """Agent to server. `boot_id` is new for every agent process; `endpoint` is where to call it (`domain/endpoints.py`). `moves`
    counts how often this process has switched servers: of two reports, the one with more moves is newer."""

    instance_id: str
    boot_id: str
    endpoint: str
    pid: int
    status: NodeStatus
    moves: int = 0
    samples: NodeSamples | None = None  # those that no server has confirmed
    now_ms: int = 0  # what time it is on the node, of which all its times are; 0: its clock is the server's


REPORT_S = 5.0  # between two reports of an agent if nothing changes and its server says nothing else


class StatusReply(msgspec.Struct, frozen=True, kw_only=True):
    """Server to agent. `known` is false if the server has no such instance and never will; the agent then stops its node and
    exits. `servers` lists all servers of the workspace, so that the agent can switch to another one. `move_to` is the one that it
    should call from now on, if it can reach it: this server has more agents than its share. `report_s`: how long the agent may
    wait with its next report if nothing changes but its samples. `samples_again`: the server has taken none of the report's
    samples; the agent is to send them again with the earlier ones, since a server that was killed may not have written those."""

    server_token: str
    known: bool
    servers: tuple[ServerAddress, ...] = ()
    move_to: ServerAddress | None = None
    report_s: float = REPORT_S
    samples_again: bool = False


class OfContextUser(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Agent to server, in the name of a context's user. `ticket` is the one with which the server made the context."""

    instance_id: str
    context_id: str
    user: str
    ticket: str


class AskSecrets(OfContextUser, frozen=True, kw_only=True, omit_defaults=True):
    """For `dbutils.secrets` in a context: the value of a secret, or, without a key, the keys of a scope, or, without a scope, all
    scopes."""

    scope: str = ""
    key: str = ""


class SecretsReply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Server to agent: names, or a value in base64; or the API's error."""

    server_token: str
    names: tuple[str, ...] = ()
    value: str = ""
    sealed: str = ""  # the value, as the agent may write it to a file (storage/sealer.py)
    error_code: str = ""
    message: str = ""
    servers: tuple[ServerAddress, ...] = ()


class AskNotebook(OfContextUser, frozen=True, kw_only=True, omit_defaults=True):
    """For `%run` and `dbutils.notebook.run` in a context: a notebook or file of the workspace."""

    path: str = ""


class NotebookReply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Server to agent: a notebook's source, or a file, in base64; or the API's error. `language` is empty for files."""

    server_token: str
    content: str = ""
    language: str = ""
    error_code: str = ""
    message: str = ""
    servers: tuple[ServerAddress, ...] = ()


class Poll(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Agent to server: a long poll of an agent that has reported its status, for an assignment of another version than `have`,
    for at most `wait` seconds. It is the heartbeat too. `samples`: those that no server has confirmed; the answer confirms
    them."""

    instance_id: str
    have: int = 0
    wait: float = 0.0
    samples: PackedSamples | None = None
    now_ms: int = 0  # as in StatusReport


class AssignmentReply(msgspec.Struct, frozen=True, kw_only=True):
    """Server to agent. No assignment means the instance is idle, and the agent ends everything, unless it is the `same` that the
    agent said it has. `servers` and `report_s`: as in StatusReply. An agent that is to report more often than before does so at
    once. To a `Poll`, besides: `samples_again`, as in StatusReply; and `unheard`: the server knows no status of the node, and has
    taken no samples. The agent is to report."""

    server_token: str
    known: bool
    assignment: Assignment | None = None
    same: bool = False
    servers: tuple[ServerAddress, ...] = ()
    report_s: float = REPORT_S
    samples_again: bool = False
    unheard: bool = False
