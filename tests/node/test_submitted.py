"""Files that spark_conf names and that do not exist fail the start, with their name."""

from pathlib import Path

import pytest

from brickyard.runtime.node.spark import submitted
from brickyard.runtime.node.spark.place import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    for name in ("dbfs/jars", "volumes/main/s/v", "workspace/Shared", "node"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("dbfs/jars/a.jar", "dbfs/jars/b c.jar", "volumes/main/s/v/v.jar", "workspace/Shared/w.py", "node/n.jar"):
        (tmp_path / name).write_text("")
    dbfs, volumes, workspace = (str(tmp_path / name) for name in ("dbfs", "volumes", "workspace"))
    node = str(tmp_path / "node")
    return Place(host="h", node_dir=node, ui_key="", dbfs_dir=dbfs, volumes_dir=volumes, workspace_dir=workspace)


@pytest.mark.parametrize(
    "name",
    [
        "dbfs:/jars/a.jar", "dbfs:///jars/a.jar", "/dbfs/jars/a.jar", "file:/dbfs/jars/a.jar", "file:///dbfs/jars/a.jar",
        "dbfs:/jars/*.jar", "dbfs:/jars/b c.jar", "dbfs:/jars/b%20c.jar", "dbfs:/jars/a.jar#other",
        "/Volumes/main/s/v/v.jar", "dbfs:/Volumes/main/s/v/v.jar", "/Workspace/Shared/w.py", "file:/Workspace/Shared/w.py",
        "local:/dbfs/jars/a.jar", "s3a://bucket/x.jar", "https://host/x.jar", "ivy://g:a:1",
        " dbfs:/jars/a.jar , /dbfs/jars/a.jar ,",
    ],
)  # fmt: skip
def test_what_exists_or_only_spark_can_see_is_accepted(name: str, place: Place) -> None:
    assert submitted.missing(dict.fromkeys(submitted.FILES, name), place) == ""


def test_a_file_of_the_node_is_one(place: Place) -> None:
    assert submitted.missing({"spark.jars": f"{place.node_dir}/n.jar,file:{place.node_dir}/n.jar"}, place) == ""


@pytest.mark.parametrize("key", submitted.FILES)
@pytest.mark.parametrize(
    "name",
    [
        "dbfs:/jars/no.jar", "/dbfs/jars/no.jar", "file:/dbfs/jars/no.jar", "/Volumes/main/s/v/no.jar", "/Workspace/no.py",
        "file:/no/such.jar", "local:/no/such.jar", "dbfs:/jars/no*.jar", "dbfs:/jars/no.jar#alias",
    ],
)  # fmt: skip
def test_what_does_not_exist_is_named_with_its_setting(key: str, name: str, place: Place) -> None:
    said = submitted.missing({key: f"dbfs:/jars/a.jar,{name}", "spark.jars.packages": "g:a:1"}, place)
    assert key in said
    assert name in said


def test_a_name_without_a_scheme_is_told_apart_from_the_workspaces_file(place: Place) -> None:
    assert "dbfs:/jars/a.jar" in submitted.missing({"spark.jars": "/jars/a.jar"}, place)
