"""Makes the services of a server: what its API, page and gateway call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from brickyard.access import Authorizer
from brickyard.api.services import Services
from brickyard.clusters import ClusterService
from brickyard.clusters.attach.execution import CommandService
from brickyard.clusters.attach.service import AttachService
from brickyard.clusters.logs.following import LogFollowers
from brickyard.clusters.logs.service import ClusterLogs
from brickyard.clusters.v1 import PortPlanner, SnapshotTasks, V1ClusterService, V1Details
from brickyard.features.audit.service import AuditLog
from brickyard.features.catalog.service import CatalogService
from brickyard.features.catalog.tables import TableService
from brickyard.features.changes.service import Changes
from brickyard.features.credentials.digests import Digests
from brickyard.features.credentials.lastuse import SessionLimits
from brickyard.features.credentials.loginlinks import LoginLinks
from brickyard.features.credentials.oauth import ClientSecrets, OAuthService
from brickyard.features.credentials.sessions import SessionService
from brickyard.features.credentials.tokenmanagement import TokenManagement
from brickyard.features.credentials.tokens import TokenService
from brickyard.features.credentials.uilinks import UiLinks
from brickyard.features.emptylists.service import EmptyLists
from brickyard.features.files import (
    DbfsService,
    FileTree,
    MultipartSessions,
    NotebookVersions,
    PresignedUrls,
    Uploads,
    VolumeService,
    VolumeTransfers,
    WorkspaceService,
)
from brickyard.features.files.contexts import ContextNotebooks
from brickyard.features.files.homes import FormerHomes
from brickyard.features.files.lookup import FileLookup
from brickyard.features.identity import IdentityServices
from brickyard.features.ipaccess.service import IpAccessListService, require_way_in
from brickyard.features.jobs.children import JobsOfTasks
from brickyard.features.jobs.owners import JobOwners
from brickyard.features.jobs.service import JobService
from brickyard.features.jobs.watches import Watches
from brickyard.features.libraries.service import LibraryService
from brickyard.features.machine.service import MachineService
from brickyard.features.metrics.service import ClusterMetrics
from brickyard.features.notifications.service import DestinationService, Receivers
from brickyard.features.permissions.service import PermissionService
from brickyard.features.policies.service import PolicyService
from brickyard.features.pools.service import PoolService
from brickyard.features.ports.service import PortService
from brickyard.features.queries.service import QueryHistory
from brickyard.features.runs.making import RunMaker
from brickyard.features.runs.service import RunService
from brickyard.features.runtimes.service import RuntimeService
from brickyard.features.savedqueries.service import SavedQueryService
from brickyard.features.schedules.service import ScheduleService
from brickyard.features.scripts.service import GlobalScriptService
from brickyard.features.secrets.contexts import ContextSecrets
from brickyard.features.secrets.service import SecretService
from brickyard.features.snapshots.service import SnapshotService
from brickyard.features.spend.budgets import BudgetService
from brickyard.features.spend.service import SpendService
from brickyard.features.statements.links import ResultLinks
from brickyard.features.statements.results import ResultFiles
from brickyard.features.statements.service import StatementService
from brickyard.features.warehouses.service import WarehouseService
from brickyard.features.workspaceconf.service import WorkspaceConfService
from brickyard.gateway.sqlentrance import SqlEntrance
from brickyard.gateway.sqlstatements import StatementRunner
from brickyard.providers.capacity import GIB, allowance
from brickyard.runtime.catalogue import rows as runtimes
from brickyard.server.background import Loops, Nodes
from brickyard.server.resources import Resources
from brickyard.storage.metastore import MetastoreFiles
from brickyard.storage.schemas import Schemas
from brickyard.storage.sealer import Sealer
from brickyard.storage.vault import Vault

if TYPE_CHECKING:
    from brickyard.features.credentials.oidc.service import SignInService


def build_services(
    given: Resources,
    nodes: Nodes,
    loops: Loops,
    planner: PortPlanner,
    *,
    authorizer: Authorizer,
    vault: Vault,
    sealer: Sealer,
    uploads: Uploads,
    multipart: MultipartSessions,
    sql: Callable[[], SqlEntrance],
) -> Services:
    settings, store, clock, wall, ids = given.settings, given.store, given.clock, given.wall, given.ids
    dbfs, volumes, workspace = (
        FileTree(root=tree, uploads=uploads, store=store, room=loops.room) for tree in given.storage.trees
    )
    versions = NotebookVersions(place=given.storage.versions, clock=wall)
    files = WorkspaceService(files=workspace, store=store, authorizer=authorizer, versions=versions)
    metastore = MetastoreFiles(given.storage.metastore)
    schemas = Schemas(metastore=metastore, volumes=volumes.tree)
    volume_service = VolumeService(files=volumes, schemas=schemas, store=store, authorizer=authorizer)
    dbfs_service = DbfsService(files=dbfs, volumes=volumes.tree, store=store, authorizer=authorizer)
    clusters = ClusterService(
        store=store,
        clock=clock,
        ids=ids,
        node_types=given.node_types,
        runtimes=[each for each in runtimes() if not each.photon or settings.photon != "standard"],
        photon=settings.photon == "standard",
        max_nodes=settings.max_nodes,
        currency=given.prices.currency,
        authorizer=authorizer,
        wake=loops.owners.wake,
        files=FileLookup(dbfs=dbfs_service, volumes=volume_service, workspace=files),
    )
    attach = AttachService(store=store, authorizer=authorizer, nodes=nodes.calls, start=clusters.start)
    warehouses = WarehouseService(
        store=store,
        authorizer=authorizer,
        clusters=clusters,
        sessions=attach,
        node_type=settings.sql_node_type,
        photon=settings.photon == "standard",
    )
    logs = ClusterLogs(attach=attach, store=store, nodes=nodes.calls, kept=given.storage.logs)
    homes = FormerHomes(tree=workspace.tree, clock=clock)
    homes.make_tops()
    secrets = SecretService(store=store, clock=clock, authorizer=authorizer, vault=vault)
    limits = SessionLimits(int(settings.session_idle_s * 1000), int(settings.session_lifetime_s * 1000))
    tokens = TokenService(store=store, clock=wall, ids=ids, authorizer=authorizer, key=given.workspace_key, sessions=limits)
    sessions = SessionService(store=store, clock=wall, ids=ids, tokens=tokens, key=given.workspace_key)
    cluster_metrics = ClusterMetrics(store=store, clock=clock, authorizer=authorizer, samples=nodes.samples, agents=nodes.agents)
    snapshots = SnapshotTasks(
        clock=clock,
        ids=ids,
        offers=clusters.offers,
        max_bytes=loops.snapshots.limits.one,
        collector=loops.snapshots,
    )
    v1_clusters = V1ClusterService(
        store=store,
        clock=clock,
        wall=wall,
        authorizer=authorizer,
        clusters=clusters,
        currency=given.prices.currency,
        shortage=given.providers.shortage,
        ports=planner,
        snapshots=snapshots,
        most_storage_gb=max(1, allowance(settings.node_disk_gb, settings.data_dir) // GIB),
    )
    maker = run_maker(given, nodes, clusters, authorizer)
    loops.runs.children = JobsOfTasks(authorizer=authorizer, runs=maker)
    tables = TableService(metastore=metastore, schemas=schemas, store=store, authorizer=authorizer)
    queries = SavedQueryService(store=store, clock=wall, authorizer=authorizer)
    return Services(
        tokens=tokens,
        token_management=TokenManagement(tokens=tokens, store=store, clock=wall, authorizer=authorizer),
        oauth=OAuthService(store=store, clock=wall, ids=ids, digests=tokens.digests),
        sessions=sessions,
        login_links=LoginLinks(store=store, clock=wall, ids=ids, tokens=tokens, sessions=sessions),
        sign_in=_sign_in(given, sessions=sessions, digests=tokens.digests, homes=homes),
        client_secrets=ClientSecrets(store=store, clock=wall, ids=ids, authorizer=authorizer, digests=tokens.digests),
        identity=IdentityServices.build(store=store, clock=clock, ids=ids, authorizer=authorizer, homes=homes),
        clusters=clusters,
        v1_clusters=v1_clusters,
        v1_details=V1Details(
            store=store, clock=clock, authorizer=authorizer, reads=v1_clusters.reads, metrics=cluster_metrics, logs=logs
        ),
        v1_schedules=ScheduleService(store=store, clock=wall, ids=ids, authorizer=authorizer, clusters=v1_clusters),
        ports=PortService(store=store, authorizer=authorizer, planner=planner),
        snapshots=SnapshotService(store=store, authorizer=authorizer, tasks=snapshots),
        changes=Changes(store=store, clock=wall, ids=ids, authorizer=authorizer),
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
        warehouses=warehouses,
        query_history=QueryHistory(store=store, clock=wall, authorizer=authorizer, days=settings.sql_history_days),
        saved_queries=queries,
        statements=StatementService(
            store=store,
            clock=wall,
            authorizer=authorizer,
            warehouses=warehouses,
            runner=StatementRunner(entrance=sql, store=store, clock=wall),
            files=ResultFiles(given.storage.statements),
            links=ResultLinks(key=given.workspace_key, clock=wall),
        ),
        global_scripts=GlobalScriptService(store=store, clock=clock, ids=ids, authorizer=authorizer),
        attach=attach,
        logs=logs,
        log_followers=LogFollowers(logs=logs, store=store, clock=wall),
        cluster_metrics=cluster_metrics,
        machine=MachineService(
            store=store,
            authorizer=authorizer,
            providers=given.providers,
            offers=clusters.offers,
            room=loops.room,
            monitor=loops.monitor,
            members=given.member,
        ),
        runtimes=RuntimeService(store=store, authorizer=authorizer, cache_dir=settings.cache_dir),
        spend=SpendService(
            store=store, clock=clock, authorizer=authorizer, node_types=given.node_types, currency=given.prices.currency
        ),
        budgets=BudgetService(store=store, clock=clock, ids=ids, authorizer=authorizer, currency=given.prices.currency),
        empty_lists=EmptyLists(store=store, authorizer=authorizer),
        ip_access_lists=IpAccessListService(store=store, clock=wall, ids=ids, authorizer=authorizer),
        notification_destinations=DestinationService(
            store=store,
            clock=wall,
            ids=ids,
            authorizer=authorizer,
            sealer=sealer,
            key=given.workspace_key,
            mails=bool(settings.smtp_url),
        ),
        workspace_conf=WorkspaceConfService(store=store, authorizer=authorizer, require_way_in=require_way_in),
        commands=CommandService(store=store, authorizer=authorizer, nodes=nodes.calls, clock=clock, ids=ids),
        jobs=JobService(
            store=store,
            clock=wall,
            ids=ids,
            authorizer=authorizer,
            runs=maker,
            watches=watches(given, tables, authorizer),
            wake_run=loops.runs.wake,
        ),
        runs=RunService(
            store=store,
            clock=clock,
            authorizer=authorizer,
            maker=maker,
            wake=loops.runs.wake,
        ),
        secrets=secrets,
        context_secrets=ContextSecrets(store=store, secrets=secrets, tokens=nodes.tokens, sealer=sealer, members=given.member),
        context_notebooks=ContextNotebooks(store=store, workspace=files, tokens=nodes.tokens, members=given.member),
        dbfs=dbfs_service,
        volumes=volume_service,
        catalogs=CatalogService(
            metastore=metastore,
            schemas=schemas,
            volumes=volume_service,
            workspace_id=given.workspace_id,
            store=store,
            authorizer=authorizer,
        ),
        tables=tables,
        transfers=VolumeTransfers(
            volumes=volume_service,
            files=volumes,
            sessions=multipart,
            urls=PresignedUrls(key=given.workspace_key, store=store, clock=wall),
        ),
        workspace=files,
        permissions=PermissionService(store=store, authorizer=authorizer, workspace=files, owners=JobOwners(), queries=queries),
        libraries=LibraryService(store=store, authorizer=authorizer, clusters=clusters),
        ui_links=UiLinks(key=given.workspace_key, store=store, clock=wall),
        audit=AuditLog(store=store, clock=clock, authorizer=authorizer, server=given.server_url),
    )


def run_maker(given: Resources, nodes: Nodes, clusters: ClusterService, authorizer: Authorizer) -> RunMaker:
    return RunMaker(
        clock=given.clock,
        ids=given.ids,
        authorizer=authorizer,
        specify=clusters.commands.specify,
        files=nodes.files,
        receivers=Receivers(mails=bool(given.settings.smtp_url)),
    )


def watches(given: Resources, tables: TableService, authorizer: Authorizer) -> Watches:
    trees = {"dbfs": given.storage.dbfs, "Volumes": given.storage.volumes}
    return Watches(trees=trees, tables=tables, authorizer=authorizer)


def _sign_in(given: Resources, *, sessions: SessionService, digests: Digests, homes: FormerHomes) -> SignInService | None:
    if (provider := given.settings.oidc) is None:
        return None
    from brickyard.features.credentials.oidc.service import SignInService  # noqa: PLC0415 - cryptography and HTTP, only where they are used

    return SignInService(
        provider,
        store=given.store,
        clock=given.wall,
        ids=given.ids,
        sessions=sessions,
        digests=digests,
        homes=homes,
        key=given.workspace_key,
    )
