"""Contexts with a local driver JVM behind them, for `test_kernels.py`: `python kernel_host.py SCRIPTS NODE_DIR` in a runtime's
interpreter. One JSON line `{"op", "args"}` in, one `{"result"}` or `{"error": [code, message]}` out, until the input ends."""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any


def main() -> None:
    scripts, node_dir = sys.argv[1:]
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the JVM and the kernels must not write into our answers
    sys.path.insert(0, scripts)
    contexts_module = importlib.import_module("contexts")
    sql = importlib.import_module("pyspark.sql")

    os.chdir(node_dir)
    spark = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    gateway = spark.sparkContext._gateway.gateway_parameters
    contexts = contexts_module.Contexts(
        python=sys.executable,
        node_dir=node_dir,
        gateway_port=gateway.port,
        gateway_secret=gateway.auth_token,
        env=dict(os.environ),
        cancel_group=spark.sparkContext.cancelJobGroup,
        limit=4,
    )

    def active_jobs() -> list[int]:
        return list(spark.sparkContext.statusTracker().getActiveJobsIds())

    print(json.dumps({"result": "ready"}), file=out, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        work: Any = active_jobs if request["op"] == "active_jobs" else getattr(contexts, request["op"])
        try:
            answer: dict[str, Any] = {"result": work(*request["args"])}
        except contexts_module.ContextError as error:
            answer = {"error": [error.code, error.message]}
        print(json.dumps(answer), file=out, flush=True)
    contexts.close()
    spark.stop()


if __name__ == "__main__":
    main()
