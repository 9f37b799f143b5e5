"""What agents are given: values in place of references, in the name of the cluster's owner, and never in a row."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from brickyard.access import Authorizer
from brickyard.agent.converge import continued
from brickyard.domain.access import Grant, ObjectKind, Permission, Place
from brickyard.domain.cluster import Cluster
from brickyard.domain.errors import PermissionDenied, ResourceDoesNotExist
from brickyard.domain.node import Assignment, LogDestination, Role
from brickyard.domain.policies import EnforceCompliance, EnforceMode, PolicyRow
from brickyard.domain.requests import ClusterId, EditCluster, StartCluster
from brickyard.domain.secrets import SecretName
from brickyard.domain.variables import expanded
from brickyard.features.secrets.values import SecretValues
from brickyard.storage.sealer import Sealer
from brickyard.storage.vault import Vault
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from brickyard.testing.builders import cluster, instance
from tests.agent.world import assignment
from tests.features.secrets.test_secrets import OTHER, Shelf
from tests.support.databases import both_databases
from tests.support.desk import ADMIN, ASK, USER, Desk, refused
from tests.support.golden import Golden
from tests.support.world import agent_service

SEALER = Sealer(key=b"k" * 32)
CONF, VARIABLES = {"spark.a": "x-{{secrets/s/k}}"}, {"A": "{{ secrets/S/K }}", "B": "plain"}


class Delivery:
    """A cluster of one owner with references, and what its driver's agent is told."""

    def __init__(self, store: Store, place: Path, *, owner: str = USER.user_name) -> None:
        self.shelf = Shelf(store, place)
        values = SecretValues(authorizer=Authorizer(), vault=Vault(path=place / "secrets.key"), sealer=SEALER)
        self.agents = agent_service(store, delivery=values)
        self.store = store
        made: Cluster = cluster(creator_user_name=owner)
        made = msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, spark_conf=CONF, spark_env_vars=VARIABLES))
        self.driver = instance(made, role=Role.DRIVER)
        store.write_sync(lambda tx: tx.clusters.insert(made))
        store.write_sync(lambda tx: tx.instances.insert(self.driver))

    async def told(self) -> Assignment:
        self.agents.assignments_changed([self.driver.instance_id])
        reply = await self.agents.assignment(self.driver.instance_id, 0, 0)
        assert reply.assignment is not None
        return reply.assignment

    async def refusal(self) -> tuple[str, str]:
        told = await self.told()
        assert told.refusal is not None
        assert not told.spark_conf and not told.spark_env_vars and not told.redact
        return told.refusal.code, told.refusal.message


@pytest.fixture
def delivery(store: Store, tmp_path: Path) -> Delivery:
    return Delivery(store, tmp_path)


@both_databases
async def test_values_are_delivered_and_in_no_row(delivery: Delivery) -> None:
    await delivery.shelf.filled()
    told = await delivery.told()
    assert told.spark_conf == {"spark.a": "x-hunter2"}
    assert SEALER.open([told.sealed]) == told.redact
    assert "hunter2" not in told.sealed
    assert told.spark_env_vars == {"A": "hunter2", "B": "plain"}
    assert told.redact == ("hunter2",)
    assert told.refusal is None

    def rows(tx: Any) -> str:
        return repr([tx._connection.exec_driver_sql(f"SELECT * FROM {table}").all() for table in ("instances", "clusters")])  # noqa: S608 - our own names

    assert "hunter2" not in delivery.store.read_sync(rows)


async def test_what_is_in_a_secret_is_no_reference_to_a_variable(delivery: Delivery) -> None:
    await delivery.shelf.calls.create_scope(USER, "s")
    await delivery.shelf.calls.put(USER, SecretName("s", "k"), string_value="a$HOME\\")
    given = delivery.driver.assignment
    assert given is not None
    changed = msgspec.structs.replace(given, spark_env_vars={"A": "{{secrets/s/k}}${HOME}:{{secrets/s/k}}"}, spark_conf={})
    delivery.store.write_sync(lambda tx: tx.instances.update(msgspec.structs.replace(delivery.driver, assignment=changed)))
    told = await delivery.told()
    assert expanded(told.spark_env_vars, {"HOME": "/h"}) == {"A": "a$HOME\\/h:a$HOME\\"}
    assert told.redact == ("a$HOME\\",)


