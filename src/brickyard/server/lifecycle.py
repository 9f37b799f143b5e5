"""A server's life: opens, starts, keeps running, stops and closes its parts."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import time
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING

import structlog
from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp

from brickyard.config.settings import Settings
from brickyard.domain.clock import Clock, Ids, SystemClock, WallClock
from brickyard.domain.periodic import Loop, Task
from brickyard.gateway.errors import GatewayError
from brickyard.providers import registry
from brickyard.providers.base import Provider, Setup, SetupError
from brickyard.providers.fleet import Providers
from brickyard.runtime.catalogue import rows as runtimes
from brickyard.server import workspace
from brickyard.server.application import application
from brickyard.server.assembly import assemble
from brickyard.server.looplag import LoopLag
from brickyard.server.resources import Resources
from brickyard.server.supervisor import Supervisor
from brickyard.storage.directory import Storage
from brickyard.store import membership
from brickyard.store.membership import Membership
from brickyard.store.servers import SILENT_S, Leave
from brickyard.store.store import Store

if TYPE_CHECKING:
    import socket

    from brickyard.gateway.connect import ConnectGateway
    from brickyard.gateway.passthrough import Passthrough
    from brickyard.gateway.tls import ServerCertificate
    from brickyard.nodes.authority import Authority
    from brickyard.server.agentport import AgentPort
    from brickyard.server.tracing import OtlpTracing
    from brickyard.server.webserver import WebServer

log = structlog.get_logger(__name__)

STORAGE_ANSWER_S = 2.0
AGAIN_S = 0.2  # between two checks for servers that may come back
ESSENTIAL = ("clusters and pools", "instances", "agents", "runs", "withdrawal")  # the loops without which a server is not ready
RECORD_LIMIT_S = 5.0  # for each commit that records why clusters end: a database that hangs must not keep their nodes running


class Application:
    """A workspace's server without its socket. Create it with `Application.open`."""

    def __init__(self, given: Resources, *, admin_token: str) -> None:
        self._given = given
        self._member = given.member
        self._admin = (given.settings.admin_user, admin_token)
        self._supervisor = Supervisor()
        self._loading: asyncio.Task[None] | None = None
        self._not_ready = "the server is starting"
        self._storage_look: asyncio.Task[str] | None = None
        self._loop_lag = LoopLag()
        self.new_token = ""  # the administrator's, if it was just created
        self.connect: ConnectGateway | None = None
        self.certificate: ServerCertificate | None = None  # what it shows to clients, if it speaks TLS
        self._passthrough: Passthrough | None = None
        self._agent_port: AgentPort | None = None
        self.parts = assemble(given, loop_lag_s=lambda: self._loop_lag.lag_s)
        self.asgi: ASGIApp = application(given, self.parts, readiness=self)

    @property
    def store(self) -> Store:
        """The workspace's database."""
        return self._given.store

    @property
    def runs_nodes_here(self) -> bool:
        """Whether nodes are processes on this machine, be it those of one provider among several."""
        return any(provider.where == "here" for provider in self._given.providers)

    async def ready(self) -> str:
        """Why the API cannot be used, or "" if it can."""
        if self._not_ready:
            return self._not_ready
        if (trouble := await self.store.check()) is not None:
            return trouble.message
        return self._member.trouble or self._supervisor.trouble(ESSENTIAL) or await self._storage_trouble()

    async def _storage_trouble(self) -> str:
        """What is wrong with the storage. One that does not answer keeps one thread, and is no reason: most calls do without."""
        look = self._storage_look
        if look is None or look.done():
            look = self._storage_look = asyncio.create_task(asyncio.to_thread(self._given.storage.trouble))
        done, _ = await asyncio.wait({look}, timeout=STORAGE_ANSWER_S)
        return look.result() if done and not look.exception() else ""

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls,
        settings: Settings,
        *,
        server_url: str,
        workspace_key: bytes | None = None,
        admin_token: str | None = None,
        provider: Provider | Providers | None = None,
        clock: Clock | None = None,
        wall: Clock | None = None,
        ids: Ids | None = None,
    ) -> AsyncIterator[Application]:
        """Yields a server whose loops run until the block exits. Key and token come from the storage unless given.

        Raises StoreError, WorkspaceError, and JoinRefused if other servers that this one cannot join use the database.

        Leaving the block does not touch nodes: `close` decides about them.
        """
        url, storage = workspace.database_url(settings), Storage(settings.storage_dir)
        with contextlib.ExitStack() as opened:
            called = settings.public_url.rstrip("/") or server_url
            providers = Providers(provider) if provider is not None and not isinstance(provider, Providers) else provider
            about = workspace.about(settings, called, providers.names if providers else settings.providers)
            workspace.check_file(url, storage)
            member = opened.enter_context(contextlib.closing(membership.take(url, about)))
            store = opened.enter_context(contextlib.closing(_opened(url, member, storage)))
            member.on_change(store.gap)
            await asyncio.to_thread(member.join)
            opened.enter_context(contextlib.closing(storage))
            ids = ids or Ids()
            shared = url.startswith("postgresql")
            workspace_id = await asyncio.to_thread(workspace.join, store, storage, ids, shared=shared)
            new_token = ""
            if settings.tracing_endpoint:
                store.tracing = opened.enter_context(contextlib.closing(_tracing(settings, called, workspace_id)))
            if admin_token is None:  # only here is it certain that we may write to the storage
                admin_token, is_new = storage.admin_token(settings.admin_token)
                new_token = admin_token if is_new else ""
            if providers is None:
                providers = registry.open_providers(
                    Setup(settings=settings, server_url=called, workspace_id=workspace_id, runtimes=runtimes())
                )
            authority, server_ca = await asyncio.to_thread(_trust, settings, storage, providers)
            given = Resources(
                settings=settings,
                server_url=called,
                authority=authority,
                server_ca=server_ca,
                workspace_id=workspace_id,
                workspace_key=workspace_key or storage.key(),
                member=member,
                store=store,
                storage=storage,
                providers=providers,
                clock=clock or SystemClock(wall_ns=member.now_ns),
                wall=wall or clock or WallClock(),
                ids=ids,
                metrics=CollectorRegistry(),
            )
            server = cls(given, admin_token=admin_token)
            server.new_token = new_token
            try:
                await server.start()
                yield server
            finally:
                await server.stop()

    async def start(self) -> None:
        """Opens the ports and runs the first passes before the API serves, then starts the loops in the background."""
        self._open_agent_port()
        await self._read_certificate()
        await self.parts.services.tokens.key_digests()
        await self.parts.services.tokens.ensure_admin(*self._admin)
        self._given.providers.attach(self.parts.nodes.agents)
        await self._supervisor.start(self._loops())
        if self._given.providers.compute:  # not loaded before, so that the server starts sooner (nodes/client.py)
            self._loading = asyncio.create_task(_load("aiohttp"))
        await self._open_connect()
        if self._agent_port is not None:
            self._agent_port.start()
        if why := await self.parts.services.secrets.trouble():
            log.error("secrets_unreadable", why=why)
        self._not_ready = ""

    def _loops(self) -> dict[str, Loop]:
        """The loops that run as long as the server does, by their names in the log."""
        loops, parts = self.parts.loops, self.parts
        trains = self.runs_nodes_here and self._given.settings.background_training  # else no node uses this machine's runtimes
        return {
            "instances": loops.monitor,
            "clusters and pools": loops.owners,
            "agents": parts.nodes.agents,
            "samples": parts.nodes.samples,
            "packing of samples": loops.samples,
            **loops.retention.loops,
            "snapshots": loops.snapshots,
            "log_delivery": loops.log_delivery,
            "runs": loops.runs,
            "room": loops.room,
            "tcp ports": parts.gateway.tcp_ports,
            "history servers": parts.gateway.history,
            "withdrawal": parts.withdrawal,
            "uploads": parts.upload_sweep,
            "schedules": parts.schedules,
            "jobs": parts.jobs,
            "notifications": parts.notifications,
            "statements": parts.services.statements,
            "query history": parts.services.query_history,
            "last use of tokens": parts.services.tokens.use,
            "event loop": self._loop_lag,
            **({"certificate for agents": self._agent_port} if self._agent_port is not None else {}),
            **({"certificate": self.certificate} if self.certificate is not None else {}),
            **({"training": parts.trainings} if trains else {}),
            **{name: Task(run) for name, run in self._given.providers.background().items()},
        }

    async def keep(self, loops: Mapping[str, Loop]) -> None:
        """Run these loops, too, for as long as the server runs."""
        await self._supervisor.start(loops)

    def _open_agent_port(self) -> None:
        """Binds the port for agents on other machines, if this server has one. Raises SetupError."""
        if self._given.authority is None:
            return
        from brickyard.server import agentport  # noqa: PLC0415 - as below

        if (where := agentport.wanted(self._given.settings)) is not None:
            self._agent_port = agentport.AgentPort(where, self._given.authority, self.asgi)
            log.info("agents_served", host=where.address, port=self._agent_port.port, called=where.host)

    async def _read_certificate(self) -> None:
        """Reads or makes the certificate that clients see, if this server speaks TLS. Raises GatewayError, WorkspaceError."""
        if self._given.settings.serves_tls:
            from brickyard.gateway import tls  # noqa: PLC0415 - cryptography, only where it is used

            self.certificate = await asyncio.to_thread(
                tls.certificate, self._given.settings, self._given.storage.clients_authority_file
            )

    async def _open_connect(self) -> None:
        """Serves Spark Connect, on a port of its own unless that is off, and behind the server's port if that speaks TLS. Raises
        GatewayError. If only the default port was tried and is taken, the server runs without it."""
        settings, parts = self._given.settings, self.parts
        asked, serves = settings.connect_port, bool(settings.connect_port) or self._given.providers.compute
        if not serves:
            return
        from brickyard.gateway import entrance  # noqa: PLC0415 - gRPC, only where it is used

        services = parts.services
        self.connect = entrance.gateway(
            settings,
            authenticator=parts.authenticator,
            attach=services.attach,
            certificate=self.certificate,
            note=services.audit.note,
            tracing=self._given.store.tracing,
        )
        parts.gateway.sql.open(self.connect)
        if self.certificate is not None:
            self._passthrough = await entrance.behind(self.connect)
        if asked == 0:
            return
        try:
            await entrance.listen(self.connect, settings)
        except GatewayError as error:
            if asked is not None or error.fatal:
                raise
            log.warning("connect_is_off", why=str(error))
        else:
            log.info("connect_serves", host=settings.host, port=self.connect.port)

    def web(self, listening: socket.socket) -> WebServer:
        """What serves the application on a socket that is bound and listens."""
        from brickyard.server.webserver import WebServer  # noqa: PLC0415 - uvicorn, which some tests do without

        return WebServer(self.asgi, listening, self._given.settings, certificate=self.certificate, connect=self._passthrough)

    async def stop(self) -> None:
        """Ends the loops; agents and Spark keep running."""
        self._not_ready = "the server is stopping"
        await self._supervisor.stop()
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.gather(self._loading, return_exceptions=True)
        self.parts.services.changes.close()
        self.parts.services.log_followers.close()
        if self._agent_port is not None:
            self.parts.nodes.agents.release()
            await self._agent_port.stop()
        await self.parts.services.statements.running.close()
        await self.parts.gateway.sql.close()
        if self.connect is not None:
            await self.connect.stop()
        await self.parts.gateway.history.close()
        await self.parts.gateway.spark_ui.close()
        await self.parts.gateway.ports.close()
        for client in self.parts.nodes.clients:
            await client.close()
        await self.parts.nodes.tunnels.close()
        if self.parts.services.sign_in is not None:
            await self.parts.services.sign_in.close()
        self.parts.uploads.close()
        await self.parts.services.runtimes.close()
        await self.parts.services.audit.close()

    def fate_of_nodes(self, *, keep_nodes: bool) -> str:
        """What becomes of nodes when the last server closes, for the log."""
        return "kept" if keep_nodes else self._given.providers.fate

    async def close(self, *, keep_nodes: bool, why: str = "it was told to") -> list[str]:
        """Shuts down for good: ends the loops, then the local nodes unless they are to be kept for the next start or for another
        server. Nodes end whatever else fails. Returns the instances that could not be ended.

        `why` is a phrase that their clusters then show as the reason.
        """
        providers = self._given.providers
        ending = () if keep_nodes else providers.ending()
        self._member.resign()
        try:
            await self.stop()
        except Exception:
            log.exception("stop_failed")
        if ending and not await self._is_last():
            ending = ()
        staying = frozenset(providers.names) - {provider.name for provider in ending}
        if ending:
            await self._record_end(why, staying)
        await asyncio.to_thread(providers.close, ending=ending)
        left = [await asyncio.to_thread(provider.observe) for provider in ending]
        return sorted(instance_id for listed in left for instance_id in listed)

    async def _record_end(self, why: str, staying: frozenset[str]) -> None:
        """Ends the clusters whose nodes end; not those with nodes of providers that are `staying`."""
        try:
            await self.parts.services.clusters.end_all(why, staying=staying, limit_s=RECORD_LIMIT_S)
            async with asyncio.timeout(RECORD_LIMIT_S):
                await self.parts.services.pools.end_idle(staying=staying)
        except Exception as error:
            log.warning("stop_not_recorded", why=str(getattr(error, "reason", error)) or type(error).__name__)

    async def _is_last(self) -> bool:
        """Whether no other server is left to look after the nodes. If the database cannot be asked, the last known state
        counts."""
        deadline = time.monotonic() + SILENT_S + 1
        try:
            left = await self._stop_on_record(waited=False)
            while left is Leave.UNCLEAR:  # until another server is back or has been away too long
                await asyncio.sleep(AGAIN_S)
                left = await self._stop_on_record(waited=time.monotonic() > deadline)
        except Exception as error:
            log.warning("others_not_asked", why=str(getattr(error, "reason", error)) or type(error).__name__)
            return not any(each.number != self._member.number and not each.stopping for each in self._member.servers())
        if left is Leave.OTHERS:
            log.info("nodes_stay", why="other servers of the workspace go on")
        return left is Leave.LAST

    async def _stop_on_record(self, *, waited: bool) -> Leave:
        async with asyncio.timeout(RECORD_LIMIT_S):
            return await self.store.write(lambda tx: tx.servers.stop(self._member.number, waited=waited))


