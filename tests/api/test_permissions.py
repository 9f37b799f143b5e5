"""Every operation asks for the permissions that it declares, on the objects that its request names, before it does anything."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from brickyard.access import Acl, Authorizer
from brickyard.access.objects import TOKENS, path_of
from brickyard.api.app import all_operations
from brickyard.api.browser import links
from brickyard.api.context import ApiContext
from brickyard.api.databricks import (
    attached,
    catalog,
    changes,
    commands,
    dbfs,
    items,
    logs,
    metrics,
    namedgroups,
    oauth,
    permissions,
    scim,
    secrets,
    tables,
    tokens,
    transfers,
    volumes,
    workspace,
    workspaceconf,
)
from brickyard.api.databricks.policies import CancelPendingEnforcement
from brickyard.api.edge.registry import EVERY, Answer, Auth, Empty, Need, Operation
from brickyard.api.edge.streaming import Stream
from brickyard.api.services import Services
from brickyard.clusters.attach.execution import CommandService
from brickyard.clusters.logs.following import LogFollowers
from brickyard.clusters.v1 import V1Details
from brickyard.domain import policies, pools, ports, scripts, snapshots
from brickyard.domain import requests as ask
from brickyard.domain.access import PERMISSIONS, Grant, ObjectKind, Permission, Place, Principal, SecurableObject, Visible
from brickyard.domain.audit import ListAuditLogs
from brickyard.domain.caller import Caller
from brickyard.domain.cluster import Target
from brickyard.domain.errors import ApiError, PermissionDenied
from brickyard.domain.identity import USERS_ID, IdentityKind, UserRow
from brickyard.domain.libraries import InstallLibraries, Library, PythonPyPiLibrary, UninstallLibraries
from brickyard.domain.run import Task
from brickyard.domain.secrets import SecretName
from brickyard.domain.spec import ClusterSpec
from brickyard.domain.states import ClusterSource
from brickyard.domain.tasks import (
    ConditionOp,
    ConditionTask,
    DbtTask,
    NotebookTask,
    SparkPythonTask,
    SqlTask,
    SqlTaskFile,
    SubmitRun,
    SubmitTask,
)
from brickyard.domain.v1 import clusters as v1
from brickyard.domain.v1.details import GetV1Metrics
from brickyard.domain.validation import TryPolicy
from brickyard.domain.warehouses import Warehouse
from brickyard.features.audit.service import AuditLog
from brickyard.features.catalog.model import SchemaChanges
from brickyard.features.catalog.service import CatalogService
from brickyard.features.catalog.tables import TableService
from brickyard.features.changes.service import Changes
from brickyard.features.credentials.loginlinks import LoginLinks
from brickyard.features.credentials.oauth import ClientSecrets
from brickyard.features.emptylists.service import EmptyLists
from brickyard.features.files import (
    DbfsService,
    MultipartSessions,
    NotebookVersions,
    PresignedUrls,
    VolumeService,
    VolumeTransfers,
    WorkspaceService,
)
from brickyard.features.files.formats import Format
from brickyard.features.files.homes import FormerHomes
from brickyard.features.files.notebooks import Language
from brickyard.features.identity import IdentityServices
from brickyard.features.identity.namedgroups import Member
from brickyard.features.ipaccess import model as ipaccess
from brickyard.features.ipaccess.service import IpAccessListService, require_way_in
from brickyard.features.jobs import model as jobs
from brickyard.features.jobs.owners import JobOwners
from brickyard.features.jobs.rows import JobRows
from brickyard.features.jobs.service import JobService
from brickyard.features.jobs.watches import Watches
from brickyard.features.libraries.service import LibraryService
from brickyard.features.machine.service import MachineService
from brickyard.features.metrics.service import AskRange
from brickyard.features.notifications import model as notifications
from brickyard.features.notifications.service import DestinationService, Receivers
from brickyard.features.permissions.service import PermissionService
from brickyard.features.ports.service import PortService
from brickyard.features.queries.model import ListQueries
from brickyard.features.queries.service import QueryHistory
from brickyard.features.runs import model as view
from brickyard.features.runs.making import RunMaker
from brickyard.features.runs.service import RunService
from brickyard.features.runs.taskfiles import TaskFiles
from brickyard.features.runtimes.service import RuntimeKey, RuntimeService
from brickyard.features.savedqueries import model as savedqueries
from brickyard.features.savedqueries.rows import SavedQueryRows
from brickyard.features.savedqueries.service import SavedQueryService
from brickyard.features.schedules import model
from brickyard.features.schedules.service import ScheduleService
from brickyard.features.scripts.service import GlobalScriptService
from brickyard.features.secrets.service import SecretService
from brickyard.features.snapshots.service import SnapshotService
from brickyard.features.spend.budgets import BudgetService
from brickyard.features.spend.model import AskBudgets, AskClusterSpend, AskSpend, BudgetId, ReplaceBudget, SetBudget
from brickyard.features.spend.service import SpendService
from brickyard.features.statements import model as statements
from brickyard.features.statements.links import ResultLinks
from brickyard.features.statements.results import ResultFiles
from brickyard.features.statements.rows import StatementRows
from brickyard.features.statements.service import StatementService
from brickyard.features.warehouses import model as warehouses
from brickyard.features.warehouses.service import WarehouseService
from brickyard.features.workspaceconf.service import WorkspaceConfService
from brickyard.providers.fleet import Providers
from brickyard.providers.simulated import SimulatedProvider
from brickyard.reconcile.instances import InstanceMonitor
from brickyard.reconcile.room import DiskRoom
from brickyard.storage.directory import Storage
from brickyard.storage.metastore import MetastoreFiles
from brickyard.storage.schemas import Schemas
from brickyard.storage.sealer import Sealer
from brickyard.storage.vault import Vault
from brickyard.store.membership import ALONE
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from brickyard.testing.builders import SMALL, SPARK_4, cluster, nodes, up
from tests.api.permission_table import PAGE, page
from tests.support import world as shared
from tests.support.databases import empty_sqlite
from tests.support.desk import ADMIN, ASK, USER
from tests.support.edge import Idle
from tests.support.people import ENTITLED, enter
from tests.support.quietagents import QuietAgents

OPERATIONS = {operation.name: operation for operation in all_operations()}
FOR_USERS = sorted(name for name, operation in OPERATIONS.items() if operation.auth is Auth.USER)
T = TypeVar("T")
ID = "0123456789abcdef"
SOMEBODY = Caller(user_name="somebody@example.com", user_id="3", is_admin=False, token_id="s", entitlements=ENTITLED)
TASK = SparkPythonTask(python_file="dbfs:/a.py")


class Asked(NamedTuple):
    permission: Permission
    kind: ObjectKind
    id: str


class RecordingAcl(Acl, frozen=True, kw_only=True):
    recorder: Recorder

    def require(self, principal: Principal, permission: Permission, *, to: str) -> None:
        self.recorder.asked.append(Asked(permission, self.on.kind, self.on.id))
        if self.recorder.denies:
            raise PermissionDenied(f"{principal.user_name} may not {to} {self.on}")
        super().require(principal, permission, to=to)


class Recorder(Authorizer):
    """Notes what is asked for; with `denies` nobody may do anything."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.denies = False

    def acl(self, tx: Tx, on: SecurableObject, *, of: Principal | None = None) -> Acl:
        tx.get_meta("any")  # raises when the transaction is over
        return RecordingAcl(on, super().acl(tx, on, of=of).grants, recorder=self)

    def acls(self, tx: Tx, objects: Sequence[SecurableObject]) -> list[Acl]:
        return [RecordingAcl(found.on, found.grants, recorder=self) for found in super().acls(tx, objects)]

    def visible(self, tx: Tx, principal: Principal, kind: ObjectKind) -> Visible:
        tx.get_meta("any")
        self.asked.append(Asked(PERMISSIONS[kind][0], kind, EVERY))
        return Visible() if self.denies else super().visible(tx, principal, kind)

    def shown(
        self, tx: Tx, principal: Principal, kind: ObjectKind, rows: Iterable[T], of: Callable[[T], SecurableObject]
    ) -> list[T]:
        found = super().shown(tx, principal, kind, rows, of)
        return [] if self.denies else found


