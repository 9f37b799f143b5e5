"""What the workspace's metastore costs: the first table that a driver makes, the next ones, and finding another cluster's.

Each round is a new cluster of one node, which has answered a query before. A temporary view, made first, says what Spark's SQL
itself takes in a new session.
"""

from __future__ import annotations

import json
import statistics

from bench._common import table
from bench._servers import brickyard
from bench.start import NODE_TYPE, QUERY, Api, install

RUNTIME, ROUNDS, MORE = "17.3.x-scala2.13", 3, 10
FIRST_S, NEXT_S = 1.5, 0.3
MEASURED = """
import json, time
def took(*statements):
    began = time.monotonic()
    for statement in statements:
        spark.sql(statement)
    return (time.monotonic() - began) / len(statements)
view = took("create temporary view v as select 1 as id")
first = took("create table first_ROUND (id bigint)")
more = took(*[f"create table next_ROUND_{number} (id bigint)" for number in range(MORE)])
others = took(*[f"describe table next_OTHER_{number}" for number in range(MORE if OTHER else 0)]) if OTHER else 0.0
filled = took("insert into first_ROUND select id from range(1000)")
print(json.dumps([view, first, more, others, filled]))
"""


def main(rounds: int = ROUNDS) -> int:
    """Prints the table. Returns 1 if a limit is missed."""
    install(RUNTIME)
    found = []
    with brickyard(provider="local") as served:
        api = Api(served.url)
        for number in range(1, rounds + 1):
            code = MEASURED.replace("ROUND", str(number)).replace("OTHER", str(number - 1)).replace("MORE", str(MORE))
            found.append(_measured(api, code))
    view, first, more, _, filled = (statistics.median(each) for each in zip(*found, strict=True))
    others = statistics.median(each[3] for each in found[1:])
    rows = [
        ("a temporary view, which asks no metastore", view, "", ""),
        ("the first CREATE TABLE", first, "✓" if first <= FIRST_S else "✗", FIRST_S),
        (f"each of the {MORE} next", more, "✓" if more <= NEXT_S else "✗", NEXT_S),
        (f"DESCRIBE of each of {MORE} tables of another cluster", others, "", ""),
        ("the first INSERT of 1,000 rows", filled, "", ""),
    ]
    table(f"Tables: on a new cluster of one node, s, medians of {rounds} clusters", ("", "measured", "", "at most"), rows)
    return int(first > FIRST_S or more > NEXT_S)


def _measured(api: Api, code: str) -> list[float]:
    spec = {"cluster_name": "tables", "num_workers": 0, "spark_version": RUNTIME, "node_type_id": NODE_TYPE,
            "spark_conf": {"spark.databricks.cluster.profile": "singleNode", "spark.master": "local[*]"}}  # fmt: skip
    cluster_id = api.call("POST", "/api/2.1/clusters/create", spec)["cluster_id"]
    get = f"/api/2.1/clusters/get?cluster_id={cluster_id}"
    try:
        api.until(get, "state", "RUNNING", ("TERMINATED", "TERMINATING", "ERROR"))
        api.first_result(cluster_id, QUERY)
        taken: list[float] = json.loads(api.first_result(cluster_id, code))
    finally:
        api.call("POST", "/api/2.1/clusters/delete", {"cluster_id": cluster_id})
        api.until(get, "state", "TERMINATED", ())
    return taken


if __name__ == "__main__":
    raise SystemExit(main())