def _trust(settings: Settings, storage: Storage, providers: Providers) -> tuple[Authority | None, str]:
    """What this server's certificate for agents on other machines is signed by, if it has a port for them, and what they trust.
    Raises SetupError, WorkspaceError."""
    if not any(provider.where == "elsewhere" for provider in providers):
        return None, ""
    from brickyard.nodes.authority import Authority  # noqa: PLC0415 - cryptography, only where it is used
    from brickyard.server import agentport  # noqa: PLC0415 - as above

    authority = Authority(storage.agents_authority_file) if agentport.wanted(settings) is not None else None
    return authority, agentport.trusted(settings, authority)


def _opened(url: str, member: Membership, storage: Storage) -> Store:
    return Store.open(url, sharing=member, creates=lambda: workspace.check_new(url, storage))


def _tracing(settings: Settings, server_url: str, workspace_id: str) -> OtlpTracing:
    """What sends traces to the collector. Raises SetupError."""
    try:
        from brickyard.server.tracing import OtlpTracing  # noqa: PLC0415 - OpenTelemetry, only where it is used
    except ImportError as error:
        raise SetupError(f"tracing_endpoint needs the extra `tracing` of Brickyard ({error}). See docs/tracing.md.") from error
    return OtlpTracing(settings.tracing_endpoint, ratio=settings.tracing_ratio, server_url=server_url, workspace_id=workspace_id)


async def _load(module: str) -> None:
    """Loads it on a thread: the first call of a node need not wait for it, and nothing else either."""
    await asyncio.to_thread(importlib.import_module, module)
