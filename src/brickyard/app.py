"""The composition root: every part of a server, made once and handed to those that need it."""

from __future__ import annotations

import asyncio
import contextlib
import platform
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec
import structlog
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy.exc import DBAPIError
from starlette.types import ASGIApp

from brickyard import __version__
from brickyard.api.app import build_app
from brickyard.api.context import ApiContext
from brickyard.config import Settings
from brickyard.domain.clock import Clock, Ids, SystemClock
from brickyard.domain.errors import DatabaseTrouble
from brickyard.domain.node import ServerAddress
from brickyard.domain.nodeops import AgentClient
from brickyard.gateway.errors import GatewayError
from brickyard.gateway.history import HistoryServers
from brickyard.gateway.sparkui import PREFIX, SparkUi
from brickyard.gateway.uisources import UiSources
from brickyard.lifecycle.looplag import LoopLag
from brickyard.nodes.client import HttpAgentClient
from brickyard.nodes.loads import Loads
from brickyard.nodes.sessions import AgentService
from brickyard.nodes.tokens import InstanceTokens
from brickyard.plan.autoscale import Rules
from brickyard.plan.policy import Policy
from brickyard.providers import registry
from brickyard.providers.base import Provider, Setup
from brickyard.providers.capacity import GIB, allowance
from brickyard.providers.fleet import Providers
from brickyard.reconcile.clusters import ClusterLoop
from brickyard.reconcile.instances import InstanceMonitor
from brickyard.reconcile.measures import ClusterMeasures
from brickyard.reconcile.retention import Retention
from brickyard.reconcile.room import DiskRoom
from brickyard.reconcile.runs import RunLoop
from brickyard.runtime.catalogue import rows as runtimes
from brickyard.services.access import Authorizer
from brickyard.services.attach import AttachService
from brickyard.services.clusters import ClusterService
from brickyard.services.commands import CommandService
from brickyard.services.dbfs import DbfsService
from brickyard.services.pools import PoolService, pool_stats
from brickyard.services.runs import RunService
from brickyard.services.taskfiles import TaskFiles
from brickyard.services.tasknodes import DriverTasks
from brickyard.services.tokens import TokenService
from brickyard.services.uilinks import UiLinks
from brickyard.services.users import UserService
from brickyard.store import serverlock
from brickyard.store.serverlock import ServerLock
from brickyard.store.store import Store
from brickyard.store.tx import Tx

if TYPE_CHECKING:
    from brickyard.gateway.connect import ConnectGateway

log = structlog.get_logger(__name__)

LOCK_LOOK_S = 1.0
RECORD_LIMIT_S = 5.0  # for writing down why clusters end: a database that hangs must not keep their nodes


