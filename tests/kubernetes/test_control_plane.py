"""The provider, the manifests and the chart on a real API server (controlplane.py), with the rights of `role.yaml` alone, Pod
Security `restricted` and OwnerReferencesPermissionEnforcement."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
import yaml

from brickyard.config.settings import Settings
from brickyard.providers.base import InvalidError, LaunchRequest, ProviderError, QuotaError, Setup, TransientError
from brickyard.providers.kubernetes import open_provider
from brickyard.providers.kubernetes.api import Api, connected
from brickyard.providers.kubernetes.provider import KubernetesProvider
from brickyard.runtime.catalogue import rows
from brickyard.testing.contract import Bench, ProviderContract
from tests.kubernetes.controlplane import ADMIN, NAMESPACE, SERVER, ControlPlane, path_of, programs
from tests.kubernetes.schemas import Document
from tests.kubernetes.test_helm import HELM, OWN, SIZED, objects
from tests.kubernetes.test_pods import request as launch_request
from tests.support.patience import until

PROGRAMS = programs()
PLACE = Path(__file__).parents[2] / "deploy/kubernetes"
WORKSPACE = "1234567890123456"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
POLICIES = f"/apis/networking.k8s.io/v1/namespaces/{NAMESPACE}/networkpolicies"
NUMBERS = itertools.count(100)
pytestmark = [
    pytest.mark.extended,
    pytest.mark.skipif(
        PROGRAMS is None,
        reason="did not run: etcd and kube-apiserver are not on the path, nor in BRICKYARD_TEST_CONTROL_PLANE",
    ),
]


def manifest(name: str) -> list[Document]:
    found = list(yaml.safe_load_all((PLACE / name).read_text()))
    return [{**each, "metadata": {"namespace": NAMESPACE, **each["metadata"]}} for each in found]


def made(kind: str, name: str, version: str = "v1", **more: object) -> Document:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **more}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    assert PROGRAMS is not None
    plane = ControlPlane(tmp_path_factory.mktemp("plane"), PROGRAMS)
    try:
        plane.start()
        plane.make(*manifest("namespace.yaml"), *manifest("role.yaml"), *manifest("machines.yaml"))
        plane.make(made("ServiceAccount", "default"))  # a controller's work
        yield plane
    finally:
        plane.close()


@pytest.fixture
def opened(plane: ControlPlane, tmp_path: Path) -> Iterator[Callable[..., KubernetesProvider]]:
    (tmp_path / "workspace.id").write_text(f"{WORKSPACE}\n")
    made: list[KubernetesProvider] = []

    def open_one(**more: object) -> KubernetesProvider:
        table = {"kubeconfig": str(plane.kubeconfig(SERVER)), "image": "example.org/brickyard:1", "run_as_user": 1000, **more}
        table.setdefault("autoscaler", True)  # there is no machine
        settings = Settings(
            data_dir=tmp_path,
            cache_dir=tmp_path,
            storage_url=str(tmp_path),
            provider="kubernetes",
            sections={"kubernetes": table},
        )
        setup = Setup(settings=settings, server_url="http://192.0.2.1:8080", workspace_id=WORKSPACE, runtimes=rows())
        made.append(open_provider(setup))
        return made[-1]

    try:
        yield open_one
    finally:
        for provider in made:
            for name in provider.observe():
                plane.call("DELETE", f"{PODS}/brickyard-{name}?gracePeriodSeconds=0")
            provider.close(keep_nodes=True)


@pytest.fixture
def beside(plane: ControlPlane) -> Iterator[Callable[[Document], None]]:
    """Makes objects for one test."""
    left: list[Document] = []

    def make(document: Document) -> None:
        left.append(document)
        plane.make(document)

    yield make
    for each in left:
        plane.call("DELETE", path_of(each))


def wanted(number: int) -> LaunchRequest:
    return msgspec.structs.replace(launch_request(), instance_id=f"i-{number}")


# --- what is installed ---


def admitted(plane: ControlPlane, documents: list[Document]) -> None:
    """Each object, and each pod that a controller would make of one."""
    for each in documents:
        status, answer = plane.apply(each, dry=True)
        assert status in (200, 201), (each["kind"], answer)
        if "template" in each.get("spec", {}):
            pod = made("Pod", f"{each['metadata']['name']}-0", spec=each["spec"]["template"]["spec"])
            names = {claim["metadata"]["name"] for claim in each["spec"].get("volumeClaimTemplates", ())}
            pod["spec"]["volumes"] = [
                *pod["spec"].get("volumes", ()), *({"name": name, "emptyDir": {}} for name in names)
            ]  # fmt: skip
            status, answer = plane.apply(pod, dry=True)
            assert status in (200, 201), answer


def test_the_manifests_are_admitted_with_pod_security_restricted(plane: ControlPlane) -> None:
    names = yaml.safe_load((PLACE / "kustomization.yaml").read_text())["resources"]
    admitted(plane, [each for name in names for each in manifest(name)])


@pytest.mark.parametrize("values", [{}, {**OWN, "user": 1000}, SIZED], ids=["default", "own", "sized"])
def test_the_chart_is_admitted_with_pod_security_restricted(plane: ControlPlane, values: Document) -> None:
    if HELM is None:
        pytest.skip("did not run: helm is not on the path, and BRICKYARD_TEST_HELM does not name it")
    command = [HELM, "template", "any", str(PLACE), "-n", NAMESPACE, "--kube-version", "1.34.0", "--values", "-"]
    done = subprocess.run(command, input=yaml.safe_dump(values), capture_output=True, text=True, timeout=60, check=True)
    admitted(plane, list(objects(done.stdout).values()))


# --- the provider ---


def test_nodes_of_a_cluster_share_a_policy_that_each_owns(plane: ControlPlane, opened: Callable[..., KubernetesProvider]) -> None:
    provider = opened()
    for number in (1, 2):
        provider.launch(wanted(number))
    provider.launch(wanted(1))  # repeated
    _, found = plane.call("GET", POLICIES)
    (policy,) = [each for each in found["items"] if WORKSPACE in each["metadata"]["name"]]
    assert {each["name"] for each in policy["metadata"]["ownerReferences"]} == {"brickyard-i-1", "brickyard-i-2"}
    assert provider.observe().keys() == {"i-1", "i-2"}
    provider.terminate("i-1", reason="test")
    provider.terminate("i-1", reason="test")
    until(lambda: provider.observe().keys() == {"i-2"})


def test_the_role_without_deletes_cannot_add_an_owner(plane: ControlPlane, opened: Callable[..., KubernetesProvider]) -> None:
    provider = opened()
    role = next(each for each in manifest("role.yaml") if each["kind"] == "Role")
    try:
        lesser = yaml.safe_load(yaml.safe_dump(role))
        lesser["rules"][-1]["verbs"] = ["create", "patch"]
        plane.make(lesser)

        def refusal() -> str:
            try:
                provider.launch(wanted(3))
            except InvalidError as error:
                return str(error)
            return ""

        assert "Grant delete on networkpolicies" in until(refusal)
    finally:
        plane.make(role)


@pytest.mark.parametrize(
    ("document", "counted", "error", "said"),
    [
        (made("ResourceQuota", "secrets", spec={"hard": {"count/secrets": "0"}}), True, QuotaError, "Raise the ResourceQuota"),
        (made("ResourceQuota", "pods", spec={"hard": {"pods": "0"}}), True, QuotaError, "Raise the ResourceQuota"),
        (made("ResourceQuota", "new", spec={"hard": {"pods": "9"}}), False, TransientError, "tried again"),
        (
            made("LimitRange", "large", spec={"limits": [{"type": "Container", "min": {"memory": "64Gi"}}]}),
            False,
            InvalidError,
            "LimitRange",
        ),
    ],
    ids=["secrets", "pods", "uncounted", "limits"],
)
def test_what_the_namespace_forbids_is_told_by_its_cause(
    *,
    plane: ControlPlane,
    opened: Callable[..., KubernetesProvider],
    beside: Callable[[Document], None],
    document: Document,
    counted: bool,
    error: type[ProviderError],
    said: str,
) -> None:
    provider = opened()
    beside(document)
    if document["kind"] == "ResourceQuota":  # a controller counts; here nothing is used
        hard = document["spec"]["hard"]
        used = {"used": dict.fromkeys(hard, "0")} if counted else {}
        plane.merge(f"{path_of(document)}/status", {"status": {"hard": hard, **used}})

    def refusal() -> ProviderError | None:  # admission hears of it a moment later
        try:
            provider.launch(wanted(next(NUMBERS)))
        except ProviderError as refused:
            return refused
        return None

    refused = until(refusal)
    assert type(refused) is error
    assert said in str(refused)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"seccomp": "Unconfined"}, "Pod Security level"),
        ({"pod": {"spec": {"priorityClassName": "missing"}}}, "priorityClassName"),
        ({"pod": {"spec": {"runtimeClassName": "missing"}}}, "runtimeClassName"),
    ],
)
def test_what_a_pod_may_not_ask_for_is_told_by_its_cause(
    opened: Callable[..., KubernetesProvider], more: Document, said: str
) -> None:
    with pytest.raises(InvalidError, match=said):
        opened(**more).launch(wanted(5))


def test_a_namespace_without_its_service_account_is_waited_for(
    plane: ControlPlane, opened: Callable[..., KubernetesProvider]
) -> None:
    provider, account = opened(), made("ServiceAccount", "default")
    plane.call("DELETE", path_of(account))
    try:

        def refusal() -> ProviderError | None:
            try:
                provider.launch(wanted(6))
            except ProviderError as refused:
                return refused
            plane.call("DELETE", f"{PODS}/brickyard-i-6?gracePeriodSeconds=0")
            return None

        assert type(until(refusal)) is TransientError
    finally:
        plane.make(account)

    def launched() -> bool:
        try:
            provider.launch(wanted(6))
        except TransientError:
            return False
        return True

    until(launched)


def test_a_version_that_the_server_no_longer_has_is_410(plane: ControlPlane, opened: Callable[..., KubernetesProvider]) -> None:
    provider = opened()
    reflector = provider._reflector
    until(lambda: reflector.pods() is not None)
    reflector._version = "1"  # as after a long absence
    plane.restart()
    client, _ = connected(kubeconfig=str(plane.kubeconfig(SERVER)), context="")
    api = Api(client)
    try:
        events = list(api.watch(PODS, params={"resourceVersion": "1", "timeoutSeconds": "1"}, connected=lambda cut: None))
        assert [event.type for event in events] == ["ERROR"]
        assert b'"code":410' in bytes(events[0].object)
    finally:
        api.close()
    provider.launch(wanted(7))
    until(lambda: "brickyard-i-7" in (reflector.pods() or {}))
    assert int(reflector._version) > 1


def test_the_documented_drain_reaches_a_node(
    plane: ControlPlane, opened: Callable[..., KubernetesProvider], beside: Callable[[Document], None]
) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("did not run: kubectl is not on the path")
    provider = opened()
    beside(made("Node", "machine"))
    provider.launch(wanted(8))
    binding = made("Binding", "brickyard-i-8", target={"apiVersion": "v1", "kind": "Node", "name": "machine"})
    status, answer = plane.call("POST", f"{PODS}/brickyard-i-8/binding", binding)
    assert status == 201, answer
    page = (PLACE.parents[1] / "docs/kubernetes.md").read_text()
    (line,) = [each for each in page.splitlines() if each.startswith("kubectl drain")]
    command = line.replace("MACHINE", "machine").replace("--timeout=10m", "--timeout=3s").split()
    # Without a kubelet nothing confirms the pod's end, so the command gives up.
    done = subprocess.run(
        [*command, "--kubeconfig", str(plane.kubeconfig(ADMIN))], capture_output=True, text=True, timeout=60, check=False
    )
    assert "evicting pod brickyard/brickyard-i-8" in done.stderr + done.stdout
    until(lambda: "its machine is being drained" in provider.observe()["i-8"].message)


class TestContract(ProviderContract):
    """What of the contract needs no kubelet: no process runs, so none is counted."""

    @pytest.fixture
    def bench(self, opened: Callable[..., KubernetesProvider]) -> Bench:
        return Bench(opened(), reopen=opened, server_url="http://192.0.2.1:8080")
