"""Calls of Spark Connect and SQL clients as spans, on servers that trace."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import grpc
import grpc.aio

from brickyard.domain.tracing import Attributes, Span, Tracing
from brickyard.plan.attach import Client

SERVICE = "spark.connect.SparkConnectService"
OTHER = "other"  # methods that clients make up are not told
_METHODS = frozenset(
    {
        "AddArtifacts", "AnalyzePlan", "ArtifactStatus", "CloneSession", "Config", "ExecutePlan", "FetchErrorDetails",
        "Interrupt", "ReattachExecute", "ReleaseExecute", "ReleaseSession",
    }
)  # fmt: skip
# https://opentelemetry.io/docs/specs/semconv/rpc/grpc/: what a server must call an error of its own.
_FAILURES = frozenset(
    code.value[0]
    for code in (
        grpc.StatusCode.UNKNOWN, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DATA_LOSS,
    )
)  # fmt: skip


class NoSpan:
    """Where nothing is traced."""

    def set(self, attributes: Attributes) -> None:
        """Does nothing."""

    def failed(self, error_type: str) -> None:
        """Does nothing."""


@contextlib.contextmanager
def connect_span(tracing: Tracing | None, method: str, metadata: Mapping[str, Any], context: Any, kind: Client) -> Iterator[Span]:
    """A call of Spark Connect: a client's own, or one that this server makes for a SQL client, a step of that client's call."""
    if tracing is None:
        yield NoSpan()
        return
    service, _, name = method.strip("/").rpartition("/")
    about: Attributes = {"rpc.system": "grpc", "rpc.service": SERVICE}
    about["rpc.method"] = name if service == SERVICE and name in _METHODS else OTHER
    title = f"{SERVICE}/{about['rpc.method']}"
    if kind is Client.SQL:
        with tracing.child(title, about, calls=True, late=True):
            yield NoSpan()
        return
    sent = [(key.encode(), str(metadata[key]).encode()) for key in ("traceparent", "tracestate") if key in metadata]
    ended: BaseException | None = None
    with tracing.request(title, sent, about) as span:
        try:
            yield span
        except BaseException as error:  # the caller gets it, below
            ended = error
        status = _status(ended, context)
        span.set({"rpc.grpc.status_code": status})
        if status in _FAILURES:
            span.failed(str(status))
    if ended is not None:
        raise ended


@contextlib.contextmanager
def sql_span(tracing: Tracing | None, route: str, scope: Mapping[str, Any]) -> Iterator[Span]:
    """A call of a SQL client. It has failed from status 500 on."""
    if tracing is None:
        yield NoSpan()
        return
    about: Attributes = {"http.request.method": scope["method"], "http.route": route, "url.scheme": scope.get("scheme", "http")}
    with tracing.request(f"{scope['method']} {route}", scope["headers"], about) as span:
        yield span


def _status(error: BaseException | None, context: Any) -> int:
    """The number of gRPC's status."""
    if error is None:
        return 0
    if isinstance(error, asyncio.CancelledError):
        return int(grpc.StatusCode.CANCELLED.value[0])
    if isinstance(error, grpc.aio.AbortError):
        return int(context.code().value[0])
    return int(grpc.StatusCode.UNKNOWN.value[0])
