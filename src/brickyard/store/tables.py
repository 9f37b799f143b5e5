"""The tables. A row is a JSON document (`doc`, the domain struct) with additional columns for queries and guards.

Because of the documents, a new field of a struct needs no migration. The columns are derived from the document at every write, in
one place.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, LargeBinary, MetaData, SmallInteger, String, Table, Text

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
    Column("version", BigInteger, nullable=False),
    Column("doc", Text, nullable=False),
    Index("clusters_due", "due_ms"),
    # Every list order, alone and after the filter columns: the cost of a page does not depend on the number of rows.
    Index("clusters_created", "created_ms", "cluster_id"),
    Index("clusters_name", "cluster_name", "cluster_id"),
    Index("clusters_state_created", "state", "created_ms", "cluster_id"),
    Index("clusters_state_name", "state", "cluster_name", "cluster_id"),
    Index("clusters_source_created", "source", "created_ms", "cluster_id"),
    Index("clusters_source_name", "source", "cluster_name", "cluster_id"),
    Index("clusters_policy_created", "policy_id", "created_ms", "cluster_id"),
    Index("clusters_policy_name", "policy_id", "cluster_name", "cluster_id"),
    Index("clusters_pinned", "pinned_ms"),
    Index("clusters_idempotency", "idempotency_token"),
)

# Clusters that were removed because their retention was over.
purged = Table(
    "purged",
    metadata,
    Column("cluster_id", String(64), primary_key=True),
    Column("purged_ms", BigInteger, nullable=False),
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
    Index("instances_pool", "pool_id", "standing", "instance_id"),
)

policies = Table(
    "policies",
    metadata,
    Column("policy_id", String(64), primary_key=True),
    Column("unique_name", String(128), nullable=False, unique=True),
    Column("doc", Text, nullable=False),
)

pools = Table(
    "pools",
    metadata,
    Column("instance_pool_id", String(64), primary_key=True),
    Column(
        "unique_name", String(128), nullable=False, unique=True
    ),  # the name; for a deleted pool its id, so that the name is free
    Column("created_ms", BigInteger, nullable=False),
    Column("deleted_ms", BigInteger, nullable=False),
    Column("due_ms", BigInteger, nullable=True),  # when the loop must look at it; null: only when woken
    Column("doc", Text, nullable=False),
    Index("pools_due", "due_ms"),
)

events = Table(
    "events",
    metadata,
    Column("seq", Sequence, primary_key=True, autoincrement=True),
    Column("cluster_id", String(64), nullable=False),
    Column("timestamp", BigInteger, nullable=False),
    Column("type", String(48), nullable=False),
    Column("number", BigInteger, nullable=False),  # 1, 2, ... within the cluster, so that events are counted without reading them
    Column("doc", Text, nullable=False),
    Index("events_by_time", "cluster_id", "timestamp", "seq"),
    Index("events_by_type", "cluster_id", "type", "timestamp", "seq"),
)

tokens = Table(
    "tokens",
    metadata,
    Column("token_id", String(64), primary_key=True),
    Column("digest", String(64), nullable=False, unique=True),  # SHA-256 of the token, hex; the token itself is never stored
    Column("user_name", Text, nullable=False),
    Column("comment", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("expiry_ms", BigInteger, nullable=False),  # -1: never
    Index("tokens_user", "user_name"),
)

users = Table(
    "users",
    metadata,
    Column("user_name", String(320), primary_key=True),
    Column("user_id", String(32), nullable=False, unique=True),
    Column("display_name", Text, nullable=False),
    Column("is_admin", Boolean, nullable=False),
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
    Column("created_ms", BigInteger, nullable=False),
    Column("ended_ms", BigInteger, nullable=False),  # 0: active
    Column("idempotency_token", String(64), nullable=False),
    Column("due_ms", BigInteger, nullable=True),  # when the loop must look at it; null: only when woken
    Column("version", BigInteger, nullable=False),
    Column("doc", Text, nullable=False),
    Index("runs_due", "due_ms"),
    Index("runs_created", "created_ms", "run_id"),
    Index("runs_active", "ended_ms", "created_ms", "run_id"),
    Index("runs_job", "job_id"),
    Index("runs_idempotency", "idempotency_token"),
)

task_runs = Table(
    "task_runs",
    metadata,
    Column("task_run_id", BigInteger, primary_key=True, autoincrement=False),
    Column("run_id", BigInteger, nullable=False),
    Column("output", Text, nullable=False),  # Output as JSON; "" until there is one
    Index("task_runs_run", "run_id"),
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

secret_acls = Table(
    "secret_acls",
    metadata,
    Column("scope", String(128), primary_key=True),
    Column("principal", String(320), primary_key=True),  # a user or a group
    Column("permission", String(16), nullable=False),
)
