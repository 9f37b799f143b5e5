"""The documents that an agent passes to its node host, as JSON: for type checkers on both sides of the pipe. Nothing in here is
needed while a node runs, so a node imports it for type checking only.

An assignment and a manifest are the server's structs (`domain/node.py`, `domain/runtimes.py`), which say what their fields mean;
here are those that a node reads. Fields that equal their default may be left out: `tests/node/test_documents.py` compares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict


class AssignmentDocument(TypedDict):
    """What the node should be."""

    role: str
    cluster_id: str
    cores: int
    memory_mb: int
    secret: str
    cluster_name: NotRequired[str]
    runtime: NotRequired[str]
    node_type_id: NotRequired[str]
    gpus: NotRequired[int]
    worker_cores: NotRequired[int]
    worker_memory_mb: NotRequired[int]
    worker_gpus: NotRequired[int]
    most_workers: NotRequired[int]
    table_format: NotRequired[str]
    spark_conf: NotRequired[Mapping[str, str]]
    spark_env_vars: NotRequired[Mapping[str, str]]
    encrypted: NotRequired[bool]
    connect_token: NotRequired[str]
    user_isolation: NotRequired[bool]
    default_tags: NotRequired[Mapping[str, str]]
    custom_tags: NotRequired[Mapping[str, str]]
    init_scripts: NotRequired[Sequence[object]]  # only whether there are any
    master_url: NotRequired[str]
    redact: NotRequired[Sequence[str]]


class ManifestDocument(TypedDict):
    """Where the parts of the installed runtime are."""

    home: str
    python: str
    python_version: str
    spark_home: str
    spark_version: str
    scala_version: str
    java_home: str
    java_version: str
    node_archive: NotRequired[str]
    worker_archive: NotRequired[str]
    executor_archive: NotRequired[str]
    rewritten: NotRequired[str]
    has_connect: NotRequired[bool]
    connect_missing: NotRequired[str]
    has_iceberg: NotRequired[bool]
    iceberg_missing: NotRequired[str]
    classes: NotRequired[str]
    layers: NotRequired[Mapping[str, Sequence[str]]]  # name -> JARs
    login_classes: NotRequired[str]  # in a training only, in the place of `classes`


class FailureDocument(TypedDict):
    """Why the node failed: `domain.node.Failure`."""

    code: str
    message: str
    log_tail: str


class Settings(TypedDict):
    """What `prepare` and `become` have in common."""

    manifest: ManifestDocument
    node_dir: str
    role: str  # "": not known yet
    host: str  # address for the cluster's other nodes
    private_host: str  # address that every other port binds to


class Prepare(Settings):
    """Operation `prepare`: starts a JVM that has no role yet."""

    heap_mb: int
    java_options: Sequence[str]
    env: Mapping[str, str]
    warm: bool  # nobody waits for the node: do as much as can be done without a cluster
    cores: int  # the node's size
    memory_mb: int


class Become(Settings):
    """Operation `become`: takes the role of the assignment."""

    assignment: AssignmentDocument
    cluster_dir: str  # where the node sees the directories that its cluster's nodes share; "": there are none
    cluster_workspace: str
    jars: Sequence[str]
    node_variables: NotRequired[Sequence[str]]  # of spark_env_vars: those whose values are this node's own
    metastore: bool  # whether the agent answers for the workspace's metastore


class ProgramRun(TypedDict):
    """Operations `script_run` and `program_run`: runs a program of the cluster to its end."""

    number: int
    name: str
    content: NotRequired[str]  # base64; "": the program is at `path`
    path: NotRequired[str]
    env: Mapping[str, str]
    node_dir: str
    manifest: ManifestDocument
    logs: str  # directory below the node's logs
    stamp: str
    limit_s: float
    max_bytes: int


class OfContext(TypedDict):
    """Operations on a context, as `domain/nodeops.py` has them."""

    context_id: str


class NewContext(OfContext):
    language: str
    user: NotRequired[str]
    share: NotRequired[int]
    reserve: NotRequired[int]


class OfCommand(OfContext):
    command_id: str


class OfCells(OfCommand):
    after: int


class NewCommand(OfCommand):
    language: str
    command: str
    widgets: NotRequired[Mapping[str, str]]


class WithdrawContexts(TypedDict):
    user: str
    reason: str
    sessions: Sequence[Sequence[str]]  # of Spark Connect: Spark's name of the user, and id