class Application:
    """A workspace's server without its socket. Make it with `Application.open`."""

    def __init__(
        self,
        *,
        settings: Settings,
        server_url: str,
        workspace_key: bytes,
        admin_token: str,
        store: Store,
        lock: ServerLock,
        provider: Provider,
        agent_client: AgentClient,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._store = store
        self._lock = lock
        self.displaced = asyncio.Event()  # another server has the database now: this one must stop
        self._provider = provider
        self._agent_client = agent_client
        self._admin = (settings.admin_user, admin_token)
        self._tasks: list[asyncio.Task[None]] = []
        self._not_ready = "the server is starting"
        self._loop_lag = LoopLag()
        self._settings = settings
        self.connect: ConnectGateway | None = None
        tokens, loads = InstanceTokens(key=workspace_key), Loads()
        servers = (ServerAddress(url=server_url, file=str(settings.data_dir / "server.json")),)
        self.agents = AgentService(
            store=store,
            clock=clock,
            tokens=tokens,
            wake=self._wake,
            silence_s=settings.agent_silence_s,
            loads=loads,
            servers=lambda: servers,
        )
        providers = Providers(provider)
        metrics = CollectorRegistry()
        self.retention = Retention(
            store=store, clock=clock, logs=settings.data_dir / "logs", clusters=settings.data_dir / "clusters"
        )
        self.loop = ClusterLoop(
            measures=ClusterMeasures(registry=metrics),
            store=store,
            providers=providers,
            clock=clock,
            ids=ids,
            policy=_policy(settings, provider),
            tokens=tokens,
            server_url=lambda: server_url,
            servers=lambda: servers,
            silent=self.agents.silent,
            loads=loads,
            on_gone=self.retention.cluster_gone,
        )
        self.monitor = InstanceMonitor(
            store=store,
            providers=providers,
            clock=clock,
            silent=self.agents.silent,
            wake=self.loop.wake,
            on_gone=self.agents.forget,
        )
        self.room = DiskRoom(
            store=store,
            data_dir=settings.data_dir,
            min_free=int(settings.min_free_disk_gb * GIB),
            dbfs_limit=allowance(settings.dbfs_gb, settings.data_dir),
        )
        authorizer = Authorizer()
        self.tokens = TokenService(store=store, clock=clock, ids=ids, authorizer=authorizer)
        self.clusters = ClusterService(
            store=store,
            clock=clock,
            ids=ids,
            node_types=provider.node_types,
            runtimes=runtimes,
            photon=settings.photon == "standard",
            authorizer=authorizer,
            wake=self.loop.wake,
        )
        self.attach = AttachService(
            store=store, authorizer=authorizer, agents=agent_client, tokens=tokens, start=self.clusters.start
        )
        self._history = HistoryServers(settings=settings)
        links = UiLinks(key=workspace_key, store=store, clock=clock)
        self.ui_sources = UiSources(attach=self.attach, history=self._history)
        self._spark_ui = SparkUi(
            tokens=self.tokens,
            links=links,
            sources=self.ui_sources,
        )
        files = TaskFiles(dbfs=settings.data_dir / "dbfs", machine=settings.task_files_dir)
        self.runs = RunLoop(
            store=store,
            clock=clock,
            ids=ids,
            nodes=DriverTasks(agents=agent_client, tokens=tokens, files=files),
            wake_cluster=self.loop.wake,
        )
        store.on_commit(self.runs.changed)
        self.pools = PoolService(
            store=store,
            clock=clock,
            ids=ids,
            node_types=provider.node_types,
            runtimes=runtimes,
            authorizer=authorizer,
            wake=self.loop.wake,
        )
        metrics.register(_WorkspaceMetrics(store, provider, self.room))
        ProcessCollector(registry=metrics)
        self.asgi: ASGIApp = build_app(
            ApiContext(
                clusters=self.clusters,
                pools=self.pools,
                agents=self.agents,
                tokens=self.tokens,
                users=UserService(store=store, authorizer=authorizer),
                commands=CommandService(store=store, authorizer=authorizer, agents=agent_client, tokens=tokens, ids=ids),
                runs=RunService(
                    store=store,
                    clock=clock,
                    ids=ids,
                    authorizer=authorizer,
                    specify=self.clusters.commands.specify,
                    files=files,
                    wake=self.runs.wake,
                ),
                dbfs=DbfsService(
                    root=settings.data_dir / "dbfs",
                    spool=settings.data_dir / "uploads",
                    store=store,
                    authorizer=authorizer,
                    clock=clock,
                    refusal=self.room.refusal,
                ),
                workspace_id=workspace_id(store, ids),
                lag_s=lambda: max(store.lag_s, self.loop.lag_s, self._loop_lag.lag_s),
                ready=self._ready,
                attach=self.attach,
                ui_links=links,
                metrics=metrics,
                metrics_token=settings.metrics_token,
            ),
            mounts={PREFIX: self._spark_ui},
        )

    @property
    def runs_nodes_here(self) -> bool:
        """Whether nodes are processes of this machine."""
        return self._provider.where == "here"

    async def _ready(self) -> str:
        """Why the API cannot be used now; "" when it can be."""
        trouble = None if self._not_ready else await self._store.check()
        return self._not_ready or (trouble.message if trouble is not None else "")

    def _wake(self, cluster_id: str) -> None:
        """The agents' service and the loop need each other; the loop is made second."""
        self.loop.wake(cluster_id)

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls,
        settings: Settings,
        *,
        server_url: str,
        workspace_key: bytes,
        admin_token: str,
        provider: Provider | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
    ) -> AsyncIterator[Application]:
        """A server whose loops run, until the block is left. Raises StoreError, and DatabaseInUse while another server has it.

        Nodes stay as they are when it is left: `close` decides about them.
        """
        url = settings.database_url or f"sqlite:///{settings.data_dir / 'brickyard.db'}"
        with contextlib.ExitStack() as opened:
            lock = opened.enter_context(contextlib.closing(serverlock.take(url)))
            # Nobody else writes there while we have the lock; whoever takes it makes us stop within a moment.
            store = opened.enter_context(contextlib.closing(Store.open(url, exclusive=True)))
            called = settings.public_url.rstrip("/") or server_url
            if provider is None:
                provider = registry.open_provider(Setup(settings=settings, server_url=called, runtimes=runtimes()))
            application = cls(
                settings=settings,
                server_url=called,
                workspace_key=workspace_key,
                admin_token=admin_token,
                store=store,
                lock=lock,
                provider=provider,
                agent_client=provider.agent_client() or HttpAgentClient(),
                clock=clock or SystemClock(),
                ids=ids or Ids(),
            )
            try:
                await application.start()
                yield application
            finally:
                await application.stop()

    async def start(self) -> None:
        """The first passes run before the API serves; then the loops go on in the background."""
        await self.tokens.ensure_admin(*self._admin)
        self._provider.attach(self.agents)
        # Agents of an earlier server get as long as ever to find this one before they count as silent.
        self.agents.expect((await self._store.read(lambda tx: tx.instances.states(), background=True)).keys())
        await self.monitor.look()
        await self.loop.first_pass()
        self._tasks = [
            asyncio.create_task(_forever("clusters", self.loop.run)),
            asyncio.create_task(_forever("instances", self.monitor.run)),
            asyncio.create_task(_forever("retention", self.retention.run)),
            asyncio.create_task(_forever("runs", self.runs.run)),
            asyncio.create_task(_forever("server lock", self._watch_lock)),
            asyncio.create_task(_forever("room", self.room.run)),
            asyncio.create_task(_forever("event loop", self._loop_lag.watch)),
        ]
        self._tasks += [asyncio.create_task(_forever(name, run)) for name, run in self._provider.background().items()]
        await self._open_connect()
        self._not_ready = ""

    async def _open_connect(self) -> None:
        """Serve Spark Connect, unless it is off. Raises GatewayError; where only the default port was tried, and is taken, the
        server does without."""
        asked = self._settings.connect_port
        if asked == 0 or (asked is None and self._provider.where == "nowhere"):
            return
        from brickyard.gateway.entrance import open_gateway  # noqa: PLC0415 - gRPC, only where it is used

        try:
            self.connect = await open_gateway(self._settings, tokens=self.tokens, attach=self.attach)
        except GatewayError as error:
            if asked is not None or error.fatal:
                raise
            log.warning("connect_is_off", why=str(error))
        else:
            log.info("connect_serves", host=self._settings.host, port=self.connect.port)

    async def stop(self) -> None:
        """End the loops; agents and Spark go on."""
        self._not_ready = "the server is stopping"
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        if self.connect is not None:
            await self.connect.stop()
        await self._history.close()
        await self._spark_ui.close()
        await self._agent_client.close()

    async def close(self, *, keep_nodes: bool, why: str = "it was told to") -> list[str]:
        """Before leaving for good: end the loops, then the local nodes unless they are to be kept for the next start. Nodes end
        whatever else fails; returns the instances that live on against our will.

        `why`, a phrase, is what their clusters say of it from then on.
        """
        ends = self._provider.ends_with_server and not keep_nodes
        try:
            await self.stop()
            if ends and not self.displaced.is_set():
                async with asyncio.timeout(RECORD_LIMIT_S):
                    await self.clusters.end_all(why)
                    await self.pools.end_idle()
        except Exception as error:
            log.warning("stop_not_recorded", why=str(getattr(error, "reason", error)) or type(error).__name__)
        await asyncio.to_thread(self._provider.close, keep_nodes=keep_nodes)
        return sorted(await asyncio.to_thread(self._provider.observe)) if ends else []

    async def _watch_lock(self) -> None:
        """See that no other server takes the database while we serve it."""
        while not self.displaced.is_set():
            await asyncio.sleep(LOCK_LOOK_S)
            if not await asyncio.to_thread(self._has_lock):
                log.error("displaced", why="another server took the database while the connection to it was lost")
                self.displaced.set()
        await asyncio.Event().wait()  # until we are stopped

    def _has_lock(self) -> bool:
        try:
            return self._lock.held()
        except DBAPIError:  # nobody can have what cannot be reached
            return True


