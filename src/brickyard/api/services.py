"""What the API and the gateway call, in one list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from brickyard.clusters import ClusterService
from brickyard.clusters.attach.execution import CommandService
from brickyard.clusters.attach.service import AttachService
from brickyard.clusters.logs.following import LogFollowers
from brickyard.clusters.logs.service import ClusterLogs
from brickyard.clusters.v1 import V1ClusterService, V1Details
from brickyard.features.audit.service import AuditLog
from brickyard.features.catalog.service import CatalogService
from brickyard.features.catalog.tables import TableService
from brickyard.features.changes.service import Changes
from brickyard.features.credentials.loginlinks import LoginLinks
from brickyard.features.credentials.oauth import ClientSecrets, OAuthService
from brickyard.features.credentials.sessions import SessionService
from brickyard.features.credentials.tokenmanagement import TokenManagement
from brickyard.features.credentials.tokens import TokenService
from brickyard.features.credentials.uilinks import UiLinks
from brickyard.features.emptylists.service import EmptyLists
from brickyard.features.files import DbfsService, VolumeService, VolumeTransfers, WorkspaceService
from brickyard.features.files.contexts import ContextNotebooks
from brickyard.features.identity import IdentityServices
from brickyard.features.ipaccess.service import IpAccessListService
from brickyard.features.jobs.service import JobService
from brickyard.features.libraries.service import LibraryService
from brickyard.features.machine.service import MachineService
from brickyard.features.metrics.service import ClusterMetrics
from brickyard.features.notifications.service import DestinationService
from brickyard.features.permissions.service import PermissionService
from brickyard.features.policies.service import PolicyService
from brickyard.features.pools.service import PoolService
from brickyard.features.ports.service import PortService
from brickyard.features.queries.service import QueryHistory
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
from brickyard.features.statements.service import StatementService
from brickyard.features.warehouses.service import WarehouseService
from brickyard.features.workspaceconf.service import WorkspaceConfService

if TYPE_CHECKING:
    from brickyard.features.credentials.oidc.service import SignInService  # cryptography and HTTP, only where they are used


@dataclass(frozen=True, kw_only=True)
class Services:
    """Made once, by `server/services.py`. A handler reaches each as `ctx.services.NAME`."""

    clusters: ClusterService
    pools: PoolService
    warehouses: WarehouseService
    statements: StatementService
    query_history: QueryHistory
    saved_queries: SavedQueryService
    policies: PolicyService
    global_scripts: GlobalScriptService
    libraries: LibraryService
    jobs: JobService
    runs: RunService
    commands: CommandService
    attach: AttachService
    logs: ClusterLogs
    log_followers: LogFollowers
    cluster_metrics: ClusterMetrics
    ui_links: UiLinks
    changes: Changes
    v1_clusters: V1ClusterService
    v1_details: V1Details
    v1_schedules: ScheduleService
    ports: PortService
    snapshots: SnapshotService
    dbfs: DbfsService
    volumes: VolumeService
    catalogs: CatalogService
    tables: TableService
    transfers: VolumeTransfers
    workspace: WorkspaceService
    secrets: SecretService
    context_secrets: ContextSecrets
    context_notebooks: ContextNotebooks
    tokens: TokenService
    token_management: TokenManagement
    oauth: OAuthService
    client_secrets: ClientSecrets
    sessions: SessionService
    login_links: LoginLinks
    sign_in: SignInService | None  # None: there is no external identity provider
    identity: IdentityServices
    permissions: PermissionService
    audit: AuditLog
    machine: MachineService
    runtimes: RuntimeService
    spend: SpendService
    budgets: BudgetService
    empty_lists: EmptyLists
    ip_access_lists: IpAccessListService
    notification_destinations: DestinationService
    workspace_conf: WorkspaceConfService
