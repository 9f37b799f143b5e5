"""What notebooks find in a context: `%run`, `dbutils.notebook`, values of widgets in SQL, `%sh`, HTML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contexts.host import Context, Host, host_of
from tests.support.patience import until
from tests.support.runtimes import SPARK_4

pytestmark = pytest.mark.spark
PYTHON, SQL = "# Databricks notebook source", "-- Databricks notebook source"
NEXT = "# COMMAND ----------"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with host_of(SPARK_4, tmp_path_factory.mktemp("node")) as made:
        yield made


@pytest.fixture(scope="module")
def python(host: Host) -> Context:
    return host.new(user="ada@example.com")


def notebook(host: Host, path: str, *cells: str, language: str = "python") -> str:
    place = host.node_dir / f"notebooks{path}"
    place.parent.mkdir(parents=True, exist_ok=True)
    separator = f"\n\n{NEXT if language == 'python' else NEXT.replace('#', '--')}\n\n"
    place.write_text(f"{PYTHON if language == 'python' else SQL}\n{separator.join(cells)}\n")
    return path


def test_values_of_widgets_in_sql(python: Context) -> None:
    python.run("dbutils.widgets.text('n', '2'); dbutils.widgets.text('who', \"O'Brien ${n} -- \\\\\")")
    assert python.run("%sql select ${n} + 1 as a, '${n}' as b, `${n}` from (select 9 as `2`)")["data"] == [[3, "2", 9]]
    for marker in (":who", "getArgument('who')", 'GETARGUMENT ( "who" )'):
        assert python.run(f"%sql select {marker} as a where 2 = int(:n)")["data"] == [["O'Brien ${n} -- \\"]], marker
    assert python.run("%sql select getArgument('q', 'x') as a, 'a:n' as b, '1'::int as c")["data"] == [["x", "a:n", 1]]
    assert python.run("select :n as a", "sql")["data"] == [["2"]]
    assert "no widget 'missing'" in python.failure("%sql select '${missing}' as a")
    assert "'who' contains" in python.failure("%sql select '${who}' as a")
    assert "UNBOUND_SQL_PARAMETER" in python.failure("%sql select :missing")
    python.run("%sql set my.value = 7")
    settings = "%sql select ${my.value} as a, '${spark.sql.ansi.enabled}' as b -- ${nothing}"
    assert python.run(settings)["data"] == [[7, "true"]]
    assert python.text("getArgument('n'), getArgument('z', 'y')") == "('2', 'y')"
    python.run("dbutils.widgets.remove('n')")
    assert "no widget 'n'" in python.failure("%sql select ${n} as a")


def test_widgets_are_told_and_chosen(host: Host) -> None:
    context = host.new(user="eve@example.com")

    def values(code: str, chosen: dict[str, str], language: str = "python") -> tuple[dict[str, str], dict[str, Any]]:
        """Of the widgets after a command, and its status."""
        name = f"w{next(host._numbers)}"
        host.execute(context.name, name, language, code, chosen)
        status = context.end_of(name)
        return {each["name"]: each["value"] for each in status.get("widgets", [])}, status

    notebook(host, "/Users/eve/widgets", "dbutils.widgets.text('run', 'default')")
    assert values("1", {})[1].keys() == {"id", "status", "results"}
    make = "dbutils.widgets.dropdown('size', 'S', ['S', 'L'], 'The size'); print(dbutils.widgets.get('size'))"
    told, status = values(make, {"size": "L", "run": "chosen"})
    assert told == {"size": "L"} and status["results"]["data"] == "L"
    assert status["widgets"] == [
        {"name": "size", "kind": "dropdown", "label": "The size", "value": "L", "default": "S", "choices": ["S", "L"]}
    ]
    assert values("%run /Users/eve/widgets", {"size": "S", "run": "chosen"})[0] == {"size": "S", "run": "chosen"}
    assert values("select :size as a, :run as b", {"run": "x"}, "sql")[1]["results"]["data"] == [["S", "x"]]
    assert values("1/0", {"size": "L"})[0] == {"size": "L", "run": "x"}
    assert values("dbutils.widgets.remove('run')", {"run": "x"})[0] == {"size": "L"}
    started = context.start("dbutils.widgets.text('early', '1'); import time; time.sleep(600)")
    until(lambda: len(host.command_status(context.name, started).get("widgets", [])) == 2, "the widget of a command that runs")
    host.cancel(context.name, started)
    assert [each["name"] for each in context.end_of(started)["widgets"]] == ["size", "early"]
    removed, left = (values(f"dbutils.widgets.{code}", {})[1] for code in ("removeAll()", "text('a', '')"))
    assert removed["widgets"] == [] and [each["name"] for each in left["widgets"]] == ["a"]
    assert "widgets" not in values("dbutils.library.restartPython()", {"size": "L"})[1]
    assert values(make, {"size": "L"})[0] == {"size": "L"}
    host.destroy(context.name)


def test_widgets_in_sql_alone(host: Host) -> None:
    sql = host.new("sql")
    sql.run("CREATE WIDGET DROPDOWN day DEFAULT 'Tue' CHOICES select * from values ('Mon'), ('Tue')", "sql")
    sql.run("create widget text n default '3'", "sql")
    assert sql.run("select :day as a, ${n} as b", "sql")["data"] == [["Tue", 3]]
    sql.run("REMOVE WIDGET n", "sql")
    assert "no widget 'n'" in sql.failure("select ${n}", "sql")
    host.destroy(sql.name)


def test_a_notebook_task_has_values_of_others_and_sets_its_own(host: Host) -> None:
    path = notebook(
        host,
        "/Users/ada/task",
        "dbutils.widgets.text('day', 'monday'); values = dbutils.jobs.taskValues; print('printed')",
        "dbutils.library.restartPython()",
        "values = dbutils.jobs.taskValues\nvalues.set('rows', values.get('first', 'rows') + 1)\nvalues.set('name', 'zwei')",
        "try:\n    values.get('first', 'none')\nexcept ValueError:\n    values.set('missing', values.get('x', 'y', default=[1]))",
        "dbutils.notebook.exit(dbutils.widgets.get('day'))",
    )
    own = host.new(user="ada@example.com")
    asked = {"path": path, "arguments": {"day": "friday"}, "values": {"first": {"rows": 41}}}
    results = own.run(f"%%brickyard_notebook task second of run 7\n{json.dumps(asked)}")
    assert (results["data"], results["exited"], results["summary"]) == ("friday", True, "printed")
    assert results["values"] == {"rows": 42, "name": "zwei", "missing": [1]}
    for wrong in ("'x' * 50_000", "object()"):
        assert own.failure(f"dbutils.jobs.taskValues.set('a', {wrong})")
    host.destroy(own.name)


def test_a_notebook_task_keeps_what_each_cell_shows(host: Host) -> None:
    wait = host.node_dir / "work" / "go-on"
    cells = [
        "# MAGIC %md\n# MAGIC # Title",
        "# DBTITLE 1,Numbers\nimport matplotlib.pyplot as plt\nprint('first'); display(spark.range(2)); print('second')\n"
        "_ = plt.plot([1, 2])\ndisplayHTML('<b>bold</b>')\ndbutils.widgets.text('day', 'monday')",
        "# MAGIC %sql\n# MAGIC select :day as day",
        f"import os, time\nprint('half a', end='')\nwhile not os.path.exists({str(wait)!r}): time.sleep(0.02)\nprint(' line')",
        "dbutils.library.restartPython()",
        "# MAGIC %run ./more",
        "print('x' * 6_000_000)\n1 / 0",
        "print('never')",
    ]
    path = notebook(host, "/Users/ada/shows", *cells)
    notebook(host, "/Users/ada/more", "print('included')")
    own = host.new(user="ada@example.com")
    command = own.start(f"%%brickyard_notebook task it of run 7\n{json.dumps({'path': path, 'arguments': {}})}")

    def told(after: int = 0) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = host.command_cells(own.name, command, after)["cells"]
        return found

    until(lambda: len(told()) == 8 and 3 in [each["number"] for each in told() if each["state"] == "RUNNING"])
    assert sorted(each["number"] for each in told() if each["results"]) == [0, 1, 2], "half a line is not told"
    version = max(each["version"] for each in told())
    wait.write_text("")
    assert own.end_of(command)["results"]["resultType"] == "error"
    title, shown, sql, line, restarted, included, failed, never = sorted(told(), key=lambda each: each["number"])
    assert min(each["number"] for each in told(version)) == 3, "only what has changed"
    assert (title["language"], title["source"], title["results"][0]["data"]) == ("markdown", "%md\n# Title", "<h1>Title</h1>")
    assert (shown["title"], shown["widgets"], shown["cut"]) == ("Numbers", {"day": "monday"}, "")
    kinds = [each["resultType"] + ("/html" if each.get("isHtml") else "") for each in shown["results"]]
    assert kinds == ["text", "table", "text", "text/html", "image"]
    assert shown["results"][1]["data"] == [[0], [1]] and "data" not in shown["results"][4]
    assert (sql["language"], sql["widgets"], sql["results"][0]["data"]) == ("sql", {"day": "monday"}, [["monday"]])
    assert line["results"] == [{"resultType": "text", "data": "half a line\n"}] and line["start_time"] <= line["end_time"]
    assert (restarted["state"], included["results"][0]["data"]) == ("FINISHED", "included\n")
    assert failed["state"] == "ERROR" and "printed" in failed["cut"]
    assert "ZeroDivisionError" in failed["results"][-1]["cause"]
    assert (never["state"], never["results"]) == ("SKIPPED", [])
    host.destroy(own.name)


def test_a_hostile_notebook_is_bounded_where_it_runs(host: Host) -> None:
    """What it prints, shows, sets and returns costs its own process no memory that grows with it, and the node's host little."""
    memory = "(int(open('/proc/self/statm').read().split()[1]) * 4096 >> 20)"
    cells = [
        f"import sys\nbefore = {memory}\nline = 'x' * 999_999 + '\\n'",
        "for _ in range(1_000): _ = sys.stdout.write(line)",
        "for _ in range(20): displayHTML(line)",
        f"grown = {memory} - before",
        "display(spark.range(200_000).selectExpr('id', \"repeat('x', 4000) as s\"))",
        "refused = 0\nfor i in range(10_000):\n    try: dbutils.jobs.taskValues.set(f'k{i}', 'v' * 1000)\n"
        "    except ValueError: refused += 1",
        "dbutils.jobs.taskValues.set('k0', [grown, refused])",
        "dbutils.notebook.exit('x' * 200_000_000)",
    ]
    path = notebook(host, "/Users/ada/hostile", *cells)
    own = host.new(user="ada@example.com")
    asked = {"path": path, "arguments": {}, "values": {}}
    command = own.start(f"%%brickyard_notebook task it of run 7\n{json.dumps(asked)}")
    results = own.end_of(command)["results"]
    assert (results["resultType"], "ValueError" in results["summary"]) == ("error", True)
    grown, refused = results["values"]["k0"]
    assert (refused, len(results["values"])) == (10_000 - 250, 250)
    assert grown < 300, "MiB: it printed 1,000 and showed 20"
    status = Path(f"/proc/{host.process.pid}/status").read_text()
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    assert int(peak.split()[1]) < 600_000, "KiB"
    shown, version = 0, 0
    while (answer := host.command_cells(own.name, command, version))["cells"]:
        shown += len(json.dumps(answer))
        version = max(each["version"] for each in answer["cells"])
    assert shown < 16 << 20
    host.destroy(own.name)


