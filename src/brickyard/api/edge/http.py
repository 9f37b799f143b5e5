"""The edge: a plain ASGI application that serves the operations of the registry.

It handles a request in these steps: find the operation (one dictionary lookup), authenticate, decode, call the handler, encode.
There is no middleware: whatever every request needs is in this module.
"""

from __future__ import annotations

import asyncio
import hmac
import itertools
import random
import secrets
import time
from collections.abc import Awaitable, Mapping
from functools import partial
from typing import Any

import msgspec
import structlog
from starlette.types import ASGIApp, Receive, Scope, Send

from brickyard.api.context import ApiContext
from brickyard.api.edge.authentication import Authenticator, address_of, bearer_of
from brickyard.api.edge.bodies import Disconnected, drained, has_body, read
from brickyard.api.edge.bounded import UNCOUNT
from brickyard.api.edge.calls import ANONYMOUS, Call
from brickyard.api.edge.decode import RequestDecoder, Unread
from brickyard.api.edge.delivering import Delivering
from brickyard.api.edge.dialects import JSON, Reply
from brickyard.api.edge.forms import form_boundary, form_parts, stream_parts
from brickyard.api.edge.hosts import Hosts
from brickyard.api.edge.meaning import Meaning
from brickyard.api.edge.measures import RequestMetrics
from brickyard.api.edge.ratelimits import RateLimits
from brickyard.api.edge.registry import Answer, Auth, Operation
from brickyard.api.edge.routes import Routes
from brickyard.api.edge.streaming import Stream, send_pieces, while_admitted
from brickyard.api.edge.tracing import traced
from brickyard.api.edge.waiting import Waiting
from brickyard.api.edge.websockets import refusing
from brickyard.api.edge.whole import WHOLE, Whole
from brickyard.domain.caller import Caller
from brickyard.domain.errors import (
    ApiError,
    EndpointNotFound,
    RequestLimitExceeded,
    StorageFull,
    Unauthenticated,
    is_full_disk,
)
from brickyard.features.audit.service import Audited
from brickyard.plan import admission
from brickyard.store.companion import beside
from brickyard.store.patience import is_patient, patient, patiently

NO_CONTENT = 204
# Browsers show and run no answer of the API: it may repeat what its caller has sent.
_NOSNIFF = (b"x-content-type-options", b"nosniff")
_SAVED = (b"content-disposition", b"attachment")
_SAVED_TYPES = frozenset({b"application/json", b"application/x-ndjson", b"application/octet-stream"})

_log = structlog.get_logger(__name__)
_encode = msgspec.json.Encoder().encode


class InternalError(ApiError):
    """A bug in the server; the log has the details."""


