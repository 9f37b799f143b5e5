"""The Spark settings that belong to a runtime's layers, merged with those of the cluster's conf, which win. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..jvm.launch import LaunchError

EXTENSIONS, CATALOG = "spark.sql.extensions", "spark.sql.catalog.spark_catalog"
DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
DELTA_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
ICEBERG_CATALOG = "org.apache.iceberg.spark.SparkSessionCatalog"
BOTH_CATALOGS = "brickyard.IcebergOverDelta"
DELTA_ENTRIES = "spark.databricks.delta.catalog.update.enabled"
DELTA_PARTITIONS = "spark.databricks.delta.snapshotPartitions"
LISTING = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
FORMAT = "spark.sql.sources.default"
MOST_PARTITIONS = 50  # Delta's own number: each is a task, and small tables have little in each
LISTINGS_PER_CORE, FEWEST_LISTINGS, MOST_LISTINGS = 8, 32, 10_000  # the last is Spark's own number
DELTA_IN_BUCKETS = "spark.delta.logStore.s3a.impl"
PROVIDERS = "spark.hadoop.fs.s3a.aws.credentials.provider"
COMMITTERS = "spark.hadoop.mapreduce.outputcommitter.factory.scheme.s3a"
# What the cluster's conf says, then its environment variables: not what the machine has.
_PROVIDERS = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider,org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider,"
_S3A = {
    PROVIDERS: f"{_PROVIDERS}software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider",
    COMMITTERS: "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory",
    "spark.hadoop.fs.s3a.committer.name": "magic",  # java/BucketCommit.java takes no other
    # A job that ends would abort the uploads of all others that write to its directory.
    "spark.hadoop.fs.s3a.committer.abort.pending.uploads": "false",
    # Uploads wait on the disk, not in the heap. A directory that is there: file:/ is read-only where nodes do not share it.
    "spark.hadoop.fs.s3a.buffer.dir": "${java.io.tmpdir}",
}
# Of Hadoop 3.3: AWS SDK 1, and a committer that leaves other jobs what is theirs (java/s3a33).
_S3A_33 = _S3A | {
    PROVIDERS: f"{_PROVIDERS}com.amazonaws.auth.EnvironmentVariableCredentialsProvider",
    COMMITTERS: "brickyard.MagicCommitterFactory",
}
RESILIENCE = "spark.hadoop.fs.azure.enable.rename.resilience"
TOKENS = "spark.hadoop.fs.azure.account.oauth.provider.type"
_ABFSS = {
    "spark.hadoop.fs.abfs.impl": "brickyard.DataLakeFiles",
    "spark.hadoop.fs.abfss.impl": "brickyard.DataLakeFiles",
    RESILIENCE: "true",
    "spark.hadoop.fs.azure.buffer.dir": "${java.io.tmpdir}",  # as of S3A
}
AUTH, MOVES = "spark.hadoop.fs.gs.auth.type", "spark.hadoop.fs.gs.operation.move.enable"
_GS = {
    "spark.hadoop.fs.gs.impl": "brickyard.CloudStorageFiles",
    AUTH: "ACCESS_TOKEN_PROVIDER",  # the connector's own default is the machine's account
    "spark.hadoop.fs.gs.auth.access.token.provider": "brickyard.ServiceAccountKey",
    MOVES: "true",
    "spark.hadoop.fs.gs.client.type": "HTTP_API_CLIENT",
}
_OWN_AUTH = ("ACCESS_TOKEN_PROVIDER", "USER_CREDENTIALS", "UNAUTHENTICATED")
_GS_FIXED = (MOVES, "spark.hadoop.fs.gs.client.type")
_OLDER = ".auth.service.account.enable"  # Databricks' example has it
_MACHINES = ("MsiTokenProvider", "WorkloadIdentityTokenProvider")
_ROLES = "AssumedRoleCredentialProvider"


def settings(
    names: Sequence[str],
    values: Mapping[str, str],
    *,
    cores: int,
    line: tuple[int, int] = (4, 0),
    iceberg: bool = False,
    table_format: str = "",
) -> dict[str, str]:
    """Returns the settings for a driver with those layers. `values`: its other settings; `cores`: of all workers that the cluster
    may have, or of its only node; `line`: of the runtime's Spark; `iceberg`: whether Iceberg's catalog is the cluster's, and not
    its user's; `table_format`: the workspace's, of tables that name none. Raises LaunchError."""
    found: dict[str, str] = {}
    if "s3a" in names:
        found |= {key: values.get(key, value) for key, value in (_S3A if line >= (4, 0) else _S3A_33).items()}
        if _ROLES in found[PROVIDERS]:
            raise LaunchError(f"{PROVIDERS} names {_ROLES}, which needs AWS STS, and the layer s3a has none. Give keys instead.")
    if "abfss" in names:
        found |= _abfss(values)
    if "gs" in names:
        found |= _gs(values)
    if "delta" in names:
        found[EXTENSIONS] = joined(DELTA_EXTENSION, values.get(EXTENSIONS, ""))  # theirs come later, and so around it
        theirs = values.get(CATALOG, DELTA_CATALOG)
        found[CATALOG] = BOTH_CATALOGS if theirs == ICEBERG_CATALOG and iceberg else theirs
        # The entry in the metastore then has the columns: the catalog's API and metadata of SQL clients read no Delta logs.
        found[DELTA_ENTRIES] = values.get(DELTA_ENTRIES, "true")
        found[DELTA_IN_BUCKETS] = values.get(DELTA_IN_BUCKETS, "brickyard.BucketLogs")
        # Delta reads a table's log with 50 tasks, whatever its size, and VACUUM lists directories with 10,000.
        found[DELTA_PARTITIONS] = values.get(DELTA_PARTITIONS, str(max(1, min(MOST_PARTITIONS, cores))))
        listings = min(MOST_LISTINGS, max(FEWEST_LISTINGS, LISTINGS_PER_CORE * cores))
        found[LISTING] = values.get(LISTING, str(listings))
        if table_format == "delta":
            found[FORMAT] = values.get(FORMAT, table_format)
    return found


def _abfss(values: Mapping[str, str]) -> dict[str, str]:
    """Raises LaunchError for what is the machine's, or loses rows."""
    for key, value in values.items():  # a key may have the account's name at its end
        if key.startswith(TOKENS) and (machines := next((each for each in _MACHINES if each in value), "")):
            raise LaunchError(
                f"{key} names {machines}, the machine's identity. Give the cluster credentials of its own: an account "
                "key, ClientCredsTokenProvider or a SAS token."
            )
    found = {key: values.get(key, value) for key, value in _ABFSS.items()}
    if (value := found[RESILIENCE]) != "true":
        raise LaunchError(f"{RESILIENCE} is {value}: a commit whose answer is lost would be done twice. Leave it out.")
    return found