def test_a_notebook_runs_in_the_namespace_of_its_caller(host: Host, python: Context) -> None:
    cells = [
        "# MAGIC %md\n# MAGIC # Title",
        "dbutils.widgets.text('a', 'default'); who = dbutils.widgets.get('a')",
        "# DBTITLE 1,SQL\n# MAGIC %sql\n# MAGIC create or replace temp view v as\n# MAGIC select '${a}' as a",
        '# MAGIC %run ./below/inner $b="from $a"',
        "def greet():\n    return f'hello {who}'\n\nprint('ran')",
    ]
    outer = notebook(host, "/Users/ada/outer", *cells)
    notebook(
        host, "/Users/ada/below/inner", "# MAGIC %run ../sql", "inner = (dbutils.widgets.get('b'), dbutils.widgets.get('a'))"
    )
    notebook(host, "/Users/ada/sql", "create or replace temp view w as select 5 as five", language="sql")
    python.run("a = 'never this'")
    assert "ran" in python.run(f'%run {outer} $a="1"')["summary"]
    assert python.text("greet(), inner, spark.table('v').first().a, spark.table('w').first().five") == (
        "('hello 1', ('from $a', '1'), '1', 5)"
    )
    assert python.text("dbutils.widgets.get('a')") == "'1'"
    python.run(f"%run /Workspace{outer}")
    assert python.text("greet()") == "'hello default'"
    python.run(f'# MAGIC %run {outer} $a="marked"')
    assert python.text("greet()") == "'hello marked'"


