"""The tables. A row is a JSON document (`doc`, the domain struct) with additional columns for queries and guards.

Because of the documents, a new field of a struct needs no migration. The columns are derived from the document at every write, in
one place.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
)

from brickyard.store.indexes import partial

metadata = MetaData()


# SQLite numbers rows automatically only if the primary key is INTEGER.
Sequence = BigInteger().with_variant(Integer, "sqlite")

clusters = Table(
    "clusters",
    metadata,
    Column("cluster_id", String(64), primary_key=True),
    Column("cluster_name", Text, nullable=False),
    Column("state", String(16), nullable=False),  # public_state at the last write
    Column("source", String(24), nullable=False),
    Column("creator", Text, nullable=False),
    Column("policy_id", String(64), nullable=False),
    Column("idempotency_token", String(64), nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("unkept_ms", BigInteger, nullable=False),  # Cluster.unkept_ms
    Column("pinned_ms", BigInteger, nullable=False),
    Column("deleted_ms", BigInteger, nullable=False),
    Column("due_ms", BigInteger, nullable=True),  # when the loop must look at it; null: only when woken
    Column("task_ms", BigInteger, nullable=True),  # WorkspaceTask.due_ms
    Column("version", BigInteger, nullable=False),
    Column("doc", Text, nullable=False),
    Index("clusters_due", "due_ms"),
    partial("clusters_task", "task_ms", where="task_ms IS NOT NULL"),
    # Every list order, alone and after the filter columns: the cost of a page does not depend on the number of rows.
    Index("clusters_created", "created_ms", "cluster_id"),
    Index("clusters_name", "cluster_name", "cluster_id"),
    Index("clusters_state_created", "state", "created_ms", "cluster_id"),
    Index("clusters_state_name", "state", "cluster_name", "cluster_id"),
    Index("clusters_source_created", "source", "created_ms", "cluster_id"),
    Index("clusters_source_name", "source", "cluster_name", "cluster_id"),
    partial("clusters_policy_created", "policy_id", "created_ms", "cluster_id", where="policy_id <> ''"),
    partial("clusters_policy_name", "policy_id", "cluster_name", "cluster_id", where="policy_id <> ''"),
    Index("clusters_creator_created", "creator", "created_ms", "cluster_id"),
    Index("clusters_creator_name", "creator", "cluster_name", "cluster_id"),
    partial("clusters_pinned", "pinned_ms", where="pinned_ms > 0"),
    partial("clusters_idempotency", "idempotency_token", where="idempotency_token <> ''"),
)

# Clusters that were removed: `purged_ms` is when their retention was over, or 0 for those that were permanently deleted. What a
# cluster has left in the storage is removed only if it is here: another database may know the rest.
purged = Table(
    "purged",
    metadata,
    Column("cluster_id", String(64), primary_key=True),
    Column("purged_ms", BigInteger, nullable=False),
)

# Snapshots of clusters' workspace directories. They may outlive their cluster.
snapshots = Table(
    "snapshots",
    metadata,
    Column("snapshot_id", String(128), primary_key=True),
    Column("cluster_id", String(64), nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("status", String(16), nullable=False),
    Column("doc", Text, nullable=False),
    Index("snapshots_cluster", "cluster_id", "created_ms"),
    Index("snapshots_status", "status", "created_ms"),
)

instances = Table(
    "instances",
    metadata,
    Column("instance_id", String(64), primary_key=True),
    Column("cluster_id", String(64), nullable=False),
    Column("state", String(16), nullable=False),
    Column("pool_id", String(64), nullable=False, server_default=""),
    Column("standing", SmallInteger, nullable=False, server_default="0"),  # domain.pools.Standing
    Column("provider", String(64), nullable=False, server_default=""),  # Instance.provider
    Column("doc", Text, nullable=False),
    Index("instances_cluster", "cluster_id"),
    partial("instances_pool", "pool_id", "standing", "instance_id", where="pool_id <> ''"),
)

policies = Table(
    "policies",
    metadata,
    Column("policy_id", String(64), primary_key=True),
    Column("unique_name", String(128), nullable=False, unique=True),
    Column("creator", Text, nullable=False, server_default=""),
    Column("doc", Text, nullable=False),
    Index("policies_creator", "creator"),
)

pools = Table(
    "pools",
    metadata,
    Column("instance_pool_id", String(64), primary_key=True),
    Column(
        "unique_name", String(128), nullable=False, unique=True
    ),  # the name; for a deleted pool its id, so that the name is free
    Column("creator", Text, nullable=False, server_default=""),
    Column("created_ms", BigInteger, nullable=False),
    Column("deleted_ms", BigInteger, nullable=False),
    Column("due_ms", BigInteger, nullable=True),  # when the loop must look at it; null: only when woken
    Column("doc", Text, nullable=False),
    Index("pools_due", "due_ms"),
    Index("pools_creator", "creator", "created_ms", "instance_pool_id"),
)

events = Table(
    "events",
    metadata,
    Column("seq", Sequence, primary_key=True, autoincrement=True),
    Column("cluster_id", String(64), nullable=False),
    Column("timestamp", BigInteger, nullable=False),
    Column("type", String(48), nullable=False),
    Column(
        "number", BigInteger, nullable=False, server_default="0"
    ),  # 1, 2, ... within the cluster, so that events are counted without reading them
    Column("doc", Text, nullable=False),
    Index("events_by_time", "cluster_id", "timestamp", "seq"),
    Index("events_by_type", "cluster_id", "type", "timestamp", "seq"),
)

audit = Table(
    "audit",
    metadata,
    Column("id", Sequence, primary_key=True, autoincrement=True),
    Column("time", BigInteger, nullable=False),
    Column("user_name", String(320), nullable=False),
    Column("operation", String(64), nullable=False),
    Column("object_id", String(320), nullable=False),  # AuditEntry.object_id
    Column("doc", Text, nullable=False),
    Index("audit_time", "time", "id"),
    Index("audit_user_name", "user_name", "time", "id"),
    Index("audit_operation", "operation", "time", "id"),
    Index("audit_object_id", "object_id", "time", "id"),
)

tokens = Table(
    "tokens",
    metadata,
    Column("token_id", String(64), primary_key=True),
    Column("digest", String(64), nullable=False, unique=True),  # a keyed hash; the token itself is never stored
    Column("user_name", Text, nullable=False),
    Column("comment", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("expiry_ms", BigInteger, nullable=False),  # -1: never
    Column("kind", String(16), nullable=False, server_default="pat"),  # domain.identity.CredentialKind
    Column("created_by", Text, nullable=False, server_default=""),
    Column("last_used_ms", BigInteger, nullable=False, server_default="0"),
    Column("parent", String(64), nullable=False, server_default=""),
    Column("details", Text, nullable=False, server_default=""),
    Index("tokens_user", "user_name"),
    Index("tokens_parent", "parent"),
    Index("tokens_expiry", "expiry_ms"),
)

users = Table(  # people and service principals
    "users",
    metadata,
    Column("user_id", String(32), primary_key=True),
    Column("folded", Text, nullable=False, unique=True),  # the user name, as it is compared
    Column("kind", String(24), nullable=False),
    Column("active", Boolean, nullable=False),
    Column("external_id", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("doc", Text, nullable=False),
    Index("users_listed", "kind", "created_ms", "user_id"),
    Index("users_external", "external_id"),
)

groups = Table(
    "groups",
    metadata,
    Column("group_id", String(32), primary_key=True),
    Column("folded", Text, nullable=False, unique=True),  # the display name, as it is compared
    Column("external_id", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("doc", Text, nullable=False),
    Index("groups_listed", "created_ms", "group_id"),
    Index("groups_external", "external_id"),
)

members = Table(
    "members",
    metadata,
    Column("group_id", String(32), primary_key=True),
    Column("member_id", String(32), primary_key=True),  # an identity or a group
    Index("members_member", "member_id"),
)

global_init_scripts = Table(
    "global_init_scripts",
    metadata,
    Column("script_id", String(64), primary_key=True),
    Column("position", Integer, nullable=False),  # 0, 1, ...: the order in which they run
    Column("doc", Text, nullable=False),
)

# The contents of global init scripts, also of earlier ones while a cluster runs them.
script_contents = Table(
    "script_contents",
    metadata,
    Column("digest", String(64), primary_key=True),  # SHA-256, hex
    Column("content", Text, nullable=False),  # base64
)

runs = Table(
    "runs",
    metadata,
    Column("run_id", BigInteger, primary_key=True, autoincrement=False),
    Column("job_id", BigInteger, nullable=False),
    Column("type", String(16), nullable=False, server_default="SUBMIT_RUN"),
    Column("creator", Text, nullable=False, server_default=""),
    Column("created_ms", BigInteger, nullable=False),
    Column("turn_ms", BigInteger, nullable=False, server_default="0"),  # `Run.began_ms`
    Column("ended_ms", BigInteger, nullable=False),  # 0: active
    Column("idempotency_token", String(64), nullable=False),
    Column("due_ms", BigInteger, nullable=True),  # when the loop must look at it; null: only when woken
    Column("version", BigInteger, nullable=False),
    Column("doc", Text, nullable=False),
    Index("runs_due", "due_ms"),
    Index("runs_created", "created_ms", "run_id"),
    Index("runs_active", "ended_ms", "created_ms", "run_id"),
    Index("runs_creator", "creator", "created_ms", "run_id"),
    Index("runs_job", "job_id", "ended_ms", "created_ms", "run_id"),
    Index("runs_turn", "job_id", "ended_ms", "turn_ms", "run_id"),
    Index("runs_idempotency", "idempotency_token"),
)

jobs = Table(
    "jobs",
    metadata,
    Column("job_id", BigInteger, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("due_ms", BigInteger, nullable=True),  # its next scheduled run
    Column("doc", Text, nullable=False),
    Index("jobs_created", "created_ms", "job_id"),
    Index("jobs_owner", "owner", "created_ms", "job_id"),
    Index("jobs_due", "due_ms"),
)

job_triggers = Table(  # what the triggers of jobs by files and tables have seen
    "job_triggers",
    metadata,
    Column("job_id", BigInteger, primary_key=True, autoincrement=False),
    Column("doc", Text, nullable=False),
)

destinations = Table(
    "destinations",
    metadata,
    Column("destination_id", String(36), primary_key=True),
    Column("doc", Text, nullable=False),
)

outbox = Table(
    "outbox",
    metadata,
    Column("notice_id", String(32), primary_key=True),
    Column("receiver", String(36), nullable=False),
    Column("due_ms", BigInteger, nullable=False),
    Column("doc", Text, nullable=False),
    Index("outbox_due", "due_ms"),
    Index("outbox_receiver", "receiver", "due_ms"),
)

task_runs = Table(
    "task_runs",
    metadata,
    Column("task_run_id", BigInteger, primary_key=True, autoincrement=False),
    Column("run_id", BigInteger, nullable=False),
    Column("output", Text, nullable=False),  # Output as JSON; "" until there is one
    Column("for_each_id", BigInteger, nullable=True),  # of an iteration that is over: the attempt at the for-each task
    Column("number", Integer, nullable=False, server_default="0"),  # which iteration
    Column("doc", Text, nullable=False, server_default=""),  # the iteration as a Task, beside its last attempt
    Index("task_runs_run", "run_id"),
    Index("task_runs_iterations", "for_each_id", "number"),
)

task_cells = Table(  # of notebooks
    "task_cells",
    metadata,
    Column("task_run_id", BigInteger, primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("run_id", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("doc", Text, nullable=False),  # NotebookCell as JSON
    Index("task_cells_run", "run_id"),
)

servers = Table(  # see `store.servers`
    "servers",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("doc", Text, nullable=False),
    Column("started_ms", BigInteger, nullable=False),
    Column("seen_ms", BigInteger, nullable=False),
    Column("alone", Boolean, nullable=False),
    Column("stopping", SmallInteger, nullable=False),
)

meta = Table(
    "meta",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)

heard = Table(  # see `store.heard`
    "heard",
    metadata,
    Column("instance_id", String(64), primary_key=True),
    Column("heard_ms", BigInteger, nullable=False),  # by the database's clock
    Column("load", Text, nullable=True),  # JSON: the load that a driver reports
)

samples = Table(  # see `store.samples`
    "samples",
    metadata,
    Column("id", Sequence, primary_key=True, autoincrement=True),
    Column("cluster_id", String(64), nullable=False),
    Column("tier", SmallInteger, nullable=False),  # of plan.samples.TIERS
    Column("start_ms", BigInteger, nullable=False),
    Column("end_ms", BigInteger, nullable=False),  # the last point's
    Column("packed", LargeBinary, nullable=False),
    Index("samples_cluster", "cluster_id", "tier", "start_ms"),
    Index("samples_ended", "tier", "end_ms"),
)

charges = Table(  # see `store.charges`
    "charges",
    metadata,
    Column("id", Sequence, primary_key=True, autoincrement=True),
    Column("cluster_id", String(64), nullable=False),
    Column("instance_id", String(64), nullable=False),
    Column("started_ms", BigInteger, nullable=False),
    Column("ended_ms", BigInteger, nullable=False),  # 0: it has not ended
    Column("doc", Text, nullable=False),
    Index("charges_cluster", "cluster_id", "ended_ms"),
    Index("charges_ended", "ended_ms", "started_ms"),
)

start_times = Table(  # see `store.starttimes`
    "start_times",
    metadata,
    Column("id", Sequence, primary_key=True, autoincrement=True),
    Column("kind", String(255), nullable=False),  # plan.starts.kind_of
    Column("took_ms", BigInteger, nullable=False),
    Index("start_times_kind", "kind", "id"),
)

ports = Table(  # see `store.ports`
    "ports",
    metadata,
    Column("port_id", String(64), primary_key=True),
    Column("cluster_id", String(64), nullable=False),
    Column("external_port", Integer, nullable=True),  # null: it has no listener
    Column("position", Integer, nullable=False),  # among the cluster's
    Column("opened", BigInteger, nullable=False),  # domain.ports.PortRow
    Column("fault", Text, nullable=False),
    Column("doc", Text, nullable=False),
    Index("ports_cluster", "cluster_id"),
    Index("ports_external", "external_port", unique=True),
)

schedules = Table(
    "schedules",
    metadata,
    Column("schedule_id", String(64), primary_key=True),
    Column("cluster_id", String(64), nullable=False),
    Column("due_ms", BigInteger, nullable=True),  # the next run; null: none
    Column("doc", Text, nullable=False),
    Index("schedules_due", "due_ms"),
    Index("schedules_cluster", "cluster_id"),
)

ip_access_lists = Table(
    "ip_access_lists",
    metadata,
    Column("list_id", String(36), primary_key=True),
    Column("doc", Text, nullable=False),
)

statements = Table(
    "statements",
    metadata,
    Column("statement_id", String(36), primary_key=True),
    Column("expires_ms", BigInteger, nullable=False),
    Column("doc", Text, nullable=False),
    Index("statements_expires", "expires_ms"),
)

statement_calls = Table(
    "statement_calls",
    metadata,
    Column("call_key", String(64), primary_key=True),  # a call without an answer, as far as is known
    Column("statement_id", String(36), nullable=False),
    Column("expires_ms", BigInteger, nullable=False),
    Index("statement_calls_expires", "expires_ms"),
)

queries = Table(
    "queries",
    metadata,
    Column("query_id", String(36), primary_key=True),
    Column("started_ms", BigInteger, nullable=False),
    Column("user_id", String(32), nullable=False),
    Column("cluster_id", String(64), nullable=False),
    Column("status", String(16), nullable=False),
    Column("doc", Text, nullable=False),
    Index("queries_started", "started_ms", "query_id"),
    Index("queries_user", "user_id", "started_ms", "query_id"),
    Index("queries_cluster", "cluster_id", "started_ms", "query_id"),
)

saved_queries = Table(
    "saved_queries",
    metadata,
    Column("query_id", String(36), primary_key=True),
    Column("owner", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("doc", Text, nullable=False),
    Index("saved_queries_created", "created_ms", "query_id"),
    Index("saved_queries_owner", "owner", "created_ms", "query_id"),
)

spent_tokens = Table(
    "spent_tokens",
    metadata,
    Column("token", String(64), primary_key=True),  # idempotency token of a run that was deleted
    Column("run_id", BigInteger, nullable=False),
    Column("spent_ms", BigInteger, nullable=False),
    Index("spent_tokens_spent", "spent_ms"),
)

# The names of scopes and keys are folded (domain.secrets.fold); `name` is what the user wrote.
secret_scopes = Table(
    "secret_scopes",
    metadata,
    Column("scope", String(128), primary_key=True),
    Column("name", String(128), nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("creator", Text, nullable=False),
)

secrets = Table(
    "secrets",
    metadata,
    Column("scope", String(128), primary_key=True),
    Column("key", String(128), primary_key=True),
    Column("name", String(128), nullable=False),
    Column("updated_ms", BigInteger, nullable=False),
    Column("key_id", String(16), nullable=False),  # domain.secrets.Sealed
    Column("wrapped", LargeBinary, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Index("secrets_key_id", "key_id"),
)

# Who may do what with which object. `principal_id` is the id of an identity or group.
grants = Table(
    "grants",
    metadata,
    Column("kind", String(24), primary_key=True),  # domain.access.ObjectKind
    Column("object_id", String(1024), primary_key=True),
    Column("principal_id", String(32), primary_key=True),
    Column("permission", String(24), nullable=False),
    Index("grants_principal", "principal_id", "kind", "object_id"),
)
