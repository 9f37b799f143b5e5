"""The Spark settings of a runtime's layers, merged with a cluster's own."""

from __future__ import annotations

import re

import pytest

from brickyard.runtime.node.jvm.launch import LaunchError
from brickyard.runtime.node.spark.layers import (
    AUTH,
    BOTH_CATALOGS,
    CATALOG,
    COMMITTERS,
    DELTA_CATALOG,
    DELTA_ENTRIES,
    DELTA_EXTENSION,
    DELTA_IN_BUCKETS,
    DELTA_PARTITIONS,
    EXTENSIONS,
    FORMAT,
    ICEBERG_CATALOG,
    LISTING,
    MOVES,
    PROVIDERS,
    RESILIENCE,
    TOKENS,
    format_notes,
    settings,
)

GS = "spark.hadoop.fs.gs."


def test_delta_has_its_extension_and_its_catalog() -> None:
    found = settings(["delta"], {}, cores=4)
    assert found == {
        EXTENSIONS: DELTA_EXTENSION,
        CATALOG: DELTA_CATALOG,
        DELTA_ENTRIES: "true",
        DELTA_IN_BUCKETS: "brickyard.BucketLogs",
        DELTA_PARTITIONS: "4",
        LISTING: "32",
    }
    assert settings([], {}, cores=4) == {}


@pytest.mark.parametrize(
    ("theirs", "merged"),
    [
        ("a.Mine", f"{DELTA_EXTENSION},a.Mine"),
        (f" a.Mine , {DELTA_EXTENSION},b.More,", f"{DELTA_EXTENSION},a.Mine,b.More"),
        (DELTA_EXTENSION, DELTA_EXTENSION),
    ],
)
def test_a_clusters_own_extensions_stay_in_their_order(theirs: str, merged: str) -> None:
    assert settings(["delta"], {EXTENSIONS: theirs}, cores=1)[EXTENSIONS] == merged


def test_a_clusters_own_settings_win() -> None:
    theirs = {CATALOG: "a.Catalog", DELTA_PARTITIONS: "7", LISTING: "9"}
    assert settings(["delta"], theirs, cores=4).items() >= theirs.items()


@pytest.mark.parametrize(("cores", "partitions", "listings"), [(0, "1", "32"), (8, "8", "64"), (4_000, "50", "10000")])
def test_a_cluster_of_any_size_reads_logs_with_no_more_tasks_than_delta_and_spark_themselves(
    cores: int, partitions: str, listings: str
) -> None:
    found = settings(["delta"], {}, cores=cores)
    assert (found[DELTA_PARTITIONS], found[LISTING]) == (partitions, listings)


def test_the_workspaces_format_is_the_default_where_the_layer_is() -> None:
    assert settings(["delta"], {}, cores=1, table_format="delta")[FORMAT] == "delta"
    assert settings(["delta"], {FORMAT: "orc"}, cores=1, table_format="delta")[FORMAT] == "orc"
    assert FORMAT not in settings(["delta"], {}, cores=1, table_format="parquet")
    assert FORMAT not in settings([], {}, cores=1, table_format="delta")
    assert len(format_notes([], {}, table_format="delta")) == 1
    assert not format_notes(["delta"], {}, table_format="delta")
    assert not format_notes([], {FORMAT: "orc"}, table_format="delta")
    assert not format_notes([], {}, table_format="parquet")


def test_where_iceberg_is_a_part_of_the_runtime_both_catalogs_are_one() -> None:
    assert settings(["delta"], {CATALOG: ICEBERG_CATALOG}, cores=1, iceberg=True)[CATALOG] == BOTH_CATALOGS
    assert settings(["delta"], {CATALOG: ICEBERG_CATALOG}, cores=1)[CATALOG] == ICEBERG_CATALOG, "a user's own"


def test_s3a_has_the_committer_that_loses_nothing_and_none_of_the_machines_credentials() -> None:
    found = settings(["s3a"], {}, cores=1)
    assert found["spark.hadoop.fs.s3a.committer.name"] == "magic"
    assert found["spark.hadoop.fs.s3a.committer.abort.pending.uploads"] == "false"
    assert not any(name in found[PROVIDERS] for name in ("Instance", "Profile", "Container", "Default"))
    assert set(found) & set(settings(["delta"], {}, cores=1)) == set(), "each is a layer by itself"