def test_what_cannot_be_run_says_why(host: Host, python: Context) -> None:
    bad = notebook(host, "/Users/ada/bad", "before = 1", "def fails():\n    raise ValueError('inside')\n\nfails()", "after = 1")
    assert python.failure(f"%run {bad}") == "ValueError: inside"
    assert "inside" in python.run(f"%run {bad}")["cause"]
    assert python.text("before, 'after' in dir()") == "(1, False)"
    assert "NotebookError" in python.failure("%run /Users/nobody/x")
    assert "permission" in python.failure("%run /Users/other/x")
    assert "is relative" in python.failure("%run ./x")
    assert "%run PATH" in python.failure("%run /Users/ada/x $a")
    loop = notebook(host, "/Users/ada/loop", "# MAGIC %run ./loop")
    assert "deep" in python.failure(f"%run {loop}")
    (host.node_dir / "notebooks/Users/ada/helpers.py").write_text("def helps():\n    return 'helped'\n")
    python.run("%run /Users/ada/helpers.py")
    assert python.text("helps()") == "'helped'"
    python.run("open('local.py', 'w').write('local = __name__')")
    python.run("%run local.py")
    assert python.text("local") == "'__main__'"


def test_leaving_an_included_notebook_ends_the_command(host: Host, python: Context) -> None:
    left = notebook(host, "/Users/ada/left", "dbutils.notebook.exit('gone')", "stayed = 1")
    assert python.text(f"%run {left}\nprint('on')") == "gone"
    assert python.text("'stayed' in dir()") == "False"


