"""The parts of a server that need no API: its side of the agents, and the background work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from brickyard.access import Authorizer
from brickyard.access.principals import active_principal
from brickyard.clusters.attach.shares import ContextShare, share_of
from brickyard.clusters.statements import TaskStatements
from brickyard.config.settings import Settings
from brickyard.domain.nodeops import AgentClient
from brickyard.domain.prices import Prices
from brickyard.domain.wakeups import Wake
from brickyard.features.credentials.tasktokens import TaskTokens
from brickyard.features.metrics.loop import SamplePacking
from brickyard.features.runs.cells import CellCollector
from brickyard.features.runs.dbttasks import DbtTasks
from brickyard.features.runs.rights import RunRights
from brickyard.features.runs.runners import TaskRunners
from brickyard.features.runs.sqltasks import SqlSources, SqlTasks
from brickyard.features.runs.taskfiles import TaskFiles
from brickyard.features.runs.tasknodes import DriverTasks
from brickyard.features.secrets.values import SecretValues
from brickyard.features.snapshots.loop import SnapshotLimits, SnapshotWork
from brickyard.machine import measure
from brickyard.nodes.attention import Attention, seldom_s
from brickyard.nodes.balance import Balance
from brickyard.nodes.calls import NodeCalls
from brickyard.nodes.client import HttpAgentClient
from brickyard.nodes.loads import Loads
from brickyard.nodes.samples import Samples
from brickyard.nodes.sessions import AgentService
from brickyard.nodes.tokens import InstanceTokens
from brickyard.nodes.tunnels import Tunnels
from brickyard.plan.autoscale import Rules
from brickyard.plan.policy import Policy
from brickyard.providers.bootstrap import credential_rules
from brickyard.providers.capacity import GIB, allowance
from brickyard.providers.fleet import Providers
from brickyard.reconcile.instances import InstanceMonitor
from brickyard.reconcile.logdelivery import LogDelivery
from brickyard.reconcile.loops import OwnerLoops
from brickyard.reconcile.measures import ClusterMeasures
from brickyard.reconcile.retention import DAY_MS, Retention
from brickyard.reconcile.room import DiskRoom
from brickyard.reconcile.runpass import Call
from brickyard.reconcile.runs import RunLoop
from brickyard.server.resources import Resources
from brickyard.storage.sealer import Sealer
from brickyard.store.store import Store
from brickyard.store.tx import Tx


@dataclass(frozen=True, kw_only=True)
class Nodes:
    """The server's side of the agents."""

    clients: Collection[AgentClient]
    calls: NodeCalls
    tunnels: Tunnels
    tokens: InstanceTokens
    loads: Loads
    agents: AgentService
    samples: Samples
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
    snapshots: SnapshotWork
    samples: SamplePacking


def build_nodes(given: Resources, *, wake: Wake[str], values: SecretValues) -> Nodes:
    tracing, tokens = given.store.tracing, InstanceTokens(key=given.workspace_key)
    http, pinned = HttpAgentClient(tracing=tracing), HttpAgentClient(pinned=True, tracing=tracing)
    clients = {each.name: each.agent_client() or (pinned if each.where == "elsewhere" else http) for each in given.providers}
    clients[""] = clients[given.providers.default.name]  # rows from before the provider was recorded
    tunnels = Tunnels(directory=given.settings.data_dir / "tunnels", tokens=tokens)
    calls = NodeCalls(client=http, by_provider=clients, tokens=tokens, tunnels=tunnels, tracing=tracing)
    loads = Loads(sharing=given.member)
    settings = given.settings
    attention = Attention(
        sharing=given.member,
        seldom_s=seldom_s(silence_s=settings.agent_silence_s, orphan_grace_s=settings.orphan_grace_s),
    )
    samples = Samples(store=given.store, clock=given.clock, attention=attention)
    balance = Balance(members=given.member)
    given.member.count_agents(balance.agents)
    files = TaskFiles(
        dbfs=given.storage.dbfs,
        others={"Volumes": given.storage.volumes, "Workspace": given.storage.workspace},
        machine=given.settings.task_files_dir,
    )
    return Nodes(
        clients={*clients.values(), http, pinned},
        calls=calls,
        tunnels=tunnels,
        tokens=tokens,
        loads=loads,
        agents=AgentService(
            store=given.store,
            clock=given.clock,
            tokens=tokens,
            wake=wake,
            silence_s=given.settings.agent_silence_s,
            loads=loads,
            members=given.member,
            delivery=values,
            samples=samples,
            balance=balance,
            attention=attention,
            tunnels=tunnels,
        ),
        samples=samples,
        tasks=DriverTasks(
            nodes=calls,
            files=files,
            cells=CellCollector(store=given.store, clock=given.clock, nodes=calls),
            refusal=_task_refusal(given.store),
            share=_task_share(given.store),
            dbt=DbtTasks(tokens=TaskTokens(store=given.store, clock=given.wall, key=given.workspace_key), url=given.server_url),
        ),
        files=files,
    )