def test_s3a_of_hadoop_3_3_has_credentials_of_its_sdk_and_a_committer_that_leaves_other_jobs_their_files() -> None:
    found = settings(["s3a"], {}, cores=1, line=(3, 5))
    assert "software.amazon" not in found[PROVIDERS]
    assert not any(name in found[PROVIDERS] for name in ("Instance", "Profile", "Container", "Default"))
    assert found[COMMITTERS] == "brickyard.MagicCommitterFactory"
    assert set(found) == set(settings(["s3a"], {}, cores=1))


def test_a_clusters_own_settings_of_s3a_win() -> None:
    theirs = {PROVIDERS: "a.Provider", "spark.hadoop.fs.s3a.buffer.dir": "/a"}
    assert settings(["s3a"], theirs, cores=1).items() >= theirs.items()


def test_roles_are_refused_because_the_layer_has_no_sts() -> None:
    with pytest.raises(LaunchError, match="AssumedRoleCredentialProvider"):
        settings(["s3a"], {PROVIDERS: "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider"}, cores=1)


def test_abfss_has_a_file_system_that_loses_nothing() -> None:
    found = settings(["abfss"], {"spark.hadoop.fs.azure.buffer.dir": "/a"}, cores=1)
    assert found["spark.hadoop.fs.abfss.impl"] == found["spark.hadoop.fs.abfs.impl"] == "brickyard.DataLakeFiles"
    assert (found[RESILIENCE], found["spark.hadoop.fs.azure.buffer.dir"]) == ("true", "/a")
    assert not set(found) & set(settings(["delta", "s3a"], {}, cores=1))
    with pytest.raises(LaunchError, match=r"rename\.resilience is false"):
        settings(["abfss"], {RESILIENCE: "false"}, cores=1)


@pytest.mark.parametrize("name", ["MsiTokenProvider", "WorkloadIdentityTokenProvider"])
@pytest.mark.parametrize("key", [TOKENS, f"{TOKENS}.lake.dfs.core.windows.net"])
def test_the_machines_identity_is_refused(name: str, key: str) -> None:
    with pytest.raises(LaunchError, match=f"{name}.*machine's identity"):
        settings(["abfss"], {key: f"org.apache.hadoop.fs.azurebfs.oauth2.{name}"}, cores=1)
    settings(["abfss"], {key: "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider"}, cores=1)


def test_gs_has_the_clusters_credentials_and_moves_in_one_step() -> None:
    found = settings(["gs"], {}, cores=1)
    assert found[AUTH] == "ACCESS_TOKEN_PROVIDER" and found[f"{GS}auth.access.token.provider"] == "brickyard.ServiceAccountKey"
    assert (found[f"{GS}impl"], found[MOVES]) == ("brickyard.CloudStorageFiles", "true")
    theirs = {AUTH: "USER_CREDENTIALS", f"{GS}auth.service.account.enable": "true"}
    assert settings(["gs"], theirs, cores=1)[AUTH] == "USER_CREDENTIALS"
    assert not set(found) & set(settings(["delta", "s3a", "abfss"], {}, cores=1))


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (AUTH, "COMPUTE_ENGINE", "credentials of the machine"),
        (AUTH, "APPLICATION_DEFAULT", "credentials of the machine"),
        (AUTH, "SERVICE_ACCOUNT_JSON_KEYFILE", "credentials of the machine or its files"),
        ("spark.hadoop.google.cloud.auth.type", "COMPUTE_ENGINE", r"is not read here.*fs\.gs\."),
        ("spark.hadoop.google.cloud.auth.service.account.enable", "false", "UNAUTHENTICATED"),
        (MOVES, "false", "lose rows"),
        (f"{GS}client.type", "STORAGE_CLIENT", "lose rows"),
    ],
)
def test_what_is_the_machines_or_loses_rows_in_gs_is_refused(key: str, value: str, why: str) -> None:
    with pytest.raises(LaunchError, match=f"{re.escape(key)}.*{why}"):
        settings(["gs"], {key: value}, cores=1)
