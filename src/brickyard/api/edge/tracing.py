"""Calls of users as spans, on servers that trace."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from brickyard.api.edge.calls import Call
from brickyard.api.edge.registry import Answer, Auth, Operation
from brickyard.api.edge.routes import Routes
from brickyard.domain.errors import ApiError
from brickyard.domain.tracing import Attributes, Span, Tracing

Serve = Callable[[Scope, Receive, Send, Call | None], Awaitable[None]]


class TracedCall(Call):
    """Remembers which objects a call has changed: what loops do for them belongs to its trace."""

    def __init__(self, tracing: Tracing) -> None:
        super().__init__()
        self._tracing = tracing

    def log(
        self, operation: str, answer: Answer, failure: ApiError | None, *, status: int, seconds: float, request_id: str
    ) -> None:
        super().log(operation, answer, failure, status=status, seconds=seconds, request_id=request_id)
        self._tracing.remember(self.objects(answer).values())


def traced(tracing: Tracing, routes: Routes, serve: Serve) -> ASGIApp:
    """`serve`, with a span for each call of a user. It has the route's path: names of files and ids may be in the one that was
    sent."""

    async def traced_serve(scope: Scope, receive: Receive, send: Send) -> None:
        method, path = scope["method"], scope["path"]
        match = routes.match("GET" if method == "HEAD" else method, path, scope.get("raw_path") or path.encode())
        if match is None or match[0].auth is not Auth.USER:  # agents report all the time
            await serve(scope, receive, send, None)
            return
        operation, call = match[0], TracedCall(tracing)
        with tracing.request(f"{method} {operation.paths[0]}", scope["headers"], _asked(operation, scope)) as span:
            await serve(scope, receive, send, call)
            _answered(span, call)

    return traced_serve


def _asked(operation: Operation, scope: Scope) -> Attributes:
    return {
        "http.request.method": scope["method"],
        "http.route": operation.paths[0],
        "url.scheme": scope.get("scheme", "http"),
        "brickyard.operation": operation.name,
    }


def _answered(span: Span, call: Call) -> None:
    if call.caller.user_id:
        span.set({"user.id": call.caller.user_id})
    if call.error_code:
        span.set({"brickyard.error_code": call.error_code})
    if call.status:
        span.set({"http.response.status_code": call.status})
    if not call.status:
        span.failed("disconnected")
    elif call.status >= 500:
        span.failed(call.error_code or str(call.status))
