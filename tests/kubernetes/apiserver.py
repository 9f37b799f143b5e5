"""A Kubernetes API server on loopback: real HTTP, the official schemas, and the failures that a real one has."""

from __future__ import annotations

import asyncio
import copy
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from aiohttp import web

from tests.kubernetes import applying, schemas
from tests.kubernetes.schemas import Document
from tests.kubernetes.store import Change, Key, Objects

USER = "system:serviceaccount:lab:brickyard"
TOKEN = "a-token-of-the-cluster"
FIRST_BOOKMARK_S = 120.0  # after which the real server sends the first bookmark to a watch of which nothing is to be told
_PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/v1(?:/namespaces/(?P<namespace>[^/]+))?/(?P<plural>[a-z]+)(?:/(?P<name>[^/]+))?"
)


class Kind(NamedTuple):
    kind: str
    version: str
    namespaced: bool = True


KINDS = {
    "pods": Kind("Pod", "v1"),
    "secrets": Kind("Secret", "v1"),
    "nodes": Kind("Node", "v1", namespaced=False),
    "networkpolicies": Kind("NetworkPolicy", "networking.k8s.io/v1"),
}
REVIEW = Kind("SelfSubjectAccessReview", "authorization.k8s.io/v1", namespaced=False)


class Right(NamedTuple):
    verb: str
    resource: str
    namespace: str  # empty: the whole cluster


@dataclass
class Fault:
    """What happens to the next requests that match, instead of an answer or with it."""

    verb: str
    resource: str
    kind: str  # refuse, slow, drop (no answer at all), half (an answer that ends in its middle)
    times: int = 1
    code: int = 500
    headers: dict[str, str] = field(default_factory=dict)
    message: str = "etcdserver: request timed out"
    met: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)  # slow: when to answer


