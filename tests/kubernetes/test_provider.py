"""The provider on a fake cluster: launches, what is seen of pods, ends, and what happens when something is lost."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from brickyard.domain.nodetypes import NodeType
from brickyard.providers.base import InvalidError, LaunchRequest, Observed, SetupError, TransientError
from brickyard.providers.kubernetes import rights
from brickyard.providers.kubernetes.provider import KubernetesProvider
from brickyard.testing.contract import at_once
from tests.agent.world import FakeServer
from tests.kubernetes.apiserver import Right
from tests.kubernetes.cluster import NAMESPACE, Cluster
from tests.kubernetes.conftest import WORKSPACE, Open, make_setup, section
from tests.kubernetes.kubelet import machine
from tests.support.golden import Golden
from tests.support.patience import until

SMALL = NodeType(node_type_id="k8s.small", num_cores=1.0, memory_mb=2048, category="test")


def request(name: str = "i-1", kind: NodeType = SMALL, *, url: str = "http://127.0.0.1:1", **tags: str) -> LaunchRequest:
    return LaunchRequest(
        instance_id=name, node_type=kind, server_url=url, agent_token="agent-secret", server_token="server-secret",
        tags={"ClusterId": "0101-000000-abcdefgh", **tags},
    )  # fmt: skip


def sized(cores: float, memory_mb: int = 1024, gpus: int = 0) -> NodeType:
    return NodeType(node_type_id="sized", num_cores=cores, memory_mb=memory_mb, category="test", num_gpus=gpus)


def seen(provider: KubernetesProvider, name: str, condition: Callable[[Observed], bool]) -> Observed:
    def look() -> Observed | None:
        found = provider.observe().get(name)
        return found if found is not None and condition(found) else None

    return until(look, f"{name} as it should be")


def ended(provider: KubernetesProvider, name: str) -> None:
    def gone() -> bool:
        provider.terminate(name, reason="test")
        return name not in provider.observe()

    until(gone, f"the end of {name}")


# ── launching ──


def test_an_agent_registers_from_its_pod(cluster: Cluster, opened: Open, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    server = FakeServer(home)
    server.start()
    try:
        provider = opened()
        provider.launch(request(url=server.url))
        report = until(lambda: next(iter(server.reports), None), "the agent's first report")
        assert report.instance_id == "i-1"
        (pod,) = cluster.pods()
        assert report.endpoint.startswith(f"http://{pod['status']['podIP']}:"), "it listens at the pod's address"
        assert provider.observe() == {"i-1": Observed(instance_id="i-1", alive=True)}
        ended(provider, "i-1")
        assert cluster.names("secrets") == cluster.names("networkpolicies") == set()
        assert not list((tmp_path / "machine/brickyard/instances" / WORKSPACE).iterdir())
    finally:
        server.stop()


def test_two_servers_launch_the_same_instance_and_there_is_one_pod(cluster: Cluster, opened: Open) -> None:
    one, two = opened(), opened(machine_storage_dir="")
    calls = iter([one, two] * 3)
    assert at_once(lambda: next(calls).launch(request())) == []
    (pod,) = cluster.pods()
    until(lambda: cluster.running(pod["metadata"]["name"]) == 1)
    assert one.observe().keys() == two.observe().keys() == {"i-1"}


def test_a_server_with_other_settings_finds_the_pod_as_it_is(cluster: Cluster, opened: Open) -> None:
    opened().launch(request())
    opened(grace_s=60).launch(request())
    (pod,) = cluster.pods()
    assert pod["spec"]["terminationGracePeriodSeconds"] == 30


def test_a_launch_that_was_cut_off_between_its_steps_is_completed(cluster: Cluster, opened: Open, golden: Golden) -> None:
    provider = opened()
    cluster.api.expect("patch", "secrets", "refuse", code=503)
    with golden.refused(TransientError):
        provider.launch(request())
    assert cluster.names("pods") == {"brickyard-i-1"}
    assert provider.observe()["i-1"].alive
    provider.launch(request())
    until(lambda: cluster.running("brickyard-i-1") == 1)


def test_a_launch_whose_answer_was_lost_can_be_repeated(cluster: Cluster, opened: Open) -> None:
    provider = opened()
    for verb, resource in (("patch", "pods"), ("patch", "secrets"), ("patch", "networkpolicies.networking.k8s.io")):
        cluster.api.expect(verb, resource, "drop")
        with pytest.raises(TransientError):
            provider.launch(request())
    provider.launch(request())
    until(lambda: cluster.running("brickyard-i-1") == 1)


def test_the_policy_of_a_cluster_goes_with_its_last_node(cluster: Cluster, opened: Open) -> None:
    provider = opened()
    provider.launch(request("i-1"))
    provider.launch(request("i-2"))
    provider.launch(request("i-3", ClusterId="other"))
    assert cluster.names("networkpolicies") == {f"brickyard-{WORKSPACE}-0101-000000-abcdefgh", f"brickyard-{WORKSPACE}-other"}
    ended(provider, "i-1")
    assert len(cluster.names("networkpolicies")) == 2
    ended(provider, "i-2")
    assert cluster.names("networkpolicies") == {f"brickyard-{WORKSPACE}-other"}


def test_the_namespace_is_deleted_and_made_again(cluster: Cluster, opened: Open, golden: Golden) -> None:
    provider = opened()
    provider.launch(request("i-1"))
    until(lambda: cluster.running("brickyard-i-1") == 1)
    cluster.delete_namespace()
    with golden.refused(InvalidError):
        provider.launch(request("i-2"))
    until(lambda: provider.observe() == {}, "its pods have ended, each with its agent")
    assert cluster.running("brickyard-i-1") == 0
    assert cluster.names("secrets") == cluster.names("networkpolicies") == set()
    provider.terminate("i-1", reason="its cluster has lost it")

    def gone_and_back(namespaces: set[str]) -> None:
        cluster.api.namespaces, cluster.api.terminating = namespaces, set()

    cluster.on_loop(lambda: gone_and_back(set()))
    with golden.refused(InvalidError):
        provider.launch(request("i-3"))
    assert provider.observe() == {}
    cluster.on_loop(lambda: gone_and_back({"lab"}))
    provider.launch(request("i-3"))
    until(lambda: cluster.running("brickyard-i-3") == 1)


def test_what_admission_forbids_is_told(cluster: Cluster, opened: Open, golden: Golden) -> None:
    cluster.api.refuse = lambda _pod: 'violates PodSecurity "restricted:latest"'
    with golden.refused(InvalidError):
        opened().launch(request())
    assert cluster.pods() == []


def test_nodes_of_one_cluster_are_spread(cluster: Cluster, opened: Open) -> None:
    provider = opened()
    for index in range(3):
        provider.launch(request(f"i-{index}"))
    until(lambda: all(each["spec"].get("nodeName") for each in cluster.pods()))
    assert {each["spec"]["nodeName"] for each in cluster.pods()} == {"one", "two", "three"}


# ── room ──


def test_what_does_not_fit_is_refused_and_counts_from_the_first_launch_on(cluster: Cluster, opened: Open, golden: Golden) -> None:
    provider = opened()
    total = provider.capacity()
    assert total is not None
    assert (total.cores_total, total.memory_mb_total) == (24.0, 3 * 32 * 1024)
    assert provider.shortage([sized(8)] * 3) is None
    assert (short := provider.shortage([sized(8)] * 4)) is not None
    assert "End a cluster" in str(short)
    refused = at_once(lambda: provider.launch(request(f"i-{os.urandom(4).hex()}", sized(8))), threads=4)
    assert len(refused) <= 1, "threads that ask at once may all be let in; the scheduler has the last word"
    until(lambda: sum(1 for each in cluster.pods() if each["spec"].get("nodeName")) == 3)
    with golden.refused(Exception):
        provider.launch(request("i-late", sized(8)))
    assert "brickyard-i-late" not in cluster.names("pods")


def test_where_machines_may_not_be_listed_the_scheduler_decides_and_its_words_are_shown(
    cluster: Cluster, opened: Open, golden: Golden
) -> None:
    needed = {Right(each.verb, each.resource + (f".{each.group}" if each.group else ""), NAMESPACE) for each in NEEDED}
    cluster.api.rights = needed
    provider = opened()
    assert provider.capacity() is None
    assert provider.shortage([sized(100)]) is None
    provider.launch(request(kind=sized(1, gpus=1)))
    told = seen(provider, "i-1", lambda each: "nvidia.com/gpu" in each.message)
    assert told.alive
    golden(told.message)
    cluster.add("nodes", machine("four", gpus=1))
    seen(provider, "i-1", lambda each: not each.message)


def test_where_the_cluster_grows_by_itself_a_launch_waits(cluster: Cluster, opened: Open, golden: Golden) -> None:
    provider = opened(autoscaler=True)
    provider.launch(request(kind=sized(100)))
    told = seen(provider, "i-1", lambda each: bool(each.message))
    assert told.alive
    golden(told.message)


NEEDED = (*rights.NEEDED, *rights.POLICIES)


# ── what is seen ──


def test_an_image_that_cannot_be_had(cluster: Cluster, opened: Open, golden: Golden) -> None:
    cluster.kubelets.missing.add("example.org/brickyard:1")
    provider = opened()
    provider.launch(request())
    told = seen(provider, "i-1", lambda each: "example.org/brickyard:1" in each.message)
    assert told.alive
    golden(told.message)
    ended(provider, "i-1")


def test_a_container_that_used_too_much_memory(cluster: Cluster, opened: Open, golden: Golden) -> None:
    provider = opened()
    provider.launch(request())
    until(lambda: cluster.running("brickyard-i-1") == 1)
    cluster.on_loop(lambda: cluster.kubelets.kill("brickyard-i-1", "OOMKilled"))
    golden(seen(provider, "i-1", lambda each: not each.alive).message)
    with golden.refused(InvalidError):
        provider.launch(request())
    ended(provider, "i-1")


@pytest.mark.parametrize("how", ["killed", "deleted", "terminated"])
def test_a_lost_pod_takes_no_room_from_its_replacement(cluster: Cluster, opened: Open, how: str) -> None:
    """Also while the last look at the machines still shows it."""
    for name in ("two", "three"):
        cluster.remove("nodes", name)
    provider = opened()
    provider.launch(request("i-1", sized(6)))
    until(lambda: cluster.running("brickyard-i-1") == 1)
    provider._known.fresh(0.0)
    provider._known.read_s += 1000  # the machines are not looked at again in this test
    assert provider.shortage([sized(6)]) is not None
    cluster.kubelets.silent.add("one")  # nothing of it is confirmed yet, where its end is asked for
    match how:
        case "killed":
            cluster.kubelets.silent.clear()
            cluster.on_loop(lambda: cluster.kubelets.kill("brickyard-i-1", "OOMKilled"))
        case "deleted":
            cluster.delete("brickyard-i-1")
        case _:
            provider.terminate("i-1", reason="lost")
    until(lambda: provider.shortage([sized(6)]) is None, "room")
    assert provider.shortage([sized(7), sized(6)]) is not None
    cluster.kubelets.silent.clear()


def test_a_machine_that_cannot_run_the_agent_says_why(cluster: Cluster, opened: Open, tmp_path: Path, golden: Golden) -> None:
    provider = opened()
    (tmp_path / "storage/workspace.id").unlink()
    provider.launch(request())
    told = seen(provider, "i-1", lambda each: not each.alive)
    golden(told.message, WORKSPACE, str(tmp_path / "storage"), where=f"on {socket.gethostname()}")


def test_an_eviction_is_told_while_the_node_ends(cluster: Cluster, opened: Open, golden: Golden) -> None:
    provider = opened()
    provider.launch(request())
    until(lambda: cluster.running("brickyard-i-1") == 1)
    disrupted = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "evicting"}
    cluster.change("pods", "brickyard-i-1", lambda pod: pod["status"]["conditions"].append(disrupted))
    told = seen(provider, "i-1", lambda each: bool(each.message))
    assert told.alive
    golden(told.message)


# ── loss ──


def test_while_the_api_server_is_away_nothing_is_said_of_instances(cluster: Cluster, opened: Open) -> None:
    provider = opened()
    provider.launch(request())
    cluster.stop_api()
    for call in (provider.observe, lambda: provider.launch(request("i-2")), lambda: provider.terminate("i-1", reason="test")):
        with pytest.raises(TransientError):
            call()
    assert provider.node_types()
    cluster.start_api()
    until(lambda: cluster.running("brickyard-i-1") == 1)
    assert provider.observe().keys() == {"i-1"}


@pytest.mark.parametrize("kind", ["half", "drop"])
def test_half_an_answer_is_no_list(cluster: Cluster, opened: Open, kind: str, golden: Golden) -> None:
    provider = opened()
    provider.launch(request())
    cluster.api.expect("list", "pods", kind)
    with golden.refused(TransientError):
        provider.observe()
    assert provider.observe().keys() == {"i-1"}


def test_what_another_server_launched_is_listed_although_the_watch_has_not_told_it(cluster: Cluster, opened: Open) -> None:
    one, two = opened(), opened()
    until(lambda: cluster.api.watches >= 2)
    slow = cluster.api.expect("watch", "pods", "slow", times=2)
    cluster.on_loop(cluster.api.cut)
    until(slow.met.is_set)
    two.launch(request())
    assert one.observe().keys() == {"i-1"}
    cluster.on_loop(slow.go_on.set)


def test_a_pod_that_is_deleted_by_hand_is_gone(cluster: Cluster, opened: Open) -> None:
    provider = opened()
    provider.launch(request())
    until(lambda: cluster.running("brickyard-i-1") == 1)
    cluster.delete("brickyard-i-1")
    until(lambda: "i-1" not in provider.observe())
    assert cluster.running("brickyard-i-1") == 0


def test_a_silent_machine_is_not_run_beside_its_replacement(cluster: Cluster, opened: Open, golden: Golden) -> None:
    provider = opened()
    provider.launch(request())
    until(lambda: cluster.running("brickyard-i-1") == 1)
    name = cluster.pods()[0]["spec"]["nodeName"]
    cluster.kubelets.silent.add(name)
    cluster.change("nodes", name, lambda node: node["status"]["conditions"][0].update(status="Unknown"))
    provider.terminate("i-1", reason="its agent has stopped answering")
    provider.terminate("i-1", reason="again")
    assert cluster.running("brickyard-i-1") == 1, "its container goes on where no kubelet is"
    assert provider.observe()["i-1"].alive, "so it is still listed"
    with golden.refused(InvalidError):
        provider.launch(request())
    cluster.kubelets.silent.clear()
    ended(provider, "i-1")


@pytest.mark.parametrize("how", ["removed", "out of service"])
def test_the_pod_of_a_machine_that_is_known_to_be_gone_is_forced(cluster: Cluster, opened: Open, how: str) -> None:
    provider = opened()
    provider.launch(request())
    until(lambda: cluster.running("brickyard-i-1") == 1)
    name = cluster.pods()[0]["spec"]["nodeName"]
    cluster.kubelets.silent.add(name)
    provider.terminate("i-1", reason="test")
    past = "2026-01-01T00:00:00Z"
    cluster.change("pods", "brickyard-i-1", lambda pod: pod["metadata"].update(deletionTimestamp=past))
    provider.terminate("i-1", reason="its machine is Ready: its kubelet will do it")
    assert provider.observe().keys() == {"i-1"}
    if how == "removed":
        cluster.remove("nodes", name)
    else:
        taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
        cluster.change("nodes", name, lambda node: node["spec"].update(taints=[taint]))
    provider._known.read_s = 0.0  # as if the last look were long ago
    provider.terminate("i-1", reason="test")
    assert provider.observe() == {}


def test_anothers_pod_is_left_alone(cluster: Cluster, opened: Open, tmp_path: Path) -> None:
    opened().launch(request())
    cluster.change("pods", "brickyard-i-1", lambda pod: pod["metadata"]["labels"].update({"brickyard.io/workspace": "99"}))
    provider = opened()
    provider.terminate("i-1", reason="test")
    assert provider.observe() == {}
    assert cluster.names("pods") == {"brickyard-i-1"}


# ── rights ──


def test_missing_rights_are_named_before_anything_is_launched(cluster: Cluster, tmp_path: Path, golden: Golden) -> None:
    from brickyard.providers.kubernetes import open_provider  # noqa: PLC0415 - beside what it refuses

    cluster.api.rights = {Right("list", "pods", NAMESPACE), Right("create", "secrets", NAMESPACE)}
    with golden.refused(SetupError):
        open_provider(make_setup(tmp_path, section(cluster, tmp_path)))


def test_credentials_that_are_wrong(cluster: Cluster, tmp_path: Path, golden: Golden) -> None:
    from brickyard.providers.kubernetes import open_provider  # noqa: PLC0415 - beside what it refuses

    table = section(cluster, tmp_path)
    file = Path(str(table["kubeconfig"]))
    file.write_text(file.read_text().replace("a-token", "another-token"))
    with golden.refused(SetupError):
        open_provider(make_setup(tmp_path, table))


def test_no_more_is_asked_for_than_the_rights_that_are_documented(cluster: Cluster, opened: Open) -> None:
    provider = opened()
    provider.launch(request())
    provider.launch(request())
    provider.capacity()
    ended(provider, "i-1")
    machines = {Right("list", "nodes", ""), Right("list", "pods", "")}
    needed = {Right(each.verb, each.resource + (f".{each.group}" if each.group else ""), NAMESPACE) for each in NEEDED}
    assert cluster.api.used == needed | machines


def test_no_token_is_anywhere_but_in_the_secret(cluster: Cluster, opened: Open) -> None:
    opened().launch(request())
    text = json.dumps(cluster.on_loop(lambda: [*cluster.api.objects.of("pods"), *cluster.api.objects.of("networkpolicies")]))
    assert "agent-secret" not in text
    assert "server-secret" not in text