def test_a_notebook_runs_by_itself(host: Host, python: Context) -> None:
    context = "dbutils.notebook.entry_point.getDbutils().notebook().getContext()"
    cells = [
        f"mine = dbutils.widgets.get('n')\nwhere = {context}.notebookPath().get()",
        "# MAGIC %run ./parts",
        "secret = dbutils.secrets.get('scope', 'key')\ndbutils.notebook.exit(f'{mine} {where} {part} {secret}')",
    ]
    child = notebook(host, "/Users/ada/child", *cells)
    notebook(host, "/Users/ada/parts", "part = 'a part'")
    nested = notebook(host, "/Users/ada/nested", "dbutils.notebook.exit(dbutils.notebook.run('./child', 60, {'n': 'inner'}))")
    python.run("mine = 'untouched'")
    said = f"{child} a part {python.name}: scope/key"
    assert python.text(f"print(dbutils.notebook.run({child!r}, 60, {{'n': '7'}}), mine)") == f"7 {said} untouched"
    assert python.text(f"print(dbutils.notebook.run({nested!r}, 60))") == f"inner {said}"
    silent = notebook(host, "/Users/ada/silent", "print('nothing')")
    assert python.text(f"print(dbutils.notebook.run({silent!r}))") == "None"
    bad = notebook(host, "/Users/ada/failing", "1 / 0")
    assert "FAILED" in python.failure(f"dbutils.notebook.run({bad!r})")
    assert "ZeroDivisionError" in python.failure(f"dbutils.notebook.run({bad!r})")
    slow = notebook(host, "/Users/ada/slow", "import time\ntime.sleep(600)")
    assert "TIMEDOUT" in python.failure(f"dbutils.notebook.run({slow!r}, 3)")
    assert "arguments must be strings" in python.failure(f"dbutils.notebook.run({child!r}, 60, {{'n': 7}})")
    both = (
        f"def one(n):\n    return dbutils.notebook.run({child!r}, 90, {{'n': n}})\n\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(2) as pool:\n    found = list(pool.map(one, 'ab'))\n"
        "print(len(found), found[0][0], found[1][0])"
    )
    assert python.text(both) == "2 a b"
    assert len(host.overview()) == 1


