"""What the API and the gateway call, in one list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from brickyard.features.libraries.service import LibraryService
from brickyard.features.schedules.service import ScheduleService
from brickyard.features.scripts.service import GlobalScriptService
from brickyard.features.secrets.contexts import ContextSecrets
from brickyard.features.secrets.service import SecretService
from brickyard.features.spend.service import SpendService
from brickyard.services.attach import AttachService
from brickyard.services.audit import AuditLog
from brickyard.services.changes import Changes
from brickyard.services.clusterlogs import ClusterLogs
from brickyard.services.clustermetrics import ClusterMetrics
from brickyard.services.clusters import ClusterService
from brickyard.services.commands import CommandService
from brickyard.services.emptylists import EmptyLists
from brickyard.services.files import DbfsService, VolumeService, WorkspaceService
from brickyard.services.identity import IdentityServices
from brickyard.services.logfollowing import LogFollowers
from brickyard.services.loginlinks import LoginLinks
from brickyard.services.machine import MachineService
from brickyard.services.oauth import ClientSecrets, OAuthService
from brickyard.services.permissions import PermissionService
from brickyard.services.policies import PolicyService
from brickyard.services.pools import PoolService
from brickyard.services.ports import PortService
from brickyard.services.runs import RunService
from brickyard.services.runtimes import RuntimeService
from brickyard.services.sessions import SessionService
from brickyard.services.snapshots import SnapshotService
from brickyard.services.tokenmanagement import TokenManagement
from brickyard.services.tokens import TokenService
from brickyard.services.uilinks import UiLinks
from brickyard.services.v1 import V1ClusterService, V1Details

if TYPE_CHECKING:
    from brickyard.services.signin import SignInService  # cryptography and HTTP, only where they are used


@dataclass(frozen=True, kw_only=True)
class Services:
    """Made once, by `server/assembly.py`. A handler reaches each as `ctx.services.NAME`."""

    clusters: ClusterService
    pools: PoolService
    policies: PolicyService
    global_scripts: GlobalScriptService
    libraries: LibraryService
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
    workspace: WorkspaceService
    secrets: SecretService
    context_secrets: ContextSecrets
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
    empty_lists: EmptyLists
