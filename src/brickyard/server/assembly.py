"""The parts of a server and what each part is built from. Nothing runs yet: `lifecycle` starts and stops it.

The services are built in `services`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client import ProcessCollector

from brickyard.access import Authorizer
from brickyard.api.edge.authentication import Authenticator
from brickyard.api.edge.hosts import Hosts
from brickyard.api.edge.throttle import LoginThrottle
from brickyard.api.services import Services
from brickyard.clusters.attach.withdrawal import Withdrawal
from brickyard.clusters.v1 import PortPlanner
from brickyard.config.settings import CONNECT_PORT, Settings
from brickyard.features.credentials.tasktokens import TaskTokens
from brickyard.features.files import (
    MultipartSessions,
    Uploads,
)
from brickyard.features.files.sweep import UploadSweep
from brickyard.features.ipaccess.gate import AddressGate
from brickyard.features.jobs.loop import JobLoop
from brickyard.features.notifications.loop import NotificationLoop
from brickyard.features.runtimes.loop import Trainings
from brickyard.features.schedules.loop import ScheduleLoop
from brickyard.features.secrets.values import SecretValues
from brickyard.gateway.history import HistoryServers
from brickyard.gateway.httpports import HttpPorts, PortTarget
from brickyard.gateway.pages import Upstream
from brickyard.gateway.sparkui import SparkUi
from brickyard.gateway.sqlentrance import SqlEntrance
from brickyard.gateway.tcpports import TcpPorts
from brickyard.gateway.webproxy import WebProxy
from brickyard.machine.outbound import networks
from brickyard.server.background import Loops, Nodes, build_loops, build_nodes
from brickyard.server.looplag import Lag
from brickyard.server.metrics import WorkspaceMetrics
from brickyard.server.resources import Resources
from brickyard.server.services import build_services, run_maker, watches
from brickyard.server.tasksources import TaskSources
from brickyard.storage.sealer import Sealer
from brickyard.storage.vault import Vault

if TYPE_CHECKING:
    from brickyard.features.notifications.mail import MailSender


@dataclass(frozen=True, kw_only=True)
class Gateway:
    """Access to what clusters serve. Spark Connect has a separate port, which `lifecycle` opens."""

    history: HistoryServers
    spark_ui: WebProxy[Upstream]
    ports: WebProxy[PortTarget]
    sql: SqlEntrance
    tcp_ports: TcpPorts


@dataclass(frozen=True, kw_only=True)
class Parts:
    """A server that is not running."""

    nodes: Nodes
    loops: Loops
    services: Services
    uploads: Uploads
    upload_sweep: UploadSweep
    withdrawal: Withdrawal
    trainings: Trainings
    authenticator: Authenticator
    gateway: Gateway
    schedules: ScheduleLoop
    jobs: JobLoop
    notifications: NotificationLoop
    measures: WorkspaceMetrics
    lags: Mapping[str, Lag]


def assemble(given: Resources, *, loop_lag_s: Lag) -> Parts:
    """Builds everything except the application that is served; `application.py` builds that from the result."""
    loops: Loops
    services: Services
    gateway: Gateway

    def wake(cluster_id: str) -> None:
        loops.owners.wake(cluster_id)  # assigned later: the owners and the agents' service need each other

    def sql() -> SqlEntrance:
        return gateway.sql  # likewise

    def blocked(address: str) -> None:
        services.audit.blocked(address)  # likewise

    authorizer = Authorizer()
    gate = AddressGate(store=given.store, workspace_id=given.workspace_id, note=blocked)
    vault = Vault(path=given.storage.secrets_key_file, given=given.settings.encryption_key)
    sealer = Sealer(key=given.workspace_key)
    given.storage.logs.unseal_with(sealer.open)
    nodes = build_nodes(given, wake=wake, values=SecretValues(authorizer=authorizer, vault=vault, sealer=sealer))
    loops = build_loops(
        given,
        nodes,
        sealer=sealer,
        sources=lambda: TaskSources(workspace=services.workspace, queries=services.saved_queries),
        statements=lambda: services.statements.tasks,
    )
    tcp_ports = TcpPorts(store=given.store, nodes=nodes.calls, held=given.member.lease("ports"), sources=gate.rules)
    planner = PortPlanner(
        ids=given.ids,
        server_url=given.server_url,
        external_url=given.settings.external_origin,
        own_ports=_own_ports(given.settings),
        addresses=given.settings.allowed_port_addresses,
        open_here=tcp_ports,
    )
    uploads = Uploads(place=given.storage.uploads, clock=given.clock)
    multipart = MultipartSessions(place=given.storage.multipart, clock=given.clock)
    services = build_services(
        given,
        nodes,
        loops,
        planner,
        authorizer=authorizer,
        vault=vault,
        sealer=sealer,
        uploads=uploads,
        multipart=multipart,
        sql=sql,
    )
    withdrawal = Withdrawal(store=given.store, authorizer=authorizer, nodes=nodes.calls, agents=nodes.agents)
    nodes.agents.on_users(withdrawal.wake)
    throttle = LoginThrottle(audit=services.audit)
    authenticator = Authenticator(
        tokens=services.tokens,
        links=services.ui_links,
        sessions=services.sessions,
        throttle=throttle,
        gate=gate,
        own_address=given.settings.host,
    )
    given.store.on_commit(loops.runs.changed)
    lags = {"event loop": loop_lag_s, "database": lambda: given.store.lag_s, "loops": lambda: loops.owners.lag_s}
    measures = WorkspaceMetrics(given.store, given.providers, loops.room, given.member, lags=lags, samples=nodes.samples)
    given.metrics.register(measures)
    ProcessCollector(registry=given.metrics)
    gateway = _gateway(given, services, authenticator, tcp_ports)
    return Parts(
        nodes=nodes,
        loops=loops,
        services=services,
        uploads=uploads,
        upload_sweep=UploadSweep(uploads=uploads, multipart=multipart),
        withdrawal=withdrawal,
        trainings=Trainings(cache_dir=given.settings.cache_dir),
        authenticator=authenticator,
        gateway=gateway,
        schedules=ScheduleLoop(
            store=given.store,
            clock=given.wall,
            clusters=services.clusters,
            v1=services.v1_clusters,
            note=services.audit.note,
        ),
        jobs=JobLoop(
            store=given.store,
            clock=given.wall,
            runs=run_maker(given, nodes, services.clusters, authorizer),
            watches=watches(given, services.tables, authorizer),
            wake_run=loops.runs.wake,
            note=services.audit.note,
        ),
        notifications=NotificationLoop(
            store=given.store,
            clock=given.wall,
            allowed=networks(given.settings.notification_networks),
            mail=_mail(given.settings),
            sealer=sealer,
            key=given.workspace_key,
            workspace_id=given.workspace_id,
            page_url=given.settings.external_origin,
            registry=given.metrics,
            held=given.member.lease("notifications"),
        ),
        measures=measures,
        lags=lags,
    )


def _mail(settings: Settings) -> MailSender | None:
    """Who sends the workspace's e-mail, if anyone."""
    if (server := settings.mail_server) is None:
        return None
    from brickyard.features.notifications.mail import MailSender  # noqa: PLC0415 - SMTP, only where it is used

    return MailSender(server)


def _own_ports(settings: Settings) -> tuple[int, ...]:
    """Ports that servers of the workspace use."""
    return settings.port, CONNECT_PORT if settings.connect_port is None else settings.connect_port


def _gateway(given: Resources, services: Services, authenticator: Authenticator, tcp_ports: TcpPorts) -> Gateway:
    history = HistoryServers(settings=given.settings, storage=given.storage)
    ui = SparkUi(attach=services.attach, history=history)
    ports = HttpPorts(attach=services.attach, ports=services.ports)
    links, note = services.ui_links, services.audit.note
    return Gateway(
        history=history,
        spark_ui=WebProxy(ui, authenticator=authenticator, links=links, note=note),
        ports=WebProxy(ports, authenticator=authenticator, links=links, note=note),
        sql=SqlEntrance(
            authenticator,
            warehouses=services.warehouses,
            observer=services.query_history,
            tasks=TaskTokens(store=given.store, clock=given.wall, key=given.workspace_key),
            hosts=Hosts(given.settings.host_names, external=given.settings.external_origin),
            results=services.statements.linked,
            tracing=given.store.tracing,
        ),
        tcp_ports=tcp_ports,
    )