def _policy(settings: Settings, provider: Provider) -> Policy:
    rules = Rules(
        up_after_ms=int(settings.autoscale_up_after_s * 1000), down_after_ms=int(settings.autoscale_down_after_s * 1000)
    )
    return Policy(
        launch_timeout_ms=int(settings.launch_timeout_s * 1000),
        silence_ms=int(settings.spark_silence_s * 1000),
        give_up_ms=int(settings.driver_give_up_s * 1000),
        autoscale=rules,
        spot_market=provider.spot_market,
        provider=provider.name,
    )


def workspace_id(store: Store, ids: Ids) -> str:
    """The workspace's number, made at its first start: 16 digits, as Databricks has them. All its servers find the same one."""
    offered = str(10**15 + int(ids.hex(12), 16) % (9 * 10**15))

    def work(tx: Tx) -> str:
        tx.lock("workspace_id")
        known = tx.get_meta("workspace_id")
        if known is None:
            tx.set_meta("workspace_id", offered)
        return known or offered

    known = store.read_sync(lambda tx: tx.get_meta("workspace_id"))
    return known or store.write_sync(work)


async def _forever(name: str, run: Callable[[], Awaitable[None]]) -> None:
    """A loop that ends by an error is started again: the server's work must not stop while it serves."""
    while True:
        try:
            await run()
        except Exception:
            log.exception("loop_failed", loop=name)
        await asyncio.sleep(1.0)


