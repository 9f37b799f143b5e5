"""Two servers on PostgreSQL whose nodes are elsewhere: pods of the fake Kubernetes, over TLS, and a proxy before the servers."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from databricks.sdk.service.compute import InstancePoolStats, State

from brickyard.nodes.authority import Authority
from tests.kubernetes.cluster import Cluster
from tests.replicas.balancer import balancer
from tests.replicas.servers import Replicas
from tests.replicas.test_replicas_spark import RECALL, REMEMBER, SLOW, connected, nodes, user
from tests.support.patience import until
from tests.support.ports import free_port
from tests.support.postgres import Postgres
from tests.support.runtimes import SPARK_4, cache_dir

# Servers, pods and a pool that is warmed. test_replicas_spark.py has another server go on with a real cluster, and
# tests/kubernetes/test_spark.py has real nodes in pods.
pytestmark = [pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(900)]

SESSION = "00000000-0000-4000-8000-000000000017"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path / "cluster")
    try:
        yield made
    finally:
        made.close()


@contextlib.contextmanager
def servers(
    home: Path, postgres: Postgres, cluster: Cluster, *, agent_ports: tuple[int, int], **settings: Any
) -> Iterator[Replicas]:
    """Both serve. Nothing is left of their pods afterwards."""
    (home / "machine").mkdir(parents=True)
    section = {
        "kubeconfig": str(cluster.kubeconfig), "image": "example.org/brickyard:1", "run_as_user": 1000,
        "machine_dir": str(home / "machine" / "brickyard"), "machine_cache_dir": str(cache_dir()),
    }  # fmt: skip
    own = [{"agent_port": port} for port in agent_ports]
    given = {"cache_dir": cache_dir(), "provider": "kubernetes", "sections": {"kubernetes": section}, **settings}
    with Replicas.running(home, postgres.new_database(), count=2, own=own, **given) as replicas:
        yield replicas
        first = user(replicas, replicas.serving[0].number)
        for each in first.w.clusters.list():
            first.w.clusters.permanent_delete(str(each.cluster_id))
        until(lambda: not cluster.pods(), "its pods end")


def test_the_other_server_goes_on_with_agents_elsewhere(tmp_path: Path, postgres: Postgres, cluster: Cluster) -> None:
    """A load balancer passes connections on as they are: each server has the workspace's certificate for its address."""
    front, ports = free_port(), (free_port(), free_port())
    public = f"https://127.0.0.1:{front}"
    with (
        balancer(front, ports),
        servers(tmp_path / "home", postgres, cluster, agent_ports=ports, public_url=public) as replicas,
    ):
        first, second = user(replicas, 0), user(replicas, 1)
        cluster_id = first.create("elsewhere", SPARK_4, node_type="k8s.small", num_workers=1)
        before = nodes(first, cluster_id)
        assert connected(replicas, 0, cluster_id, SESSION, REMEMBER) == "42"
        context = second.context(cluster_id)
        command = first.begin(cluster_id, context, SLOW)

        replicas.all[0].kill()
        answer = second.finish(cluster_id, context, command)
        assert answer.results is not None and answer.results.data == "sum 499500", answer
        assert connected(replicas, 1, cluster_id, SESSION, RECALL) == "42"
        assert "spark.network.crypto.cipher" in second.spark_ui(cluster_id, "environment/")
        second.w.clusters.resize(cluster_id, num_workers=2)
        second.wait(cluster_id, State.RUNNING, workers=2)  # a new agent registers with the server that is left
        assert nodes(second, cluster_id) > before, "the nodes of before are still there"
        assert "NODES_LOST" not in second.events(cluster_id)


def test_a_proxy_with_a_certificate_of_its_own(tmp_path: Path, postgres: Postgres, cluster: Cluster) -> None:
    """Agents trust `agent_ca`; servers open no port for them."""
    front = free_port()
    company = Authority(tmp_path / "company.pem")
    trusted = tmp_path / "trusted.pem"
    trusted.write_text(company.pem)
    tls: ssl.SSLContext = company.context("127.0.0.1")
    more = {"public_url": f"https://127.0.0.1:{front}", "agent_ca": trusted}
    with servers(tmp_path / "home", postgres, cluster, agent_ports=(0, 0), **more) as replicas:
        ports = [each.settings.port for each in replicas.all]

        def idle(number: int, pool: str) -> bool:
            stats = user(replicas, number).w.instance_pools.get(pool).stats or InstancePoolStats()
            return stats.idle_count == 1

        with balancer(front, ports, tls=tls):
            made = user(replicas, 0).w.instance_pools.create("warm", "k8s.small", min_idle_instances=1, max_capacity=1)
            pool = str(made.instance_pool_id)
            until(lambda: idle(0, pool), "its agent has called")
            replicas.all[0].kill()
            (name,) = cluster.names("pods")
            cluster.delete(name)  # as a drain does
            until(
                lambda: len(cluster.names("pods") - {name}) == 1 and idle(1, pool), "the next agent has called the other server"
            )
            user(replicas, 1).w.instance_pools.delete(pool)
            until(lambda: not cluster.pods(), "its pods end")
