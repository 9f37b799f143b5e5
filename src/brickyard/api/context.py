"""The services as the API's handlers see them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from prometheus_client import CollectorRegistry

from brickyard.domain.node import AssignmentReply, Poll, StatusReply, StatusReport
from brickyard.domain.policies import (
    Compliance,
    EnforceCompliance,
    EnforceComplianceResponse,
    ListCompliance,
    ListComplianceResponse,
)
from brickyard.domain.pools import (
    CreateInstancePool,
    EditInstancePool,
    InstancePoolId,
    InstancePoolView,
    ListInstancePoolsResponse,
    ListPoolDetails,
    ListPoolDetailsResponse,
)
from brickyard.domain.requests import (
    ChangeClusterOwner,
    ClusterId,
    CreateCluster,
    EditCluster,
    GetEvents,
    ListClusters,
    ResizeCluster,
    RestartCluster,
    StartCluster,
    UpdateCluster,
)
from brickyard.domain.validation import ClusterValidation, PolicyTrial, TryPolicy
from brickyard.domain.views import GetEventsResponse
from brickyard.services.audit import AuditLog
from brickyard.services.caller import Caller
from brickyard.services.changes import Changes
from brickyard.services.contextsecrets import ContextSecrets
from brickyard.services.globalscripts import GlobalScriptService
from brickyard.services.gpu import GpuClusterService, GpuDetails, PortService
from brickyard.services.gpu.schedules import ScheduleService
from brickyard.services.identity import IdentityServices
from brickyard.services.loginlinks import LoginLinks
from brickyard.services.oauth import ClientSecrets, OAuthService
from brickyard.services.permissions import PermissionService
from brickyard.services.policies import PolicyService
from brickyard.services.runs import RunService
from brickyard.services.secrets import SecretService
from brickyard.services.sessions import SessionService
from brickyard.services.tokenmanagement import TokenManagement
from brickyard.services.tokens import TokenService
from brickyard.services.webpage import WebPage

if TYPE_CHECKING:
    from brickyard.services.signin import SignInService


class ClusterCalls(Protocol):
    """`services.clusters.ClusterService`. Bytes are an encoded JSON body; every method raises ApiError."""

    async def create(self, caller: Caller, request: CreateCluster) -> str: ...
    async def get(self, caller: Caller, cluster_id: str) -> bytes: ...
    async def list(self, caller: Caller, request: ListClusters, *, paged: bool) -> bytes: ...
    async def start(self, caller: Caller, request: StartCluster) -> None: ...
    async def restart(self, caller: Caller, request: RestartCluster) -> None: ...
    async def delete(self, caller: Caller, request: ClusterId) -> None: ...
    async def permanent_delete(self, caller: Caller, request: ClusterId) -> None: ...
    async def edit(self, caller: Caller, request: EditCluster) -> None: ...
    async def validate_create(self, caller: Caller, request: CreateCluster) -> ClusterValidation: ...
    async def try_policy(self, caller: Caller, request: TryPolicy) -> PolicyTrial: ...
    async def validate_edit(self, caller: Caller, request: EditCluster) -> ClusterValidation: ...
    async def update(self, caller: Caller, request: UpdateCluster) -> None: ...
    async def resize(self, caller: Caller, request: ResizeCluster) -> None: ...
    async def pin(self, caller: Caller, request: ClusterId) -> None: ...
    async def unpin(self, caller: Caller, request: ClusterId) -> None: ...
    async def change_owner(self, caller: Caller, request: ChangeClusterOwner) -> None: ...
    async def events(self, caller: Caller, request: GetEvents) -> GetEventsResponse: ...
    async def list_node_types(self, caller: Caller) -> bytes: ...
    async def list_zones(self, caller: Caller) -> bytes: ...
    async def spark_versions(self, caller: Caller) -> bytes: ...
    async def compliance(self, caller: Caller, cluster_id: str) -> Compliance: ...
    async def list_compliance(self, caller: Caller, request: ListCompliance) -> ListComplianceResponse: ...
    async def enforce_compliance(self, caller: Caller, request: EnforceCompliance) -> EnforceComplianceResponse: ...
    async def cancel_enforcement(self, caller: Caller, cluster_id: str, *, allow_missing: bool) -> None: ...


class PoolCalls(Protocol):
    """`services.pools.PoolService`. Every method raises ApiError."""

    async def create(self, caller: Caller, request: CreateInstancePool) -> str: ...
    async def edit(self, caller: Caller, request: EditInstancePool) -> None: ...
    async def delete(self, caller: Caller, request: InstancePoolId) -> None: ...
    async def get(self, caller: Caller, request: InstancePoolId) -> InstancePoolView: ...
    async def list(self, caller: Caller) -> ListInstancePoolsResponse: ...
    async def details(self, caller: Caller, request: ListPoolDetails) -> ListPoolDetailsResponse: ...


class AgentCalls(Protocol):
    """`nodes.sessions.AgentService`."""

    def authenticate(self, instance_id: str, bearer: str) -> bool: ...
    def proof(self, instance_id: str) -> str: ...
    async def report(self, report: StatusReport) -> StatusReply: ...
    async def assignment(self, instance_id: str, have: int, wait_s: float, *, same: bool = False) -> AssignmentReply: ...
    def poll(self, poll: Poll) -> Awaitable[AssignmentReply]: ...


async def _nothing_to_do() -> None:
    """The default if the registry's metrics need no refresh."""


