"""The Spark Connect gateway: one port for the Spark Connect servers of all clusters.

A client names its cluster in the metadata `x-databricks-cluster-id` and authenticates with a bearer token of the workspace. The
gateway checks both and relays the call's bytes to the cluster's driver, using the cluster's own token. The first call starts the
driver's Spark Connect server.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Protocol
from urllib.parse import quote, unquote

import grpc
import grpc.aio
import structlog

from brickyard.api.edge.authentication import Authenticator
from brickyard.clusters.attach.connectclients import ConnectClient, Session
from brickyard.clusters.attach.service import AttachService
from brickyard.domain.audit import CONNECT_BEGUN, CONNECT_ENDED
from brickyard.domain.caller import Caller
from brickyard.domain.errors import (
    ApiError,
    InvalidParameterValue,
    InvalidState,
    PermissionDenied,
    QuotaExceeded,
    RequestLimitExceeded,
    ResourceDoesNotExist,
    TemporarilyUnavailable,
    Unauthenticated,
)
from brickyard.domain.notes import Note, unnoted
from brickyard.domain.printable import printable
from brickyard.domain.quotas import Occupancy, Quota
from brickyard.domain.sources import FORWARDED, source_of
from brickyard.domain.tracing import Span, Tracing
from brickyard.gateway.endpoints import Endpoint, Endpoints
from brickyard.gateway.errors import GatewayError
from brickyard.gateway.relay import ONE_TO_ONE, ClientGone, Metadata, Relay, Saw
from brickyard.gateway.requests import FINISHING, INTERRUPT, MAX_TEXT, RELEASE, interruption, sender
from brickyard.gateway.tracing import connect_span
from brickyard.plan.attach import Client

CLUSTER_ID = "x-databricks-cluster-id"
USER = "x-brickyard-user"  # tells the driver who calls; it matters if users are kept apart (UserGuard.java)
MAX_MESSAGE = 128 << 20  # bytes: the limit of Spark's own clients and servers
CALLS = Quota("calls in progress", total=1_000, share=250, reserve=100, advice="Wait until one has ended.", admin_share=250)
MAX_CALLS = CALLS.total + 100  # with those whose caller is not known yet
MAX_RELAYS = 100  # idle connections to drivers that are kept open
NO_TOKEN = "No token was sent. Put a token of the workspace into the URL: sc://HOST:PORT/;token=TOKEN;..."  # noqa: S105 - none
CHECK_S = 3.0  # between two looks at whether the caller of a call in progress may still make it
INTERRUPT_S = 5.0  # how long a driver may take to interrupt an operation
PATIENCE_S = 240.0  # how long a call waits for a cluster to start; Spark's clients retry after that
_WINDOW = 1 << 20  # bytes of a stream in flight to us; larger windows were no faster
# Client metadata that is not relayed: it is for the gateway, or belongs to the connection.
_OWN = frozenset({"authorization", CLUSTER_ID, USER, "user-agent", "te", "content-type", "host", "grpc-accept-encoding"})
_STATUSES: dict[type[ApiError], grpc.StatusCode] = {
    Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
    PermissionDenied: grpc.StatusCode.PERMISSION_DENIED,
    ResourceDoesNotExist: grpc.StatusCode.NOT_FOUND,
    InvalidParameterValue: grpc.StatusCode.INVALID_ARGUMENT,
    InvalidState: grpc.StatusCode.FAILED_PRECONDITION,
    QuotaExceeded: grpc.StatusCode.RESOURCE_EXHAUSTED,
    RequestLimitExceeded: grpc.StatusCode.RESOURCE_EXHAUSTED,
    TemporarilyUnavailable: grpc.StatusCode.UNAVAILABLE,
}
_BOTH = [
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.max_send_message_length", MAX_MESSAGE),
    ("grpc.http2.lookahead_bytes", _WINDOW),
    # Fewer, larger frames: a sixth less work per byte.
    ("grpc.http2.max_frame_size", 256 << 10),
    ("grpc.experimental.tcp_read_chunk_size", 1 << 20),
    ("grpc.experimental.tcp_min_read_chunk_size", 256 << 10),
    ("grpc.experimental.tcp_max_read_chunk_size", 4 << 20),
    ("grpc.http2.bdp_probe", 0),  # it grows windows to many MiB for a fast reader, and slow ones then have them too
]
_SERVER = [
    *_BOTH,
    ("grpc.so_reuseport", 0),  # two servers must not share the port unknowingly
    ("grpc.max_concurrent_streams", 200),  # per client
    # Detects vanished clients, so that their calls are cancelled.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.max_metadata_size", 32 << 10),
    ("grpc.server_handshake_timeout_ms", 10_000),
]
_CHANNEL = [*_BOTH, ("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0), ("grpc.enable_http_proxy", 0)]

log = structlog.get_logger(__name__)


class Clients(Protocol):
    """Whose connections a gRPC server has, and what for. `peer` is gRPC's name for a connection."""

    kind: Client

    def address(self, peer: str) -> str:
        """The client's address; "" if unknown. Raises TemporarilyUnavailable for a connection that has gone already."""
        ...

    def known(self, peer: str) -> None:
        """The client has shown a valid token."""
        ...