async def test_credentials_for_logs_go_along_sealed(delivery: Delivery) -> None:
    await delivery.shelf.filled()
    logs = LogDestination(kind="s3", path="a", bucket="b", region="r")
    variables = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "{{secrets/s/k}}", "OTHER": "o"}
    given = delivery.driver.assignment
    assert given is not None
    changed = msgspec.structs.replace(given, logs=logs, spark_env_vars=variables)
    row = msgspec.structs.replace(delivery.driver, assignment=changed)
    delivery.store.write_sync(lambda tx: tx.instances.update(row))
    told = (await delivery.told()).logs
    assert told is not None
    assert SEALER.open_variables(told.sealed) == {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "hunter2"}
    stored = delivery.store.read_sync(lambda tx: tx.instances.get(row.instance_id))
    assert stored is not None
    assert stored.assignment == changed


async def test_what_cannot_be_read_says_which_secret_and_why(delivery: Delivery, golden: Golden) -> None:
    calls = delivery.shelf.calls
    code, why = await delivery.refusal()
    assert code == "SECRET_RESOLUTION_ERROR"
    golden(why, "k of scope s")
    await calls.create_scope(ADMIN, "s")
    code, why = await delivery.refusal()
    assert code == "SECRET_PERMISSION_DENIED"
    golden(why, "k of scope s", USER.user_name)
    await calls.put_acl(ADMIN, "s", Grant(USER.user_name, Permission.READ))
    code, why = await delivery.refusal()
    assert code == "SECRET_RESOLUTION_ERROR"
    golden(why, "k of scope s")
    for value in (b"\xff\xfe", b"a\0b", b"x" * 128 * 1024):
        await calls.put(ADMIN, SecretName("s", "k"), bytes_value=base64.b64encode(value).decode())
        code, why = await delivery.refusal()
        assert code == "SECRET_RESOLUTION_ERROR"
        golden(why)
    await calls.put(ADMIN, SecretName("s", "k"), string_value="fine")
    assert (await delivery.told()).spark_env_vars["A"] == "fine"
    delivery.shelf.key_file.write_text("3" * 64)
    code, why = await delivery.refusal()
    assert (code, "Restore" in why) == ("SECRET_RESOLUTION_ERROR", True)


async def test_an_owner_who_is_gone_reads_nothing(store: Store, tmp_path: Path) -> None:
    delivery = Delivery(store, tmp_path, owner="gone@example.com")

    await delivery.shelf.filled()
    await delivery.shelf.calls.put_acl(USER, "s", Grant("users", Permission.READ))
    assert (await delivery.refusal())[0] == "SECRET_PERMISSION_DENIED"


def _refer(key: str, **more: str) -> EditCluster:
    fields = {name: getattr(ASK, name) for name in ("cluster_name", "spark_version", "node_type_id", "num_workers")}
    return EditCluster(**fields, cluster_id=key, spark_env_vars={"A": "{{secrets/s/k}}", **more})


async def test_only_who_may_read_a_secret_can_refer_to_it(store: Store, tmp_path: Path) -> None:
    """Else whoever may change a cluster could read its owner's secrets there."""
    desk, shelf = Desk(store), Shelf(store, tmp_path)

    asked = msgspec.structs.replace(ASK, spark_env_vars={"A": "{{secrets/s/k}}"})
    await refused(ResourceDoesNotExist, desk.service.create(USER, asked))
    await shelf.filled()
    await shelf.calls.create_scope(USER, "t")
    why = await refused(PermissionDenied, desk.service.create(OTHER, asked))
    assert "READ" in why
    mine = await desk.service.create(USER, asked)
    await desk.service.delete(USER, ClusterId(cluster_id=mine))
    await desk.settle(mine, ended=True)
    granted = [Grant(OTHER.user_id, Permission.CAN_MANAGE)]
    await store.write(lambda tx: tx.grants.put(Place(ObjectKind.CLUSTER, mine), granted))
    await desk.service.edit(OTHER, _refer(mine))  # what is there already may stay
    for more in ("{{secrets/t/k}}", "{{secrets/s/another}}"):
        await refused(PermissionDenied, desk.service.edit(OTHER, _refer(mine, B=more)))
        await desk.service.edit(USER, _refer(mine, B=more))
        await desk.service.edit(USER, _refer(mine))
    theirs = await desk.service.create(OTHER, ASK)
    managing = [Grant(USER.user_id, Permission.CAN_MANAGE)]
    await store.write(lambda tx: tx.grants.put(Place(ObjectKind.CLUSTER, theirs), managing))
    await desk.service.delete(USER, ClusterId(cluster_id=theirs))
    await desk.settle(theirs, ended=True)
    assert OTHER.user_name in await refused(PermissionDenied, desk.service.edit(USER, _refer(theirs)))
    await desk.service.start(OTHER, StartCluster(cluster_id=mine))