class FakeAgents:
    """Agents that answer everything with the same."""

    def __init__(self) -> None:
        self.calls = 0

    async def call(
        self, endpoint: str, server_token: str, method: str, path: str, body: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        self.calls += 1
        return {"status": "Finished"}

    async def close(self) -> None:
        """Nothing is open."""


class NoSpark:
    """Runs no statement."""

    async def run(self, caller: Caller, query: statements.Query) -> AsyncIterator[statements.Part]:
        del caller, query
        for part in list[statements.Part]():
            yield part

    async def end(self, caller: Caller, cluster_id: str, session_id: str) -> None:
        del caller, cluster_id, session_id

    def columns(self, stream: bytes) -> list[statements.ColumnInfo]:
        del stream
        return []

    def rows(self, stream: bytes) -> list[list[str | None]]:
        del stream
        return []


class World(shared.World):
    """Every service behind the API, with one authorizer."""

    def __init__(self, root: Path) -> None:
        self.recorder = Recorder()
        self.agents = FakeAgents()
        store = Store.open(empty_sqlite(root / "test.db"))
        super().__init__(store, authorizer=self.recorder, agents=self.agents, place=root)
        self.numbers = itertools.count(1)
        self.trees = [root / name for name in ("dbfs", "volumes", "workspace")]
        common = self.common
        some: dict[str, Any] = {"store": store, "authorizer": self.recorder}
        timed: dict[str, Any] = {**some, "clock": self.clock}
        maker = RunMaker(
            clock=self.clock,
            ids=self.ids,
            authorizer=self.recorder,
            specify=self.clusters.commands.specify,
            files=TaskFiles(dbfs=root / "dbfs", machine=None),
            receivers=Receivers(mails=False),
        )
        dbfs_tree, volumes_tree, workspace_tree = (self.tree(name) for name in ("dbfs", "volumes", "workspace"))
        versions = NotebookVersions(place=root / "versions", clock=self.clock)
        workspace_files = WorkspaceService(files=workspace_tree, versions=versions, **some)
        metastore = self.metastore = MetastoreFiles(root / "metastore")
        schemas = Schemas(metastore=metastore, volumes=volumes_tree.tree)
        volume_service = VolumeService(files=volumes_tree, schemas=schemas, **some)
        self.multipart = MultipartSessions(place=root / "multipart", clock=self.clock)
        self.transfers = VolumeTransfers(
            volumes=volume_service,
            files=volumes_tree,
            sessions=self.multipart,
            urls=PresignedUrls(key=b"k" * 32, store=store, clock=self.clock),
        )
        tables = TableService(**some, metastore=metastore, schemas=schemas)
        watches = Watches(trees={"dbfs": self.trees[0], "Volumes": self.trees[1]}, tables=tables, authorizer=self.recorder)
        machines = Providers(SimulatedProvider(node_types=[SMALL]))
        queries = SavedQueryService(**timed)
        services = Services(
            clusters=self.clusters,
            v1_clusters=self.v1,
            v1_details=V1Details(**timed, reads=self.v1.reads, metrics=self.metrics(), logs=self.logs),
            v1_schedules=ScheduleService(**common, clusters=self.v1),
            ports=PortService(**some, planner=self.ports),
            snapshots=SnapshotService(**some, tasks=self.snapshots),
            changes=Changes(**common),
            tokens=self.tokens,
            oauth=self.oauth,
            sign_in=None,
            sessions=self.sessions,
            login_links=LoginLinks(store=store, clock=self.clock, ids=self.ids, tokens=self.tokens, sessions=self.sessions),
            client_secrets=ClientSecrets(**common, digests=self.tokens.digests),
            token_management=self.management,
            identity=IdentityServices.build(**common, homes=FormerHomes(tree=workspace_tree.tree, clock=self.clock)),
            policies=self.policies,
            pools=self.pools,
            warehouses=(warehouses_of := WarehouseService(**some, clusters=self.clusters, sessions=self.attach)),
            query_history=QueryHistory(**timed, days=30),
            saved_queries=queries,
            statements=StatementService(
                **timed,
                warehouses=warehouses_of,
                runner=NoSpark(),
                files=ResultFiles(root / "statements"),
                links=ResultLinks(key=b"k" * 32, clock=self.clock),
            ),
            global_scripts=GlobalScriptService(**common),
            commands=CommandService(**common, nodes=self.calls),
            jobs=JobService(**common, runs=maker, watches=watches, wake_run=lambda _: None),
            runs=RunService(
                **timed,
                maker=maker,
                wake=lambda _: None,
            ),
            secrets=SecretService(**timed, vault=Vault(path=root / "secrets.key")),
            context_secrets=None,  # type: ignore[arg-type] # for agents
            context_notebooks=None,  # type: ignore[arg-type] # for agents
            attach=self.attach,
            logs=self.logs,
            log_followers=LogFollowers(logs=self.logs, store=store, clock=self.clock),
            cluster_metrics=self.metrics(),
            machine=MachineService(
                **some,
                providers=machines,
                offers=self.clusters.offers,
                room=DiskRoom(store=store, storage=Storage(root), data_dir=root, min_free=0, dbfs_limit=1),
                monitor=InstanceMonitor(store=store, providers=machines, agents=QuietAgents(), wake=lambda _: None),
                members=ALONE,
            ),
            runtimes=RuntimeService(**some, cache_dir=root / "cache", command=("true",)),
            spend=SpendService(**timed, node_types=lambda: [SMALL], currency="USD"),
            budgets=BudgetService(**common, currency="USD"),
            empty_lists=EmptyLists(**some),
            ip_access_lists=IpAccessListService(**common),
            notification_destinations=DestinationService(**common, sealer=Sealer(key=b"k" * 32), key=b"k" * 32, mails=False),
            workspace_conf=WorkspaceConfService(**some, require_way_in=require_way_in),
            dbfs=DbfsService(files=dbfs_tree, volumes=volumes_tree.tree, **some),
            volumes=volume_service,
            catalogs=CatalogService(metastore=metastore, schemas=schemas, volumes=volume_service, workspace_id="1", **some),
            tables=TableService(metastore=metastore, schemas=schemas, **some),
            transfers=self.transfers,
            workspace=workspace_files,
            permissions=PermissionService(**some, workspace=workspace_files, owners=JobOwners(), queries=queries),
            libraries=LibraryService(**some, clusters=self.clusters),
            ui_links=self.links,
            audit=AuditLog(**timed, server="http://s"),
        )
        self.context = ApiContext(
            services=services,
            agents=None,  # type: ignore[arg-type] # no operation for users calls it
            workspace_id="1",
            server=Idle(),
            metrics=CollectorRegistry(),
        )
        store.write_sync(lambda tx: enter(tx, ADMIN, USER))

    async def cluster(self, *, stopped: bool = False, owner: str = "someone@example.com") -> str:
        number = next(self.numbers)
        made = msgspec.structs.replace(cluster(cluster_id=f"0101-000000-{number:08d}"), creator_user_name=owner)
        made = msgspec.structs.replace(made, target=Target.TERMINATED, ended=True) if stopped else up(made)

        def work(tx: Tx) -> None:
            tx.clusters.insert(made)
            for node in [] if stopped else nodes(made, made.num_workers):
                name = f"{node.instance_id}-{number}"
                tx.instances.insert(msgspec.structs.replace(node, instance_id=name, endpoint="http://node.invalid"))

        await self.store.write(work)
        return made.cluster_id

    async def warehouse(self, *, stopped: bool = False) -> str:
        """A SQL warehouse."""
        cluster_id = await self.cluster(stopped=stopped)

        def work(tx: Tx) -> None:
            found = tx.clusters.get(cluster_id)
            assert found is not None
            kind = Warehouse(cluster_size="2X-Small")
            tx.clusters.update(msgspec.structs.replace(found, warehouse=kind, source=ClusterSource.SQL))

        await self.store.write(work)
        return cluster_id

    async def pool(self) -> str:
        request = pools.CreateInstancePool(instance_pool_name=f"p{next(self.numbers)}", node_type_id="small")
        return await self.context.services.pools.create(ADMIN, request)

    async def policy(self) -> str:
        request = policies.CreatePolicy(name=f"policy {next(self.numbers)}", definition="{}")
        return await self.context.services.policies.create(ADMIN, request)

    async def governed(self) -> str:
        """A stopped cluster with a policy that it violates."""
        cluster_id = await self.cluster(stopped=True)
        definition = '{"custom_tags.team": {"type": "fixed", "value": "x"}}'
        request = policies.CreatePolicy(name=f"policy {next(self.numbers)}", definition=definition)
        policy_id = await self.context.services.policies.create(ADMIN, request)

        def work(tx: Tx) -> None:
            found = tx.clusters.get(cluster_id)
            assert found is not None
            spec = msgspec.structs.replace(found.spec, policy_id=policy_id)
            tx.clusters.update(msgspec.structs.replace(found, spec=spec, request=spec))

        await self.store.write(work)
        return cluster_id

    async def scope(self) -> str:
        """A secret scope with one secret."""
        name = f"scope-{next(self.numbers)}"
        await self.context.services.secrets.create_scope(ADMIN, name)
        await self.context.services.secrets.put(ADMIN, SecretName(name, "k"), string_value="v")
        return name

    async def run(self, *, by: Caller = ADMIN, notebook: bool = False, **fields: Any) -> int:
        """A run of one task."""
        cluster_id = await self.cluster(owner=by.user_name)
        what: dict[str, Any] = {"notebook_task": NotebookTask(notebook_path="/n")} if notebook else {"spark_python_task": TASK}
        task = SubmitTask(task_key="only", existing_cluster_id=cluster_id, **what)
        run_id = await self.context.services.runs.submit(by, SubmitRun(tasks=[task]))

        def work(tx: Tx) -> None:
            run = tx.runs.get(run_id)
            assert run is not None
            tx.runs.update(msgspec.structs.replace(run, **fields))

        await self.store.write(work)
        return run_id

    async def job(self) -> int:
        """One that takes no permission of its owner."""
        task = SubmitTask(task_key="a", condition_task=ConditionTask(left="1", op=ConditionOp.EQUAL_TO, right="1"))
        return await self.context.services.jobs.create(ADMIN, jobs.CreateJob(name=f"job {next(self.numbers)}", tasks=[task]))

    async def give(self, kind: ObjectKind, id: str, owner: str) -> None:
        """Makes the user the owner of a cluster, a pool or a run."""

        def work(tx: Tx) -> None:
            if kind in (ObjectKind.CLUSTER, ObjectKind.WAREHOUSE) and (cluster := tx.clusters.get(id)) is not None:
                tx.clusters.update(msgspec.structs.replace(cluster, creator_user_name=owner))
            elif kind is ObjectKind.INSTANCE_POOL and (pool := tx.pools.get(id)) is not None:
                tx.pools.update(msgspec.structs.replace(pool, creator_user_name=owner))
            elif kind is ObjectKind.RUN and (run := tx.runs.get(int(id))) is not None:
                tx.runs.update(msgspec.structs.replace(run, creator_user_name=owner))
            elif kind is ObjectKind.JOB and (job := tx.rows(JobRows).get(int(id))) is not None:
                tx.rows(JobRows).update(msgspec.structs.replace(job, creator_user_name=owner, run_as=owner))

            elif kind is ObjectKind.QUERY and (query := tx.rows(SavedQueryRows).get(id)) is not None:
                fields = msgspec.structs.replace(query.fields, owner_user_name=owner)
                tx.rows(SavedQueryRows).update(msgspec.structs.replace(query, fields=fields))

        await self.store.write(work)

    async def handle(self) -> dbfs.DbfsHandle:
        return dbfs.DbfsHandle(handle=await self.context.services.dbfs.create(ADMIN, self.path(), overwrite=True))

    async def file(self) -> str:
        await self.context.services.dbfs.put(ADMIN, self.path(), base64.b64encode(b"x").decode(), overwrite=True)
        return self.path()

    def path(self) -> str:
        return "/a/b"

    def dump(self) -> tuple[str, list[Path]]:
        """Everything that a call may change."""
        with sqlite3.connect(self.place / "test.db") as connection:
            rows = "\n".join(connection.iterdump())
        connection.close()
        return rows, sorted(path for tree in (*self.trees, self.place / "spool") for path in tree.rglob("*"))


async def call(operation: Operation, context: ApiContext, request: msgspec.Struct) -> Answer:
    """What the operation answers, to a body of nothing if it takes one."""

    async def nothing() -> AsyncIterator[bytes]:
        yield b""

    answer = await operation.handler(context, ADMIN, request, *([nothing()] if operation.streams else []))
    if isinstance(answer, Stream):
        answer.close()
    return answer


async def submission(world: World) -> SubmitRun:
    new = ClusterSpec(spark_version=SPARK_4.key, num_workers=1, instance_pool_id=await world.pool())
    new = msgspec.structs.replace(new, driver_instance_pool_id=await world.pool(), policy_id=await world.policy())
    return SubmitRun(
        tasks=[
            SubmitTask(task_key="own", new_cluster=new, spark_python_task=TASK),
            SubmitTask(task_key="shared", existing_cluster_id=await world.cluster(), spark_python_task=TASK),
            SubmitTask(task_key="sql", sql_task=SqlTask(warehouse_id=await world.warehouse(), file=SqlTaskFile(path="/a.sql"))),
            SubmitTask(
                task_key="dbt",
                existing_cluster_id=await world.cluster(),
                dbt_task=DbtTask(commands=["dbt run"], project_directory="/a", warehouse_id=await world.warehouse()),
            ),
        ]
    )


async def new_job(world: World) -> msgspec.Struct:
    tasks = ((await submission(world)).tasks or [])[:1]
    return jobs.CreateJob(name="job", tasks=tasks)


def by_job(kind: type[msgspec.Struct], **fields: Any) -> Example:
    async def example(world: World) -> msgspec.Struct:
        return kind(job_id=await world.job(), **fields)

    return example


async def spec(world: World) -> dict[str, Any]:
    """A specification that names all that one can name."""
    return {
        "spark_version": SPARK_4.key,
        "num_workers": 1,
        "instance_pool_id": await world.pool(),
        "driver_instance_pool_id": await world.pool(),
        "policy_id": await world.policy(),
    }


def by_cluster(kind: type[msgspec.Struct], *, stopped: bool = False, **fields: Any) -> Example:
    async def example(world: World) -> msgspec.Struct:
        return kind(cluster_id=await world.cluster(stopped=stopped), **fields)

    return example


def plain(request: msgspec.Struct) -> Example:
    async def example(_world: World) -> msgspec.Struct:
        return request

    return example


def by_name(verb: str) -> Example:
    """One of the calls that name groups: on `admins`, or with a group of its own where it changes something."""

    async def example(world: World) -> msgspec.Struct:
        name = f"n{next(world.numbers)}"
        if verb in ("add_member", "remove_member", "delete"):
            await world.context.services.identity.named_groups.create(ADMIN, name)
        if verb in ("add_member", "remove_member"):
            if verb == "remove_member":
                await world.context.services.identity.named_groups.add(ADMIN, "admins", Member(group_name=name))
            return namedgroups.Membership(parent_name="admins", group_name=name)
        if verb == "list_parents":
            return namedgroups.PrincipalName(group_name="admins")
        return namedgroups.GroupName(group_name="admins" if verb == "list_members" else name)

    return example


def of_identity(group: str, resource: Callable[[int], dict[str, Any]]) -> dict[str, Example]:
    """Every operation of users, of service principals or of groups."""

    async def made(world: World) -> str:
        created = await getattr(world.context.services.identity, group).create(ADMIN, resource(next(world.numbers)))
        return str(created["id"])

    async def create(world: World) -> msgspec.Struct:
        return scim.ScimWrite(resource=resource(next(world.numbers)))

    async def one(world: World) -> msgspec.Struct:
        return scim.ScimGet(id=await made(world))

    async def update(world: World) -> msgspec.Struct:
        return scim.ScimWrite(id=await made(world), resource={"displayName": f"renamed {next(world.numbers)}"})

    async def patch(world: World) -> msgspec.Struct:
        operation = {"op": "replace", "path": "displayName", "value": f"patched {next(world.numbers)}"}
        return scim.ScimWrite(id=await made(world), resource={"Operations": [operation]})

    async def delete(world: World) -> msgspec.Struct:
        return scim.ScimId(id=await made(world))

    examples = {"create": create, "list": plain(scim.ScimList()), "get": one, "update": update, "patch": patch, "delete": delete}
    return {f"{group}.{verb}": example for verb, example in examples.items()}


async def create_cluster(world: World) -> msgspec.Struct:
    clone = ask.CloneCluster(source_cluster_id=await world.cluster())
    return ask.CreateCluster(**await spec(world), clone_from=clone)


async def edit_cluster(world: World) -> msgspec.Struct:
    return ask.EditCluster(**await spec(world), cluster_id=await world.cluster())


async def update_cluster(world: World) -> msgspec.Struct:
    mask = "policy_id,instance_pool_id,driver_instance_pool_id,node_type_id,driver_node_type_id"
    return ask.UpdateCluster(cluster_id=await world.cluster(), update_mask=mask, cluster=ClusterSpec(**await spec(world)))


async def last_operation(world: World) -> msgspec.Struct:
    cluster_id = await world.cluster(stopped=True)
    return v1.GetOperation(cluster_id=cluster_id, operation_id=f"stop-{cluster_id}-1")


def by_port(kind: type[msgspec.Struct], **fields: Any) -> Example:
    async def build(world: World) -> msgspec.Struct:
        cluster_id = await world.cluster()
        mapping = ports.PortMapping(port_id=f"port_{cluster_id}", cluster_id=cluster_id, internal_port=8888)
        await world.store.write(lambda tx: tx.ports.replace(cluster_id, [mapping]))
        return kind(cluster_id=cluster_id, port_id=mapping.port_id, **fields)

    return build


def scheduled(kind: type[msgspec.Struct], **fields: Any) -> Example:
    async def example(world: World) -> msgspec.Struct:
        cluster_id = await world.cluster(stopped=True)
        asked = model.CreateSchedule(cluster_id=cluster_id, action=model.Action.STOP, cron="0 8 * * *")
        made = await world.context.services.v1_schedules.create(ADMIN, asked)
        return kind(cluster_id=cluster_id, schedule_id=made.id, **fields)

    return example


def its_budget(kind: type[msgspec.Struct], **fields: Any) -> Example:
    async def example(world: World) -> msgspec.Struct:
        made = await world.context.services.budgets.create(ADMIN, SetBudget(display_name="month", amount=1))
        return kind(budget_id=made.budget_id, **fields)

    return example


async def its_snapshot(world: World) -> msgspec.Struct:
    cluster_id = await world.cluster()
    asked = snapshots.CreateSnapshot(cluster_id=cluster_id)
    made = await world.context.services.snapshots.create(ADMIN, asked)

    def finish(tx: Tx) -> None:
        if (row := tx.snapshots.get(made.id)) is not None:
            tx.snapshots.finish(msgspec.structs.replace(row, status=snapshots.SnapshotStatus.AVAILABLE))

    await world.store.write(finish)
    return snapshots.SnapshotId(snapshot_id=made.id)


async def edit_pool(world: World) -> msgspec.Struct:
    pool_id = await world.pool()
    return pools.EditInstancePool(instance_pool_id=pool_id, instance_pool_name=f"new {pool_id}", node_type_id="small")


def by_policy(kind: type[msgspec.Struct], **fields: Any) -> Example:
    async def example(world: World) -> msgspec.Struct:
        return kind(policy_id=await world.policy(), **fields)

    return example


def by_governed(kind: type[msgspec.Struct], **fields: Any) -> Example:
    async def example(world: World) -> msgspec.Struct:
        return kind(cluster_id=await world.governed(), **fields)

    return example


def by_warehouse(kind: type[msgspec.Struct], *, stopped: bool = False, **fields: Any) -> Example:
    async def example(world: World) -> msgspec.Struct:
        return kind(id=await world.warehouse(stopped=stopped), **fields)

    return example


async def new_warehouse(world: World) -> msgspec.Struct:
    return warehouses.CreateWarehouse(
        name=f"w{next(world.numbers)}", cluster_size="2X-Small", node_type_id="small", policy_id=None
    )


async def new_statement(world: World) -> msgspec.Struct:
    warehouse_id = await world.warehouse()
    return statements.ExecuteStatement(statement="SELECT 1", warehouse_id=warehouse_id, wait_timeout="5s")


def by_query(kind: type[msgspec.Struct], **fields: Any) -> Example:
    async def example(world: World) -> msgspec.Struct:
        new = savedqueries.QueryFields(display_name=f"query {next(world.numbers)}")
        made = await world.context.services.saved_queries.create(ADMIN, savedqueries.CreateQuery(query=new))
        return kind(id=made.id, **fields)

    return example


def by_statement(kind: type[msgspec.Struct], **fields: Any) -> Example:
    """About a statement with a result of one chunk."""

    async def example(world: World) -> msgspec.Struct:
        done: Any = await world.context.services.statements.execute(ADMIN, await new_statement(world))  # type: ignore[arg-type] # it is one

        def work(tx: Tx) -> None:
            rows = tx.rows(StatementRows)
            found = rows.get(done.statement_id)
            assert found is not None
            assert found.manifest is not None
            chunk = statements.ChunkInfo(chunk_index=0, row_offset=0, row_count=0, byte_count=0)
            manifest = msgspec.structs.replace(found.manifest, chunks=[chunk], total_chunk_count=1)
            rows.update(msgspec.structs.replace(found, manifest=manifest))

        await world.store.write(work)
        ResultFiles(world.place / "statements").write(done.statement_id, 0, b"")
        return kind(statement_id=done.statement_id, **fields)

    return example


async def one_pool(world: World) -> msgspec.Struct:
    return pools.InstancePoolId(instance_pool_id=await world.pool())


async def its_details(world: World) -> msgspec.Struct:
    return pools.ListPoolDetails(instance_pool_id=await world.pool())


async def one_run(world: World) -> msgspec.Struct:
    return view.RunId(run_id=await world.run())


def notebook_run(kind: type[msgspec.Struct]) -> Example:
    async def example(world: World) -> msgspec.Struct:
        return kind(run_id=await world.run(notebook=True))

    return example


async def one_output(world: World) -> msgspec.Struct:
    return view.GetOutput(run_id=await world.run())


async def finished_run(world: World) -> msgspec.Struct:
    return view.RunId(run_id=await world.run(ended_ms=1))


async def repair(world: World) -> msgspec.Struct:
    condition = ConditionTask(left="1", op=ConditionOp.EQUAL_TO, right="1")  # it needs no cluster, and so no permission on one
    task = Task(task_run_id=1, spec=SubmitTask(task_key="a", condition_task=condition))
    return jobs.RepairRun(run_id=await world.run(ended_ms=1, tasks=(task,)), rerun_tasks=["a"])


def by_log(kind: type[msgspec.Struct]) -> Example:
    async def example(world: World) -> msgspec.Struct:
        cluster_id = await world.cluster()
        log = world.place / "logs" / cluster_id / "i-1-1" / "stdout"
        log.parent.mkdir(parents=True)
        log.write_text("x")
        return kind(cluster_id=cluster_id, file="i-1-1/stdout")

    return example


async def get_run(world: World) -> msgspec.Struct:
    return view.GetRun(run_id=await world.run())


async def add_block(world: World) -> msgspec.Struct:
    return dbfs.DbfsAddBlock(handle=(await world.handle()).handle, data="")


async def close_upload(world: World) -> msgspec.Struct:
    return await world.handle()


def by_path(kind: type[msgspec.Struct], **fields: Any) -> Example:
    async def example(world: World) -> msgspec.Struct:
        return kind(path=await world.file(), **fields)

    return example


def by_scope(kind: type[msgspec.Struct], **fields: Any) -> Example:
    async def example(world: World) -> msgspec.Struct:
        return kind(scope=await world.scope(), **fields)

    return example


def permissions_of(collection: str) -> dict[str, Example]:
    """An object of the collection, and its owner's or everybody's permissions on it."""

    async def example(world: World, kind: type[msgspec.Struct]) -> msgspec.Struct:  # noqa: PLR0911 - a line for each collection
        match collection:
            case "clusters":
                return kind(object_id=await world.cluster())
            case "warehouses":
                return kind(object_id=await world.warehouse())
            case "instance_pools":
                return kind(object_id=await world.pool())
            case "cluster_policies":
                return kind(object_id=await world.policy())
            case "jobs":
                return kind(object_id=str(await world.job()))
            case "query":
                return kind(object_id=getattr(await by_query(savedqueries.QueryId)(world), "id"))  # noqa: B009 - of any struct
            case "tokens" | "passwords":
                return kind()
        path = {"directories": "/Team/d", "files": "/Team/f", "notebooks": "/Team/n"}[collection]
        (world.trees[2] / "Team" / "d").mkdir(parents=True, exist_ok=True)
        (world.trees[2] / "Team" / "f").touch()
        (world.trees[2] / "Team" / "n").write_text("# Databricks notebook source\n")
        return kind(object_id=str((await world.context.services.workspace.status(ADMIN, path)).object_id))

    kinds: dict[str, type[msgspec.Struct]] = {
        "get": permissions.PermissionsOf,
        "set": permissions.ChangePermissions,
        "update": permissions.ChangePermissions,
        "levels": permissions.PermissionsOf,
    }
    return {f"permissions.{verb}.{collection}": partial(example, kind=kind) for verb, kind in kinds.items()}


async def move_file(world: World) -> msgspec.Struct:
    return dbfs.DbfsMove(source_path=await world.file(), destination_path=f"/moved/{next(world.numbers)}")


def in_volume(kind: type[msgspec.Struct], field: str, name: str, **fields: Any) -> Example:
    """About something in a volume that exists."""

    async def example(world: World) -> msgspec.Struct:
        for directory in ("kept", "empty"):
            (world.trees[1] / "c" / "s" / "v" / directory).mkdir(parents=True, exist_ok=True)
        (world.trees[1] / "c" / "s" / "v" / "kept" / "f").touch()
        return kind(**{field: name}, **fields)

    return example


def in_upload(kind: type[msgspec.Struct], **fields: Any) -> Example:
    """About an upload in parts that has begun."""

    async def example(world: World) -> msgspec.Struct:
        token = world.multipart.begin(owner=ADMIN, parts=("c", "s", "v", "new"), overwrite=True)
        return kind(path="/Volumes/c/s/v/new", session_token=token, **fields)

    return example


def in_workspace(kind: type[msgspec.Struct], **fields: Any) -> Example:
    async def example(world: World) -> msgspec.Struct:
        (world.trees[2] / "Team").mkdir(parents=True, exist_ok=True)
        (world.trees[2] / "Team" / "f").touch()
        return kind(path="/Team/f", **fields)

    return example


def of_notebook(kind: type[msgspec.Struct], *, versioned: bool) -> Example:
    """About a notebook with a version."""

    async def example(world: World) -> msgspec.Struct:
        workspace_files = world.context.services.workspace
        await workspace_files.mkdirs(ADMIN, "/Team")
        for content in ("eA==", "eQ=="):
            await workspace_files.import_content(
                ADMIN, "/Team/n", content, format=Format.SOURCE, language=Language.PYTHON, overwrite=True
            )
        kept = await workspace_files.versions(ADMIN, "/Team/n")
        return kind(path="/Team/n", version_id=kept[0].version_id) if versioned else kind(path="/Team/n")

    return example


async def create_volume(world: World) -> msgspec.Struct:
    (world.trees[1] / "c" / "s").mkdir(parents=True, exist_ok=True)
    return volumes.CreateVolume(catalog_name="c", schema_name="s", name=f"v{next(world.numbers)}", volume_type="MANAGED")


def in_schema(kind: type[msgspec.Struct], **fields: Any) -> Example:
    """About a schema that exists, which the example makes."""

    async def example(world: World) -> msgspec.Struct:
        catalogs, name = world.context.services.catalogs, f"s{next(world.numbers)}"
        return kind(full_name=(await catalogs.create(ADMIN, "main", name, SchemaChanges())).full_name, **fields)

    return example


async def table(world: World) -> msgspec.Struct:
    (directory := world.metastore.root / "databases" / "default" / "table").mkdir(parents=True, exist_ok=True)
    (directory / "t.json").touch()
    return tables.TableName(full_name="main.default.t")


async def rename_volume(world: World) -> msgspec.Struct:
    name = (await create_volume(world)).name  # type: ignore[attr-defined] # of CreateVolume
    (world.trees[1] / "c" / "s" / name).mkdir(parents=True)
    return volumes.UpdateVolume(name=f"c.s.{name}", new_name=f"{name}-new")


async def delete_token(world: World) -> msgspec.Struct:
    _, row = await world.context.services.tokens.create(ADMIN)
    return tokens.RevokeTokenRequest(token_id=row.token_id)


async def service_principal(world: World) -> UserRow:
    number = next(world.numbers)
    row = UserRow(user_name=f"app-{number}", user_id=f"90{number}", kind=IdentityKind.SERVICE_PRINCIPAL)
    await world.store.write(lambda tx: tx.users.put(row))
    return row


async def may_have_tokens(world: World) -> str:
    """The name of a service principal with that permission, as everybody has it: another example may have taken it away."""
    everybody = Grant(USERS_ID, Permission.CAN_USE)
    await world.store.write(lambda tx: tx.grants.put(TOKENS.places[0], [everybody]))
    return (await service_principal(world)).user_name


async def on_behalf(world: World) -> msgspec.Struct:
    return tokens.CreateOnBehalfRequest(application_id=await may_have_tokens(world))


async def for_somebody(world: World) -> msgspec.Struct:
    return tokens.CreateForRequest(user_name=await may_have_tokens(world))


def client_secret(kind: type[msgspec.Struct]) -> Example:
    async def example(world: World) -> msgspec.Struct:
        principal = await service_principal(world)
        _, row = await world.context.services.client_secrets.create(ADMIN, principal.user_id)
        named = {"secret_id": row.token_id} if kind is oauth.SecretId else {}
        return kind(service_principal_id=principal.user_id, **named)

    return example


def any_token(**fields: Any) -> Example:
    """A request for a token; None asks for the token alone."""

    async def example(world: World) -> msgspec.Struct:
        _, row = await world.context.services.tokens.create(ADMIN)
        if not fields:
            return tokens.TokenId(token_id=row.token_id)
        return tokens.UpdateTokenRequest(token_id=row.token_id, **fields)

    return example


def global_script(kind: type[msgspec.Struct]) -> Example:
    async def example(world: World) -> msgspec.Struct:
        request = scripts.CreateGlobalInitScript(name="a script", script="ZXhpdA==")
        return kind(script_id=await world.context.services.global_scripts.create(ADMIN, request))

    return example


def destination(kind: type[msgspec.Struct], **fields: Any) -> Example:
    async def make(world: World) -> Any:
        request = notifications.CreateDestination(display_name="d", config=HOOK)
        made = await world.context.services.notification_destinations.create(ADMIN, request)
        return kind(id=made.id, **fields)

    return make


HOOK = notifications.Config(generic_webhook=notifications.GenericWebhookConfig(url="https://example.com/"))


def ip_access_list(kind: type[msgspec.Struct], **fields: Any) -> Example:
    async def example(world: World) -> msgspec.Struct:
        request = ipaccess.CreateIpAccessList(label="a list", list_type=ipaccess.ListType.BLOCK)
        made = await world.context.services.ip_access_lists.create(ADMIN, request)
        return kind(ip_access_list_id=made.list_id, **fields)

    return example


Example = Callable[[World], Awaitable[msgspec.Struct]]
ALWAYS_REFUSED = ("catalogs.create", "catalogs.delete")  # whoever asks, a workspace has one catalog
EXAMPLES: dict[str, Example] = {
    "clusters.create": create_cluster,
    "items.create": create_cluster,
    "items.list": plain(ask.ListClusters()),
    "items.options": plain(Empty()),
    "items.get": by_cluster(items.Item, id="mine"),
    "items.state": by_cluster(items.ItemAction, id="mine", action="stop"),
    "items.delete": by_cluster(items.DeleteItem, id="mine", permanent=True),
    "items.events": by_cluster(items.ItemEvents, id="mine"),
    "clusters.get": by_cluster(ask.ClusterId),
    "clusters.list": plain(ask.ListClusters()),
    "clusters.list_all": plain(ask.ListClusters()),
    "clusters.start": by_cluster(ask.StartCluster, stopped=True),
    "clusters.restart": by_cluster(ask.RestartCluster),
    "clusters.delete": by_cluster(ask.ClusterId),
    "clusters.permanent_delete": by_cluster(ask.ClusterId),
    "clusters.edit": edit_cluster,
    "clusters.update": update_cluster,
    "clusters.resize": by_cluster(ask.ResizeCluster, num_workers=5),
    "clusters.pin": by_cluster(ask.ClusterId),
    "clusters.unpin": by_cluster(ask.ClusterId),
    "clusters.change_owner": by_cluster(ask.ChangeClusterOwner, stopped=True, owner_username=USER.user_name),
    "clusters.events": by_cluster(ask.GetEvents),
    "clusters.list_node_types": plain(Empty()),
    "clusters.list_zones": plain(Empty()),
    "clusters.spark_versions": plain(Empty()),
    "gpu_clusters.create": plain(v1.CreateV1Cluster(name="a-cluster")),
    "gpu_clusters.list": plain(v1.ListV1Clusters()),
    "gpu_clusters.get": by_cluster(v1.GetV1Cluster, include_logs=True),
    "gpu_clusters.metrics": by_cluster(GetV1Metrics),
    "gpu_clusters.start": by_cluster(v1.StartV1Cluster, stopped=True, environment_updates={"A": "1"}),
    "gpu_clusters.restart": by_cluster(v1.RestartV1Cluster, environment_updates={"A": "1"}),
    "gpu_clusters.stop": by_cluster(v1.StopV1Cluster, preserve_data=False),
    "gpu_clusters.delete": by_cluster(v1.DeleteV1Cluster, stopped=True, confirm_deletion="DELETE"),
    "gpu_clusters.operation": last_operation,
    "gpu_clusters.progress": by_cluster(v1.V1ClusterId),
    "gpu_ports.get": by_cluster(ports.GetProxy),
    "gpu_ports.set": by_cluster(ports.SetProxy, port_mappings=[ports.PortUpdate(internal_port=8888)]),
    "gpu_ports.add": by_cluster(ports.AddPort, internal_port=8888),
    "gpu_ports.change": by_port(ports.ChangePort, description="other"),
    "gpu_ports.remove": by_port(ports.RemovePort),
    "gpu_schedules.create": by_cluster(model.CreateSchedule, action=model.Action.STOP, cron="0 8 * * *"),
    "gpu_schedules.list": by_cluster(v1.V1ClusterId),
    "gpu_schedules.get": scheduled(model.NamedSchedule),
    "gpu_schedules.update": scheduled(model.UpdateSchedule, paused=True),
    "gpu_schedules.delete": scheduled(model.NamedSchedule),
    "gpu_snapshots.create": by_cluster(snapshots.CreateSnapshot),
    "gpu_snapshots.list": by_cluster(snapshots.ListSnapshots),
    "gpu_snapshots.get": its_snapshot,
    "gpu_snapshots.delete": its_snapshot,
    "workspace.changes": plain(changes.WatchChanges()),
    "clusters.list_attached": by_cluster(attached.Ref),
    "clusters.spark_ui_link": by_cluster(attached.LinkRequest),
    "clusters.list_logs": by_cluster(logs.ListLogs),
    "clusters.read_log": by_log(logs.ReadClusterLog),
    "clusters.follow_log": by_log(logs.FollowClusterLog),
    "clusters.metrics_snapshot": by_cluster(metrics.AskSnapshot),
    "clusters.metrics": by_cluster(AskRange),
    "machine.get": plain(Empty()),
    "runtimes.list": plain(Empty()),
    "runtimes.install": plain(RuntimeKey(key=SPARK_4.key)),
    "runtimes.remove": plain(RuntimeKey(key=SPARK_4.key)),
    "spend.workspace": plain(AskSpend()),
    "spend.cluster": by_cluster(AskClusterSpend),
    "spend.prices": plain(Empty()),
    "budgets.list": plain(AskBudgets()),
    "budgets.create": plain(SetBudget(display_name="data", amount=100)),
    "budgets.replace": its_budget(ReplaceBudget, display_name="data", amount=200),
    "budgets.delete": its_budget(BudgetId),
    "policies.create": plain(policies.CreatePolicy(name="a policy", definition="{}")),
    "policies.edit": by_policy(policies.EditPolicy, name="another", definition="{}"),
    "policies.delete": by_policy(policies.PolicyId),
    "policies.get": by_policy(policies.PolicyId),
    "policies.try": plain(TryPolicy(definition="{}", cluster=ClusterSpec(spark_version="", node_type_id="small", num_workers=1))),
    "policies.list": plain(policies.ListPolicies()),
    "policies.get_compliance": by_governed(policies.ComplianceOf),
    "policies.list_compliance": by_policy(policies.ListCompliance),
    "policies.enforce_compliance": by_governed(policies.EnforceCompliance),
    "policies.cancel_enforcement": by_governed(CancelPendingEnforcement, allow_missing=True),
    "policy_families.list": plain(policies.ListPolicyFamilies()),
    "policy_families.get": plain(policies.PolicyFamilyId(policy_family_id="job-cluster")),
    "query_history.list": plain(ListQueries()),
    "saved_queries.create": plain(savedqueries.CreateQuery()),
    "saved_queries.list": plain(savedqueries.ListSavedQueries()),
    "saved_queries.get": by_query(savedqueries.QueryId),
    "saved_queries.update": by_query(savedqueries.UpdateQuery, update_mask="tags"),
    "saved_queries.delete": by_query(savedqueries.QueryId),
    "statements.execute": new_statement,
    "statements.get": by_statement(statements.StatementId),
    "statements.cancel": by_statement(statements.StatementId),
    "statements.chunk": by_statement(statements.StatementChunk, chunk_index=0),
    "warehouses.create": new_warehouse,
    "warehouses.list": plain(warehouses.ListWarehouses()),
    "warehouses.data_sources": plain(Empty()),
    "warehouses.get": by_warehouse(warehouses.WarehouseId),
    "warehouses.delete": by_warehouse(warehouses.WarehouseId),
    "warehouses.edit": by_warehouse(warehouses.EditWarehouse, auto_stop_mins=30, node_type_id="small", name="edited"),
    "warehouses.start": by_warehouse(warehouses.WarehouseId, stopped=True),
    "warehouses.stop": by_warehouse(warehouses.WarehouseId),
    "warehouses.get_config": plain(Empty()),
    "warehouses.set_config": plain(warehouses.ChangeWarehouseConfig()),
    "instance_pools.create": plain(pools.CreateInstancePool(instance_pool_name="a pool", node_type_id="small")),
    "instance_pools.edit": edit_pool,
    "instance_pools.delete": one_pool,
    "instance_pools.get": one_pool,
    "instance_pools.list": plain(Empty()),
    "instance_pools.details": its_details,
    "global_init_scripts.create": plain(scripts.CreateGlobalInitScript(name="a script", script="ZXhpdA==")),
    "global_init_scripts.list": plain(Empty()),
    "global_init_scripts.get": global_script(scripts.GlobalInitScriptId),
    "global_init_scripts.update": global_script(scripts.UpdateGlobalInitScript),
    "global_init_scripts.delete": global_script(scripts.GlobalInitScriptId),
    "libraries.install": by_cluster(InstallLibraries, libraries=[Library(pypi=PythonPyPiLibrary(package="a"))]),
    "libraries.uninstall": by_cluster(UninstallLibraries, libraries=[Library(pypi=PythonPyPiLibrary(package="a"))]),
    "libraries.cluster_status": by_cluster(ask.ClusterId),
    "libraries.all_cluster_statuses": plain(Empty()),
    "contexts.create": by_cluster(commands.CreateContext, language="python"),
    "contexts.languages": by_cluster(commands.OfCluster),
    "contexts.status": by_cluster(commands.ContextRef, context_id=ID),
    "contexts.destroy": by_cluster(commands.ContextRef, context_id=ID),
    "commands.execute": by_cluster(commands.Command, context_id=ID, language="python", command="1"),
    "commands.status": by_cluster(commands.CommandRef, context_id=ID, command_id=ID),
    "commands.cancel": by_cluster(commands.CommandRef, context_id=ID, command_id=ID),
    "jobs.create": new_job,
    "jobs.create_older": new_job,
    "jobs.get": by_job(jobs.GetJob),
    "jobs.list": plain(jobs.ListJobs()),
    "jobs.get_older": by_job(jobs.GetJob),
    "jobs.list_older": plain(jobs.ListJobs()),
    "jobs.reset": by_job(jobs.ResetJob, new_settings=jobs.JobSettings(name="reset")),
    "jobs.reset_older": by_job(jobs.ResetJob, new_settings=jobs.JobSettings(name="reset")),
    "jobs.update": by_job(jobs.UpdateJob, new_settings=jobs.JobSettings(name="renamed")),
    "jobs.delete": by_job(jobs.JobId),
    "jobs.run_now": by_job(jobs.RunNow),
    "jobs.runs_cancel_all": by_job(jobs.CancelAllRuns),
    "jobs.runs_submit": submission,
    "jobs.runs_get": get_run,
    "jobs.runs_get_output": one_output,
    "jobs.runs_cells": notebook_run(view.GetRunCells),
    "jobs.runs_export": notebook_run(view.ExportRun),
    "jobs.runs_list": plain(view.ListRuns()),
    "jobs.runs_cancel": one_run,
    "jobs.runs_delete": finished_run,
    "jobs.runs_repair": repair,
    "dbfs.create": by_path(dbfs.DbfsCreate, overwrite=True),
    "dbfs.add-block": add_block,
    "dbfs.close": close_upload,
    "dbfs.put": by_path(dbfs.DbfsPut, overwrite=True),
    "dbfs.read": by_path(dbfs.DbfsRead),
    "dbfs.get-status": by_path(dbfs.DbfsPath),
    "dbfs.list": by_path(dbfs.DbfsPath),
    "dbfs.mkdirs": plain(dbfs.DbfsPath(path="/made")),
    "dbfs.delete": by_path(dbfs.DbfsDelete),
    "dbfs.move": move_file,
    "secrets.scopes_create": plain(secrets.CreateScope(scope="made")),
    "secrets.scopes_delete": by_scope(secrets.ScopeRef),
    "secrets.scopes_list": plain(Empty()),
    "secrets.put": by_scope(secrets.PutSecret, key="k", string_value="w"),
    "secrets.get": by_scope(secrets.SecretRef, key="k"),
    "secrets.delete": by_scope(secrets.SecretRef, key="k"),
    "secrets.list": by_scope(secrets.ScopeRef),
    "secrets.acls_put": by_scope(secrets.PutAcl, principal="users", permission=secrets.AclPermission.READ),
    "secrets.acls_get": by_scope(secrets.AclRef, principal=ADMIN.user_name),
    "secrets.acls_delete": by_scope(secrets.AclRef, principal=ADMIN.user_name),
    "secrets.acls_list": by_scope(secrets.ScopeRef),
    "secrets.rotate_key": plain(Empty()),
    "files.download": in_volume(volumes.DownloadFile, "file_path", "/Volumes/c/s/v/kept/f"),
    "files.upload": in_volume(volumes.UploadFile, "file_path", "/Volumes/c/s/v/kept/f", overwrite=True),
    "files.multipart_upload": in_volume(transfers.UploadAction, "file_path", "/Volumes/c/s/v/new", action="initiate-upload"),
    "files.create_upload_part_urls": in_upload(transfers.CreatePartUrls, start_part_number=1),
    "files.create_abort_upload_url": in_upload(transfers.CreateAbortUrl),
    "files.create_download_url": in_volume(transfers.CreateDownloadUrl, "path", "/Volumes/c/s/v/kept/f"),
    "files.delete": in_volume(volumes.FilePath, "file_path", "/Volumes/c/s/v/kept/f"),
    "files.list_directory": in_volume(volumes.ListDirectory, "directory_path", "/Volumes/c/s/v"),
    "files.make_directory": in_volume(volumes.DirectoryPath, "directory_path", "/Volumes/c/s/v/made"),
    "files.delete_directory": in_volume(volumes.DirectoryPath, "directory_path", "/Volumes/c/s/v/empty"),
    "catalogs.create": plain(catalog.CreateCatalog(name="main")),
    "catalogs.read": plain(catalog.CatalogName(name="main")),
    "catalogs.list": plain(catalog.ListCatalogs()),
    "catalogs.update": plain(catalog.UpdateCatalog(name="main")),
    "catalogs.delete": plain(catalog.DeleteCatalog(name="main")),
    "schemas.create": plain(catalog.CreateSchema(catalog_name="main", name="made")),
    "schemas.read": in_schema(catalog.SchemaName),
    "schemas.list": plain(catalog.ListSchemas(catalog_name="main")),
    "schemas.update": in_schema(catalog.UpdateSchema, comment="c"),
    "schemas.delete": in_schema(catalog.DeleteSchema),
    "metastores.current": plain(Empty()),
    "metastores.summary": plain(Empty()),
    "tables.list": plain(tables.ListTables(catalog_name="main", schema_name="default")),
    "functions.list": plain(tables.ListFunctions(catalog_name="main", schema_name="default")),
    "tables.read": table,
    "tables.exists": plain(tables.TableName(full_name="main.default.nothing")),
    "volumes.create": create_volume,
    "volumes.read": in_volume(volumes.VolumeName, "name", "c.s.v"),
    "volumes.list": in_volume(volumes.ListVolumes, "catalog_name", "c", schema_name="s"),
    "volumes.update": rename_volume,
    "volumes.delete": in_volume(volumes.VolumeName, "name", "c.s.v"),
    "workspace.get_status": in_workspace(workspace.GetStatus),
    "workspace.list": in_workspace(workspace.ListObjects),
    "workspace.mkdirs": plain(workspace.WorkspacePath(path="/Team/made")),
    "notification_destinations.create": plain(notifications.CreateDestination(display_name="d", config=HOOK)),
    "notification_destinations.list": plain(notifications.ListDestinations()),
    "notification_destinations.get": destination(notifications.DestinationId),
    "notification_destinations.update": destination(notifications.UpdateDestination, display_name="e"),
    "notification_destinations.delete": destination(notifications.DestinationId),
    "ip_access_lists.create": plain(ipaccess.CreateIpAccessList(label="a", list_type=ipaccess.ListType.BLOCK)),
    "ip_access_lists.list": plain(Empty()),
    "ip_access_lists.get": ip_access_list(ipaccess.IpAccessListId),
    "ip_access_lists.replace": ip_access_list(
        ipaccess.ReplaceIpAccessList, label="b", list_type=ipaccess.ListType.ALLOW, enabled=True
    ),
    "ip_access_lists.update": ip_access_list(ipaccess.UpdateIpAccessList, label="b"),
    "ip_access_lists.delete": ip_access_list(ipaccess.DeleteIpAccessList),
    "workspace_conf.get": plain(workspaceconf.GetWorkspaceConf(keys="enableIpAccessLists")),
    "workspace_conf.update": plain(workspaceconf.SetWorkspaceConf(settings={"maxTokenLifetimeDays": "730"})),
    **{name: plain(Empty()) for name in OPERATIONS if name.startswith("empty_lists.")},
    "workspace.make_home": plain(workspace.UserId(id=ADMIN.user_id)),
    "workspace.delete": in_workspace(workspace.DeleteObject),
    "workspace.import": in_workspace(workspace.ImportObject, content="eA==", format=Format.RAW, overwrite=True),
    "workspace.export": in_workspace(workspace.ExportObject),
    "workspace_versions.list": of_notebook(workspace.WorkspacePath, versioned=False),
    "workspace_versions.export": of_notebook(workspace.ReadVersion, versioned=True),
    "workspace_files.import": in_workspace(workspace.ImportFile, overwrite=True),
    "workspace_files.read": in_workspace(workspace.ReadFile),
    **{
        name: example
        for of in (
            "clusters",
            "warehouses",
            "instance_pools",
            "cluster_policies",
            "jobs",
            "query",
            "notebooks",
            "files",
            "directories",
            "tokens",
            "passwords",
        )
        for name, example in permissions_of(of).items()
    },
    "current_user.me": plain(scim.ScimGet()),
    **of_identity("users", lambda number: {"userName": f"u{number}@example.com"}),
    **of_identity("service_principals", lambda number: {"displayName": f"s{number}"}),
    **of_identity("groups", lambda number: {"displayName": f"g{number}"}),
    "named_groups.list": plain(Empty()),
    **{
        f"named_groups.{verb}": by_name(verb)
        for verb in ("create", "delete", "list_members", "list_parents", "add_member", "remove_member")
    },
    "tokens.create": plain(tokens.CreateTokenRequest()),
    "sessions.make_link": plain(links.AskLink(base_url="http://here")),
    "tokens.list": plain(Empty()),
    "audit_logs.list": plain(ListAuditLogs()),
    "audit_logs.export": plain(ListAuditLogs()),
    "tokens.delete": delete_token,
    "tokens.update": any_token(token=tokens.TokenChange(comment="c"), update_mask="comment"),
    "token_management.create_on_behalf": on_behalf,
    "token_management.create_for": for_somebody,
    "service_principal_secrets.create": client_secret(oauth.CreateSecretRequest),
    "service_principal_secrets.list": client_secret(oauth.SecretsOf),
    "service_principal_secrets.delete": client_secret(oauth.SecretId),
    "token_management.list": plain(tokens.ListTokensRequest()),
    "token_management.get": any_token(),
    "token_management.update": any_token(token=tokens.TokenChange(comment="c"), update_mask="comment"),
    "token_management.delete": any_token(),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("permissions"))
    yield made
    made.store.close()


def named(request: object, field: str) -> set[str]:
    """What a request's field holds; dots lead into it, and lists are of several."""
    if isinstance(request, list | tuple):
        return set[str]().union(*(named(each, field) for each in request))
    if request is None or not field:
        return set() if request is None else {str(request)}
    first, _, rest = field.partition(".")
    return named(getattr(request, first), rest)


async def objects(need: Need, request: msgspec.Struct, world: World) -> set[str]:
    """The ids of the objects that a need is about."""
    if need.of in ("", EVERY):
        return {need.of}
    if need.kind is ObjectKind.WORKSPACE_PATH and need.of == "object_id":
        found = await world.context.services.workspace.find(int(next(iter(named(request, need.of)))))
        assert found is not None
        return {path_of(found.entry.parts)}
    if need.kind is ObjectKind.WORKSPACE_PATH and need.of == "id":
        user = await world.store.read(lambda tx: tx.users.by_id(next(iter(named(request, need.of)))))
        assert user is not None
        return {f"/Users/{user.user_name}"}
    return {world.path()} if need.of == "handle" else named(request, need.of)


def test_every_operation_for_users_declares_what_it_needs() -> None:
    for operation in OPERATIONS.values():
        assert bool(operation.needs) == (operation.auth is Auth.USER), operation.name
        for need in operation.needs:
            assert need.permission in PERMISSIONS[need.kind], operation.name
            fields = operation.request.__struct_fields__
            assert need.of in ("", EVERY) or need.of.partition(".")[0] in fields or hasattr(operation.request, need.of), (
                operation.name
            )


@pytest.mark.parametrize("name", FOR_USERS)
async def test_what_is_declared_is_asked_for(world: World, name: str) -> None:
    operation = OPERATIONS[name]
    request = await EXAMPLES[name](world)
    world.recorder.asked.clear()
    with pytest.raises(ApiError) if name in ALWAYS_REFUSED else contextlib.nullcontext():
        await call(operation, world.context, request)
    needed = [need for need in operation.needs if not (need.unless and named(request, need.unless))]
    declared = {Asked(need.permission, need.kind, id) for need in needed for id in await objects(need, request, world)}
    assert set(world.recorder.asked) == declared
    assert {asked.permission for asked in declared} == {need.permission for need in needed}, "the example is whole"


@pytest.mark.parametrize("name", FOR_USERS)
async def test_who_has_no_permission_changes_and_learns_nothing(world: World, name: str) -> None:
    operation = OPERATIONS[name]
    request = await EXAMPLES[name](world)
    before, calls = world.dump(), world.agents.calls
    world.recorder.denies = True
    try:
        if any(need.of == EVERY for need in operation.needs):
            assert await shown(operation, world, request) == 0
        else:
            with pytest.raises(PermissionDenied, match="may not"):
                await call(operation, world.context, request)
    finally:
        world.recorder.denies = False
    assert (world.dump(), world.agents.calls) == (before, calls)


async def shown(operation: Operation, world: World, request: msgspec.Struct) -> int:
    """How many objects a list has."""
    answer = await call(operation, world.context, request)
    if isinstance(answer, Stream):
        return 0  # what a stream shows: tests/features/changes/test_changes.py
    decoded = msgspec.json.decode(answer if isinstance(answer, bytes) else msgspec.json.encode(answer))
    lists = [decoded] if isinstance(decoded, list) else decoded.values()
    return sum(len(value) for value in lists if isinstance(value, list))


async def test_an_upload_as_a_form_is_asked_for_as_well(world: World) -> None:
    async def parts() -> AsyncIterator[tuple[str, bytes]]:
        for part in (("contents", b"x"), ("path", b"/form"), ("overwrite", b"true")):
            yield part

    upload = OPERATIONS["dbfs.put"].upload
    assert upload is not None
    before = world.dump()
    world.recorder.denies = True
    try:
        with pytest.raises(PermissionDenied):
            await upload(world.context, USER, parts())
    finally:
        world.recorder.denies = False
    assert world.dump() == before
    world.recorder.asked.clear()
    await upload(world.context, USER, parts())
    assert world.recorder.asked == [Asked(Permission.CAN_EDIT, ObjectKind.DBFS_PATH, "/form")]


async def test_lists_show_what_the_caller_may_see(world: World) -> None:
    """Page by page as well: what is hidden takes no place on a page."""

    context = world.context
    mine = [await context.services.clusters.create(SOMEBODY, ASK) for _ in range(3)]
    shared = await world.cluster()
    grant = Grant(SOMEBODY.user_id, Permission.CAN_ATTACH_TO)
    await world.store.write(lambda tx: tx.grants.put(Place(ObjectKind.CLUSTER, shared), [grant]))
    my_pool = await context.services.pools.create(
        SOMEBODY, pools.CreateInstancePool(instance_pool_name="mine", node_type_id="small")
    )
    await world.cluster()
    await world.run()
    everything = json.loads(await context.services.clusters.list(SOMEBODY, ask.ListClusters(), paged=False))
    assert {item["cluster_id"] for item in everything["clusters"]} == {*mine, shared}
    first = json.loads(await context.services.clusters.list(SOMEBODY, ask.ListClusters(page_size=2), paged=True))
    rest = ask.ListClusters(page_size=2, page_token=first["next_page_token"])
    last = json.loads(await context.services.clusters.list(SOMEBODY, rest, paged=True))
    assert [len(page["clusters"]) for page in (first, last)] == [2, 2]
    assert "next_page_token" not in last
    my_runs = [await world.run(by=SOMEBODY) for _ in range(3)]
    runs = await context.services.runs.list(SOMEBODY, view.ListRuns(limit=2))
    more = await context.services.runs.list(SOMEBODY, view.ListRuns(limit=2, page_token=runs.next_page_token))
    by_offset = await context.services.runs.list(SOMEBODY, view.ListRuns(limit=2, offset=2))
    assert {run.run_id for run in [*(runs.runs or ()), *(more.runs or ())]} == set(my_runs)
    assert [run.run_id for run in by_offset.runs or ()] == [run.run_id for run in more.runs or ()]
    assert (runs.has_more, more.has_more, by_offset.has_more) == (True, False, False)
    shown = (await context.services.pools.list(SOMEBODY)).instance_pools or []
    assert [pool.instance_pool_id for pool in shown] == [my_pool]


def test_the_page_has_every_operation_and_what_it_takes() -> None:
    assert PAGE.read_text() == page(), "write it anew: ./dev python -m tests.api.permission_table"
