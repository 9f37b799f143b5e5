"""The parts of a server and what each part is built from. Nothing runs yet: `lifecycle` starts and stops it.

One function per group, in order of dependency; `assemble` builds them all. Add a new part to the group of its kind.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, ProcessCollector
from starlette.types import ASGIApp

from brickyard.api.app import build_app
from brickyard.api.context import ApiContext
from brickyard.api.edge.authentication import Authenticator
from brickyard.config import Settings
from brickyard.domain.clock import Clock, Ids
from brickyard.domain.node import ServerAddress
from brickyard.domain.nodeops import AgentClient
from brickyard.gateway.history import HistoryServers
from brickyard.gateway.sparkui import PREFIX, SparkUi
from brickyard.gateway.uisources import UiSources
from brickyard.nodes.calls import NodeCalls
from brickyard.nodes.client import HttpAgentClient
from brickyard.nodes.loads import Loads
from brickyard.nodes.sessions import AgentService
from brickyard.nodes.tokens import InstanceTokens
from brickyard.plan.autoscale import Rules
from brickyard.plan.policy import Policy
from brickyard.providers.base import Provider
from brickyard.providers.capacity import GIB, allowance
from brickyard.providers.fleet import Providers
from brickyard.reconcile.instances import InstanceMonitor
from brickyard.reconcile.logdelivery import LogDelivery
from brickyard.reconcile.loops import OwnerLoops
from brickyard.reconcile.measures import ClusterMeasures
from brickyard.reconcile.retention import Retention
from brickyard.reconcile.room import DiskRoom
from brickyard.reconcile.runs import RunLoop
from brickyard.runtime.catalogue import rows as runtimes
from brickyard.server.metrics import WorkspaceMetrics
from brickyard.services.access import Authorizer
from brickyard.services.attach import AttachService
from brickyard.services.changes import Changes
from brickyard.services.clusterlogs import ClusterLogs
from brickyard.services.clusters import ClusterService
from brickyard.services.commands import CommandService
from brickyard.services.contextsecrets import ContextSecrets
from brickyard.services.files import DbfsService, FileTree, Uploads, VolumeService, WorkspaceService
from brickyard.services.globalscripts import GlobalScriptService
from brickyard.services.libraries import LibraryService
from brickyard.services.logfollowing import LogFollowers
from brickyard.services.policies import PolicyService
from brickyard.services.pools import PoolService
from brickyard.services.runs import RunService
from brickyard.services.secrets import SecretService
from brickyard.services.secretvalues import SecretValues
from brickyard.services.taskfiles import TaskFiles
from brickyard.services.tasknodes import DriverTasks
from brickyard.services.tokens import TokenService
from brickyard.services.uilinks import UiLinks
from brickyard.services.users import UserService
from brickyard.storage.directory import Storage
from brickyard.storage.vault import Vault
from brickyard.store.membership import Membership
from brickyard.store.store import Store


@dataclass(frozen=True, kw_only=True)
class Resources:
    """Resources that exist before the parts and outlive them. Agents call `server_url`, and may fall back to any of
    `servers()`."""

    settings: Settings
    server_url: str
    workspace_id: str
    workspace_key: bytes
    member: Membership
    store: Store
    storage: Storage
    provider: Provider
    clock: Clock
    ids: Ids
    metrics: CollectorRegistry

    def servers(self) -> tuple[ServerAddress, ...]:
        """The known servers that are not stopping."""
        return tuple(each.about.address for each in self.member.servers() if not each.stopping)

    def living(self) -> frozenset[int]:
        """The numbers of all live servers."""
        return frozenset(each.number for each in self.member.servers())


@dataclass(frozen=True, kw_only=True)
class Nodes:
    """The server's side of the agents."""

    client: AgentClient
    calls: NodeCalls
    tokens: InstanceTokens
    loads: Loads
    agents: AgentService
    tasks: DriverTasks
    files: TaskFiles


@dataclass(frozen=True, kw_only=True)
class Loops:
    """Background work."""

    owners: OwnerLoops
    monitor: InstanceMonitor
    runs: RunLoop
    retention: Retention
    log_delivery: LogDelivery
    room: DiskRoom


@dataclass(frozen=True, kw_only=True)
class Services:
    """The services that the API and the gateway call."""

    tokens: TokenService
    users: UserService
    clusters: ClusterService
    changes: Changes
    pools: PoolService
    global_scripts: GlobalScriptService
    policies: PolicyService
    attach: AttachService
    logs: ClusterLogs
    log_followers: LogFollowers
    commands: CommandService
    runs: RunService
    secrets: SecretService
    uploads: Uploads
    context_secrets: ContextSecrets
    dbfs: DbfsService
    volumes: VolumeService
    workspace: WorkspaceService
    libraries: LibraryService
    links: UiLinks


