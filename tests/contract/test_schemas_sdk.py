"""Catalogs and schemas through databricks-sdk, as Terraform and the CLI use them, and what Spark's catalog finds of it."""

from __future__ import annotations

import io
import uuid
from pathlib import Path
from typing import Any

import pytest
import requests
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import BadRequest, InvalidParameterValue, NotFound, PermissionDenied
from databricks.sdk.service.catalog import EnablePredictiveOptimization, VolumeType
from databricks.sdk.service.iam import ComplexValue

from brickyard.storage.metastore import MetastoreFiles
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S
from tests.support.server import TOKEN, Server
from tests.support.spark_catalog import Catalog
from tests.support.tokens import create


@pytest.fixture(scope="module")
def catalog(server: Server) -> Catalog:
    """The metastore, as a cluster's driver sees it."""
    return Catalog(server.data_dir / "metastore")


@pytest.fixture
def name() -> str:
    return f"s-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def anna(server: Server, w: WorkspaceClient) -> WorkspaceClient:
    w.users.create(user_name="anna@example.com")
    return server.client(create(w, "anna@example.com", comment="", days=None))


def volumes_of(server: Server) -> Path:
    return server.data_dir / "volumes"


def test_a_schema_is_made_seen_changed_and_removed(w: WorkspaceClient, catalog: Catalog, name: str) -> None:
    made = w.schemas.create(name.upper(), "main", comment="ours", properties={"team": "data"})
    assert (made.name, made.full_name, made.catalog_name) == (name, f"main.{name}", "main")
    assert (made.comment, made.properties, made.owner) == ("ours", {"team": "data"}, w.current_user.me().user_name)
    assert made.storage_location == f"dbfs:/user/hive/warehouse/{name}.db"
    assert w.schemas.get(f"main.{name}") == made
    assert w.schemas.get(f"MAIN.{name.upper()}") == made
    assert made in list(w.schemas.list("main"))
    found = catalog.database(name)
    assert (found.description, found.location) == ("ours", made.storage_location)
    assert found.properties["team"] == "data"
    changed = w.schemas.update(f"main.{name}", comment="", properties={"stage": "raw"})
    assert (changed.comment, changed.properties, changed.owner) == (None, {"stage": "raw"}, made.owner)
    assert w.schemas.update(f"main.{name}").properties == {"stage": "raw"}, "what is left out stays"
    w.schemas.delete(f"main.{name}")
    assert name not in catalog.databases()
    logged: Any = w.api_client.do("GET", "/api/2.0/audit-logs", query={"operation": "schemas.delete"})
    assert logged["entries"][0]["objects"] == {"full_name": f"main.{name}"}
    for call in (w.schemas.get, w.schemas.delete, w.schemas.update):
        with pytest.raises(NotFound) as missing:
            call(f"main.{name}")
        assert missing.value.error_code == "SCHEMA_DOES_NOT_EXIST"


def test_what_spark_makes_is_a_schema(w: WorkspaceClient, catalog: Catalog, name: str) -> None:
    catalog.create(name, "by spark", {"owner": "spark", "team": "data"})
    found = w.schemas.get(f"main.{name}")
    assert (found.comment, found.properties, found.owner) == ("by spark", {"team": "data"}, None)
    with pytest.raises(BadRequest) as taken:
        w.schemas.create(name, "main")
    assert taken.value.error_code == "SCHEMA_ALREADY_EXISTS"
    w.schemas.update(f"main.{name}", owner="admins")
    assert w.schemas.get(f"main.{name}").owner == "admins"
    assert catalog.database(name).properties == {
        "owner": "spark",
        "team": "data",
        "brickyard.owner": catalog.database(name).properties["brickyard.owner"],
    }
    catalog.drop(name)
    assert name not in [each.name for each in w.schemas.list("main")]


def test_hive_metastore_is_another_name_of_the_one_catalog(w: WorkspaceClient, name: str) -> None:
    assert [each.name for each in w.catalogs.list()] == ["hive_metastore", "main"]
    w.schemas.create(name, "hive_metastore")
    assert w.schemas.get(f"hive_metastore.{name}").full_name == f"hive_metastore.{name}"
    names = {catalog: [each.name for each in w.schemas.list(catalog)] for catalog in ("main", "hive_metastore")}
    assert name in names["main"] and names["main"] == names["hive_metastore"] and "default" in names["main"]
    w.schemas.delete(f"main.{name}")
    with pytest.raises(NotFound):
        w.schemas.get(f"hive_metastore.{name}")


