"""What the workspace's metastore costs: the first table that a driver makes, the next ones, and finding another cluster's.

Each round is a new cluster of one node, which has answered a query before. A temporary view, made first, says what Spark's SQL
itself takes in a new session.
"""

from __future__ import annotations

import json
import statistics

from bench._client import ALONE, Api
from bench._harness import RUNTIME, limited, table
from bench._servers import brickyard
from bench.start import NODE_TYPE, QUERY, install

ROUNDS, MORE = 3, 10
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
    install()
    found = []
    with brickyard(provider="local") as served:
        api = Api(served.url)
        for number in range(1, rounds + 1):
            code = MEASURED.replace("ROUND", str(number)).replace("OTHER", str(number - 1)).replace("MORE", str(MORE))
            found.append(_measured(api, code))
    view, first, more, _, filled = (statistics.median(each) for each in zip(*found, strict=True))
    others = statistics.median(each[3] for each in found[1:])
    rows = [
        ("a temporary view, which asks no metastore", view, ""),
        ("the first CREATE TABLE", *limited(first, FIRST_S)),
        (f"each of the {MORE} next", *limited(more, NEXT_S)),
        (f"DESCRIBE of each of {MORE} tables of another cluster", others, ""),
        ("the first INSERT of 1,000 rows", filled, ""),
    ]
    return table(f"Tables: on a new cluster of one node, s, medians of {rounds} clusters", ("", "measured", "at most"), rows)


def _measured(api: Api, code: str) -> list[float]:
    with api.cluster("tables", spark_version=RUNTIME, node_type_id=NODE_TYPE, **ALONE) as cluster_id:
        api.first_result(cluster_id, QUERY)
        taken: list[float] = json.loads(api.first_result(cluster_id, code))
    return taken