class Direct:
    """Clients that call the gateway's own port."""

    kind = Client.NOTEBOOKS

    def address(self, peer: str) -> str:
        return address_in(peer)[0]

    def known(self, peer: str) -> None:
        pass


class ConnectGateway:
    """The gRPC servers. `credentials` makes those of one port; None: without TLS."""

    def __init__(
        self,
        *,
        authenticator: Authenticator,
        attach: AttachService,
        credentials: Callable[[], grpc.ServerCredentials] | None = None,
        may_start: bool = False,
        patience_s: float = PATIENCE_S,
        note: Note = unnoted,
        tracing: Tracing | None = None,
    ) -> None:
        self._note = note
        self._tracing = tracing
        self._authenticator = authenticator
        self._endpoints = Endpoints(attach=attach, patience_s=patience_s, may_start=may_start, note=note)
        self._clients = attach.connect_clients
        self._users = attach.session_users
        self._credentials = credentials
        self._relays: dict[str, Relay] = {}
        self._calls = Occupancy()  # in progress
        self._servers: list[grpc.aio.Server] = []
        self.port = 0  # its own; 0: none

    async def start(self, host: str, port: int) -> None:
        """Serves on its own port there; port 0 picks a free one. Raises GatewayError."""
        self.port = await self.serve_at(host, port, clients=Direct())

    async def serve_at(self, host: str, port: int, *, clients: Clients) -> int:
        """Serves those clients at that address, too. Returns the port. Raises GatewayError."""
        server = grpc.aio.server(handlers=[_Handler(self, clients)], options=_SERVER, maximum_concurrent_rpcs=MAX_CALLS)
        address = f"{_bracketed(host)}:{port}"
        try:
            if self._credentials is None:
                found = server.add_insecure_port(address)
            else:
                found = server.add_secure_port(address, self._credentials())
        except RuntimeError as error:
            raise GatewayError(
                f"Spark Connect cannot listen on {address}: the port is taken, or is not permitted. Choose another with "
                "--connect-port, or 0 for none."
            ) from error
        await server.start()
        self._servers.append(server)
        return found

    async def stop(self) -> None:
        """Ends all calls at once; clusters and their sessions keep running."""
        servers, self._servers = self._servers, []
        await asyncio.gather(*(server.stop(None) for server in servers))
        relays, self._relays = list(self._relays.values()), {}
        await asyncio.gather(*(relay.close() for relay in relays))

    async def serve(self, method: str, context: Any, clients: Clients) -> bytes:
        """Handles a client's call, from its credentials to its status. Returns the answer of calls that have exactly one."""
        metadata = _metadata(context)
        with connect_span(self._tracing, method, metadata, context, clients.kind) as span:
            return await self._serve(method, context, clients, metadata, span)

    async def _serve(self, method: str, context: Any, clients: Clients, metadata: dict[str, Any], span: Span) -> bytes:
        left = contextlib.ExitStack()
        try:
            address = clients.address(context.peer())
            source = source_of(address, forwarded=any(key.encode() in FORWARDED for key in metadata))
            await self._authenticator.admit(source)
            caller = await self._caller(context, address=address)
            clients.known(context.peer())
            if clients.kind is not Client.SQL:  # SQL's sessions and statements have quotas, and a statement takes several calls
                left.enter_context(self._calls.enter(CALLS, caller, error=QuotaExceeded))
            endpoint = await self._find(
                caller, _cluster_id(metadata), clients.kind, finishes=method in FINISHING, address=address
            )
            span.set({"user.id": caller.user_id, "brickyard.cluster.id": endpoint.cluster_id})
            passed_on = _passed_on(metadata, endpoint, caller.user_name)
            interrupts: list[bytes] = []

            async def saw(request: bytes) -> None:
                await self._saw(caller, address, endpoint, method, request)
                if (interrupt := interruption(method, request)) is not None:
                    interrupts.append(interrupt)

            work = self._pass_on(method, context, passed_on, endpoint, saw)
            try:
                return await self._while_allowed(work, context, clients.kind, endpoint.cluster_id, source)
            except (Unauthenticated, PermissionDenied):
                await self._interrupt(endpoint, passed_on, interrupts)
                raise
        except ApiError as error:
            code = next((code for kind, code in _STATUSES.items() if isinstance(error, kind)), grpc.StatusCode.INTERNAL)
            await context.abort(code, error.message)
        finally:
            left.close()
        raise AssertionError("abort raises")

    async def _caller(self, context: Any, *, address: str = "") -> Caller:
        """Who calls: by the credentials of the call, or, of one that this server makes for somebody, as its context says."""
        known: Callable[[], Awaitable[Caller]] | None = getattr(context, "caller", None)
        if known is not None:
            return await known()
        return await self._authenticator.of_metadata(_metadata(context), address=address, missing=NO_TOKEN)

    async def _while_allowed(
        self, work: Coroutine[Any, Any, bytes], context: Any, kind: Client, cluster_id: str, source: str
    ) -> bytes:
        """The result of a call in progress. Raises ApiError, and ends the call, when its token is no longer valid, its user may
        no longer attach to the cluster, or IP access lists keep its source out. A database that is away ends nothing."""
        call = asyncio.ensure_future(work)
        try:
            while not (await asyncio.wait({call}, timeout=CHECK_S))[0]:
                try:
                    await self._authenticator.admit(source)
                    caller = await self._caller(context)
                    await self._find(caller, cluster_id, kind, finishes=True)
                except (Unauthenticated, PermissionDenied):
                    raise
                except ApiError:
                    continue
            return call.result()
        finally:
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)

    async def _interrupt(self, endpoint: Endpoint, passed_on: Metadata, requests: list[bytes]) -> None:
        """Ends what a call that may not go on has begun: Spark keeps an operation for minutes, for its client to come back."""
        relay = await self._relay(endpoint)
        for request in requests:
            try:
                await relay.send(INTERRUPT, request, passed_on, timeout_s=INTERRUPT_S)
            except grpc.aio.AioRpcError as error:
                log.warning("operation_not_interrupted", cluster_id=endpoint.cluster_id, why=error.details())

    async def _find(self, caller: Caller, cluster_id: str, kind: Client, *, finishes: bool, address: str = "") -> Endpoint:
        try:
            return await self._endpoints.find(caller, cluster_id, client=kind, finishes=finishes, address=address)
        except ApiError:
            raise
        except Exception as error:
            log.exception("connect_failed", cluster_id=cluster_id)
            raise ApiError("The server failed to find the cluster. Its log says why.") from error

    async def _saw(self, caller: Caller, address: str, endpoint: Endpoint, method: str, request: bytes) -> None:
        """Records whose session it is, with the driver and in the audit log. Raises ApiError."""
        if (found := sender(method, request)) is not None:
            user = _named(caller.user_name) if endpoint.users_apart else found.user
            session = Session(endpoint.cluster_id, user, found.session_id)
            if len(found.user) >= MAX_TEXT:  # it was cut, and the driver would know the session by another name
                raise InvalidParameterValue(f"user_id has {MAX_TEXT} characters or more.")
            await self._users.tell(endpoint.driver, session, caller.user_name)
            objects = {"cluster_id": endpoint.cluster_id, "session_id": printable(found.session_id)}
            if method == RELEASE:
                if self._clients.ended(session):
                    self._note(CONNECT_ENDED, caller, address=address, **objects)
            elif self._clients.saw(session, ConnectClient(caller.user_name, found.client_type)):
                self._note(CONNECT_BEGUN, caller, address=address, **objects)

    async def _pass_on(self, method: str, context: Any, passed_on: Metadata, endpoint: Endpoint, saw: Saw) -> bytes:
        try:
            relay = await self._relay(endpoint)
            if method in ONE_TO_ONE:
                return await relay.call(method, context, passed_on, saw)
            await relay.stream(method, context, passed_on, saw)
        except grpc.aio.AioRpcError as error:
            await self._fail(context, endpoint, error)
        except ClientGone:
            pass  # nobody is left to answer
        return b""

    async def _relay(self, endpoint: Endpoint) -> Relay:
        if endpoint.address not in self._relays and len(self._relays) >= MAX_RELAYS:
            await self._drop_idle()
        relay = self._relays.get(endpoint.address)
        if relay is None:
            relay = self._relays[endpoint.address] = Relay(grpc.aio.insecure_channel(endpoint.address, options=_CHANNEL))
        return relay

    async def _drop_idle(self) -> None:
        idle = {address: relay for address, relay in self._relays.items() if not relay.active}
        self._relays = {address: relay for address, relay in self._relays.items() if address not in idle}
        await asyncio.gather(*(relay.close() for relay in idle.values()))

    async def _fail(self, context: Any, endpoint: Endpoint, error: grpc.aio.AioRpcError) -> None:
        """Ends the call with the driver's status. Errors that only the connection to the driver can cause get our own message."""
        code, details = error.code(), error.details() or ""
        if code is grpc.StatusCode.UNAVAILABLE:
            self._endpoints.forget(endpoint)
            details = f"The driver of cluster {endpoint.cluster_id} does not answer ({details}). Look at its state and events."
        elif code is grpc.StatusCode.UNAUTHENTICATED:
            # The driver refused our token: another driver has taken over the port of one that is gone.
            self._endpoints.forget(endpoint)
            code, details = grpc.StatusCode.UNAVAILABLE, f"The driver of cluster {endpoint.cluster_id} has changed; call again."
        await context.abort(code, details, tuple(error.trailing_metadata() or ()))