def test_one_catalog_is_all_there_is(w: WorkspaceClient) -> None:
    main = w.catalogs.get("main")
    metastore = w.metastores.current()
    assert (main.full_name, main.metastore_id) == ("main", metastore.metastore_id)
    assert (metastore.default_catalog_name, w.metastores.summary().metastore_id) == ("main", metastore.metastore_id)
    assert w.catalogs.update("main") == main
    with pytest.raises(BadRequest) as taken:
        w.catalogs.create("main")
    assert taken.value.error_code == "CATALOG_ALREADY_EXISTS"
    for call in (
        lambda: w.catalogs.create("other"),
        lambda: w.catalogs.update("main", comment="c"),
        lambda: w.catalogs.update("main", new_name="other"),
        lambda: w.catalogs.delete("main", force=True),
    ):
        with pytest.raises(InvalidParameterValue):
            call()
    for missing in (
        lambda: w.catalogs.get("other"),
        lambda: w.schemas.create("s", "other"),
        lambda: list(w.schemas.list("other")),
        lambda: w.volumes.create("other", "default", "v", VolumeType.MANAGED),
    ):
        with pytest.raises(NotFound) as error:
            missing()
        assert error.value.error_code == "CATALOG_DOES_NOT_EXIST"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("storage_root", "s3://bucket/path"),
        ("custom_max_retention_hours", 24),
        ("properties", {"owner": "me"}),
        ("properties", {"brickyard.owner": "1"}),
        ("comment", "x" * 300_000),
        ("name", "a.b"),
        ("name", "a b"),
        ("name", ""),
        ("name", "ü" * 100),
    ],
)
def test_what_has_no_meaning_is_refused_by_name(w: WorkspaceClient, field: str, value: object) -> None:
    request = {"catalog_name": "main", "name": "never", field: value}
    with pytest.raises(InvalidParameterValue) as refused:
        w.api_client.do("POST", "/api/2.1/unity-catalog/schemas", body=request)
    assert field in str(refused.value)
    assert "never" not in [each.name for each in w.schemas.list("main")]


def test_a_change_that_cannot_be_made_is_refused(w: WorkspaceClient, name: str) -> None:
    made = w.schemas.create(name, "main")
    with pytest.raises(NotFound) as nobody:
        w.schemas.update(f"main.{name}", owner="nobody@example.com")
    assert nobody.value.error_code == "PRINCIPAL_DOES_NOT_EXIST"
    for call in (
        lambda: w.schemas.update(f"main.{name}", new_name="other"),
        lambda: w.schemas.update(f"main.{name}", enable_predictive_optimization=EnablePredictiveOptimization.ENABLE),
        lambda: w.schemas.delete("main.default", force=True),
        lambda: w.schemas.get(name),
    ):
        with pytest.raises(InvalidParameterValue):
            call()
    assert w.schemas.get(f"main.{name}") == made
    w.schemas.delete(f"main.{name}")


def test_default_keeps_what_is_said_of_it(w: WorkspaceClient, catalog: Catalog) -> None:
    assert w.schemas.get("main.default").owner is None
    assert w.schemas.update("main.default", comment="of all").comment == "of all"
    assert catalog.database("default").description == "of all"
    with pytest.raises(BadRequest):
        w.schemas.create("default", "main")


def test_a_schema_with_something_in_it_is_removed_only_by_force(
    w: WorkspaceClient, catalog: Catalog, server: Server, name: str, golden: Golden
) -> None:
    w.schemas.create(name, "main")
    catalog.create_table(name, "t")
    with golden.refused(BadRequest, name=name) as full:
        w.schemas.delete(f"main.{name}")
    assert full.value.error_code == "SCHEMA_NOT_EMPTY"
    w.volumes.create("main", name, "v", VolumeType.MANAGED)
    w.files.upload(f"/Volumes/main/{name}/v/f", io.BytesIO(b"kept"))
    with golden.refused(BadRequest, name=name):
        w.schemas.delete(f"main.{name}", force=False)
    assert (volumes_of(server) / "main" / name / "v" / "f").read_bytes() == b"kept" and catalog.tables(name) == ["t"]
    w.schemas.delete(f"main.{name}", force=True)
    assert not (volumes_of(server) / "main" / name).exists() and name not in catalog.databases()
    assert catalog.left_to_clear(name) == {"t"}, "the next driver removes the rows"