@dataclass(frozen=True, kw_only=True)
class Gateway:
    """Access to what clusters serve. Spark Connect has a separate port, which `lifecycle` opens."""

    history: HistoryServers
    ui_sources: UiSources
    spark_ui: SparkUi


@dataclass(frozen=True, kw_only=True)
class Parts:
    """A server that is not running."""

    nodes: Nodes
    loops: Loops
    services: Services
    authenticator: Authenticator
    gateway: Gateway
    measures: WorkspaceMetrics


def assemble(given: Resources) -> Parts:
    """Builds everything except the application that is served; `application` builds that from the result."""
    loops: Loops

    def wake(cluster_id: str) -> None:
        loops.owners.wake(cluster_id)  # assigned later: the owners and the agents' service need each other

    authorizer = Authorizer()
    vault = Vault(path=given.storage.secrets_key_file, given=given.settings.encryption_key)
    nodes = _nodes(given, wake=wake, values=SecretValues(authorizer=authorizer, vault=vault))
    loops = _loops(given, nodes)
    services = _services(given, nodes, loops, authorizer=authorizer, vault=vault)
    authenticator = Authenticator(tokens=services.tokens, links=services.links)
    given.store.on_commit(loops.runs.changed)
    measures = WorkspaceMetrics(given.store, given.provider, loops.room, given.member.servers)
    given.metrics.register(measures)
    ProcessCollector(registry=given.metrics)
    return Parts(
        nodes=nodes,
        loops=loops,
        services=services,
        authenticator=authenticator,
        gateway=_gateway(given, services, authenticator),
        measures=measures,
    )


def application(
    given: Resources, parts: Parts, *, ready: Callable[[], Awaitable[str]], loop_lag_s: Callable[[], float]
) -> ASGIApp:
    """The application that the web server serves."""
    services, loops = parts.services, parts.loops
    context = ApiContext(
        clusters=services.clusters,
        changes=services.changes,
        pools=services.pools,
        global_scripts=services.global_scripts,
        policies=services.policies,
        agents=parts.nodes.agents,
        tokens=services.tokens,
        users=services.users,
        commands=services.commands,
        runs=services.runs,
        secrets=services.secrets,
        context_secrets=services.context_secrets,
        dbfs=services.dbfs,
        volumes=services.volumes,
        workspace=services.workspace,
        attach=services.attach,
        logs=services.logs,
        log_followers=services.log_followers,
        libraries=services.libraries,
        ui_links=services.links,
        workspace_id=given.workspace_id,
        lag_s=lambda: max(given.store.lag_s, loops.owners.lag_s, loop_lag_s()),
        ready=ready,
        servers=lambda: len(given.servers()),
        metrics=given.metrics,
        refresh_metrics=parts.measures.refresh,
        metrics_token=given.settings.metrics_token,
    )
    return build_app(context, authenticator=parts.authenticator, mounts={PREFIX: parts.gateway.spark_ui})


def _nodes(given: Resources, *, wake: Callable[[str], None], values: SecretValues) -> Nodes:
    client, tokens = given.provider.agent_client() or HttpAgentClient(), InstanceTokens(key=given.workspace_key)
    calls = NodeCalls(client=client, tokens=tokens)
    loads = Loads(alone=lambda: given.store.alone)
    files = TaskFiles(
        dbfs=given.storage.dbfs,
        others={"Volumes": given.storage.volumes, "Workspace": given.storage.workspace},
        machine=given.settings.task_files_dir,
    )
    return Nodes(
        client=client,
        calls=calls,
        tokens=tokens,
        loads=loads,
        agents=AgentService(
            store=given.store,
            clock=given.clock,
            tokens=tokens,
            wake=wake,
            silence_s=given.settings.agent_silence_s,
            loads=loads,
            servers=given.servers,
            deliver=values.deliver,
        ),
        tasks=DriverTasks(nodes=calls, files=files),
        files=files,
    )