class Edge:
    """The ASGI application."""

    def __init__(
        self,
        *,
        context: ApiContext,
        authenticator: Authenticator,
        operations: tuple[Operation, ...],
        mounts: Mapping[str, ASGIApp],
    ) -> None:
        self._context = context
        self._authenticator = authenticator
        self._routes = Routes(operations)
        self._decoders = {
            operation.name: RequestDecoder(operation.request, document=operation.document) for operation in operations
        }
        self._meanings = {each.name: Meaning(each, self._decoders[each.name]) for each in operations}
        self._mounts = tuple(sorted(mounts.items(), key=lambda mount: -len(mount[0])))  # the longest prefix wins
        self._prefixes = tuple(mounts)
        self._rate_limits = RateLimits(context.rate_limits, operations)
        self._metrics = RequestMetrics(registry=context.metrics)
        self._request_prefix = secrets.token_hex(6)
        self._request_numbers = itertools.count(1)
        self._workspace = (b"x-databricks-org-id", context.workspace_id.encode())
        self._json = (b"content-type", JSON.encode())
        fixed = (self._workspace, self._json, _NOSNIFF, _SAVED)
        self._head = b"".join(b"%s: %s\r\n" % each for each in fixed) + b"x-request-id: "
        self._serve: ASGIApp = self._http if context.tracing is None else traced(context.tracing, self._routes, self._http)
        self._hosts = Hosts(context.host_names, context.own_hosts, context.external_url)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "lifespan":
            await _lifespan(receive, send)
            return
        if scope["path"].startswith(self._prefixes):
            await self._mount(scope["path"])(scope, receive, send)
        elif kind == "http":
            await self._serve(scope, receive, send)
        elif kind == "websocket":
            await receive()
            error = EndpointNotFound(f"There is no websocket at {scope['path'][:500]}")
            request_id = self._request_id()
            reply = self._routes.dialect(scope["path"]).reply(error, request_id)
            await self._send(refusing(send), reply, request_id, head=False)

    def _request_id(self) -> str:
        return f"{self._request_prefix}-{next(self._request_numbers):x}"

    async def _http(self, scope: Scope, receive: Receive, send: Send, call: Call | None = None) -> None:
        started = time.perf_counter()
        method, path = scope["method"], scope["path"]
        request_id = self._request_id()
        wanted = "GET" if method == "HEAD" else method
        match = self._routes.match(wanted, path, scope.get("raw_path") or path.encode())
        name, call, failure = "none", call or Call(), None
        audited = self._audited(match[0], scope, request_id, call) if match is not None and match[0].changes else None
        dialect = match[0].dialect if match is not None else self._routes.dialect(path)
        try:
            if match is None:
                answer: Answer = self._unmatched(scope)
            else:
                name = match[0].name
                if audited is None:
                    answer = await self._answer(match[0], match[1], scope, receive, call)
                else:
                    with beside(audited):
                        answer = await self._answer(match[0], match[1], scope, receive, call)
                    audited.succeeded(_made(answer))
        except ApiError as error:
            failure = error
        except Disconnected:
            return
        except Exception as error:
            failure = _failure(error, request_id, name)
        if failure is not None:
            failure = failure if audited is None else audited.failed(failure)
            call.error_code = failure.error_code
            answer = dialect.reply(failure, request_id)
        try:
            whole = scope.pop(WHOLE, None)  # it refers to the scope, which would be left to the cyclic collector
            head, lost = method == "HEAD", failure is not None or call.client_is_gone
            call.status = status = await self._send(send, answer, request_id, head=head, whole=None if head else whole)
            await call.settle(lost=lost)
            seconds = time.perf_counter() - started
            self._metrics.observe(name, status, seconds)
            if match is not None and match[0].changes:
                call.log(name, _made(answer), failure, status=status, seconds=seconds, request_id=request_id)
            if isinstance(answer, Stream) and method != "HEAD":
                admit = partial(self._authenticator.admit, self._authenticator.source(scope))
                await send_pieces(while_admitted(answer, admit), receive, send)
        finally:
            failure = None  # its traceback refers to this frame, as this frame does to it
            if isinstance(answer, Stream):
                answer.close()

    def _audited(self, operation: Operation, scope: Scope, request_id: str, call: Call) -> Audited:
        return self._context.services.audit.begin(
            operation.audited_as or operation.name,
            status=operation.statuses[0],
            address=address_of(scope),
            request_id=request_id,
            asked=lambda: (call.caller, call.request),
            logs_in=operation.logs_in,
        )

    def _answer(
        self, operation: Operation, parameters: dict[str, str] | None, scope: Scope, receive: Receive, call: Call
    ) -> Awaitable[Answer]:
        answer = self._answer_patiently if operation.arrives(scope["headers"]) else self._answer_admitted
        return answer(operation, parameters, scope, receive, call)

    async def _answer_patiently(
        self, operation: Operation, parameters: dict[str, str] | None, scope: Scope, receive: Receive, call: Call
    ) -> Answer:
        waiting = Waiting(receive)
        with patient(waiting):
            return await self._answer_admitted(operation, parameters, scope, waiting.receive, call)

    def _caller(self, operation: Operation, scope: Scope) -> Awaitable[Caller]:
        return patiently(lambda: self._admitted(operation, scope)) if is_patient() else self._admitted(operation, scope)

    async def _admitted(self, operation: Operation, scope: Scope) -> Caller:
        """The user who calls, and may now."""
        caller = await self._authenticator.of_request(scope)
        self._rate_limits.take(operation.name, caller)
        return caller

    async def _answer_admitted(
        self, operation: Operation, parameters: dict[str, str] | None, scope: Scope, receive: Receive, call: Call
    ) -> Answer:
        if operation.heeds_lists:
            await self._authenticator.admit(self._authenticator.source(scope))
        return await self._answer_now(operation, parameters, scope, receive, call)

    async def _answer_now(
        self, operation: Operation, parameters: dict[str, str] | None, scope: Scope, receive: Receive, call: Call
    ) -> Answer:
        caller = ANONYMOUS
        if operation.auth is Auth.USER:
            caller = call.caller = await self._caller(operation, scope)
            if (meaning := self._meanings[operation.name]).checks:
                meaning.check(scope["query_string"], scope["headers"])
        elif operation.auth is Auth.METRICS:
            self._check_metrics_token(bearer_of(scope["headers"]), address_of(scope))
        if operation.surroundings or operation.from_headers:
            parameters = await self._with_surroundings(operation, parameters or {}, scope, caller)
        decoder, unread = self._decoders[operation.name], None
        if operation.upload is not None and (boundary := form_boundary(scope["headers"])):
            upload = operation.upload
            return await drained(receive, lambda chunks: upload(self._context, caller, stream_parts(chunks, boundary)))
        if operation.reads_body:
            raw = await read(scope, receive, operation.body_limit)
            self._admit(operation)
            if operation.form is not None and (boundary := form_boundary(scope["headers"])):
                raw, parameters = b"", {**operation.form(form_parts(raw, boundary)), **(parameters or {})}
            request, unread = _decoded(operation, decoder, raw, parameters)
        else:
            request = await _of_query_or_body(operation, decoder, scope, receive, parameters)
        if operation.auth is Auth.AGENT:
            self._check_agent_token(scope, request.instance_id)
        call.request = request
        if operation.streams:
            return await drained(receive, lambda chunks: operation.handler(self._context, caller, request, chunks))
        if operation.looks and (pause_s := admission.pause_s(self._context.server.lag_s())):
            await asyncio.sleep(pause_s)
        call.delivering = Delivering(receive) if operation.tells_delivery else None
        answer = operation.handler(self._context, caller, request)
        if unread and operation.unread is not None:
            return operation.unread(await answer, unread)
        return await (self._authenticator.throttled(address_of(scope), answer) if operation.logs_in else answer)

    async def _with_surroundings(
        self, operation: Operation, parameters: dict[str, str], scope: Scope, caller: Caller
    ) -> dict[str, str]:
        """The parameters, and what the operation takes from the headers and the connection."""
        if operation.with_base_url:
            if operation.compares_base_url:
                url = await self._hosts.base_url(scope, vouched=True)
            else:
                url = await self._hosts.shown_url(scope, vouched=caller is not ANONYMOUS)
            parameters = {**parameters, "base_url": url}
        if operation.with_source:
            parameters = {**parameters, "source": self._authenticator.source(scope)}
        return {**parameters, **_of_headers(operation.from_headers, scope)}

    def _admit(self, operation: Operation) -> None:
        """Raises RequestLimitExceeded while the server cannot keep up: better now than once the client has timed out. Calls that
        read or end something are always accepted."""
        if operation.makes_work and admission.refused(lag_s := self._context.server.lag_s(), random.random()):  # noqa: S311 - no secret
            raise RequestLimitExceeded(
                f"The workspace is overloaded: earlier requests have been waiting for {lag_s:.0f} s. Try again in a moment."
            )

    def _check_agent_token(self, scope: Scope, instance_id: str) -> None:
        if not self._context.agents.authenticate(instance_id, bearer_of(scope["headers"])):
            raise Unauthenticated("This is not the token of that instance.")
        if uncount := scope.get(UNCOUNT):
            uncount()

    def _check_metrics_token(self, bearer: str, address: str) -> None:
        wanted, throttle = self._context.metrics_token, self._authenticator.throttle
        if not wanted:
            return
        throttle.admit(address, bearer)
        if hmac.compare_digest(bearer.encode(), wanted.encode()):
            throttle.accepted(bearer)
        else:
            if bearer:
                throttle.failed(address, bearer)
            raise Unauthenticated("/metrics requires the metrics_token setting as a bearer token.")

    def _mount(self, path: str) -> ASGIApp:
        return next(app for prefix, app in self._mounts if path.startswith(prefix))

    def _unmatched(self, scope: Scope) -> Reply:
        method, path = scope["method"], scope["path"]
        if method == "OPTIONS":
            methods = self._routes.methods(path, scope.get("raw_path") or path.encode())
            if methods:
                allowed = [*methods, "HEAD", "OPTIONS"] if "GET" in methods else [*methods, "OPTIONS"]
                return Reply(status=204, body=b"", headers=(("allow", ", ".join(allowed)),))
        raise EndpointNotFound(f"No API found for '{method} {path[:500]}'")

    async def _send(self, send: Send, answer: Answer, request_id: str, *, head: bool, whole: Whole | None = None) -> int:
        """Sends the answer and returns its status. For a stream, sends everything except its pieces. `whole` is `WHOLE` of the
        scope: JSON goes through it."""
        status = 200
        if whole is not None and (json := _whole_json(answer)) is not None:
            lines, body, status = json
            head_lines = b"%s%s\r\n%scontent-length: %d\r\n" % (self._head, request_id.encode(), lines, len(body))
            await whole(status, head_lines, body)
            return status
        extra: tuple[tuple[bytes, bytes], ...] = ()
        content_type = self._json
        if isinstance(answer, Reply | Stream):
            status = answer.status
            body = answer.body if isinstance(answer, Reply) else b""
            content_type = (b"content-type", answer.content_type.encode())
            extra = tuple((key.encode(), value.encode()) for key, value in answer.headers)
        else:
            body = _json(answer)
        headers = [self._workspace, (b"x-request-id", request_id.encode()), *extra]
        if _NOSNIFF not in extra:
            headers.append(_NOSNIFF)
        if content_type[1] in _SAVED_TYPES:
            headers.append(_SAVED)
        goes_on = isinstance(answer, Stream)
        if goes_on:
            headers.append(content_type)
        elif status != NO_CONTENT:
            headers += [content_type, (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        if head or not goes_on:
            await send({"type": "http.response.body", "body": b"" if head else body})
        return status


def _json(answer: msgspec.Struct | bytes | None) -> bytes:
    """The body of an answer that is JSON."""
    if isinstance(answer, bytes):
        return answer
    return b"{}" if answer is None else _encode(answer)


def _whole_json(answer: Answer) -> tuple[bytes, bytes, int] | None:
    """The lines of its own headers, the body and the status of an answer that is complete and JSON. None for others, and for one
    whose headers would have to be checked."""
    if isinstance(answer, Stream):
        return None
    if not isinstance(answer, Reply):
        return b"", _json(answer), 200
    plain = all(value.isascii() and value.isprintable() for _, value in answer.headers)
    if answer.status == NO_CONTENT or answer.content_type != JSON or not plain:
        return None
    return "".join(f"{key}: {value}\r\n" for key, value in answer.headers).encode(), answer.body, answer.status


def _made(answer: Answer) -> Answer:
    """The object that an answer shows."""
    return answer.made if isinstance(answer, Reply) and answer.made is not None else answer


def _failure(error: Exception, request_id: str, operation: str) -> ApiError:
    """The error for the client when no service has raised a proper one."""
    if is_full_disk(error):
        return StorageFull("The server's disk is full: it has no free bytes or no free inodes. Free space there.")
    _log.error("A request failed", request_id=request_id, operation=operation, exc_info=error)
    return InternalError(f"The server failed to answer this request. Its log says why, under request id {request_id}.")


def _decoded(
    operation: Operation, decoder: RequestDecoder, raw: bytes, parameters: dict[str, str] | None
) -> tuple[Any, list[Unread] | None]:
    """The request of a body; of one that is only tried, also what of it cannot be decoded."""
    if operation.urlencoded:
        return decoder.query(raw, parameters), None
    try:
        return decoder.body(raw, parameters), None
    except ApiError:
        found = decoder.tried(raw) if operation.unread is not None else None
        if found is None:
            raise
        return found


async def _of_query_or_body(
    operation: Operation, decoder: RequestDecoder, scope: Scope, receive: Receive, parameters: dict[str, str] | None
) -> Any:
    """The request from the query and, if the call has one, the body."""
    if operation.takes_body and has_body(scope) and (raw := await read(scope, receive, operation.body_limit)):
        return decoder.query_and_body(scope["query_string"], raw, parameters)
    return decoder.query(scope["query_string"], parameters)


def _of_headers(wanted: Mapping[str, str], scope: Scope) -> dict[str, str]:
    """Request fields that are sent as headers. If a header is repeated, the last one counts."""
    sent = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}
    return {field: sent[header] for header, field in wanted.items() if header in sent}


async def _lifespan(receive: Receive, send: Send) -> None:
    """Acknowledges ASGI lifespan events; the composition root does the actual starting and stopping."""
    while True:
        message: dict[str, Any] = dict(await receive())
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
