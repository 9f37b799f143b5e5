"""The manifests of deploy/kubernetes and their image: by the schemas, and each name that one object has of another."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

import brickyard
from brickyard.config.load import load
from brickyard.providers.kubernetes import pods, rights
from brickyard.providers.kubernetes.section import KubernetesSection
from tests.kubernetes.schemas import Document, mistakes

PLACE = Path(__file__).parents[2] / "deploy/kubernetes"
CONTAINERFILE = PLACE.parent / "container" / "Containerfile"
SECRETS = {"brickyard-database": {"url", "password"}, "brickyard-tls": set()}  # which people make (docs/kubernetes.md)


def documents() -> list[Document]:
    made = yaml.safe_load((PLACE / "kustomization.yaml").read_text())
    found = [each for name in made["resources"] for each in yaml.safe_load_all((PLACE / name).read_text())]
    assert {path.name for path in PLACE.glob("*.yaml")} == {*made["resources"], "kustomization.yaml", "Chart.yaml", "values.yaml"}
    return found


ALL = documents()


def one(kind: str, name: str) -> Document:
    (found,) = [each for each in ALL if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


def workloads() -> Iterator[tuple[str, Document]]:
    for each in ALL:
        if "template" in each.get("spec", {}):
            yield each["metadata"]["name"], each["spec"]["template"]


def values(of: Any, key: str) -> Iterator[Any]:
    """What stands behind a key, anywhere."""
    if isinstance(of, dict):
        for name, each in of.items():
            if name == key:
                yield each
            yield from values(each, key)
    elif isinstance(of, list):
        for each in of:
            yield from values(each, key)


@pytest.mark.parametrize("document", ALL, ids=lambda each: f"{each['kind']}-{each['metadata']['name']}")
def test_each_object_has_only_fields_that_there_are(document: Document) -> None:
    assert mistakes(document) == []


def test_the_role_has_exactly_the_rights_that_the_provider_asks_for() -> None:
    """test_provider.py compares these with what the API server sees."""

    def given(role: Document) -> set[tuple[str, str, str]]:
        return {
            (group, resource, verb)
            for rule in role["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }

    needed = {(each.group, each.resource, each.verb) for each in (*rights.NEEDED, *rights.POLICIES, rights.OWNERS)}
    assert given(one("Role", "brickyard")) == needed
    machines = {(each.group, each.resource, each.verb) for each in (rights.MACHINES, rights.ALL_PODS)}
    assert given(one("ClusterRole", "brickyard-machines")) == machines
    namespace = one("Namespace", "brickyard")["metadata"]["name"]
    for kind, role in (("RoleBinding", "brickyard"), ("ClusterRoleBinding", "brickyard-machines")):
        bound = one(kind, role)
        assert bound["roleRef"]["name"] == role
        assert bound["subjects"] == [{"kind": "ServiceAccount", "name": "brickyard", "namespace": namespace}]
    (account,) = {each for _, template in workloads() for each in values(template, "serviceAccountName")}
    assert one("ServiceAccount", account)


def test_every_name_that_an_object_has_of_another_exists() -> None:
    pods_of = {name: template["metadata"]["labels"] for name, template in workloads()}
    for kind in ("Service", "PodDisruptionBudget", "NetworkPolicy"):
        for each in (found for found in ALL if found["kind"] == kind):
            given = each["spec"].get("selector") or each["spec"].get("podSelector")
            wanted = given.get("matchLabels", given)
            known = [*pods_of.values(), {"app.kubernetes.io/name": "brickyard-node"}]
            assert any(wanted.items() <= labels.items() for labels in known), each["metadata"]["name"]
    claims = {each["metadata"]["name"] for each in ALL if each["kind"] == "PersistentVolumeClaim"}
    assert set(values(ALL, "claimName")) <= claims
    for reference in values(ALL, "secretKeyRef"):
        assert reference["key"] in SECRETS[reference["name"]]
    assert set(values(ALL, "secretName")) <= SECRETS.keys()
    for each in values(ALL, "configMap"):
        assert one("ConfigMap", each["name"])
    for each in (found for found in ALL if found["kind"] == "StatefulSet"):
        assert one("Service", each["spec"]["serviceName"])["spec"]["clusterIP"] == "None"
        assert each["spec"]["selector"]["matchLabels"].items() <= each["spec"]["template"]["metadata"]["labels"].items()


def test_ports_have_the_names_and_numbers_that_others_use() -> None:
    server = one("StatefulSet", "brickyard")["spec"]["template"]["spec"]["containers"][0]
    ports = {each["name"]: each["containerPort"] for each in server["ports"]}
    settings = tomllib.loads(one("ConfigMap", "brickyard")["data"]["brickyard.toml"])
    assert (ports["http"], ports["connect"]) == (settings["port"], settings["connect_port"])
    (url,) = [each["value"] for each in server["env"] if each["name"] == "BRICKYARD_PUBLIC_URL"]
    assert url.endswith(f".svc:{ports['agents']}")
    assert url.startswith("https://$(POD_NAME).brickyard-servers.")
    for name in ("brickyard", "brickyard-servers"):
        for port in one("Service", name)["spec"]["ports"]:
            assert port["targetPort"] in ports
    (backend,) = values(one("Ingress", "brickyard"), "service")
    assert backend["port"]["name"] in {each["name"] for each in one("Service", backend["name"])["spec"]["ports"]}
    for rule in one("NetworkPolicy", "brickyard-servers")["spec"]["ingress"]:
        assert {each["port"] for each in rule["ports"]} <= ports.keys()


def test_the_settings_are_ones_and_fit_the_volumes(tmp_path: Path) -> None:
    file = tmp_path / "brickyard.toml"
    file.write_text(one("ConfigMap", "brickyard")["data"]["brickyard.toml"])
    environ = {
        "BRICKYARD_KUBERNETES_IMAGE": "x",
        "BRICKYARD_DATABASE_URL": "postgresql://brickyard:x@brickyard-postgres/brickyard",
    }
    settings = load(config_file=file, environ=environ, options={})
    section = msgspec.convert({**settings.sections["kubernetes"], "run_as_user": 1000}, KubernetesSection)
    section.check()
    server = one("StatefulSet", "brickyard")["spec"]["template"]["spec"]
    mounts = {each["name"]: each["mountPath"] for each in server["containers"][0]["volumeMounts"]}
    assert mounts["storage"] == section.storage_mount
    assert settings.storage_dir.is_relative_to(section.storage_mount)
    (claim,) = [each["persistentVolumeClaim"]["claimName"] for each in server["volumes"] if each["name"] == "storage"]
    assert claim == section.storage_claim
    assert settings.data_dir.parent == Path(mounts["data"]), "the mount itself is root's"
    assert section.server_labels.items() <= one("StatefulSet", "brickyard")["spec"]["template"]["metadata"]["labels"].items()


def test_nothing_is_privileged() -> None:
    for name, template in workloads():
        spec = template["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True, name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in spec["containers"]:
            assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def test_no_container_gets_the_addresses_of_services_as_variables() -> None:
    """BRICKYARD_PORT would be one of them."""
    for name, template in workloads():
        assert template["spec"]["enableServiceLinks"] is False, name


def test_nodes_are_closed_unless_the_provider_opens_them() -> None:
    closed = one("NetworkPolicy", "brickyard-nodes")["spec"]
    assert "ingress" not in closed
    assert closed["podSelector"]["matchLabels"].items() <= pods.NAME.items()


def test_servers_and_nodes_have_one_image_of_this_version() -> None:
    made = yaml.safe_load((PLACE / "kustomization.yaml").read_text())
    (image,) = made["images"]
    assert image["newTag"] == brickyard.__version__
    server = one("StatefulSet", "brickyard")["spec"]["template"]["spec"]["containers"][0]
    assert server["image"] == image["name"]
    (copied,) = made["replacements"]
    assert copied["source"]["fieldPath"] == f"spec.template.spec.containers.[name={server['name']}].image"
    (path,) = copied["targets"][0]["fieldPaths"]
    (variable,) = re.findall(r"env\.\[name=(\w+)\]\.value$", path)
    assert variable in {each["name"] for each in server["env"]}


def test_the_containerfile_copies_what_there_is_and_has_the_cache_where_the_settings_say() -> None:
    text = CONTAINERFILE.read_text()
    copied = {name for line in re.findall(r"^COPY (?!--)(.+) \S+$", text, re.MULTILINE) for name in line.split()}
    needed = {"src", "ui", "docs", "requirements", "pyproject.toml"}
    assert needed <= copied, "the web page is built with what it needs, and shows docs/"
    for line in re.findall(r"^COPY (?!--)(.+) \S+$", text, re.MULTILINE):
        for name in line.split():
            assert (PLACE.parents[1] / name).exists(), name
    settings = tomllib.loads(one("ConfigMap", "brickyard")["data"]["brickyard.toml"])
    assert f"--cache-dir {settings['cache_dir']}" in text
    assert settings["kubernetes"]["machine_cache_dir"] == settings["cache_dir"]
    server = one("StatefulSet", "brickyard")["spec"]["template"]["spec"]
    assert f"ARG USER_ID={server['securityContext']['runAsUser']}" in text
    assert re.findall(r"^USER (.+)$", text, re.MULTILINE) == ["${USER_ID}:${USER_ID}"]