class _Handler(grpc.GenericRpcHandler):
    """Accepts every method and relays its bytes unchanged."""

    def __init__(self, gateway: ConnectGateway, clients: Clients) -> None:
        self._gateway, self._clients = gateway, clients

    def service(self, handler_call_details: Any) -> Any:
        # Even single requests are read as streams: only once the caller is authenticated, so that strangers cost no memory.
        method = handler_call_details.method
        if method in ONE_TO_ONE:
            return grpc.stream_unary_rpc_method_handler(partial(self._call, method))
        return grpc.stream_stream_rpc_method_handler(partial(self._stream, method))

    async def _call(self, method: str, _requests: Any, context: Any) -> bytes:
        return await self._gateway.serve(method, context, self._clients)

    async def _stream(self, method: str, _requests: Any, context: Any) -> None:
        await self._gateway.serve(method, context, self._clients)


def status_error(code: grpc.StatusCode, message: str) -> ApiError:
    """The API's error for a status of a call."""
    kind = next((kind for kind, known in _STATUSES.items() if known is code), ApiError)
    return kind(message)


def _metadata(context: Any) -> dict[str, Any]:
    return {str(key): value for key, value in context.invocation_metadata() or ()}


def _cluster_id(metadata: dict[str, Any]) -> str:
    cluster_id = str(metadata.get(CLUSTER_ID, "")).strip()
    if not cluster_id:
        raise InvalidParameterValue(
            f"No cluster was named. Add it to the URL: sc://HOST:PORT/;token=TOKEN;{CLUSTER_ID}=CLUSTER-ID"
        )
    return cluster_id


def _passed_on(metadata: dict[str, Any], endpoint: Endpoint, user: str) -> Metadata:
    kept = [(key, value) for key, value in metadata.items() if key not in _OWN and not key.startswith("grpc-")]
    return (*kept, ("authorization", f"Bearer {endpoint.token}"), (USER, _named(user)))


def _named(user: str) -> str:
    """The user's name as sent to the driver in metadata, and as Spark knows the user if users are kept apart."""
    return quote(user, safe="@+")


def address_in(peer: str) -> tuple[str, int]:
    """Address and port in gRPC's name for a connection: `ipv4:10.0.0.1:1`, or `ipv6:[::1]:1`, which may be percent-encoded."""
    kind, _, rest = unquote(peer).partition(":")
    host, _, port = rest.rpartition(":")
    return (host.strip("[]"), int(port)) if kind in ("ipv4", "ipv6") and port.isdigit() else ("", 0)


def _bracketed(host: str) -> str:
    try:
        return f"[{host}]" if ipaddress.ip_address(host).version == 6 else host
    except ValueError:
        return host