def test_a_volume_needs_its_schema(w: WorkspaceClient, name: str) -> None:
    for call in (lambda: w.volumes.create("main", name, "v", VolumeType.MANAGED), lambda: list(w.volumes.list("main", name))):
        with pytest.raises(NotFound) as missing:
            call()
        assert missing.value.error_code == "SCHEMA_DOES_NOT_EXIST"
    w.schemas.create(name, "main")
    with pytest.raises(InvalidParameterValue):
        w.volumes.create("hive_metastore", name, "v", VolumeType.MANAGED)
    assert list(w.volumes.list("main", name)) == []
    w.volumes.create("main", name.upper(), "v", VolumeType.MANAGED)  # the path is as it was asked for
    w.files.upload(f"/Volumes/main/{name.upper()}/v/f", io.BytesIO(b"1"))
    assert [each.full_name for each in w.volumes.list("main", name)] == [f"main.{name.upper()}.v"]
    w.volumes.delete(f"main.{name.upper()}.v")
    assert w.schemas.get(f"main.{name}").name == name, "it outlives its last volume"
    w.schemas.delete(f"main.{name}")


def test_a_directory_that_a_program_has_made_is_a_schema(w: WorkspaceClient, server: Server, catalog: Catalog, name: str) -> None:
    (volumes_of(server) / "main" / name.upper() / "v").mkdir(parents=True)
    (volumes_of(server) / f"c-{name}" / "s" / "v").mkdir(parents=True)
    assert w.schemas.get(f"main.{name}").owner is None and name not in catalog.databases()
    assert [each.name for each in w.schemas.list(f"c-{name}")] == ["s"]
    w.volumes.create(f"c-{name}", "s", "w", VolumeType.MANAGED)
    with pytest.raises(InvalidParameterValue):
        w.schemas.create("t", f"c-{name}")
    with pytest.raises(BadRequest) as full:
        w.schemas.delete(f"main.{name}")
    assert full.value.error_code == "SCHEMA_NOT_EMPTY"
    assert w.schemas.create(name, "main").owner and name in catalog.databases(), "Spark sees it from now on"
    (volumes_of(server) / "main" / name.upper() / "stray").write_text("in no volume")
    with pytest.raises(BadRequest):
        w.schemas.delete(f"main.{name}", force=True)
    assert (volumes_of(server) / "main" / name.upper() / "stray").exists() and name in catalog.databases()
    (volumes_of(server) / "main" / name.upper() / "stray").unlink()
    w.schemas.delete(f"main.{name}", force=True)
    w.schemas.delete(f"c-{name}.s", force=True)
    with pytest.raises(NotFound) as gone:
        w.catalogs.get(f"c-{name}")
    assert gone.value.error_code == "CATALOG_DOES_NOT_EXIST"


def test_owner_and_administrators_change_and_everybody_sees(
    w: WorkspaceClient, anna: WorkspaceClient, server: Server, name: str
) -> None:
    made = anna.schemas.create(name, "main")
    assert made.owner == "anna@example.com" and w.schemas.get(f"main.{name}") == made
    w.schemas.update(f"main.{name}", comment="by an administrator")
    w.volumes.create("main", name, "of-admin", VolumeType.MANAGED)
    with pytest.raises(PermissionDenied):
        anna.schemas.delete(f"main.{name}", force=True)  # the volume is another's
    assert (volumes_of(server) / "main" / name / "of-admin").is_dir()
    group = w.groups.create(display_name=f"g-{name}")
    anna.schemas.update(f"main.{name}", owner=f"g-{name}")
    for call in (lambda: anna.schemas.update(f"main.{name}", comment="c"), lambda: anna.schemas.delete(f"main.{name}")):
        with pytest.raises(PermissionDenied):
            call()
    me = anna.current_user.me().id
    w.groups.update(group.id or "", display_name=f"g-{name}", members=[ComplexValue(value=me)])
    assert anna.schemas.update(f"main.{name}", comment="c").owner == f"g-{name}"
    w.volumes.delete(f"main.{name}.of-admin")
    w.schemas.update(f"main.{name}", owner="users")
    anna.schemas.delete(f"main.{name}")
    for refused in (
        lambda: anna.catalogs.update("main"),
        lambda: anna.catalogs.create("other"),
        lambda: anna.catalogs.delete("x"),
    ):
        with pytest.raises(PermissionDenied):
            refused()
    assert anna.catalogs.get("main").name == "main"


