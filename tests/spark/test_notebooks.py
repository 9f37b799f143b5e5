"""Notebooks of the workspace on a cluster: imported through the SDK, run from a context."""

from __future__ import annotations

import base64

import pytest
from databricks.sdk.service.compute import ResultType
from databricks.sdk.service.workspace import ImportFormat, Language

from tests.spark.shared import Lent

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

CHILD = """# Databricks notebook source
dbutils.widgets.text("n", "0")

# COMMAND ----------

# MAGIC %run ./parts $unit="m"

# COMMAND ----------

# MAGIC %sql
# MAGIC create or replace temp view numbers as select id from range(${n})

# COMMAND ----------

count = spark.table("numbers").count()
dbutils.notebook.exit(f"{count} {length}")
"""


def test_notebooks_run_with_their_parameters(lent_single: Lent) -> None:
    single = lent_single
    w, context = single.user.w, single.context()
    me = str(w.current_user.me().user_name)
    folder = f"/Users/{me}{single.directory}"

    def text(code: str) -> str:
        answer = single.finish(context, single.begin(context, code))
        assert answer.results is not None and answer.results.result_type is ResultType.TEXT, answer
        return str(answer.results.data)

    w.workspace.mkdirs(folder)
    try:
        for name, source in (("child", CHILD), ("parts", "length = dbutils.widgets.get('unit')\n")):
            content = base64.b64encode(source.encode()).decode()
            w.workspace.import_(f"{folder}/{name}", content=content, format=ImportFormat.SOURCE, language=Language.PYTHON)
        assert text(f"print(dbutils.notebook.run('{folder}/child', 120, {{'n': '7'}}))") == "7 m"
        assert text(f'%run {folder}/child $n="5"') == "5 m"
        assert text("print(count, length)") == "5 m"
        assert text("dbutils.widgets.text('k', '3')\nprint(sql('select 1').count())") == "1"
        rows = single.finish(context, single.begin(context, "%sql select id from range(9) where id < int(:k) and id <> ${k} - 1"))
        assert rows.results is not None and rows.results.data == [[0], [1]]
        about = "dbutils.notebook.entry_point.getDbutils().notebook().getContext().tags()"
        assert text(f"print({about}.apply('user'), {about}.apply('clusterId'))") == f"{me} {single.cluster_id}"
        version = "import os\nos.environ['DATABRICKS_RUNTIME_VERSION']"
        assert text(version) == "'17.3'"
        workers = "sc.parallelize([1], 1).map(lambda _: __import__('os').environ['DATABRICKS_RUNTIME_VERSION']).first()"
        assert text(workers) == "'17.3'"
        assert text("sc._jvm.System.getenv('DATABRICKS_RUNTIME_VERSION')") == "'17.3'"
        assert text("%sh ls -d /Workspace/Shared /Workspace/Users; false") == "/Workspace/Shared\n/Workspace/Users"
    finally:
        w.workspace.delete(folder, recursive=True)
