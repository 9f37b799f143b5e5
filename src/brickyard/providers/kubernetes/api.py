"""Calls of the Kubernetes API. lightkube opens the connection: it knows kubeconfigs, TLS, and tokens that are renewed.

Its own watch has no bookmarks, no limit for silence and no way to stop it, and its models hold every field of every object. So
requests are paths and JSON, and `objects.py` says what is read of the answers. One call is one request: whoever calls decides
what is repeated.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import msgspec
from lightkube import KubeConfig, SingleConfig
from lightkube.config.client_adapter import Client, ConnectionParams
from lightkube.core.exceptions import ConfigError

from brickyard.domain.decoding import Decoders
from brickyard.providers.base import ProviderError, SetupError, TransientError
from brickyard.providers.kubernetes.objects import Event, MachineList, Pod, PodList, Review, Status, Table
from brickyard.providers.kubernetes.refusals import provider_error

_OBJECTS = Decoders(MachineList, Pod, PodList, Review, Table, object, Any)


_decode_event = msgspec.json.Decoder(Event).decode
_decode_status = msgspec.json.Decoder(Status).decode


CALL_S = 10.0  # for one answer
SILENCE_S = 180.0  # a watch is sent a bookmark about every minute, and the first one after two
KEEPALIVE_S, PROBES_S, PROBES = 30, 10, 3  # so a lost connection shows within a minute, also while nothing is sent
MANAGER = "brickyard"
APPLY, MERGE = "application/apply-patch+yaml", "application/strategic-merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"

T = TypeVar("T")
Params = Mapping[str, str]


class RefusedError(Exception):
    """The API server's answer is no success."""

    def __init__(self, code: int, reason: str, message: str, *, retry_after_s: float = 0.0) -> None:
        super().__init__(message or f"HTTP {code}")
        self.code = code
        self.reason = reason
        self.retry_after_s = retry_after_s


class UnreachableError(Exception):
    """No complete answer came."""


def connected(*, kubeconfig: str, context: str) -> tuple[httpx2.Client, str]:
    """A connection and its namespace. `kubeconfig`: a file; empty: the pod's service account, $KUBECONFIG or ~/.kube/config.
    Raises SetupError."""
    try:
        config = _config(kubeconfig, context)
        client = Client(config, ConnectionParams(timeout=httpx2.Timeout(CALL_S)))
    except (ConfigError, OSError, KeyError, TypeError, ValueError, AssertionError, msgspec.MsgspecError) as error:
        where = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config (and this is no pod with a service account)"
        raise SetupError(
            f"kubernetes: no cluster is configured: {where}: {error or type(error).__name__}. "
            "Set kubernetes.kubeconfig and kubernetes.context."
        ) from error
    return client, config.namespace


def _config(kubeconfig: str, context: str) -> SingleConfig:
    if kubeconfig or context:
        found = KubeConfig.from_file(Path(kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config").expanduser())
        one = found.get(context or None)
    else:
        one = KubeConfig.from_env().get()
    if one is None:
        raise ConfigError("no context is selected")
    return one


class Api:
    """Safe to use from several threads. Raises RefusedError and UnreachableError."""

    def __init__(self, client: httpx2.Client) -> None:
        self._client = client

    def close(self) -> None:
        self._client.close()

    def get(self, path: str, kind: type[T], *, params: Params | None = None, accept: str = "application/json") -> T:
        return self._call("GET", path, kind, params=params, headers={"Accept": accept})

    def create(self, path: str, document: Mapping[str, Any], kind: type[T]) -> T:
        return self._call("POST", path, kind, document=document, params={"fieldManager": MANAGER})

    def apply(self, path: str, document: Mapping[str, Any], kind: type[T]) -> T:
        """Server-side apply: makes the object, or makes it so again."""
        params = {"fieldManager": MANAGER, "force": "true"}
        return self._call("PATCH", path, kind, document=document, params=params, headers={"Content-Type": APPLY})

    def merge(self, path: str, document: Mapping[str, Any]) -> None:
        """A strategic merge: adds to what there is. RefusedError with code 404 if there is nothing."""
        self._call("PATCH", path, Any, document=document, params={"fieldManager": MANAGER}, headers={"Content-Type": MERGE})

    def delete(self, path: str, options: Mapping[str, Any]) -> None:
        self._call("DELETE", path, Any, document={"apiVersion": "v1", "kind": "DeleteOptions", **options})

    def watch(self, path: str, *, params: Params, connected: Callable[[Callable[[], None]], None]) -> Iterator[Event]:
        """The events of one watch, until the server ends it. `connected` receives a function that ends it from any thread."""
        timeout = httpx2.Timeout(CALL_S, read=SILENCE_S)
        request = self._client.build_request("GET", path, params={**params, "watch": "1"}, timeout=timeout)
        with _complete(), contextlib.closing(self._client.send(request, stream=True)) as answer:
            if answer.is_error:
                answer.read()
                raise _refused(answer)
            _keep_alive(answer)
            connected(lambda: _cut(answer))
            for line in answer.iter_lines():
                if line:
                    yield _decode_event(line)

    def _call(
        self,
        method: str,
        path: str,
        kind: type[T],
        *,
        params: Params | None = None,
        headers: Mapping[str, str] | None = None,
        document: Mapping[str, Any] | None = None,
    ) -> T:
        body = None if document is None else msgspec.json.encode(document)
        sent = {"Content-Type": "application/json", **(headers or {})} if body else headers
        with _complete():
            answer = self._client.request(method, path, params=params, headers=sent, content=body)
            if not answer.is_success:
                raise _refused(answer)
            return _OBJECTS.decode(answer.content, kind)


@contextlib.contextmanager
def _complete() -> Iterator[None]:
    try:
        yield
    except httpx2.TimeoutException as error:
        raise UnreachableError("the Kubernetes API server does not answer in time") from error
    except (httpx2.HTTPError, httpx2.StreamError) as error:
        raise UnreachableError(f"the Kubernetes API server cannot be reached: {error or type(error).__name__}") from error
    except msgspec.MsgspecError as error:
        raise UnreachableError(f"the Kubernetes API server's answer is no complete one: {error}") from error
    except (OSError, ConfigError) as error:  # a token's file, or the program that makes tokens
        raise UnreachableError(f"cannot get the credentials for the Kubernetes API server: {error}") from error


def _socket_of(answer: httpx2.Response) -> socket.socket | None:
    stream = answer.extensions.get("network_stream")
    return stream.get_extra_info("socket") if stream is not None else None


def _keep_alive(answer: httpx2.Response) -> None:
    if (sock := _socket_of(answer)) is not None:
        with contextlib.suppress(OSError, AttributeError):  # not every system has all of them
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_S)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBES_S)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)


def _cut(answer: httpx2.Response) -> None:
    if (sock := _socket_of(answer)) is not None:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


def _refused(answer: httpx2.Response) -> RefusedError:
    try:
        status = _decode_status(answer.content)
    except msgspec.MsgspecError:  # a proxy's page
        status = Status()
    try:
        retry_after_s = float(answer.headers.get("Retry-After", ""))
    except ValueError:
        retry_after_s = 0.0
    return RefusedError(answer.status_code, status.reason or "", status.message or "", retry_after_s=retry_after_s)


def as_provider_error(error: RefusedError | UnreachableError, doing: str) -> ProviderError:
    """What the server should do about it."""
    text = f"{doing}: {error}"
    if isinstance(error, UnreachableError):
        return TransientError(text)
    return provider_error(error.code, str(error), text)