class ApiError(Exception):
    def __init__(self, code: int, reason: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.code, self.reason, self.headers = code, reason, headers or {}


class ApiServer:
    """Must be created and used on one event loop."""

    def __init__(self) -> None:
        self.objects = Objects()
        self.rights: set[Right] | None = None  # what the client may do; None: everything
        self.used: set[Right] = set()
        self.calls: list[tuple[str, str]] = []  # verb and resource of every request
        self.faults: list[Fault] = []
        self.namespaces = {"lab"}
        self.terminating: set[str] = set()  # namespaces that are being deleted
        self.bookmark_s = 0.5
        self.refuse: Callable[[Document], str] = lambda _pod: ""  # admission: why a pod is forbidden
        self.watches = 0
        self._transports: set[asyncio.Transport] = set()
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def start(self, port: int = 0) -> None:
        app = web.Application(client_max_size=8 << 20)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", port).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        """Answers nobody any more; the objects stay."""
        self.cut()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def cut(self) -> None:
        """Every watch's connection is lost."""
        for transport in [*self._transports]:
            transport.abort()

    def expect(self, verb: str, resource: str, kind: str, **more: Any) -> Fault:
        self.faults.append(fault := Fault(verb, resource, kind, **more))
        return fault

    # ── a request ──

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self._answer(request)
        except ApiError as error:
            body = {
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": str(error),
                "reason": error.reason, "code": error.code,
            }  # fmt: skip
            return web.json_response(body, status=error.code, headers=error.headers)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            raise ApiError(401, "Unauthorized", "Unauthorized")
        if request.method == "POST" and request.path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":
            return self._review(await request.json())
        match = _PATH.fullmatch(request.path)
        kind = KINDS.get(match["plural"]) if match else None
        if match is None or kind is None or (match["group"] or "") != kind.version.rpartition("/")[0]:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        namespace, name, plural = match["namespace"] or "", match["name"] or "", match["plural"]
        watch = request.query.get("watch") in ("1", "true")
        verb = {"GET": "get" if name else "watch" if watch else "list", "PATCH": "patch", "POST": "create", "DELETE": "delete"}[
            request.method
        ]
        resource = plural + (f".{match['group']}" if match["group"] else "")
        self.calls.append((verb, resource))
        await self._fail(verb, resource, request)
        self._require(Right(verb, resource, namespace))
        key = Key(plural, namespace, name)
        match verb:
            case "watch":
                return await self._watch(request, key)
            case "list":
                return self._list(request, key)
            case "get":
                return web.json_response(self._existing(key))
            case "delete":
                return self._delete(key, json.loads(await request.read() or b"{}"))
            case _:
                return web.json_response(self._write(request, key, await request.json(), resource))

    async def _fail(self, verb: str, resource: str, request: web.Request) -> None:
        fault = next((each for each in self.faults if each.verb in (verb, "*") and each.resource in (resource, "*")), None)
        if fault is None:
            return
        fault.times -= 1
        if not fault.times:
            self.faults.remove(fault)
        fault.met.set()
        if fault.kind == "refuse":
            raise ApiError(fault.code, "Fault", fault.message, fault.headers)
        if fault.kind == "slow":
            await fault.go_on.wait()
            return
        assert request.transport is not None
        if fault.kind == "half":
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 4000\r\n\r\n"
            request.transport.write(head + b'{"kind": "PodList", "items": [{"metadata": {"na')
            await asyncio.sleep(0)
        request.transport.close()
        raise ApiError(500, "Fault", "nobody reads this")

    # ── rights ──

    def _may(self, right: Right) -> bool:
        return self.rights is None or right in self.rights or right._replace(namespace="") in self.rights

    def _require(self, right: Right) -> None:
        self.used.add(right)
        if not self._may(right):
            plural, _, group = right.resource.partition(".")
            where = f'in the namespace "{right.namespace}"' if right.namespace else "at the cluster scope"
            message = (
                f'{plural} is forbidden: User "{USER}" cannot {right.verb} resource "{plural}" in API group "{group}" {where}'
            )
            raise ApiError(403, "Forbidden", message)

    def _review(self, review: Document) -> web.Response:
        self._check(review)
        asked = review["spec"]["resourceAttributes"]
        resource = asked["resource"] + (f".{asked['group']}" if asked.get("group") else "")
        review["status"] = {"allowed": self._may(Right(asked["verb"], resource, asked.get("namespace", "")))}
        return web.json_response(review, status=201)

    # ── reading ──

    def _existing(self, key: Key) -> Document:
        if key not in self.objects.all:
            raise ApiError(404, "NotFound", f'{key.plural} "{key.name}" not found')
        return self.objects.all[key]

    def _list(self, request: web.Request, key: Key) -> web.Response:
        kind, meta = KINDS[key.plural], {"resourceVersion": str(self.objects.version)}
        found = [each for each in self.objects.of(key.plural, key.namespace) if _selected(each, request)]
        if "as=Table" not in request.headers.get("Accept", ""):
            return web.json_response({"kind": f"{kind.kind}List", "apiVersion": kind.version, "metadata": meta, "items": found})
        columns = [
            {"name": name, "type": "string", "format": "", "description": "", "priority": 0} for name in ("Name", "Status")
        ]
        rows = [{"cells": [each["metadata"]["name"], each.get("status", {}).get("phase", "")]} for each in found]
        table = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": meta, "columnDefinitions": columns, "rows": rows}
        return web.json_response(table)

    async def _watch(self, request: web.Request, key: Key) -> web.StreamResponse:
        objects, seen = self.objects, int(request.query.get("resourceVersion") or 0)
        if seen < objects.forgotten and self.watches % 2:  # real ones say it in both ways
            raise ApiError(410, "Expired", f"too old resource version: {seen} ({objects.forgotten})")
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        answer.enable_chunked_encoding()
        await answer.prepare(request)
        assert isinstance(request.transport, asyncio.Transport)
        self._transports.add(request.transport)
        self.watches += 1
        try:
            async with asyncio.timeout(float(request.query.get("timeoutSeconds") or 60)):
                while True:
                    if seen < objects.forgotten:
                        status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
                        await answer.write(_line("ERROR", status))
                        return answer
                    new = [each for each in objects.changes if each.version > seen and self._watched(each, key, request)]
                    for change in new:
                        await answer.write(_line(change.type, change.object))
                    seen = objects.version if not new else max(seen, new[-1].version)
                    try:
                        if objects.version <= seen:
                            await asyncio.wait_for(objects.bell.wait(), self.bookmark_s)
                    except TimeoutError:
                        if request.query.get("allowWatchBookmarks") == "true":
                            await answer.write(_line("BOOKMARK", bookmark(seen)))
        except (TimeoutError, ConnectionError):
            return answer
        finally:
            self._transports.discard(request.transport)

    @staticmethod
    def _watched(change: Change, key: Key, request: web.Request) -> bool:
        place = change.object["metadata"].get("namespace", "")
        return change.plural == key.plural and key.namespace in ("", place) and _selected(change.object, request)

    # ── writing ──

    def _write(self, request: web.Request, key: Key, sent: Document, resource: str) -> Document:
        kind, live = KINDS[key.plural], self.objects.all.get(key)
        if kind.namespaced and key.namespace not in self.namespaces:
            raise ApiError(404, "NotFound", f'namespaces "{key.namespace}" not found')
        content = request.headers["Content-Type"]
        if content == "application/apply-patch+yaml":
            if live is None:
                self._require(Right("create", resource, key.namespace))
            made = self._apply(request, key, live, sent)
        elif content == "application/strategic-merge-patch+json":
            made = applying.merge(self._existing(key), sent, schemas.of(kind.kind, kind.version))
        else:
            raise ApiError(415, "UnsupportedMediaType", f"{content} is not supported")
        self._check(made)
        if live is None:
            if key.namespace in self.terminating:
                why = f"unable to create new content in namespace {key.namespace} because it is being terminated"
                raise ApiError(403, "Forbidden", f'{key.plural} "{key.name}" is forbidden: {why}')
            if key.plural == "pods" and (why := self.refuse(made)):
                raise ApiError(403, "Forbidden", f'pods "{key.name}" is forbidden: {why}')
            return self.objects.add(key, made)
        if key.plural == "pods" and made["spec"] != live["spec"]:
            message = f'Pod "{key.name}" is invalid: spec: Forbidden: pod updates may not change fields other than image'
            raise ApiError(422, "Invalid", message)
        return self.objects.put(key, made)

    def _apply(self, request: web.Request, key: Key, live: Document | None, sent: Document) -> Document:
        kind, manager = KINDS[key.plural], request.query.get("fieldManager")
        if not manager:
            raise ApiError(400, "BadRequest", "fieldManager is required for apply patch")
        if sent.get("kind") != kind.kind or sent.get("apiVersion") != kind.version or sent["metadata"].get("name") != key.name:
            raise ApiError(400, "BadRequest", "the object does not match the URL")
        self._check(sent)
        owned, force = copy.deepcopy(self.objects.owned.get(key, {})), request.query.get("force") == "true"
        try:
            made = applying.apply(live, sent, schemas.of(kind.kind, kind.version), owned, manager, force=force)
        except applying.ConflictError as error:
            raise ApiError(409, "Conflict", f"Apply failed with 1 conflict: {error}") from error
        self.objects.owned[key] = owned
        if key.plural == "pods":
            _default(made)
        return made

    def _delete(self, key: Key, options: Document) -> web.Response:
        self._check(options)
        found = self._existing(key)
        uid = (options.get("preconditions") or {}).get("uid")
        if uid and uid != found["metadata"]["uid"]:
            raise ApiError(409, "Conflict", f"the UID in the precondition ({uid}) does not match the UID in record")
        self.objects.delete(key, options.get("gracePeriodSeconds"))
        return web.json_response(self.objects.all.get(key, found))

    @staticmethod
    def _check(document: Document) -> None:
        if wrong := schemas.mistakes(document):
            raise ApiError(400, "BadRequest", f"{document.get('kind')} cannot be handled: {'; '.join(wrong)}")


def bookmark(version: int) -> Document:
    """As the real server writes it: an empty pod, whose required fields are null."""
    meta = {"resourceVersion": str(version), "creationTimestamp": None}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": {"containers": None}, "status": {}}


def _default(pod: Document) -> None:
    """What the API server and its admission plugins fill in."""
    spec = pod["spec"]
    for name, value in (("dnsPolicy", "ClusterFirst"), ("schedulerName", "default-scheduler"), ("serviceAccountName", "default")):
        spec.setdefault(name, value)
    waits = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    if waits not in spec.setdefault("tolerations", []):
        spec["tolerations"].append(waits)
    pod.setdefault("status", {"phase": "Pending", "qosClass": "Guaranteed"})


def _selected(found: Document, request: web.Request) -> bool:
    labels = found["metadata"].get("labels") or {}
    for term in filter(None, request.query.get("labelSelector", "").split(",")):
        key, _, value = term.replace("==", "=").partition("=")
        if labels.get(key) != value:
            return False
    for term in filter(None, request.query.get("fieldSelector", "").split(",")):
        key, sign, value = re.split(r"(!=|==?)", term, maxsplit=1)
        if (applying.get(found, tuple(key.split("."))) == value) == (sign == "!="):
            return False
    return True


def _line(kind: str, found: Document) -> bytes:
    return json.dumps({"type": kind, "object": found}).encode() + b"\n"