class _WorkspaceMetrics(Collector):
    """Counts of clusters and instances by state, what each pool has, and the room that is left, read when they are asked for."""

    def __init__(self, store: Store, provider: Provider, room: DiskRoom) -> None:
        self._store = store
        self._provider = provider
        self._disk = room

    def collect(self) -> list[Metric]:
        up = GaugeMetricFamily("brickyard_database_up", "Whether the database can be used; without it the counts are missing")
        try:
            counts = self._counts()
        except DatabaseTrouble:
            counts = []
        up.add_metric([], float(bool(counts)))
        build = InfoMetricFamily("brickyard_build", "Version of the server, and of the Python that it runs in")
        build.add_metric([], {"version": __version__, "python_version": platform.python_version()})
        return [build, up, *counts, *self._room(), *self._disk_room()]

    def _counts(self) -> list[Metric]:
        clusters, instances, pools, standings = self._store.read_sync(
            lambda tx: (tx.clusters.count_by_state(), tx.instances.count_by_state(), tx.pools.active(), tx.instances.standings())
        )
        families: list[Metric] = []
        for name, text, counts in (
            ("brickyard_clusters", "Clusters by public state", clusters),
            ("brickyard_instances", "Instances by lifecycle state", instances),
        ):
            family = GaugeMetricFamily(name, text, labels=["state"])
            for state, count in counts.items():
                family.add_metric([state], count)
            families.append(family)
        of_pools = GaugeMetricFamily(
            "brickyard_pool_instances", "Instances of a pool, by its stats", labels=["instance_pool_id", "count"]
        )
        for pool in pools:
            for name, number in msgspec.structs.asdict(pool_stats(standings.get(pool.instance_pool_id, {}))).items():
                of_pools.add_metric([pool.instance_pool_id, name.removesuffix("_count")], number)
        return [*families, of_pools]

    def _disk_room(self) -> list[Metric]:
        total, free = self._disk.disk()
        found: list[Metric] = []
        for name, text, value in (
            ("brickyard_disk_size_bytes", "Size of the data directory's disk", total),
            ("brickyard_disk_free_bytes", "What is free of it", free),
            ("brickyard_dbfs_bytes", "What the workspace's files take", self._disk.dbfs_used),
            ("brickyard_dbfs_limit_bytes", "What they may take", self._disk.dbfs_limit),
        ):
            family = GaugeMetricFamily(name, text)
            family.add_metric([], value)
            found.append(family)
        return found

    def _room(self) -> list[Metric]:
        capacity = self._provider.capacity()
        if capacity is None:
            return []
        return [
            GaugeMetricFamily(name, text, value=value)
            for name, text, value in (
                ("brickyard_capacity_cores", "Logical cores that the provider offers", capacity.cores_total),
                ("brickyard_free_cores", "Logical cores that no node has", capacity.cores_left),
                ("brickyard_capacity_memory_bytes", "Memory that the provider offers", capacity.memory_mb_total * 2**20),
                ("brickyard_free_memory_bytes", "Memory that no node has", capacity.memory_mb_left * 2**20),
            )
        ]
