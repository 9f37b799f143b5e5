"""The Helm chart, whose templates read the manifests of kustomize: both make the same objects, and values change what they name.

Tests with `chart` need helm on the path (or BRICKYARD_TEST_HELM), and one of them kubectl; without it they did not run.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
import yaml

import brickyard
from brickyard.config.load import load
from brickyard.providers.kubernetes.section import KubernetesSection
from tests.kubernetes.schemas import Document, mistakes

PLACE = Path(__file__).parents[2] / "deploy/kubernetes"
PAGE = (PLACE.parents[1] / "docs/kubernetes.md").read_text()
HELM = os.environ.get("BRICKYARD_TEST_HELM") or shutil.which("helm")
VALUES = yaml.safe_load((PLACE / "values.yaml").read_text())
OWN: Document = {
    "image": {"repository": "ghcr.io/us/bricks", "tag": "9", "pullPolicy": "Always", "pullSecrets": [{"name": "registry"}]},
    "replicas": 1,
    "user": None,
    "resources": {"requests": {"cpu": 2, "memory": "4Gi"}, "limits": {"memory": "4Gi"}},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "servers", "operator": "Exists"}],
    "settings": {
        "log_level": "debug",
        "cpu_overcommit": 2.5,
        "workspace_name": 'Bricks "<&\\',
        "kubernetes": {
            "grace_s": 120,
            "autoscaler": True,
            "server_networks": ["10.0.0.0/8"],
            "pod": {"spec": {"nodeSelector": {"example.org/pool": "spark"}}},
            "node_types": [{"node_type_id": "large", "num_cores": 14, "memory_mb": 4_000_000}],
        },
    },
    "database": {"secret": "managed", "postgres": {"enabled": False}},
    "storage": {"existingClaim": "files"},
    "ingress": {"className": "nginx", "host": "a.example.org", "annotations": {"a": "b"}, "tls": {"enabled": False}},
    "machines": False,
    "networkPolicies": False,
}
SIZED: Document = {
    "storage": {"storageClass": "", "size": "1Ti"},
    "database": {"postgres": {"image": "postgres:18", "storageClass": "fast", "size": "50Gi", "resources": {}}},
    "ingress": {"enabled": False},
}
Render = Callable[..., dict[tuple[str, str], Document]]


def objects(text: str) -> dict[tuple[str, str], Document]:
    return {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(text) if each}


def helm(*arguments: str, given: Document | None = None) -> subprocess.CompletedProcess[str]:
    assert HELM is not None
    command = [HELM, *arguments, *(("--values", "-") if given is not None else ())]
    return subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def chart() -> Render:
    if HELM is None:
        pytest.skip("did not run: helm is not on the path, and BRICKYARD_TEST_HELM does not name it")

    def render(values: Document | None = None, namespace: str = "brickyard") -> dict[tuple[str, str], Document]:
        # helm that `go install` has built takes itself for an old Kubernetes
        done = helm("template", "any", str(PLACE), "-n", namespace, "--kube-version", "1.34.0", given=values or {})
        assert done.returncode == 0, done.stderr
        return objects(done.stdout)

    return render


def settings_of(rendered: dict[tuple[str, str], Document]) -> Document:
    return tomllib.loads(rendered["ConfigMap", "brickyard"]["data"]["brickyard.toml"])


def leaves(values: Document, prefix: str = "") -> Iterator[str]:
    for name, each in values.items():
        if isinstance(each, dict) and each and name != "resources":
            yield from leaves(each, f"{prefix}{name}.")
        else:
            yield prefix + name


# --- without helm ---


def test_each_manifest_has_a_template_and_the_version_is_this_one() -> None:
    manifests = {*yaml.safe_load((PLACE / "kustomization.yaml").read_text())["resources"]} - {"namespace.yaml"}
    assert {path.name for path in PLACE.glob("templates/*.yaml")} == manifests
    for name in manifests:
        text = (PLACE / "templates" / name).read_text()
        assert f'(list $ "{name}")' in text
        assert not re.search(r"^(apiVersion|kind|metadata|spec):", text, re.MULTILINE), "it is read from the manifest"
    made = yaml.safe_load((PLACE / "Chart.yaml").read_text())
    assert made["appVersion"] == made["version"] == brickyard.__version__


def test_the_page_describes_each_value() -> None:
    table = PAGE.split("### Values")[1].split("\n## ")[0]
    rows = dict(re.findall(r"^\| `([\w.]+)` \| ([^|]*) \|", table, re.MULTILINE))
    assert list(rows) == list(leaves(VALUES))
    for name, default in rows.items():
        value: Any = VALUES
        for part in name.split("."):
            value = value[part]
        if not isinstance(value, dict) or not value:
            shown = "none" if value in ("", None, [], {}) else str(value).lower() if isinstance(value, bool) else str(value)
            assert shown == default, name


@pytest.mark.parametrize("values", [VALUES, OWN, SIZED], ids=["default", "own", "sized"])
def test_the_schema_takes_values(values: Document) -> None:
    merged = {"image": VALUES["image"], **values}
    merged["database"] = {"secret": "x", **merged["database"]}
    jsonschema.validate(merged, json.loads((PLACE / "values.schema.json").read_text()))


# --- with helm ---


def test_lint(chart: Render) -> None:
    done = helm("lint", "--strict", str(PLACE))
    assert done.returncode == 0, done.stdout


def test_helm_and_kustomize_make_the_same_objects(chart: Render) -> None:
    """But for the namespace, which Helm's users make, and for the claim, which outlives a release."""
    if shutil.which("kubectl") is None:
        pytest.skip("did not run: kubectl is not on the path")
    command = ["kubectl", "kustomize", str(PLACE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    expected, rendered = objects(done.stdout), chart()
    del expected["Namespace", "brickyard"]
    assert rendered["PersistentVolumeClaim", "brickyard-storage"]["metadata"].pop("annotations") == {
        "helm.sh/resource-policy": "keep"
    }
    assert settings_of(rendered) == settings_of(expected)
    for each in (rendered, expected):
        del each["ConfigMap", "brickyard"]["data"]
    assert rendered == expected


@pytest.mark.parametrize("values", [{}, OWN, SIZED], ids=["default", "own", "sized"])
def test_each_object_has_only_fields_that_there_are(chart: Render, values: Document) -> None:
    rendered = chart(values)
    assert len(rendered) >= 8
    for name, each in rendered.items():
        assert mistakes(each) == [], name


def test_values_are_what_the_objects_say(chart: Render, tmp_path: Path) -> None:
    rendered = chart(OWN, namespace="team")
    assert {each["metadata"]["namespace"] for each in rendered.values()} == {"team"}
    assert rendered["RoleBinding", "brickyard"]["subjects"][0]["namespace"] == "team"
    pod = rendered["StatefulSet", "brickyard"]["spec"]["template"]["spec"]
    server = pod["containers"][0]
    environment = {each["name"]: each for each in server["env"]}
    assert server["image"] == environment["BRICKYARD_KUBERNETES_IMAGE"]["value"] == "ghcr.io/us/bricks:9"
    assert (server["imagePullPolicy"], pod["imagePullSecrets"]) == ("Always", [{"name": "registry"}])
    assert environment["BRICKYARD_DATABASE_URL"]["valueFrom"]["secretKeyRef"] == {"name": "managed", "key": "url"}
    assert pod["securityContext"].keys() == {"runAsNonRoot", "fsGroupChangePolicy", "seccompProfile"}
    assert (pod["nodeSelector"], pod["tolerations"]) == (OWN["nodeSelector"], OWN["tolerations"])
    assert server["resources"]["requests"] == {"cpu": 2, "memory": "4Gi"}
    (claim,) = [each["persistentVolumeClaim"]["claimName"] for each in pod["volumes"] if each["name"] == "storage"]
    assert claim == "files"
    ingress = rendered["Ingress", "brickyard"]
    assert ingress["spec"]["ingressClassName"] == "nginx"
    assert [each["host"] for each in ingress["spec"]["rules"]] == ["a.example.org"]
    assert "tls" not in ingress["spec"]
    assert ingress["metadata"]["annotations"]["a"] == "b"
    left_out = {("StatefulSet", "brickyard-postgres"), ("PersistentVolumeClaim", "brickyard-storage")}
    left_out |= {("PodDisruptionBudget", "brickyard"), ("ClusterRole", "brickyard-machines-team")}
    assert not left_out & rendered.keys()
    assert not {name for kind, name in rendered if kind in ("NetworkPolicy", "ClusterRoleBinding")}

    file = tmp_path / "brickyard.toml"
    file.write_text(rendered["ConfigMap", "brickyard"]["data"]["brickyard.toml"])
    settings = load(config_file=file, environ={"BRICKYARD_KUBERNETES_IMAGE": "x"}, options={})
    assert settings.workspace_name == OWN["settings"]["workspace_name"]
    assert (settings.log_level, settings.cpu_overcommit, settings.port) == ("debug", 2.5, 8080)
    section = msgspec.convert({**settings.sections["kubernetes"], "image": "x", "run_as_user": 1000}, KubernetesSection)
    section.check()
    assert (section.grace_s, section.autoscaler, section.network_policies) == (120, True, False)
    assert section.storage_claim == "files"
    pods, _ = section.template_of("large")
    assert pods.spec.image_pull_secrets == ({"name": "registry"},)
    assert pods.spec.node_selector == {"example.org/pool": "spark"}
    assert pods.container.image_pull_policy == "Always"


def test_sizes_and_classes(chart: Render) -> None:
    rendered = chart(SIZED)
    claim = rendered["PersistentVolumeClaim", "brickyard-storage"]["spec"]
    assert (claim["storageClassName"], claim["resources"]["requests"]["storage"]) == ("", "1Ti")
    postgres = rendered["StatefulSet", "brickyard-postgres"]["spec"]
    assert postgres["template"]["spec"]["containers"][0]["image"] == "postgres:18"
    own = postgres["volumeClaimTemplates"][0]["spec"]
    assert (own["storageClassName"], own["resources"]["requests"]["storage"]) == ("fast", "50Gi")
    assert ("Ingress", "brickyard") not in rendered


def test_two_workspaces_of_one_cluster_share_no_object(chart: Render) -> None:
    one, two = ({name for name in chart(namespace=each) if name[0].startswith("Cluster")} for each in ("a", "b"))
    assert one
    assert not one & two


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"image": {"repo": "x"}}, "repo"),
        ({"replica": 3}, "replica"),
        ({"replicas": "two"}, "replicas"),
        ({"user": 0}, "user"),
        ({"ingress": {"tls": {"secret": "x"}}}, "secret"),
        ({"storage": {"size": "much"}}, "size"),
    ],
)
def test_a_value_that_there_is_not_is_refused_by_its_name(chart: Render, values: Document, named: str) -> None:
    done = helm("template", "any", str(PLACE), "--kube-version", "1.34.0", given=values)
    assert done.returncode != 0
    assert named in done.stderr
