"""The Kubernetes provider keeps the contract that is shipped for everybody's: on the fake cluster, or on a real one
(BRICKYARD_TEST_KUBECONFIG, CONTRIBUTING.md)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from brickyard.domain.nodetypes import NodeType
from brickyard.providers.base import CapacityError, InvalidError, LaunchRequest, QuotaError, ThrottledError, TransientError
from brickyard.testing.contract import Bench, ProviderContract
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.conftest import Open

HUGE = NodeType(node_type_id="huge", num_cores=512, memory_mb=4_000_000, category="test")


class TestKubernetes(ProviderContract):
    @pytest.fixture
    def bench(self, cluster: Cluster, opened: Open) -> Iterator[Bench]:
        def processes(instance_id: str) -> int:
            names = {f"brickyard-{instance_id}"}
            uids = [each["metadata"]["uid"] for each in cluster.pods() if each["metadata"]["name"] in names]
            return sum(
                1 for uid in uids if uid in cluster.kubelets.processes and cluster.kubelets.processes[uid].returncode is None
            )

        made = Bench(opened(), reopen=opened, count=processes)

        def after(code: int, **more: object) -> LaunchRequest:
            cluster.api.expect("patch", "pods", "refuse", code=code, **more)
            return made.request()

        made.refusals = {
            CapacityError: lambda: made.request(HUGE),
            ThrottledError: lambda: after(429, headers={"Retry-After": "1"}),
            TransientError: lambda: after(503),
            QuotaError: lambda: after(403, message='pods "x" is forbidden: exceeded quota: lab, requested: pods=1, used: pods=9'),
            InvalidError: lambda: after(422),
        }
        yield made


@pytest.mark.skipif("BRICKYARD_TEST_KUBECONFIG" not in os.environ, reason="BRICKYARD_TEST_KUBECONFIG names no cluster")
class TestRealKubernetes(ProviderContract):
    @pytest.fixture
    def bench(self, tmp_path: Path) -> Iterator[Bench]:
        from tests.kubernetes.real import real_bench  # noqa: PLC0415 - reads its variables

        with real_bench(tmp_path) as made:
            yield made