async def test_who_edits_may_read_the_secrets_that_a_policy_adds(store: Store, tmp_path: Path) -> None:
    desk, shelf = Desk(store), Shelf(store, tmp_path)
    await shelf.calls.create_scope(USER, "t")
    definition = json.dumps({"spark_env_vars.B": {"type": "fixed", "value": "{{secrets/t/k}}"}})
    mine = await desk.service.create(USER, ASK)
    await desk.service.delete(USER, ClusterId(cluster_id=mine))
    await desk.settle(mine, ended=True)
    uses, manages = [Grant(OTHER.user_id, Permission.CAN_USE)], [Grant(OTHER.user_id, Permission.CAN_MANAGE)]

    def work(tx: Tx) -> None:
        tx.policies.put(PolicyRow(policy_id="p", name="p", definition=definition, creator_user_name=USER.user_name))
        tx.grants.put(Place(ObjectKind.CLUSTER_POLICY, "p"), [*uses, Grant(USER.user_id, Permission.CAN_USE)])
        tx.grants.put(Place(ObjectKind.CLUSTER, mine), manages)

    await store.write(work)
    governed = msgspec.structs.replace(ASK, policy_id="p")
    known = msgspec.structs.asdict(governed)
    edit = EditCluster(cluster_id=mine, **{name: known[name] for name in known.keys() & set(EditCluster.__struct_fields__)})
    assert "READ" in await refused(PermissionDenied, desk.service.create(OTHER, governed))
    assert "READ" in await refused(PermissionDenied, desk.service.edit(OTHER, edit))
    await desk.service.edit(USER, edit)
    await desk.service.edit(OTHER, edit)  # what is there already may stay
    assert (await desk.get(mine))["spark_env_vars"] == {"B": "{{secrets/t/k}}"}


async def test_who_enforces_a_policy_may_read_the_secrets_that_it_adds(store: Store, tmp_path: Path) -> None:
    """Else whoever may change a cluster could have the policy bring its owner's secrets there, or an owner get others'."""
    desk, shelf = Desk(store), Shelf(store, tmp_path)
    await shelf.calls.create_scope(USER, "t")
    fixed = {"spark_env_vars.B": {"type": "fixed", "value": "{{secrets/t/k}}"}}
    policy = PolicyRow(policy_id="p", name="p", definition="{}", creator_user_name=ADMIN.user_name)
    uses = [Grant(each.user_id, Permission.CAN_USE) for each in (USER, OTHER)]

    def work(tx: Tx) -> None:
        tx.policies.put(policy)
        tx.grants.put(Place(ObjectKind.CLUSTER_POLICY, "p"), uses)

    await store.write(work)
    mine, theirs = [await desk.service.create(each, msgspec.structs.replace(ASK, policy_id="p")) for each in (USER, OTHER)]
    manages = [Grant(OTHER.user_id, Permission.CAN_MANAGE)]
    await store.write(lambda tx: tx.grants.put(Place(ObjectKind.CLUSTER, mine), manages))
    await store.write(lambda tx: tx.policies.put(msgspec.structs.replace(policy, definition=json.dumps(fixed))))
    later = EnforceMode.WAIT_FOR_TERMINATION
    for caller, cluster_id, mode in ((OTHER, mine, None), (OTHER, theirs, None), (ADMIN, theirs, None), (ADMIN, theirs, later)):
        before = await desk.row(cluster_id)
        enforce = EnforceCompliance(cluster_id=cluster_id, enforce_mode=mode)
        assert "READ" in await refused(PermissionDenied, desk.service.enforce_compliance(caller, enforce))
        assert await desk.row(cluster_id) == before
    await desk.bring_up(mine)
    done = await desk.service.enforce_compliance(USER, EnforceCompliance(cluster_id=mine))
    assert done.has_changes and (await desk.row(mine)).spec.spark_env_vars == {"B": "{{secrets/t/k}}"}


def test_a_running_node_keeps_what_it_was_given() -> None:
    first = assignment(spark_env_vars={"A": "hunter2"}, redact=("hunter2",))
    later = assignment(version=2, master_url="spark://x:1", refusal=None, spark_env_vars={})
    assert continued(later, first) == msgspec.structs.replace(first, version=2, master_url="spark://x:1")
    assert continued(assignment(version=3, generation=2), first) == assignment(version=3, generation=2)
    assert continued(None, first) is None
