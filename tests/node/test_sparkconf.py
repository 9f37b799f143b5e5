"""The Spark configuration of a node: ours, defaults, and the user's."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from brickyard.domain.redaction import SHORTEST
from brickyard.runtime.node.jvm import launch
from brickyard.runtime.node.spark import apart, resources, sizes
from brickyard.runtime.node.spark import conf as sparkconf
from brickyard.runtime.node.spark.place import Place
from brickyard.runtime.node.spark.redaction import REDACTED_NAMES, SHORTEST_SECRET
from brickyard.sandbox import view
from tests.support.golden import Golden

PLACE = Place(host="127.0.0.1", node_dir="/n", ui_key="key")
SPARK_4: Any = {"spark_version": "4.0.5", "has_connect": True, "python": "/p"}
SPARK_3: Any = {"spark_version": "3.5.9", "has_connect": False, "connect_missing": "", "python": "/p"}


def assignment(conf: dict[str, str] | None = None, **fields: Any) -> Any:
    base = {"cluster_id": "c-1", "cluster_name": "name", "role": "driver", "cores": 4, "memory_mb": 8192, "secret": "s3cret"}
    return {**base, "connect_token": "token", "spark_conf": conf or {}, **fields}


def conf_of(
    assigned: Any,
    manifest: Any = SPARK_4,
    master: str = "spark://127.0.0.1:1",
    archive: str = "",
    **place: str,
) -> Any:
    at = PLACE._replace(**place)  # type: ignore[arg-type] # names of addresses, which are text
    return sparkconf.driver_conf(assigned, manifest, at, master_url=master, executor_archive=archive)


def test_the_users_value_wins_over_a_default() -> None:
    assert conf_of(assignment({"spark.app.name": "mine"})).values["spark.app.name"] == "mine"
    assert conf_of(assignment()).values["spark.app.name"] == "name"


def test_delta_reads_logs_with_the_cores_of_all_workers_that_may_come() -> None:
    manifest = {**SPARK_4, "layers": {"delta": ["/l/delta.jar"]}}
    for fields, cores in (({"most_workers": 3, "worker_cores": 4}, "12"), ({"role": "single"}, "4")):
        assert conf_of(assignment(**fields), manifest).values["spark.databricks.delta.snapshotPartitions"] == cores


def test_the_workspaces_format_needs_the_layer_and_the_log_says_where_it_is_missing() -> None:
    asked, key = assignment(table_format="delta"), "spark.sql.sources.default"
    with_layer = conf_of(asked, {**SPARK_4, "layers": {"delta": ["/l/delta.jar"]}})
    assert with_layer.values[key] == "delta" and not with_layer.notes
    without = conf_of(asked)
    assert key not in without.values and len(without.notes) == 1


def test_programs_find_the_clusters_tags() -> None:
    made = conf_of(assignment(default_tags={"ClusterId": "c-1"}, custom_tags={"team": "a"}))
    tags = json.loads(made.values["spark.databricks.clusterUsageTags.clusterAllTags"])
    assert {tag["key"]: tag["value"] for tag in tags} == {"ClusterId": "c-1", "team": "a"}


def test_what_keeps_the_cluster_together_is_not_the_users() -> None:
    made = conf_of(assignment({"spark.driver.host": "10.0.0.1", "spark.authenticate": "false"}))
    assert made.values["spark.driver.host"] == "127.0.0.1"
    assert made.values["spark.authenticate"] == "true"
    assert {note.split()[0] for note in made.notes} == {"spark.driver.host", "spark.authenticate"}


def test_what_passes_between_machines_is_encrypted_whatever_the_user_says() -> None:
    asked = {
        "spark.network.crypto.enabled": "false", "spark.network.crypto.saslFallback": "true", "spark.ssl.rpc.enabled": "true",
        "spark.authenticate.enableSaslEncryption": "true", "spark.app.name": "mine",
    }  # fmt: skip
    made = conf_of(assignment(asked, encrypted=True), host="10.0.0.7", private_host="127.64.0.1")
    for conf in (
        made.values,
        sparkconf.master_conf(assignment(asked, encrypted=True), PLACE),
        sparkconf.worker_conf(assignment(asked, encrypted=True), PLACE),
    ):
        assert conf["spark.authenticate"] == "true"
        assert {key: value for key, value in conf.items() if key.startswith(("spark.network.", "spark.ssl."))} == {
            "spark.network.crypto.enabled": "true",
            "spark.network.crypto.cipher": "AES/GCM/NoPadding",
            "spark.network.crypto.authEngineVersion": "2",
            "spark.network.crypto.saslFallback": "false",
        }
    assert {note.split()[0] for note in made.notes} == {key for key in asked if key != "spark.app.name"}
    assert made.values["spark.driver.host"] == made.values["spark.driver.bindAddress"] == "10.0.0.7"
    assert made.values["spark.connect.grpc.binding.address"] == "127.64.0.1", "the server comes through the agent"
    alone = conf_of(assignment(encrypted=True), host="10.0.0.7", private_host="127.64.0.1", master="local[4]").values
    assert alone["spark.driver.bindAddress"] == alone["spark.driver.host"] == "127.64.0.1", "there is no other node"


def test_nodes_of_one_machine_encrypt_only_if_they_are_asked_to() -> None:
    assert not [key for key in conf_of(assignment()).values if key.startswith("spark.network.")]
    assert conf_of(assignment({"spark.network.crypto.enabled": "true"})).values["spark.network.crypto.enabled"] == "true"


def test_the_single_node_profile_is_not_worth_a_note() -> None:
    made = conf_of(assignment({"spark.master": "local[*]"}), master="local[4]")
    assert made.notes == []
    assert made.values["spark.master"] == "local[4]"


def test_connect_is_served_with_its_token_or_not_at_all(golden: Golden) -> None:
    with_token = conf_of(assignment({"spark.plugins": "a.B"})).values
    assert with_token["spark.plugins"] == "a.B", "Connect is started when it is asked for, not by its plugin"
    assert "token" not in with_token.values(), "it is told to the server alone"
    assert with_token["spark.connect.grpc.binding.address"] == "127.0.0.1"
    for without in (conf_of(assignment(connect_token="")), conf_of(assignment(), SPARK_3)):
        assert not [key for key in without.values if key.startswith("spark.connect")]
    missing: Any = {**SPARK_3, "connect_missing": "the network is down"}
    golden(sparkconf.without_connect(assignment(), missing), f"({missing['connect_missing']})")


def test_connect_of_spark_3_is_guarded_by_us() -> None:
    theirs = {"spark.connect.grpc.interceptor.classes": "x.Y"}
    made = conf_of(assignment(theirs), {**SPARK_3, "has_connect": True}).values
    assert made["spark.connect.grpc.interceptor.classes"] == "brickyard.TokenGuard,x.Y"
    assert "token" not in made.values(), "it is told to the server alone"
    assert "spark.connect.authenticate.token" not in made
    assert "spark.connect.grpc.interceptor.classes" not in conf_of(assignment()).values, "Spark 4 has its own"


def test_sparks_own_connect_plugin_is_left_out(golden: Golden) -> None:
    made = conf_of(assignment({"spark.plugins": f"a.B, {sparkconf.CONNECT_PLUGIN}"}))
    assert made.values["spark.plugins"] == "a.B"
    golden(made.notes[0])


def test_the_web_ui_is_off_or_guarded() -> None:
    assert conf_of(assignment()).values["spark.ui.enabled"] == "false"
    asked = {"spark.ui.enabled": "true", "spark.ui.filters": "x.Y"}
    guarded = conf_of(assignment(asked)).values
    assert guarded["spark.ui.filters"] == f"{sparkconf.JWS_FILTER},x.Y"
    assert guarded[f"spark.{sparkconf.JWS_FILTER}.param.secretKey"] == "key"
    old = conf_of(assignment(asked), SPARK_3)
    assert old.values["spark.ui.enabled"] == "false"
    assert "spark.ui.enabled" in old.notes[0]


def test_executors_get_ours_and_the_users_java_options() -> None:
    options = conf_of(assignment({"spark.executor.extraJavaOptions": "-Dx=y"}), archive="/e.jsa").values[
        "spark.executor.extraJavaOptions"
    ]
    assert options.endswith(" -Dx=y")
    assert "-XX:SharedArchiveFile=/e.jsa" in options
    own_collector = conf_of(assignment({"spark.executor.extraJavaOptions": "-XX:+UseZGC"})).values
    assert "Parallel" not in own_collector["spark.executor.extraJavaOptions"]


def test_spark_starts_python_in_cells_where_users_are_kept_apart_whatever_the_conf_says() -> None:
    theirs = {
        "spark.pyspark.python": "/bin/other",
        "spark.python.daemon.module": "other",
        "spark.python.use.daemon": "false",
        "spark.executorEnv.PYSPARK_PYTHON": "/bin/other",
        "spark.executor.extraJavaOptions": "-Dbrickyard.apart=/",
        "spark.plugins": "org.example.Plugin",
    }
    values = conf_of(assignment(theirs, user_isolation=True)).values
    for name in ("spark.pyspark.python", "spark.pyspark.driver.python", "spark.executorEnv.PYSPARK_PYTHON"):
        assert values[name] == apart.WORKER_PYTHON == view.WORKER_PYTHON
    assert (values["spark.python.daemon.module"], values["spark.python.use.daemon"]) == ("pyspark.daemon", "true")
    assert values["spark.plugins"].split(",") == ["brickyard.Apart", "org.example.Plugin"]
    places = [word for word in values["spark.executor.extraJavaOptions"].split() if word.startswith("-Dbrickyard.apart=")]
    assert places[-1] == "-Dbrickyard.apart=/dbfs:/Volumes:/Workspace", "of two values, Java takes the last"
    assert not {"brickyard.Apart", apart.WORKER_PYTHON} & set(conf_of(assignment()).values.values()), (
        "other clusters stay as they are"
    )


def test_executors_fill_their_worker() -> None:
    values = conf_of(assignment()).values
    assert (values["spark.executor.cores"], values["spark.executor.memory"]) == ("4", "6144m")
    other = conf_of(assignment(worker_cores=2, worker_memory_mb=2000)).values
    assert (other["spark.executor.cores"], other["spark.executor.memory"]) == ("2", "1500m")


@pytest.mark.parametrize("conf", [{"spark.executor.memory": "3g"}, {"spark.executor.cores": "3"}])
def test_executors_that_no_worker_can_hold_are_refused(conf: dict[str, str]) -> None:
    with pytest.raises(launch.LaunchError, match=next(iter(conf))):
        conf_of(assignment(conf, worker_cores=2, worker_memory_mb=2048))


def test_variables_reach_the_executors() -> None:
    made = conf_of(assignment(spark_env_vars={"A": "1", "SPARK_HOME": "/x"})).values
    assert made["spark.executorEnv.A"] == "1"
    assert "spark.executorEnv.SPARK_HOME" not in made


def test_a_worker_takes_its_own_settings_only() -> None:
    made = sparkconf.worker_conf(assignment({"spark.worker.cleanup.enabled": "true", "spark.sql.x": "y"}), PLACE)
    assert made["spark.worker.cleanup.enabled"] == "true"
    assert "spark.sql.x" not in made
    assert made["spark.decommission.enabled"] == "true"


def test_gpus_are_a_resource_of_spark(tmp_path: Path) -> None:
    made = conf_of(assignment(worker_gpus=2)).values
    assert (made["spark.executor.resource.gpu.amount"], made["spark.task.resource.gpu.amount"]) == ("2", "1")
    asked = {
        "spark.task.resource.gpu.amount": "0.25",
        "spark.worker.resource.gpu.amount": "9",
        "spark.worker.resourcesFile": "/x",
    }
    made = conf_of(assignment(asked, worker_gpus=2, gpus=1)).values
    assert made["spark.task.resource.gpu.amount"] == "0.25"
    assert made["spark.driver.resource.gpu.amount"] == "1"
    worker = sparkconf.worker_conf(assignment(asked, gpus=2), PLACE)
    assert worker["spark.worker.resource.gpu.amount"] == "2"
    assert "spark.worker.resourcesFile" not in worker
    file = resources.write(assignment(gpus=2), str(tmp_path), resources.WORKER)
    listed = [{"id": {"componentName": "spark.worker", "resourceName": "gpu"}, "addresses": ["0", "1"]}]
    assert json.loads(Path(file).read_text()) == listed
    assert resources.write(assignment(), str(tmp_path), resources.WORKER) == ""
    assert not [key for key in conf_of(assignment()).values if "resource.gpu" in key]


@pytest.mark.parametrize(
    ("conf", "gpus", "master"),
    [
        ({"spark.executor.resource.gpu.amount": "3"}, 2, "spark://127.0.0.1:1"),
        ({"spark.task.resource.gpu.amount": "1"}, 0, "spark://127.0.0.1:1"),
        ({"spark.task.resource.gpu.amount": "1"}, 0, "local[4]"),
    ],
)
def test_gpus_that_no_task_could_get_are_refused(conf: dict[str, str], gpus: int, master: str, golden: Golden) -> None:
    with golden.refused(launch.LaunchError, next(iter(conf))):
        conf_of(assignment(conf, worker_gpus=gpus), master=master)


def test_what_submit_resolved_is_not_given_again() -> None:
    assert sparkconf.without_submitted({"spark.jars.packages": "a", "spark.x": "y"}) == {"spark.x": "y"}


SHARED = PLACE._replace(cluster_dir="/cluster", metastore=True)
WITH_CLASSES: Any = {**SPARK_4, "classes": "/r/classes/1.jar"}


def files_of(conf: dict[str, str] | None = None, master: str = "spark://127.0.0.1:1", place: Any = SHARED) -> dict[str, str]:
    made = sparkconf.driver_conf(assignment(conf), WITH_CLASSES, place, master_url=master, executor_archive="")
    values: dict[str, str] = made.values
    return values


def test_tables_and_paths_without_a_scheme_are_where_every_node_sees_them() -> None:
    values = files_of()
    assert values["spark.sql.warehouse.dir"] == "dbfs:/user/hive/warehouse"
    assert values["spark.hadoop.fs.brickyard.writes"] == f"/dbfs/user/hive/.writes/{assignment()['cluster_id']}"
    assert values["spark.sql.filesourceTableRelationCacheSize"] == "0", "other clusters write to the same tables"
    alone = files_of(place=SHARED._replace(metastore=False))
    assert alone["spark.sql.warehouse.dir"] == "file:/cluster/warehouse", "an older agent knows no metastore"
    assert alone["spark.hadoop.fs.brickyard.writes"] == "/cluster/writes"
    assert values["spark.hadoop.fs.defaultFS"] == "dbfs:///"
    assert values["spark.executorEnv.SPARK_DIST_CLASSPATH"] == "/r/classes/1.jar"
    assert values["spark.sql.legacy.createHiveTableByDefault"] == "false"


def test_jobs_share_the_cluster_fairly_and_scripts_are_on_where_spark_has_them() -> None:
    assert files_of()["spark.scheduler.mode"] == "FAIR"
    assert files_of({"spark.scheduler.mode": "FIFO"})["spark.scheduler.mode"] == "FIFO"
    assert files_of()["spark.sql.scripting.enabled"] == "true"
    older: Any = {**WITH_CLASSES, "spark_version": "3.5.9"}
    made = sparkconf.driver_conf(assignment({}), older, SHARED, master_url="local[2]", executor_archive="")
    assert "spark.sql.scripting.enabled" not in made.values, "Spark 3 has none"


def test_file_paths_are_written_where_all_nodes_see_them_and_anywhere_on_a_single_node() -> None:
    assert files_of()["spark.hadoop.fs.brickyard.shared"] == "/cluster:/dbfs:/Volumes:/Workspace:/n/logs/eventlog"
    with_workspace = files_of(place=SHARED._replace(cluster_workspace="/workspace"))
    assert with_workspace["spark.hadoop.fs.brickyard.shared"] == "/cluster:/workspace:/dbfs:/Volumes:/Workspace:/n/logs/eventlog"
    assert files_of(master="local[4]")["spark.hadoop.fs.brickyard.shared"] == ""


def test_the_users_class_path_of_executors_stays() -> None:
    values = files_of({"spark.executorEnv.SPARK_DIST_CLASSPATH": "/mine.jar", "spark.hadoop.fs.defaultFS": "file:///"})
    assert values["spark.executorEnv.SPARK_DIST_CLASSPATH"] == "/mine.jar:/r/classes/1.jar"
    assert values["spark.hadoop.fs.defaultFS"] == "file:///"


def test_executors_load_what_was_rewritten_for_their_archive_unless_the_user_has_jars_before_sparks() -> None:
    manifest = {**SPARK_4, "rewritten": "/r/rewritten.jar"}
    name = "spark.executor.extraClassPath"
    assert conf_of(assignment(), manifest).values[name] == "/r/rewritten.jar"
    assert conf_of(assignment({name: "/mine.jar"}), manifest).values[name] == "/mine.jar"
    assert name not in conf_of(assignment()).values


def test_tables_are_in_the_metastore_unless_hive_has_them_or_there_is_none() -> None:
    assert sparkconf.keeps_catalog(WITH_CLASSES, SHARED, files_of())
    assert not sparkconf.keeps_catalog(WITH_CLASSES, SHARED, files_of({"spark.sql.catalogImplementation": "hive"}))
    assert not sparkconf.keeps_catalog(WITH_CLASSES, PLACE, files_of(place=PLACE)), "a training has no cluster"
    assert not sparkconf.keeps_catalog(WITH_CLASSES, SHARED._replace(metastore=False), files_of())


def test_the_class_path_that_archives_were_made_with_comes_first() -> None:
    options = launch.JvmOptions(heap_mb=512)
    bare: Any = {"spark_home": "/s"}
    without = launch.class_path(bare, options)
    assert launch.class_path(bare | {"classes": "/r/1.jar"}, options) == f"{without}:/r/1.jar"


def test_spark_hides_the_values_of_secrets_by_value() -> None:
    """And the settings that say so, which contain them, by name."""
    made = conf_of(assignment({"spark.redaction.regex": "mine", "spark.a": "p(1)$x"}, redact=("p(1)$x", "abc"))).values
    pattern = made["spark.redaction.regex"]
    assert pattern == r"mine|spark[.]redaction|p\x{28}1\x{29}\x{24}x", "a value of three characters would hide other text"
    assert made["spark.redaction.string.regex"] == r"p\x{28}1\x{29}\x{24}x"
    assert not [key for key in conf_of(assignment()).values if key.startswith("spark.redaction")]
    assert conf_of(assignment(redact=("secret1",))).values["spark.redaction.regex"].startswith(REDACTED_NAMES)
    assert SHORTEST_SECRET == SHORTEST


@pytest.mark.parametrize("theirs", [{}, {"spark.redaction.regex": "mine"}])
def test_where_users_are_kept_apart_more_names_are_hidden(theirs: dict[str, str]) -> None:
    made = conf_of({**assignment(theirs), "user_isolation": True}, SPARK_4).values
    pattern = re.compile(made["spark.redaction.regex"].replace("(?i)", ""), re.IGNORECASE)
    for name in (
        "fs.s3a.access.key",
        "fs.azure.account.key.a",
        "fs.azure.sas.c.a",
        "x.credential",
        "executorEnv.AWS_ACCESS_KEY_ID",
    ):
        assert pattern.search(f"spark.hadoop.{name}"), name
    for name in ("spark.sql.shuffle.partitions", "spark.hadoop.fs.s3a.aws.credentials.provider", "spark.sql.catalog.c.type"):
        assert not pattern.search(name), name
    assert bool(pattern.search("mine")) is bool(theirs)


def test_iceberg_is_in_front_of_the_workspaces_tables_where_the_runtime_has_it() -> None:
    key = "spark.sql.catalog.spark_catalog"
    has = {**SPARK_3, "classes": "/r/classes/1.jar", "has_iceberg": True}

    def settings(manifest: Any, place: Any = SHARED, conf: dict[str, str] | None = None) -> dict[str, str]:
        made = sparkconf.driver_conf(assignment(conf), manifest, place, master_url="local[1]", executor_archive="")
        return {name: value for name, value in made.values.items() if name.startswith(key) or "missing" in name}

    assert settings(has)[key] == "org.apache.iceberg.spark.SparkSessionCatalog"
    assert settings(has)[f"{key}.cache-enabled"] == "false", "other clusters change the tables as well"
    assert settings(has, conf={key: "x.Y"}) == {key: "x.Y"}, "the user's, with nothing of ours"
    assert settings(has, PLACE) == settings({**has, "has_iceberg": False}) == {}
    assert settings(has, conf={"spark.sql.catalogImplementation": "hive"}) == {}
    why = "the network is down"
    missing = settings({**has, "has_iceberg": False, "iceberg_missing": why})
    assert missing == {"spark.brickyard.missing.iceberg": why}


def test_iceberg_as_a_layer_is_in_front_where_the_cluster_names_it_and_on_executors_too() -> None:
    key, jars = "spark.sql.catalog.spark_catalog", {"delta": ["/l/d.jar"], "iceberg": ["/l/i.jar", "/l/classes-1.jar"]}
    manifest: Any = {**SPARK_4, "classes": "/r/classes/1.jar", "layers": jars}

    def settings(names: str | None) -> dict[str, str]:
        asked = assignment({"spark.brickyard.layers": names} if names is not None else None)
        return sparkconf.driver_conf(asked, manifest, SHARED, master_url="local[1]", executor_archive="").values

    assert settings("iceberg")[key] == "org.apache.iceberg.spark.SparkSessionCatalog"
    both = settings("delta,iceberg")
    assert (both[key], both[f"{key}.catalog-impl"]) == ("brickyard.IcebergOverDelta", "brickyard.IcebergTables")
    assert both[sparkconf.EXECUTOR_LAST_JARS] == "/r/classes/1.jar:/l/d.jar:/l/i.jar:/l/classes-1.jar"
    assert f"{key}.catalog-impl" not in settings(None), "Delta Lake alone"


@pytest.mark.parametrize(
    ("fields", "differ"),
    [
        ({}, False),
        ({"spark_conf": {"spark.sql.shuffle.partitions": "4"}}, False),
        ({"spark_conf": {"spark.executorEnv.A": "1"}}, True),
        ({"spark_conf": {"spark.plugins": "a.B"}}, True),
        ({"spark_env_vars": {"A": "1"}}, True),
        ({"init_scripts": [{"path": "/x"}]}, True),
        ({"gpus": 1}, True),
        ({"gpus": 0, "init_scripts": []}, False),
    ],
)
def test_what_can_keep_executors_from_starting_is_tried_before_the_cluster_runs(fields: Any, differ: bool) -> None:
    assert sizes.executors_differ(fields) is differ


@pytest.mark.parametrize(("value", "used"), [("true", False), (" TRUE", False), ("false", True)])
def test_a_service_that_no_node_has_is_set_aside_with_a_note(value: str, used: bool) -> None:
    made = conf_of(assignment({"spark.shuffle.service.enabled": value}))
    assert ("spark.shuffle.service.enabled" in made.values) is used
    assert any(note.startswith("spark.shuffle.service.enabled") for note in made.notes) is not used


@pytest.mark.parametrize(
    ("conf", "differs"),
    [
        ({}, False),
        ({"spark.executor.cores": "2"}, False),
        ({"spark.sql.session.timeZone": "Nowhere/City"}, True),
        ({"spark.hadoop.fs.defaultFS": "nothing:"}, True),
    ],
)
def test_what_can_keep_a_session_from_being_made_is_tried_before_the_cluster_runs(conf: dict[str, str], differs: bool) -> None:
    assert sizes.session_differs(assignment(conf)) is differs