def test_notebooks_go_on_when_python_restarts(host: Host, python: Context) -> None:
    cells = [
        "print('before')\nlost = 1",
        "dbutils.library.restartPython()",
        "print('after')",
        '# MAGIC %run ./setup $a="1"',
        "dbutils.notebook.exit(f\"{'lost' in dir()} {dbutils.widgets.get('n')} {setup}\")",
    ]
    fresh = notebook(host, "/Users/ada/fresh", *cells)
    notebook(host, "/Users/ada/setup", "%restart_python", "setup = dbutils.widgets.get('a')")
    assert python.text(f"print(dbutils.notebook.run({fresh!r}, 90, {{'n': '7'}}))") == "False 7 1"
    other = host.new()
    assert other.text('%run /Users/ada/setup $a="2"') == ""
    assert other.text("setup") == "'2'"
    host.destroy(other.name)


def test_a_cancelled_command_ends_the_notebook_that_it_runs(host: Host, python: Context) -> None:
    path = host.node_dir / "work" / "started"
    slow = notebook(host, "/Users/ada/forever", f"open({str(path)!r}, 'w').close()\nimport time\ntime.sleep(600)")
    assert python.cancel_once(f"dbutils.notebook.run({slow!r})", running="started")["status"] == "Cancelled"
    assert [each["context_id"] for each in host.overview()] == [python.name]


def test_programs_of_cells_fail_only_if_they_are_to(python: Context) -> None:
    assert python.text("%sh echo $((1 + 2)); false") == "3"
    assert python.text("%sh\nfalse\necho on\nexit 3") == "on"
    assert python.failure("%sh -e\nfalse\necho on").startswith("CalledProcessError")
    assert python.text("%sh -e\necho fine") == "fine"


def test_html_is_a_result(python: Context) -> None:
    said = python.run("print('beside')\ndisplayHTML('<b>bold</b>')")
    assert said == {"resultType": "text", "data": "<b>bold</b>", "isHtml": True, "summary": "beside"}
    assert python.run("%md\n# Title\n*text*")["data"] == "<h1>Title</h1>\n<p><em>text</em></p>"
    assert python.run("from IPython.display import HTML\nHTML('<i>x</i>')")["isHtml"]
    value = "class Shown:\n    def _repr_html_(self): return '<p>'\n    def __repr__(self): return 'text'\nShown()"
    assert python.text(value) == "text"


