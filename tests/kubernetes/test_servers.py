"""The servers of deploy/kubernetes as pods of the fake cluster, with the volumes, user and variables that kubelets give them."""

from __future__ import annotations

import copy
import json
import os
import pwd
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes.cluster import NAMESPACE, Cluster
from tests.kubernetes.schemas import Document
from tests.kubernetes.store import Key
from tests.kubernetes.test_manifests import ALL, one
from tests.support.patience import until
from tests.support.ports import free_port
from tests.support.postgres import Postgres

SERVERS = 2
NAMELESS = next(uid for uid in range(61_000, 62_000) if uid not in {each.pw_uid for each in pwd.getpwall()})


def template(cluster: Cluster, database: str) -> Document:
    """The servers' pod, with another port for agents, since all pods here share the machine's, and a user without a name."""
    made: Document = copy.deepcopy(one("StatefulSet", "brickyard")["spec"]["template"])
    made["spec"]["securityContext"] |= {"runAsUser": NAMELESS, "runAsGroup": NAMELESS, "fsGroup": NAMELESS}
    (container,) = made["spec"]["containers"]
    environ = {each["name"]: each for each in container["env"]}
    environ["BRICKYARD_DATABASE_URL"] = {"name": "BRICKYARD_DATABASE_URL", "value": database}
    url = environ["BRICKYARD_PUBLIC_URL"]
    url["value"] = url["value"].replace(":8443", f":{free_port()}")
    kubeconfig = {
        "name": "BRICKYARD_KUBERNETES_KUBECONFIG",
        "value": str(cluster.kubeconfig),
    }
    address = {"name": "BRICKYARD_HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    container["env"] = [*environ.values(), kubeconfig, address]
    return made


def settings(ports: dict[str, int]) -> Document:
    made = copy.deepcopy(one("ConfigMap", "brickyard"))
    for name, port in ports.items():
        made["data"]["brickyard.toml"] = made["data"]["brickyard.toml"].replace(f"port = {name}\n", f"port = {port}\n")
    return made


@pytest.fixture
def contained(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path / "cluster")
    made.kubelets.contained = True
    try:
        yield made
    finally:
        made.close()


def apply(cluster: Cluster, database: str) -> dict[str, int]:
    """What `kubectl apply -k` makes, as far as pods see it; returns the ports."""
    ports = {name: free_port() for name in ("8080", "15002")}
    cluster.add("configmaps", settings(ports))
    for each in ALL:
        if each["kind"] == "Service":
            cluster.add("services", copy.deepcopy(each))
    for index in range(SERVERS):
        made = template(cluster, database)
        meta = {**made["metadata"], "name": f"brickyard-{index}"}
        cluster.add("pods", {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": made["spec"], "status": {}})
    return ports


def said(cluster: Cluster, name: str) -> str:
    """What its container has printed, or why it has ended."""
    pod = cluster.on_loop(lambda: cluster.api.objects.all[Key("pods", NAMESPACE, name)])
    log = cluster.root / "pods" / pod["metadata"]["uid"] / "log"
    ended = [each["state"].get("terminated") for each in pod["status"].get("containerStatuses", ())]
    return log.read_text(errors="replace") if log.exists() else json.dumps(ended)


def ready(cluster: Cluster, port: int) -> bool:
    for each in cluster.pods():
        assert each["status"].get("phase") != "Failed", said(cluster, each["metadata"]["name"])
        try:
            urllib.request.urlopen(f"http://{each['status']['podIP']}:{port}/readyz", timeout=5).close()
        except (OSError, KeyError):
            return False
    return True


def test_the_servers_of_the_manifests_start_as_they_are_written(contained: Cluster, postgres: Postgres) -> None:
    ports = apply(contained, postgres.new_database())
    until(lambda: ready(contained, ports["8080"]), "both servers are ready")
    environs = [Path(f"/proc/{each.pid}/environ") for each in contained.kubelets.processes.values()]
    assert len(environs) == SERVERS
    storage = contained.root / "pods/claims/brickyard-storage/storage"
    assert {"workspace.id", "admin-token", "dbfs", "metastore"} <= {each.name for each in storage.iterdir()}


def test_without_the_manifests_care_the_links_of_the_service_are_no_settings(contained: Cluster) -> None:
    """For manifests of one's own: it gets as far as its database."""
    variables = {"BRICKYARD_DATABASE_URL": "postgresql://brickyard@127.0.0.1:1/none", "BRICKYARD_DATABASE_WAIT_S": "0"}
    ports = {name: free_port() for name in ("8080", "15002")}
    contained.add("configmaps", settings(ports))
    contained.add("services", copy.deepcopy(one("Service", "brickyard")))
    made = template(contained, variables["BRICKYARD_DATABASE_URL"])
    del made["spec"]["enableServiceLinks"]
    made["spec"]["containers"][0]["env"] += [{"name": key, "value": value} for key, value in variables.items()]
    contained.add("pods", {"apiVersion": "v1", "kind": "Pod", **made, "metadata": {"name": "brickyard-0"}, "status": {}})
    until(lambda: contained.pods()[0]["status"].get("phase") == "Failed")
    text = said(contained, "brickyard-0")
    assert variables["BRICKYARD_DATABASE_URL"] in text and "Connection refused" in text
    assert "BRICKYARD_PORT" not in text


def test_a_mount_itself_is_refused_with_what_to_use_instead(contained: Cluster) -> None:
    if os.geteuid():
        pytest.skip("only root can make a directory of somebody else")
    made = settings({})
    made["data"]["brickyard.toml"] = made["data"]["brickyard.toml"].replace("/var/lib/brickyard/data", "/var/lib/brickyard")
    contained.add("configmaps", made)
    pod = template(contained, "")
    contained.add("pods", {"apiVersion": "v1", "kind": "Pod", **pod, "metadata": {"name": "brickyard-0"}, "status": {}})
    until(lambda: contained.pods()[0]["status"].get("phase") == "Failed")
    assert "such as /var/lib/brickyard/data" in said(contained, "brickyard-0")
