"""The agent protocol: what the server asks of a node, and what the node reports back.

Server and agent speak JSON over HTTP, and each calls the other:

* the agent calls home: `POST /agent/v1/status` (`StatusReport` -> `StatusReply`) on every change and as a heartbeat, and
  `GET /agent/v1/assignment?instance_id=&have=VERSION&wait=SECONDS` (-> `AssignmentReply`), a long poll that answers as soon
  as the assignment's version is not the one it has. Authorization: `Bearer <agent token>`.
* the server calls the agent at its `endpoint`, for work that needs an answer now: contexts and commands (see
  `agent/server.py`). Authorization: `Bearer <server token>`.

Both tokens belong to one instance; `StatusReply.server_token` lets the agent check that it speaks with its own server and not
with whatever took the port. The assignment is level-triggered: the agent compares it with what it has and makes it so;
a repeated or lost message changes nothing.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Role(StrEnum):
    """What a node is in its cluster."""

    DRIVER = "driver"  # Spark master and driver in one JVM
    WORKER = "worker"
    SINGLE = "single"  # driver with local[*]: a cluster without workers
    WARM = "warm"  # none yet: an idle instance of a pool, which prepares `runtime` if one is named, and waits


class Phase(StrEnum):
    """How far a node has come towards its assignment."""

    IDLE = "idle"  # no assignment
    PREPARING = "preparing"  # the runtime is being installed, or a JVM is starting
    STARTING = "starting"  # the role is being taken: master up, driver starting, worker registering
    READY = "ready"  # driver: it answered a Spark job; worker: its master accepted it
    RETIRING = "retiring"  # decommissioning: blocks move away, running tasks finish
    RETIRED = "retired"  # nothing of value is left on it
    FAILED = "failed"  # see `failure`; final for this generation


class Assignment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a node should be. The server makes a new `version` with every change.

    A new `generation` is a new node: the agent ends everything of the last one, cleans its directories and begins anew.
    Within one generation only `master_url` (from empty to set) and `retiring` (from false to true) change. Generations and
    versions belong to the instance and only grow, whichever clusters it works for in turn.
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
    worker_cores: int = 0  # of the cluster's workers, which may be of another size than its driver; 0: it has none
    worker_memory_mb: int = 0
    spark_conf: dict[str, str] = {}
    spark_env_vars: dict[str, str] = {}
    secret: str  # spark.authenticate.secret, one per cluster and driver start
    connect_token: str = ""  # Spark Connect's pre-shared token
    spark_context_id: int = 0
    user: str = ""  # who owns the cluster
    user_isolation: bool = False  # contexts are sessions of Spark Connect: users share no JVM, and see nothing of one another
    default_tags: dict[str, str] = {}
    custom_tags: dict[str, str] = {}
    master_url: str = ""  # workers: spark://host:port; empty until the driver's master listens
    retiring: bool = False


class Failure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a node failed: a TerminationReasonCode, a sentence for a person, and the last lines of the log that shows it."""

    code: str
    message: str
    log_tail: str = ""


class WorkerLoad(msgspec.Struct, frozen=True, array_like=True):
    """What one worker has to do, as the driver sees it."""

    address: str  # as in `NodeStatus.alive_workers`
    slots: int  # tasks that it can run at once
    running: int
    idle_since_ms: int  # epoch ms; 0 while it runs tasks
    held_mb: int  # cached blocks, and shuffle files that it has written


class Load(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a driver has to do: tasks that wait, and what each worker with an executor runs."""

    pending: int = 0  # tasks of active stages that wait for a slot
    backlog_since_ms: int = 0  # since when tasks have waited without a break; 0: none wait
    workers: tuple[WorkerLoad, ...] = ()


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a node is, as its agent sees it. `generation` 0: it has never had an assignment."""

    phase: Phase = Phase.IDLE
    assignment_version: int = 0  # the newest version that the agent has acted on
    generation: int = 0
    message: str = ""  # progress, for a person
    failure: Failure | None = None
    isolation: str = ""  # "namespaces", "bubblewrap", or "none: <why>"
    network: str = ""  # "isolated", with what cannot be reached, or "shared: <why>"
    limits: str = ""  # "cgroup", or "none: <why>"
    host: str = ""  # the address that Spark's ports are bound to
    master_url: str = ""  # driver: as soon as the master listens
    connect_port: int = 0  # driver: Spark Connect, 0 where there is none
    worker_address: str = ""  # worker: host:port as the master lists it
    alive_workers: tuple[str, ...] = ()  # driver: addresses of the workers that the master counts as alive
    last_activity_ms: int = 0  # driver: last moment with a running job, command or Connect operation; epoch ms
    busy: bool = False  # driver: one of those is running now
    silent_since_ms: int = 0  # since when Spark on it answers nothing, though its JVM is there; 0: it answers. Epoch ms
    started_ms: int = 0
    load: Load | None = None  # driver with workers; kept in the server's memory, never stored
    disk_used: int = 0  # bytes, once the node's files take most of what they may
    disk_limit: int = 0
    warm: str = ""  # role WARM: the runtime key whose JVM waits for its role; "" when none does
    warm_error: str = ""  # role WARM: why it could not be prepared; the agent tries again by itself
    warm_start: bool = False  # a cluster's node: it took over the JVM that waited
    cold_reason: str = ""  # a cluster's node: why the JVM that waited could not be used for it; "" when it was, or there was none


class ServerAddress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One server of the workspace. `file`: its server.json, by which agents on its own machine know whether it lives."""

    url: str
    file: str = ""


class StatusReport(msgspec.Struct, frozen=True, kw_only=True):
    """Agent to server. `boot_id` is new for every agent process; `endpoint` is its own base URL. `moves` counts how often this
    process has turned to another server: of two reports, the one with more moves is the newer."""

    instance_id: str
    boot_id: str
    endpoint: str
    pid: int
    status: NodeStatus
    moves: int = 0


class StatusReply(msgspec.Struct, frozen=True, kw_only=True):
    """Server to agent. `known` false: the server has no such instance and never will; the agent stops its node and exits.
    `servers`: all of the workspace, so that the agent can turn to another one."""

    server_token: str
    known: bool
    servers: tuple[ServerAddress, ...] = ()


class AssignmentReply(msgspec.Struct, frozen=True, kw_only=True):
    """Server to agent. No assignment: the instance is idle; the agent ends whatever it runs. `servers`: as in StatusReply."""

    server_token: str
    known: bool
    assignment: Assignment | None = None
    servers: tuple[ServerAddress, ...] = ()