def test_a_new_user_of_a_name_owns_nothing_of_the_former(w: WorkspaceClient, server: Server, name: str) -> None:
    former = w.users.create(user_name=f"{name}@example.com")
    w.schemas.create(name, "main")
    w.schemas.update(f"main.{name}", owner=f"{name}@example.com")
    w.users.delete(former.id or "")
    w.users.create(user_name=f"{name}@example.com")
    assert w.schemas.get(f"main.{name}").owner is None
    newcomer = server.client(create(w, f"{name}@example.com", comment="", days=None))
    with pytest.raises(PermissionDenied):
        newcomer.schemas.delete(f"main.{name}")
    w.schemas.delete(f"main.{name}")


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"database": ["case", 1]}', b'{"database": []}', b"\xff" * 10])
def test_a_description_that_makes_no_sense_hides_no_schema(w: WorkspaceClient, server: Server, name: str, text: bytes) -> None:
    w.schemas.create(name, "main")
    path = server.data_dir / "metastore" / "databases" / name / "database.json"
    path.write_bytes(b"0123456789abcdef\n" + text)
    assert w.schemas.get(f"main.{name}").comment is None
    assert name in [each.name for each in w.schemas.list("main")]
    with pytest.raises(BadRequest) as unreadable:
        w.schemas.update(f"main.{name}", comment="c")
    assert unreadable.value.error_code == "INVALID_STATE"
    w.schemas.delete(f"main.{name}")


def test_lists_come_in_pages(w: WorkspaceClient, server: Server) -> None:
    prefix = f"p-{uuid.uuid4().hex[:8]}"
    for number in range(5):
        w.schemas.create(f"{prefix}-{number}", "main")

    def names(max_results: int) -> list[str | None]:
        return [each.name for each in w.schemas.list("main", max_results=max_results)]

    assert names(2) == names(0) and [each for each in names(2) if each and each.startswith(prefix)] == [
        f"{prefix}-{number}" for number in range(5)
    ]
    assert len(list(w.catalogs.list(max_results=1))) == len(list(w.catalogs.list()))
    answer = requests.get(
        f"{server.url}/api/2.1/unity-catalog/schemas",
        params={"catalog_name": "main", "max_results": "1"},
        headers={"Authorization": f"Bearer {TOKEN}"},
        timeout=PATIENCE_S,
    ).json()
    assert len(answer["schemas"]) == 1 and answer["next_page_token"]
    for number in range(5):
        w.schemas.delete(f"main.{prefix}-{number}")


def test_schemas_are_directories_of_volumes(w: WorkspaceClient, name: str) -> None:
    w.schemas.create(name, "main")
    assert "main" in [each.path.rpartition("/")[2] for each in w.dbfs.list("/Volumes") if each.path]
    assert "main" in [each.name for each in w.files.list_directory_contents("/Volumes")]
    assert {name, "default"} <= {each.name for each in w.files.list_directory_contents("/Volumes/main", page_size=1)}
    assert list(w.files.list_directory_contents(f"/Volumes/main/{name}")) == []
    w.files.get_directory_metadata(f"/Volumes/main/{name}")
    w.volumes.create("main", name, "v", VolumeType.MANAGED)
    assert [each.path for each in w.files.list_directory_contents(f"/Volumes/main/{name}")] == [f"/Volumes/main/{name}/v"]
    for missing in ("/Volumes/nothing", f"/Volumes/main/{name}-x"):
        with pytest.raises(NotFound):
            list(w.files.list_directory_contents(missing))
    w.schemas.delete(f"main.{name}", force=True)


def test_functions_of_a_schema(w: WorkspaceClient, server: Server) -> None:
    assert list(w.functions.list("main", "default")) == []
    metastore = MetastoreFiles(server.data_dir / "metastore")
    with metastore.locked():
        assert metastore.put(metastore.entry("default", "function", "plus_one"), "", b"{}", database="default")
    assert [each.full_name for each in w.functions.list("main", "default")] == ["main.default.plus_one"]