@dataclass(frozen=True, kw_only=True)
class ApiContext:
    """Created once, by the composition root.

    `ready` returns "" when the server may be used, and otherwise the reason why not; `servers` counts the workspace's servers.
    `disk_shortage`: why a server that may be used can do little, or "".
    `lag_s` is how long requested work has been waiting to begin: in the database's queue, for a loop or for the event loop.
    `/metrics` reads from `metrics` after `refresh_metrics`; `build_app` registers the API's request metrics there.
    """

    clusters: ClusterCalls
    gpu_clusters: GpuClusterService
    gpu_details: GpuDetails
    ports: PortService
    gpu_schedules: ScheduleService
    changes: Changes
    agents: AgentCalls
    tokens: TokenService
    token_management: TokenManagement
    oauth: OAuthService
    client_secrets: ClientSecrets
    sessions: SessionService
    login_links: LoginLinks
    sign_in: SignInService | None  # None: there is no external identity provider
    identity: IdentityServices
    pools: PoolCalls
    global_scripts: GlobalScriptService
    policies: PolicyService
    permissions: PermissionService
    commands: Any  # services.commands.CommandService; its operations declare what they call
    runs: RunService
    secrets: SecretService
    context_secrets: ContextSecrets
    dbfs: Any  # services.files.DbfsService; likewise
    volumes: Any  # services.files.VolumeService
    workspace: Any  # services.files.WorkspaceService
    libraries: Any  # services.libraries.LibraryService; likewise
    attach: Any  # services.attach.AttachService; likewise
    logs: Any  # services.clusterlogs.ClusterLogs; likewise
    cluster_metrics: Any  # services.clustermetrics.ClusterMetrics; likewise
    machine: Any  # services.machine.MachineService; likewise
    runtimes: Any  # services.runtimes.RuntimeService; likewise
    spend: Any  # services.spend.SpendService; likewise
    log_followers: Any  # services.logfollowing.LogFollowers; likewise
    ui_links: Any  # services.uilinks.UiLinks
    audit: AuditLog | None  # None: nothing is recorded
    workspace_id: str
    ready: Callable[[], Awaitable[str]]
    disk_shortage: Callable[[], str] = lambda: ""
    servers: Callable[[], int]
    lag_s: Callable[[], float]
    metrics: CollectorRegistry
    refresh_metrics: Callable[[], Awaitable[None]] = _nothing_to_do
    host_names: str = ""  # by which clients call the server; empty: those that no stranger can own (edge/hosts.py)
    own_hosts: tuple[str, ...] = ()  # others that are the server's: its URLs, the address that it listens on
    metrics_token: str = ""
    web_page: WebPage = field(default_factory=WebPage)
    rate_limits: Mapping[str, float] = field(default_factory=dict)  # domain/ratelimits.py