def test_a_figure_is_shown_once(python: Context) -> None:
    python.run("%matplotlib inline")
    drawn = "import matplotlib.pyplot as plt\nfigure, axis = plt.subplots()\n_ = axis.plot([1, 2])\n"
    assert python.run(f"{drawn}display(figure)")["resultType"] == "image"
    assert python.run(drawn)["resultType"] == "image"
    assert python.run(f"{drawn}display(figure)\n{drawn}")["resultType"] == "images"


def test_names_and_modules_of_databricks(python: Context) -> None:
    assert python.run("spark.range(2).display()")["data"] == [[0], [1]]
    names = "sqlContext.sql('select 1').first()[0], sql('select 2').first()[0], udf(lambda x: x).returnType.simpleString()"
    assert python.text(names) == "(1, 2, 'string')"
    modules = """
from databricks.sdk.runtime import dbutils as one, spark as two, display as three
from pyspark.dbutils import DBUtils
from dbruntime.databricks_repl_context import get_context
one is dbutils, two is spark, three is display, DBUtils(spark) is dbutils, get_context().user, get_context().apiToken
"""
    assert python.text(modules) == "(True, True, True, True, 'ada@example.com', None)"
    context = "dbutils.notebook.entry_point.getDbutils().notebook().getContext()"
    assert python.text(f"{context}.tags().apply('user'), {context}.userName().get()") == "('ada@example.com', 'ada@example.com')"
    assert json.loads(python.text(f"print({context}.toJson())"))["tags"]["user"] == "ada@example.com"
    assert json.loads(python.text(f"print({context}.safeToJson())"))["attributes"]["user"] == "ada@example.com"
    assert python.text(f"{context}.notebookPath().isDefined(), {context}.jobId().getOrElse(None)") == "(False, None)"
    assert "no token is handed" in python.failure(f"{context}.apiToken().get()")
    assert python.text("dbutils.fs.mounts(), dbutils.jobs.taskValues.get('t', 'k', debugValue=3)") == "([], 3)"
    assert "Must pass debugValue" in python.failure("dbutils.jobs.taskValues.get('t', 'k', default=1)")
    for part in ("", ".fs", ".notebook", ".widgets", ".secrets", ".library", ".jobs", ".jobs.taskValues", ".data"):
        assert python.text(f"dbutils{part}.help()"), part
    assert "overwrite" in python.text("dbutils.fs.help('put')")


def test_summaries_of_data(python: Context) -> None:
    frame = "spark.createDataFrame([(1, 'a', 1.5), (2, None, 2.5), (3, 'a', None)], 'id int, `a.b` string, x double')"
    for call in (f"dbutils.data.summarize({frame})", f"dbutils.data.summarize({frame}, precise=True)"):
        table: dict[str, Any] = python.run(call)
        rows = {row[0]: dict(zip([column["name"] for column in table["schema"]], row, strict=True)) for row in table["data"]}
        assert (rows["id"]["count"], rows["id"]["mean"], rows["id"]["max"]) == (3, 2.0, "3")
        assert (rows["a.b"]["missing"], rows["a.b"]["distinct"], rows["a.b"]["mean"]) == (1, 1, None)
        assert rows["x"]["missing"] == 1
    assert python.run("import pandas\ndbutils.data.summarize(pandas.DataFrame({'n': [1, 2]}))")["resultType"] == "table"
    assert "takes a DataFrame" in python.failure("dbutils.data.summarize(7)")


def test_missing_files_are_named_as_they_were_given(python: Context) -> None:
    for call in ("ls('dbfs:/no/such')", "head('dbfs:/no/such')", "cp('dbfs:/no/such', '/x')", "mv('dbfs:/no/such', '/x')"):
        said = python.failure(f"dbutils.fs.{call}")
        assert re.fullmatch(r"FileNotFoundError: java\.io\.FileNotFoundException: .* dbfs:/no/such", said), said
