"""Whose a session is, on real Spark: users of one cluster, through the official SDK and through PySpark's own Connect client."""

from __future__ import annotations

import subprocess

import pytest
from databricks.sdk import WorkspaceClient

from brickyard.sandbox import launcher
from tests.spark.live import Live, User
from tests.spark.shared import Lent
from tests.support.patience import PATIENCE_S
from tests.support.runtimes import SPARK_4, manifest_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

NAMES = "SELECT current_user(), session_user(), user(), current_user"
# As what one user's session leaves behind must not name the next user of the same cluster.
SAY = f"""
from pyspark.sql import functions as F
cached = spark.sql("SELECT current_user() AS me").cache()
found = {{*spark.sql("{NAMES}").first(), cached.first().me}}
if "connect" not in type(spark).__module__:
    found.add(spark.newSession().sql("SELECT user()").first()[0])
if hasattr(F, "current_user"):
    found.add(spark.range(1).select(F.current_user()).first()[0])
print(*found)
"""
TRY = """
for statement in ("SET spark.brickyard.user=somebody", "SET spark.sql.currentUser=somebody", "RESET"):
    spark.sql(statement)
print(spark.sql("SELECT current_user()").first()[0])
"""
CLIENT = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
spark.sql("CREATE TEMPORARY VIEW v AS SELECT current_user() AS me, current_catalog() AS here")
spark.conf.set("spark.scheduler.pool", "mine")
print(spark.sql("SELECT current_user()").first()[0], spark.table("v").first().me, spark.range(10).count())
spark.sql("USE CATALOG main")
print(spark.sql("SELECT current_catalog()").first()[0])
"""


def another(user: User, lent: Lent, name: str) -> WorkspaceClient:
    """A client of another user, who may attach to the cluster."""
    user.w.users.create(user_name=name)
    user.w.api_client.do(
        "PATCH", f"/api/2.0/permissions/clusters/{lent.cluster_id}",
        body={"access_control_list": [{"user_name": name, "permission_level": "CAN_ATTACH_TO"}]},
    )  # fmt: skip
    made = user.w.api_client.do("POST", "/api/2.1/token-management/tokens", body={"user_name": name})
    assert isinstance(made, dict)
    return WorkspaceClient(host=user.w.config.host, token=str(made["token_value"]))


def connected(lent: Lent, w: WorkspaceClient) -> str:
    """What the stock client prints that has that client's token."""
    assert isinstance(lent.user, Live)
    url = f"sc://localhost:{lent.user.settings.connect_port}/;token={w.config.token};x-databricks-cluster-id={lent.cluster_id}"
    argv = [manifest_of(SPARK_4)["python"], "-c", CLIENT, url]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check(lent: Lent) -> None:
    mine = str(lent.user.w.current_user.me().user_name)
    name = f"{lent.directory[1:]}@example.com"
    other = User(another(lent.user, lent, name))
    try:
        assert lent.run(SAY) == mine
        assert other.run(lent.cluster_id, SAY) == name
        assert other.run(lent.cluster_id, TRY) == name
        assert lent.run(SAY) == mine
        assert connected(lent, other.w).split() == [name, name, "10", "main"]
        assert connected(lent, lent.user.w).split() == [mine, mine, "10", "main"]
    finally:
        (made,) = lent.user.w.users.list(filter=f'userName eq "{name}"')
        lent.user.w.users.delete(str(made.id))


def test_a_session_is_its_users(lent_single: Lent) -> None:
    check(lent_single)


@pytest.mark.extended  # a cluster of its own; test_user_isolation.py has its sessions
@pytest.mark.skipif(launcher.probe().kind != "namespaces", reason="users are kept apart in cells, which take namespaces")
def test_so_it_is_where_users_are_kept_apart(lent_isolated: Lent) -> None:
    check(lent_isolated)