def build_loops(
    given: Resources,
    nodes: Nodes,
    *,
    sealer: Sealer,
    sources: Callable[[], SqlSources],
    statements: Callable[[], TaskStatements],
) -> Loops:
    """`sources` and `statements`: what SQL tasks need, once the services are made."""
    settings, store, clock, ids = given.settings, given.store, given.clock, given.ids
    providers = given.providers
    retention = Retention(
        store=store,
        clock=clock,
        storage=given.storage,
        audit_kept_ms=int(settings.audit_log_days * DAY_MS),
        logs_kept_ms=int(settings.log_days * DAY_MS),
        held=given.member.lease("retention"),
    )
    owners = OwnerLoops(
        measures=ClusterMeasures(registry=given.metrics),
        store=store,
        providers=providers,
        clock=clock,
        wall=given.wall,
        ids=ids,
        policy=_policy(settings, providers, given.prices),
        tokens=nodes.tokens,
        server_url=given.server_url,
        members=given.member,
        server_ca=given.server_ca,
        agents=nodes.agents,
        loads=nodes.loads,
        node_types=given.node_types,
        sweeper=retention,
    )
    snapshots = SnapshotWork(
        store=store,
        clock=clock,
        storage=given.storage,
        limits=snapshot_limits(settings, given.storage.root),
        wake_cluster=owners.wake,
        held=given.member.lease("snapshots"),
    )
    return Loops(
        owners=owners,
        snapshots=snapshots,
        monitor=InstanceMonitor(
            store=store,
            providers=providers,
            agents=nodes.agents,
            wake=owners.wake,
            held=given.member.lease("instances"),
            grace_s=settings.orphan_grace_s + settings.agent_silence_s,
        ),
        runs=RunLoop(
            store=store,
            clock=clock,
            ids=ids,
            nodes=TaskRunners(
                drivers=nodes.tasks,
                sql=SqlTasks(store=store, sources=sources, statements=statements, refusal=_task_refusal(store)),
            ),
            rights=RunRights(Authorizer()),
            wake_cluster=owners.wake,
        ),
        retention=retention,
        log_delivery=LogDelivery(
            storage=given.storage,
            lend=providers.lend_network,
            sealer=sealer,
            held=given.member.lease("log delivery"),
            rules=credential_rules(settings),
        ),
        room=DiskRoom(
            store=store,
            storage=given.storage,
            data_dir=settings.data_dir,
            min_free=int(settings.min_free_disk_gb * GIB),
            dbfs_limit=allowance(settings.dbfs_gb, given.storage.root),
            held=given.member.lease("room"),
        ),
        samples=SamplePacking(store=store, clock=clock, held=given.member.lease("samples")),
    )


def snapshot_limits(settings: Settings, place: Path) -> SnapshotLimits:
    """What snapshots may take of the disk on which `place` is."""
    return SnapshotLimits(
        one=allowance(settings.snapshot_gb, place),
        all=allowance(settings.snapshots_gb, place),
        min_free=measure.disk(place).floor(int(settings.min_free_disk_gb * GIB)).size,
        kept_ms=int(settings.snapshot_days * DAY_MS),
    )


def _task_refusal(store: Store) -> Callable[[Call], Awaitable[str]]:
    """Why the owner of a run may not run code on the cluster of an attempt."""
    rights = RunRights(Authorizer())

    def why(tx: Tx, call: Call) -> str:
        cluster = tx.clusters.get(call.attempt.cluster_id)
        return rights.code_refused(tx, call.run, call.task, cluster) if cluster is not None else ""

    return lambda call: store.read(lambda tx: why(tx, call), background=True)


def _policy(settings: Settings, providers: Providers, prices: Prices) -> Policy:
    rules = Rules(
        up_after_ms=int(settings.autoscale_up_after_s * 1000), down_after_ms=int(settings.autoscale_down_after_s * 1000)
    )
    return Policy(
        launch_timeout_ms=int(settings.launch_timeout_s * 1000),
        silence_ms=int(settings.spark_silence_s * 1000),
        give_up_ms=int(settings.driver_give_up_s * 1000),
        autoscale=rules,
        spot_markets=frozenset(provider.name for provider in providers if provider.spot_market),
        provider=providers.default.name,
        encrypting=frozenset(provider.name for provider in providers if provider.where == "elsewhere"),
        photon=settings.photon != "standard",
        currency=prices.currency,
        max_nodes=settings.max_nodes,
        table_format=settings.default_table_format,
    )


def _task_share(store: Store) -> Callable[[Call], Awaitable[ContextShare]]:
    """What bounds the contexts of a run's owner on the cluster of an attempt."""
    authorizer = Authorizer()

    def share(tx: Tx, call: Call) -> ContextShare:
        cluster, owner = tx.clusters.get(call.attempt.cluster_id), active_principal(tx, call.run.creator_user_name)
        return share_of(tx, authorizer, owner, cluster) if cluster is not None and owner is not None else ContextShare()

    return lambda call: store.read(lambda tx: share(tx, call), background=True)