def _gs(values: Mapping[str, str]) -> dict[str, str]:
    """Raises LaunchError for what is the machine's, would be ignored, or loses rows."""
    found = {key: values.get(key, value) for key, value in _GS.items()}
    if found[AUTH] not in _OWN_AUTH:
        raise LaunchError(
            f"{AUTH} is {found[AUTH]}, which takes credentials of the machine or its files. Give the cluster credentials of its "
            "own: the parts of a service account's key, without this setting, or USER_CREDENTIALS."
        )
    for key, value in values.items():
        if key.endswith(_OLDER) and value != "true":
            raise LaunchError(f"{key} is {value}. Leave it out, and set {AUTH} to UNAUTHENTICATED to use no credentials.")
        if key.startswith("spark.hadoop.google.cloud.") and not key.endswith(_OLDER):
            raise LaunchError(f"{key} is not read here. Use the setting's name that begins with spark.hadoop.fs.gs.")
    for key in _GS_FIXED:
        if found[key] != _GS[key]:
            raise LaunchError(f"{key} is {found[key]}: a write could replace another's file, or lose rows. Leave it out.")
    return found


def format_notes(names: Sequence[str], values: Mapping[str, str], *, table_format: str) -> list[str]:
    """Returns what the log says where the cluster cannot have the workspace's format."""
    if table_format != "delta" or "delta" in names or FORMAT in values:
        return []
    return [
        "The workspace's default_table_format is delta, and this cluster has no Delta Lake of the runtime's: tables that name no "
        "format are Parquet. `brickyard runtime list` says which runtimes have it."
    ]


def joined(first: str, rest: str) -> str:
    """Returns names with commas between them, each once."""
    return ",".join(dict.fromkeys([first, *filter(None, (name.strip() for name in rest.split(",")))]))
