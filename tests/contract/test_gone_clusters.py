"""What clients take for "gone": Terraform removes from its state what it reads as that, and fails at anything else."""

from __future__ import annotations

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import InvalidParameterValue, ResourceDoesNotExist

from brickyard.domain.clock import SystemClock
from tests.support.golden import Golden
from tests.support.server import Server

NEVER = "0101-000000-neverwas"


@pytest.fixture
def deleted(w: WorkspaceClient) -> str:
    made = w.clusters.create(cluster_name="gone", spark_version="17.3.x-scala2.13", node_type_id="i3.xlarge", num_workers=1)
    w.clusters.permanent_delete(str(made.cluster_id))
    return str(made.cluster_id)


def test_the_permissions_of_a_gone_cluster(w: WorkspaceClient, deleted: str, golden: Golden) -> None:
    calls = (w.permissions.get, w.permissions.get_permission_levels, w.permissions.set, w.permissions.update)
    for cluster_id in (NEVER, deleted):
        for call in calls:
            with golden.refused(ResourceDoesNotExist, cluster_id) as caught:
                call("clusters", cluster_id)
            assert caught.value.error_code == "RESOURCE_DOES_NOT_EXIST"


def test_the_libraries_of_a_gone_cluster(w: WorkspaceClient, server: Server, deleted: str, golden: Golden) -> None:
    purged = "0101-000000-retained"
    server.store.write_sync(lambda tx: tx.clusters.remember(purged, purged_ms=SystemClock().now_ms()))
    for cluster_id in (NEVER, deleted, purged):
        with golden.refused(InvalidParameterValue, cluster_id):
            list(w.libraries.cluster_status(cluster_id))
