"""Settings that init scripts write into /databricks/driver/conf."""

from __future__ import annotations

from pathlib import Path

import pytest

from brickyard.runtime.node.jvm import launch
from brickyard.runtime.node.jvm.launch import JvmOptions, LaunchError
from brickyard.runtime.node.jvm.process import files_read
from brickyard.runtime.node.spark import scriptconf
from brickyard.runtime.node.spark.scriptconf import parse

# As Databricks' documentation writes it, for an external metastore.
METASTORE = """// Hive specific configuration options.
[driver] {
    # comment
    "spark.hadoop.javax.jdo.option.ConnectionURL" = "jdbc:mysql://host:3306/db?a=b#c"
    "spark.sql.hive.metastore.version" = "0.13.0",
    spark.sql.shuffle.partitions = 7
    "spark.x.quoted" = "a \\"b\\" \\\\ c"
}
[executor] { "spark.executor.x" = "y" }
"""


def test_a_section_for_the_driver() -> None:
    assert parse(METASTORE, "00-custom.conf") == {
        "spark.hadoop.javax.jdo.option.ConnectionURL": "jdbc:mysql://host:3306/db?a=b#c",
        "spark.sql.hive.metastore.version": "0.13.0",
        "spark.sql.shuffle.partitions": "7",
        "spark.x.quoted": 'a "b" \\ c',
    }
    margin = '|[driver] {\n    |  "spark.a" = "b"\n    |}\n'
    assert parse(margin, "a.conf") == {"spark.a": "b"}
    assert parse('[driver] { "spark.a" = "b", "spark.c": "d" }', "a.conf") == {"spark.a": "b", "spark.c": "d"}
    assert parse("some = other\nkind { of: file }", "log.conf") == {}


def test_defaults() -> None:
    text = "# comment\nspark.a b c\nspark.d=e\n\nspark.f: g\nspark.h"
    assert parse(text, "spark-defaults.conf") == {"spark.a": "b c", "spark.d": "e", "spark.f": "g"}


@pytest.mark.parametrize("text", ['[driver] {\n "spark.a" "b"\n}', '[driver] { "spark.a" = "b"', "[driver] { spark.a = }"])
def test_what_cannot_be_read_names_file_and_line(text: str) -> None:
    with pytest.raises(LaunchError, match=r"00\.conf, line \d"):
        parse(text, "00.conf")


def test_files_count_by_name_and_the_clusters_conf_has_precedence(tmp_path: Path) -> None:
    conf = launch.driver_conf_dir(tmp_path)
    assert scriptconf.read(tmp_path, {}).values == {}
    conf.mkdir(parents=True)
    (conf / "10-b.conf").write_text('[driver] { "spark.a" = "2", "spark.b" = "2" }')
    (conf / "00-a.conf").write_text('[driver] { "spark.a" = "1", "spark.c" = "1" }')
    (conf / "dir.conf").mkdir()
    found = scriptconf.read(tmp_path, {"spark.c": "own"})
    assert found.values == {"spark.a": "2", "spark.b": "2"}
    assert len(found.notes) == 2


def test_jars_and_conf_of_scripts_are_last_on_the_class_path(tmp_path: Path) -> None:
    manifest = {"spark_home": "/spark", "classes": "/ours.jar"}
    options = JvmOptions(heap_mb=512)
    (tmp_path / launch.JARS).mkdir(parents=True)
    launch.driver_conf_dir(tmp_path).mkdir(parents=True)
    before = files_read(tmp_path, manifest)  # type: ignore[arg-type] # what is used of it
    assert launch.added_by_scripts(tmp_path, driver=True) == ()
    (tmp_path / launch.JARS / "a.jar").write_bytes(b"")
    (launch.driver_conf_dir(tmp_path) / "hive-site.xml").write_bytes(b"")
    added = launch.added_by_scripts(tmp_path, driver=True)
    assert added == (f"{tmp_path}/databricks/jars/*", f"{tmp_path}/databricks/driver/conf/")
    assert launch.added_by_scripts(tmp_path, driver=False) == added[:1]
    assert launch.class_path(manifest, options, added=added) == ":".join(["/spark/jars/*", "/ours.jar", *added])  # type: ignore[arg-type]
    assert files_read(tmp_path, manifest) != before  # type: ignore[arg-type] # a JVM that has started before is given up
