"""dbt tasks: what their driver is told, and their tokens, which count for one attempt and one warehouse."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from brickyard.access import Authorizer
from brickyard.access.users import new_user
from brickyard.domain.clock import Ids
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.identity import CredentialKind
from brickyard.domain.requests import CreateCluster
from brickyard.domain.tasks import DbtTask, ForEachTask, Source, SubmitTask
from brickyard.domain.warehouses import Warehouse
from brickyard.features.credentials.tasktokens import TaskTokens
from brickyard.features.credentials.tokens import TokenService
from brickyard.features.runs.model import RunId
from brickyard.plan.dbttasks import arguments, check
from brickyard.providers.simulated.kernels import Answer
from brickyard.store.store import Store
from tests.reconcile.runworld import ADMIN, CLUSTER, RunWorld
from tests.reconcile.world import CLOCK, provider

KEY = b"k" * 32


@pytest.fixture
async def world(store: Store, tmp_path: Path) -> AsyncIterator[RunWorld]:
    async with RunWorld(store, provider(), tmp_path).running() as world:
        user = new_user(ADMIN.user_name, ids=Ids(), now_ms=CLOCK.now_ms())
        await store.write(lambda tx: tx.users.put(user))
        yield world


def dbt(warehouse_id: str, *commands: str, **fields: Any) -> SubmitTask:
    what = DbtTask(commands=list(commands), project_directory="/Users/me/shop", warehouse_id=warehouse_id, **fields)
    return SubmitTask(task_key="dbt", new_cluster=CLUSTER, dbt_task=what)


async def a_warehouse(world: RunWorld, name: str) -> str:
    asked = CreateCluster(cluster_name=name, spark_version=CLUSTER.spark_version, node_type_id="small", num_workers=1)

    def work(tx: Any) -> str:
        made = world.clusters.warehouse_commands.create(tx, ADMIN, asked, stopped=True, warehouse=Warehouse(cluster_size="Small"))
        return str(made.cluster_id)

    return await world.store.write(work)


async def test_a_task_has_a_token_for_its_warehouse_until_it_is_over(world: RunWorld, store: Store) -> None:
    told: list[dict[str, Any]] = []

    def answer(command: str) -> Answer:
        told.append(json.loads(command.partition("\n")[2]))
        return Answer(results={"resultType": "text", "data": "Completed"}, after_s=3600.0)

    assert world.provider.kernels is not None
    world.provider.kernels.compute = answer
    on, other = await a_warehouse(world, "one"), await a_warehouse(world, "other")
    command = 'dbt run --vars \'{"id": "{{ job.run_id }}"}\' --select "a b"'
    run_id = await world.submit(dbt(on, "dbt deps", command, schema="shop"))
    await world.begun(run_id, "dbt")
    assert told[0]["commands"] == [["deps"], ["run", "--vars", f'{{"id": "{run_id}"}}', "--select", "a b"]]
    profile = told[0]["profile"]
    assert (profile["catalog"], profile["schema"], profile["http_path"]) == ("main", "shop", f"/sql/1.0/warehouses/{on}")
    assert told[0]["project"] == "/Workspace/Users/me/shop"
    tokens = TaskTokens(store=store, clock=CLOCK, key=KEY)
    found = await tokens.caller(profile["token"], on)
    assert found is not None
    assert found.user_name == ADMIN.user_name
    assert await tokens.again(found) is not None
    assert await tokens.caller(profile["token"], other) is None, "it is of its warehouse"
    everywhere = TokenService(store=store, clock=CLOCK, ids=Ids(), authorizer=Authorizer(), key=KEY)
    assert await everywhere.authenticate(profile["token"]) is None, "it counts nowhere else"
    await world.service.cancel(ADMIN, RunId(run_id=run_id))
    await world.over(run_id)
    assert await tokens.caller(profile["token"], on) is None
    assert await tokens.again(found) is None
    attempt = (await world.row(run_id)).tasks[0].attempts[0]
    made = await tokens.make(run_id=run_id, task_run_id=attempt.task_run_id, starting_ms=attempt.starting_ms, warehouse_id=on)
    assert made == "", "a slow server makes none after the end"
    assert await store.read(lambda tx: tx.tokens.all(CredentialKind.TASK)) == []


async def test_each_iteration_of_a_for_each_task_has_a_token_until_it_is_over(world: RunWorld, store: Store) -> None:
    told: list[dict[str, Any]] = []

    def answer(command: str) -> Answer:
        told.append(json.loads(command.partition("\n")[2]))
        return Answer(results={"resultType": "text", "data": "Completed"})

    assert world.provider.kernels is not None
    world.provider.kernels.compute = answer
    loop = ForEachTask(inputs="[1, 2]", task=dbt(await a_warehouse(world, "one"), "dbt run"))
    await world.over(await world.submit(SubmitTask(task_key="loop", for_each_task=loop)))
    tokens = [each["profile"]["token"] for each in told]
    assert all(tokens) and len(set(tokens)) == 2
    assert await store.read(lambda tx: tx.tokens.all(CredentialKind.TASK)) == []


@pytest.mark.parametrize(
    ("commands", "fields", "why"),
    [
        (("ls",), {}, "must begin with dbt"),
        (("dbt",), {}, "must begin with dbt"),
        (("dbt run '",), {}, "cannot be read"),
        ((), {}, "1 to 10"),
        (("dbt run",), {"profiles_directory": "p"}, "profiles_directory"),
        (("dbt run",), {"profiles_directory": "/p", "warehouse_id": None}, "profiles_directory"),
        (("dbt run",), {"profiles_directory": "a/../..", "warehouse_id": None}, "profiles_directory"),
        (("dbt run",), {"schema": "s", "warehouse_id": None}, "schema"),
        (("dbt run",), {"source": Source.GIT}, "GIT"),
    ],
)
def test_what_cannot_be_a_dbt_task(commands: tuple[str, ...], fields: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidParameterValue, match=why):
        check("", DbtTask(commands=list(commands), project_directory="/p", **({"warehouse_id": "w"} | fields)))


async def test_its_warehouse_must_be_one(world: RunWorld) -> None:
    with pytest.raises(InvalidParameterValue, match="SQL warehouse w does not exist"):
        await world.submit(dbt("w", "dbt run"))


async def test_without_a_warehouse_the_project_has_the_profile(world: RunWorld, store: Store) -> None:
    told: list[dict[str, Any]] = []

    def answer(command: str) -> Answer:
        told.append(json.loads(command.partition("\n")[2]))
        return Answer(results={"resultType": "text", "data": "Completed"})

    assert world.provider.kernels is not None
    world.provider.kernels.compute = answer
    for directory in (None, "conf/dbt"):
        run_id = await world.submit(dbt("", "dbt run", profiles_directory=directory))
        await world.over(run_id)
        assert (told[-1]["profiles"], "profile" in told[-1]) == (directory or "", False)
    assert await store.read(lambda tx: tx.tokens.all(CredentialKind.TASK)) == [], "no token is made"


def test_no_shell_expands_a_command() -> None:
    assert arguments("dbt run --select $HOME `id` > x; ls") == ["dbt", "run", "--select", "$HOME", "`id`", ">", "x;", "ls"]
    assert arguments("dbt run {{ job.parameters.a }}x") == ["dbt", "run", "{{job.parameters.a}}x"]