def _loops(given: Resources, nodes: Nodes) -> Loops:
    settings, store, clock, ids = given.settings, given.store, given.clock, given.ids
    providers = Providers(given.provider)
    retention = Retention(store=store, clock=clock, storage=given.storage, held=given.member.lease("retention"))
    owners = OwnerLoops(
        measures=ClusterMeasures(registry=given.metrics),
        store=store,
        providers=providers,
        clock=clock,
        ids=ids,
        policy=_policy(settings, given.provider),
        tokens=nodes.tokens,
        server_url=lambda: given.server_url,
        servers=given.servers,
        silent=nodes.agents.silent,
        loads=nodes.loads,
        number=lambda: given.member.number,
        living=given.living,
        on_gone=retention.cluster_gone,
    )
    return Loops(
        owners=owners,
        monitor=InstanceMonitor(
            store=store,
            providers=providers,
            judge=nodes.agents.judge,
            wake=owners.wake,
            on_gone=nodes.agents.forget,
            held=given.member.lease(f"instances of {given.provider.name}"),
        ),
        runs=RunLoop(store=store, clock=clock, ids=ids, nodes=nodes.tasks, wake_cluster=owners.wake),
        retention=retention,
        log_delivery=LogDelivery(storage=given.storage, held=given.member.lease("log delivery")),
        room=DiskRoom(
            store=store,
            storage=given.storage,
            data_dir=settings.data_dir,
            min_free=int(settings.min_free_disk_gb * GIB),
            dbfs_limit=allowance(settings.dbfs_gb, given.storage.root),
            held=given.member.lease("room"),
        ),
    )


def _services(given: Resources, nodes: Nodes, loops: Loops, *, authorizer: Authorizer, vault: Vault) -> Services:
    settings, store, clock, ids = given.settings, given.store, given.clock, given.ids
    uploads = Uploads(place=given.storage.uploads, clock=clock)
    dbfs, volumes, workspace = (FileTree(root=tree, uploads=uploads, refusal=loops.room.refusal) for tree in given.storage.trees)
    clusters = ClusterService(
        store=store,
        clock=clock,
        ids=ids,
        node_types=given.provider.node_types,
        runtimes=runtimes,
        photon=settings.photon == "standard",
        authorizer=authorizer,
        wake=loops.owners.wake,
    )
    attach = AttachService(store=store, authorizer=authorizer, nodes=nodes.calls, start=clusters.start)
    logs = ClusterLogs(attach=attach, store=store, nodes=nodes.calls, kept=given.storage.logs)
    secrets = SecretService(store=store, clock=clock, authorizer=authorizer, vault=vault)
    return Services(
        tokens=TokenService(store=store, clock=clock, ids=ids, authorizer=authorizer),
        users=UserService(store=store, authorizer=authorizer),
        clusters=clusters,
        changes=Changes(store=store, clock=clock, ids=ids, authorizer=authorizer),
        policies=PolicyService(
            store=store, clock=clock, ids=ids, authorizer=authorizer, strict=settings.policy_checks == "strict"
        ),
        pools=PoolService(
            store=store,
            clock=clock,
            ids=ids,
            offers=clusters.offers,
            authorizer=authorizer,
            wake=loops.owners.wake,
        ),
        global_scripts=GlobalScriptService(store=store, clock=clock, ids=ids, authorizer=authorizer),
        attach=attach,
        logs=logs,
        log_followers=LogFollowers(logs=logs, store=store, clock=clock),
        commands=CommandService(store=store, authorizer=authorizer, nodes=nodes.calls, ids=ids),
        runs=RunService(
            store=store,
            clock=clock,
            ids=ids,
            authorizer=authorizer,
            specify=clusters.commands.specify,
            files=nodes.files,
            wake=loops.runs.wake,
        ),
        secrets=secrets,
        context_secrets=ContextSecrets(store=store, secrets=secrets, tokens=nodes.tokens, servers=given.servers),
        uploads=uploads,
        dbfs=DbfsService(files=dbfs, store=store, authorizer=authorizer),
        volumes=VolumeService(files=volumes, store=store, authorizer=authorizer),
        workspace=WorkspaceService(files=workspace, store=store, authorizer=authorizer),
        libraries=LibraryService(store=store, authorizer=authorizer, clusters=clusters),
        links=UiLinks(key=given.workspace_key, store=store, clock=clock),
    )


def _gateway(given: Resources, services: Services, authenticator: Authenticator) -> Gateway:
    history = HistoryServers(settings=given.settings, storage=given.storage)
    sources = UiSources(attach=services.attach, history=history)
    return Gateway(
        history=history,
        ui_sources=sources,
        spark_ui=SparkUi(authenticator=authenticator, links=services.links, sources=sources),
    )


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
