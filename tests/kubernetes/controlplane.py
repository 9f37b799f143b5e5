"""A real API server of Kubernetes with its etcd, and no kubelet, scheduler or controller: what it admits and refuses is real.

Its programs are `kube-apiserver` and `etcd`, on the path or in the directory BRICKYARD_TEST_CONTROL_PLANE. Go makes them from the
modules k8s.io/kubernetes and go.etcd.io/etcd/server/v3.
"""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.kubernetes.schemas import Document
from tests.support.patience import until
from tests.support.ports import free_port

NAMESPACE = "brickyard"
ADMIN, SERVER = "token-of-the-administrator", "token-of-the-service-account"
_PROGRAMS = ("etcd", "kube-apiserver")
_APPLY, _MERGE, _JSON = "application/apply-patch+yaml", "application/merge-patch+json", "application/json"


def programs() -> dict[str, str] | None:
    """Where they are; None if one is missing."""
    place = os.environ.get("BRICKYARD_TEST_CONTROL_PLANE")
    found = {name: shutil.which(name, path=place) for name in _PROGRAMS}
    return {name: path for name, path in found.items() if path} if all(found.values()) else None


class ControlPlane:
    """Its administrator's calls, and kubeconfigs for the administrator and the servers' service account."""

    def __init__(self, root: Path, found: dict[str, str]) -> None:
        self._root, self._found = root, found
        self._children: list[subprocess.Popen[bytes]] = []
        self.url = f"https://127.0.0.1:{free_port()}"
        self._etcd = ""
        self._tls = ssl._create_unverified_context()  # noqa: S323 - it signs its own certificate

    def start(self) -> None:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
        (self._root / "accounts.pem").write_bytes(pem)
        users = (
            f'{ADMIN},admin,1,"system:masters"',
            f'{SERVER},system:serviceaccount:{NAMESPACE}:brickyard,2,"system:serviceaccounts,system:authenticated"',
        )
        (self._root / "tokens.csv").write_text("\n".join(users) + "\n")
        self._etcd, peers = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self._run(
            "etcd", f"--data-dir={self._root / 'etcd'}",
            f"--listen-client-urls={self._etcd}", f"--advertise-client-urls={self._etcd}",
            f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}", f"--initial-cluster=default={peers}",
            "--unsafe-no-fsync", "--log-level=error",
        )  # fmt: skip
        self._serve()

    def restart(self) -> None:
        """Another API server on the same etcd: it knows nothing of what happened before."""
        server = self._children.pop()
        server.kill()
        server.wait()
        self._serve()

    def _serve(self) -> None:
        port = self.url.rpartition(":")[2]
        self._run(
            "kube-apiserver", f"--etcd-servers={self._etcd}", "--bind-address=127.0.0.1", f"--secure-port={port}",
            f"--cert-dir={self._root / 'certificates'}", "--service-cluster-ip-range=10.96.0.0/24", "--authorization-mode=RBAC",
            f"--token-auth-file={self._root / 'tokens.csv'}", "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._root / 'accounts.pem'}",
            f"--service-account-signing-key-file={self._root / 'accounts.pem'}",
            "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
        )  # fmt: skip
        until(self._ready, lambda: f"the API server is not ready: {self.log('kube-apiserver')[-3000:]}")

    def _run(self, program: str, *arguments: str) -> None:
        with (self._root / f"{program}.log").open("wb") as log:
            child = subprocess.Popen([self._found[program], *arguments], stdout=log, stderr=log, cwd=self._root)
        self._children.append(child)

    def log(self, program: str) -> str:
        return (self._root / f"{program}.log").read_text(errors="replace")

    def _ready(self) -> bool:
        assert all(child.poll() is None for child in self._children), self.log("kube-apiserver")[-3000:]
        try:
            return self.call("GET", "/readyz")[0] == 200
        except OSError:
            return False

    def close(self) -> None:
        for child in reversed(self._children):
            child.kill()
            child.wait()

    def call(self, method: str, path: str, body: Document | None = None, *, kind: str = _JSON) -> tuple[int, Any]:
        """An administrator's call: its status and answer."""
        headers = {"Authorization": f"Bearer {ADMIN}", "Content-Type": kind}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)  # noqa: S310 - its own
        try:
            with urllib.request.urlopen(request, context=self._tls, timeout=30) as answer:  # noqa: S310 - likewise
                status, text = answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read().decode()
        return status, json.loads(text) if text.startswith("{") else text

    def apply(self, document: Document, *, dry: bool = False, strict: bool = True) -> tuple[int, Any]:
        """Server-side apply."""
        query = f"fieldManager=test&force=true{'&dryRun=All' if dry else ''}{'&fieldValidation=Strict' if strict else ''}"
        return self.call("PATCH", f"{path_of(document)}?{query}", document, kind=_APPLY)

    def make(self, *documents: Document) -> None:
        for each in documents:
            status, answer = self.apply(each)
            assert status in (200, 201), answer

    def merge(self, path: str, body: Document) -> None:
        status, answer = self.call("PATCH", path, body, kind=_MERGE)
        assert status == 200, answer

    def kubeconfig(self, token: str) -> Path:
        path = self._root / f"kubeconfig-{token}"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "it",
            "clusters": [{"name": "it", "cluster": {"server": self.url, "insecure-skip-tls-verify": True}}],
            "users": [{"name": "it", "user": {"token": token}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it", "namespace": NAMESPACE}}],
        }
        path.write_text(yaml.safe_dump(config))
        return path


_PLURALS = {"NetworkPolicy": "networkpolicies", "Ingress": "ingresses", "PriorityClass": "priorityclasses"}
_OF_CLUSTER = ("Namespace", "Node", "ClusterRole", "ClusterRoleBinding", "PriorityClass")


def path_of(document: Document) -> str:
    """Where an object is."""
    version, kind, meta = document["apiVersion"], document["kind"], document["metadata"]
    plural = _PLURALS.get(kind, kind.lower() + "s")
    place = "" if kind in _OF_CLUSTER else f"/namespaces/{meta.get('namespace', NAMESPACE)}"
    return f"/{'apis' if '/' in version else 'api'}/{version}{place}/{plural}/{meta['name']}"
