"""A workspace's volumes and notebooks behind the API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import requests
from databricks.sdk import WorkspaceClient

from brickyard.access import Authorizer
from brickyard.features.audit.service import AuditLog
from brickyard.features.catalog.service import CatalogService
from brickyard.features.files import (
    DbfsService,
    FileTree,
    MultipartSessions,
    NotebookVersions,
    PresignedUrls,
    Uploads,
    VolumeService,
    VolumeTransfers,
    WorkspaceService,
)
from brickyard.features.jobs.owners import JobOwners
from brickyard.features.permissions.service import PermissionService
from brickyard.features.savedqueries.service import SavedQueryService
from brickyard.machine import files as tree_files
from brickyard.storage.directory import Storage
from brickyard.storage.metastore import MetastoreFiles
from brickyard.storage.schemas import Schemas
from brickyard.store.store import Store
from brickyard.testing.clock import ManualClock
from tests.support.edge import edge, sdk
from tests.support.patience import PATIENCE_S
from tests.support.room import Room

KEY = b"k" * 32  # of the workspace


class Files:
    """What the tests see: the trees on the disk, and two ways to call the API."""

    def __init__(self, storage: Storage, room: Room, services: Mapping[str, Any], url: str, clock: ManualClock) -> None:
        self.clock = clock
        self.multipart = storage.multipart
        self.dbfs, self.volumes, self.workspace = storage.trees
        self.uploads = storage.uploads
        self.outside = storage.root / "outside"
        self.room = room
        self.services = services
        self.url = url
        self.client: WorkspaceClient = sdk(url)

    def call(self, method: str, path: str, **options: Any) -> requests.Response:
        options["headers"] = {"Authorization": "Bearer secret", **options.get("headers", {})}
        return requests.request(method, f"{self.url}/api/{path}", timeout=PATIENCE_S, **options)

    def refused(self, method: str, path: str, **options: Any) -> tuple[int, str, str]:
        """Status, error code and message."""
        answer = self.call(method, path, **options)
        assert answer.status_code >= 400, answer.text
        return answer.status_code, answer.json()["error_code"], answer.json()["message"]

    def waiting(self) -> list[str]:
        """What is on its way."""
        return [entry.name for entry in self.uploads.iterdir() if entry.name not in (".lock", ".servers")]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Where permissions would be; files are not in it."""
    store = Store.open(f"sqlite:///{tmp_path_factory.mktemp('database') / 'test.db'}")
    yield store
    store.close()


@pytest.fixture
def files(tmp_path: Path, database: Store) -> Iterator[Files]:
    storage, room = Storage(tmp_path), Room()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    clock = ManualClock()
    uploads = Uploads(place=storage.uploads, clock=clock)
    dbfs, volumes, workspace = (FileTree(root=tree, uploads=uploads, store=database, room=room) for tree in storage.trees)
    common: dict[str, Any] = {"store": database, "authorizer": Authorizer()}
    versions = NotebookVersions(place=storage.versions, clock=clock)
    workspace_service = WorkspaceService(files=workspace, versions=versions, **common)
    metastore = MetastoreFiles(storage.metastore)
    schemas = Schemas(metastore=metastore, volumes=volumes.tree)
    volume_service = VolumeService(files=volumes, schemas=schemas, **common)
    queries = SavedQueryService(**common, clock=clock)
    services: dict[str, Any] = {
        "dbfs": DbfsService(files=dbfs, volumes=volumes.tree, **common),
        "volumes": volume_service,
        "catalogs": CatalogService(metastore=metastore, schemas=schemas, volumes=volume_service, workspace_id="42", **common),
        "transfers": VolumeTransfers(
            volumes=volume_service,
            files=volumes,
            sessions=MultipartSessions(place=storage.multipart, clock=clock),
            urls=PresignedUrls(key=KEY, store=database, clock=clock),
        ),
        "workspace": workspace_service,
        "permissions": PermissionService(**common, workspace=workspace_service, owners=JobOwners(), queries=queries),
        "audit": AuditLog(**common, clock=ManualClock(), server="http://here"),
    }
    with edge(**services) as url:
        yield Files(storage, room, services, url, clock)
    uploads.close()
    for tree in storage.trees:  # pytest's own cleaning fails at deep trees
        tree_files.remove_tree(tree)
