"""Users share a cluster's execution contexts; who may manage the cluster finds room."""

from __future__ import annotations

from pathlib import Path

from brickyard.access import Authorizer
from brickyard.access.objects import of_cluster
from brickyard.clusters.attach.shares import CONTEXTS, ContextShare, share_of
from brickyard.domain.access import Grant, Permission, Principal
from brickyard.store.store import Store
from brickyard.testing.builders import cluster
from tests.support.databases import empty_sqlite


def user(name: str, *, admin: bool = False) -> Principal:
    return Principal(user_name=name, user_id=name, is_admin=admin)


def test_who_manages_a_cluster_has_no_share(tmp_path: Path) -> None:
    store, made = Store.open(empty_sqlite(tmp_path / "db")), cluster(creator_user_name="owner")
    owner, admin, manager, attached = user("owner"), user("admin", admin=True), user("manager"), user("attached")
    grants = [Grant(manager.user_id, Permission.CAN_MANAGE), Grant(attached.user_id, Permission.CAN_ATTACH_TO)]
    store.write_sync(lambda tx: tx.clusters.insert(made))
    store.write_sync(lambda tx: tx.grants.put(of_cluster(made).places[0], grants))
    shares = store.read_sync(lambda tx: [share_of(tx, Authorizer(), each, made) for each in (owner, admin, manager, attached)])
    assert shares == [ContextShare()] * 3 + [ContextShare(CONTEXTS.share, CONTEXTS.reserve)]
    store.close()
