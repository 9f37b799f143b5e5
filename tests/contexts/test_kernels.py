"""Execution contexts on real Spark, in every installed runtime: what users run, what goes wrong, and how it is cancelled."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator

import pytest

from brickyard.runtime import NODE_CODE
from brickyard.runtime.node.kernel.missing import WHAT_TO_DO
from tests.contexts.host import Context, Host, Refused, host_of, summary
from tests.node.namesakes import MOUNT, OURS, THEIRS, namesakes
from tests.support.golden import Golden
from tests.support.patience import until
from tests.support.runtimes import SPARK_3, SPARK_4

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module", params=[SPARK_4, SPARK_3])
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    # A long path, as data directories in homes have: longer than a socket's may be.
    # Among what users may import there is a module with the name of every one of ours.
    theirs = namesakes(tmp_path_factory.mktemp("theirs"))
    with host_of(request.param, tmp_path_factory.mktemp("node-" + "x" * 60), python_path=str(theirs)) as made:
        yield made


@pytest.fixture(scope="module")
def python(host: Host) -> Context:
    return host.new()


def test_text_and_values(python: Context) -> None:
    assert python.text("print(1)") == "1"
    assert python.text("print('a'); 1 + 1") == "a\n2"
    assert python.text("        x = 1\n        x + 1") == "2"
    assert python.text("spark.range(5)") == "DataFrame[id: bigint]"
    assert python.text("spark.range(5).count()") == "5"
    assert python.text("!echo from a shell") == "from a shell"
    assert python.text("%sh echo $((1 + 2))") == "3"
    assert python.text("await __import__('asyncio').sleep(0, 7)") == "7"
    assert python.text(r"print('\ud83d\ude00 \ud800')") == "\U0001f600 �"
    assert python.text("") == ""


def test_the_namespace(python: Context) -> None:
    assert python.text("spark.sparkContext is sc, sql('select 1').first()[0], __name__") == "(True, 1, '__main__')"
    assert python.text("from pyspark.sql import SparkSession\nSparkSession.builder.getOrCreate() is spark") == "True"
    assert python.text("sc.parallelize(range(4), 2).map(lambda x: x * x).sum()") == "14"
    assert "ignored" in python.text("spark.stop(); spark.range(3).count()")
    assert python.text("import os; os.environ['HOME'] == os.path.dirname(os.getcwd()) + '/home'") == "True"


def test_values_of_numpy_are_converted_and_pandas_is_only_loaded_by_who_needs_it(host: Host) -> None:
    fresh = host.new()
    assert (
        fresh.text("import sys; spark.range(3).selectExpr('id + 1 AS n').collect()[2].n, 'pandas' in sys.modules") == "(3, False)"
    )
    values = "import numpy\nfrom pyspark.sql import functions as f\n"
    values += "spark.range(1).select(f.lit(2) == numpy.int64(2)).first()[0], sc._jvm.java.lang.Math.abs(numpy.int64(-1))"
    assert fresh.text(values) == "(True, 1)"
    assert fresh.text("spark.range(1).select(f.lit(numpy.array([1, 2]))).first()[0]") == "[1, 2]"
    assert fresh.text("int(spark.range(2).toPandas()['id'].sum())") == "1"
    fresh.host.destroy(fresh.name)


@pytest.mark.any_runtime
def test_modules_of_users_may_have_any_name(python: Context) -> None:
    """They find their own ones, and none of ours."""
    imports = f"""
said = set()
for name in {sorted(OURS)!r}:
    try:
        __import__(name)
    except ImportError as error:
        said.add(str(error))
    else:
        said.add(name)
said
"""
    assert python.text(imports) == str({THEIRS})
    seen = f"""
import sys
found = [getattr(module, "__file__", None) for module in sys.modules.values()] + sys.path
[place for place in found if str(place).startswith({str(NODE_CODE)!r})]
"""
    assert python.text(seen) == "[]"


def test_what_is_ours_reaches_the_workers_by_value(python: Context) -> None:
    """They have no module of ours."""
    python.run("import os; note = 'file:' + os.getcwd() + '/note.txt'; dbutils.fs.put(note, 'hello', True)")
    python.run("entries = dbutils.fs.ls(note)")
    assert python.text("sc.parallelize([1], 1).map(lambda _: entries[0].name).collect()") == "['note.txt']"
    assert python.text("sc.parallelize(entries, 1).map(lambda entry: entry._replace(size=7)).first().size") == "7"
    assert python.text("spark.createDataFrame(entries).first()['name']") == "'note.txt'"


def test_widgets_files_and_secrets(python: Context) -> None:
    python.run("dbutils.widgets.dropdown('day', 'Monday', ['Monday', 'Tuesday'])")
    assert python.text("dbutils.widgets.get('day')") == "'Monday'"
    assert python.failure("dbutils.widgets.get('night')").startswith("ValueError: InputWidgetNotDefined")
    written = (
        "import os; where = 'file:' + os.getcwd() + '/note.txt'; dbutils.fs.put(where, 'hello', True); dbutils.fs.head(where)"
    )
    assert python.text(written) == "'hello'"
    here = python.text("print(os.getcwd())")
    for listed in (python.run(f"%fs ls file:{here}"), python.run(f"%fs\nls file:{here}")):
        assert listed["resultType"] == "table", listed
        assert [f"file:{here}/note.txt", "note.txt", 5] in [row[:3] for row in listed["data"]]
    assert "%fs rm [-r] PATH" in python.failure("%fs rm")
    assert python.text("dbutils.secrets.get('scope', 'key')") == f"'{python.name}: scope/key'"
    assert python.text("dbutils.secrets.listScopes()[0].name") == "'scope'"
    assert "does not exist" in python.failure("dbutils.secrets.get('another', 'key')")


@pytest.mark.any_runtime
def test_leaving_a_notebook(python: Context) -> None:
    code = "        import json\n        print('noise')\n        dbutils.notebook.exit(json.dumps({'a': [1]}))"
    assert python.text(code) == '{"a": [1]}'


def test_errors_say_what_happened_and_end_nothing(python: Context) -> None:
    assert python.failure("1/0") == "ZeroDivisionError: division by zero"
    assert python.failure("assert 1 < 0, '<b>'") == "AssertionError: <b>"
    assert python.failure("def f(:").startswith("SyntaxError: ")
    assert python.failure("exit(3)") == "SystemExit: 3"
    assert python.failure("raise KeyboardInterrupt").startswith("KeyboardInterrupt")
    assert "input" in python.failure("input()")
    assert python.failure("def f(): return f()\nf()").startswith("RecursionError: ")
    assert python.failure("raise ValueError('x' * 200_000_000)").startswith("ValueError: xxx")
    assert python.text("'x' * 200_000_000").startswith("'xxx")
    udf = "from pyspark.sql.functions import udf\nspark.range(2).select(udf(lambda x: 1 / 0)('id')).collect()"
    assert "ZeroDivisionError" in python.failure(udf)
    assert "\tat " not in python.failure(udf)
    assert python.text("1") == "1"


def test_delta_lake_is_missed_with_what_to_do(python: Context) -> None:
    said = python.failure("from delta.tables import DeltaTable")
    assert said == f"ModuleNotFoundError: No module named 'delta'. {WHAT_TO_DO}"
    assert python.failure("import deltas") == "ModuleNotFoundError: No module named 'deltas'"
    assert python.failure("1 + ''") == "TypeError: unsupported operand type(s) for +: 'int' and 'str'"


def test_sql_in_a_python_context(python: Context) -> None:
    python.run("create or replace temp view v as select 1 as a", "sql")
    for table in (python.run("select a, 'x' as b from v; -- the end", "sql"), python.run("%sql select a, 'x' as b from v")):
        assert table["resultType"] == "table" and table["data"] == [[1, "x"]]
        assert [(column["name"], json.loads(column["type"])) for column in table["schema"]] == [("a", "integer"), ("b", "string")]
    assert python.text("_sqldf.count()") == "1"
    assert python.failure("select * from not_there", "sql").startswith("AnalysisException: [TABLE_OR_VIEW_NOT_FOUND]")
    assert python.failure("selec 1", "sql").startswith("ParseException: ")
    for result in (python.run("%sql select * from not_there"), python.run("spark.sql('select * from not_there')")):
        assert "data" not in result, "Spark's own log of the failed query is no output"
    assert "Traceback" not in python.run("%sql select * from not_there")["cause"]


@pytest.mark.parametrize(
    ("code", "words"), [("%scala\nval x = 1", "JAR"), ("%r x <- 1", "Rscript"), ("%%scala\nval x = 1", "JAR")]
)
@pytest.mark.parametrize("language", ["python", "sql"])
def test_a_magic_of_another_language_says_what_to_do(
    python: Context, code: str, words: str, language: str, golden: Golden
) -> None:
    said = python.failure(code, language)
    golden(said, "UsageError: ", code.split(maxsplit=1)[0], words)


def test_tables_and_images(python: Context) -> None:
    columns = "'id', 'timestamp\"2024-01-31 00:00:00Z\" t', 'array(id) a', 'cast(id as decimal(9,2)) d'"
    code = f"display(spark.range(2000).selectExpr({columns}))"
    table = python.run(code)
    assert (len(table["data"]), table["truncated"]) == (1000, True)
    assert table["data"][1] == [1, "2024-01-31T00:00:00.000+0000", [1], "1.00"]
    table = python.run("import pandas as pd; display(pd.DataFrame({'a': [1.5, None], 'b': ['x', None]}))")
    assert table["data"] == [[1.5, "x"], [None, None]]
    labelled = python.run("pd.DataFrame({'a': [1, 2]}, index=pd.Index(['x', 'y'], name='key'))")
    assert [column["name"] for column in labelled["schema"]] == ["key", "a"] and labelled["data"] == [["x", 1], ["y", 2]]
    assert python.run("pd.DataFrame({'a': [1]})")["data"] == [[1]], "row numbers say nothing"
    assert python.text("print(pd.DataFrame({'a': [1]}))").split() == ["a", "0", "1"]
    image = python.run("from IPython.display import Image\nImage(data=b'\\x89PNG\\r\\n\\x1a\\n0000', format='png')")
    assert image["resultType"] == "image" and image["fileName"].startswith("data:image/png;base64,iVBOR")


@pytest.mark.any_runtime
def test_output_is_bounded(python: Context) -> None:
    results = python.run("for _ in range(300): print('x' * 100_000)")
    assert results["truncated"] is True and len(json.dumps(results)) < 11 * 1024 * 1024
    assert python.text("print('fine')") == "fine"


@pytest.mark.any_runtime
def test_commands_run_in_order_and_may_be_repeated(python: Context) -> None:
    commands = [python.start(f"import time; time.sleep(0.2); print({n})") for n in range(3)]
    python.host.execute(python.name, commands[0], "python", "print('again')")
    waiting = python.start("print('never')")
    assert python.host.busy() is True
    python.host.cancel(python.name, waiting)
    assert python.host.command_status(python.name, waiting)["status"] == "Cancelled"
    assert [python.end_of(command)["results"]["data"] for command in commands] == ["0", "1", "2"]
    assert python.host.busy() is False
    with pytest.raises(Refused) as refused:
        python.host.cancel(python.name, commands[0])
    assert refused.value.code == "INVALID"


THREADS = """
from concurrent.futures import ThreadPoolExecutor
def job(_):
    return spark.range(10**12).selectExpr("sum(hash(sha2(cast(id as string), 256)))").collect()
kept_pool = ThreadPoolExecutor(1)
kept_pool.submit(spark.range(3).count).result()
"""
SPARK_CODE = {
    "DataFrame": "spark.range(10**12).selectExpr('sum(hash(sha2(cast(id as string), 256)))').collect()",
    "SQL": "%sql select sum(hash(sha2(cast(id as string), 256))) from range(1000000000000)",
    "UDF": "sc.parallelize(range(2), 2).map(lambda x: __import__('time').sleep(600)).count()",
    "threads": "with ThreadPoolExecutor(2) as pool: print(list(pool.map(job, range(2))))",
    "threads of an earlier command": "print(kept_pool.submit(job, 0).result())",
}


@pytest.mark.parametrize("kind", SPARK_CODE)
def test_cancel_ends_the_spark_jobs(python: Context, kind: str) -> None:
    python.run(THREADS)
    status = python.cancel_once(SPARK_CODE[kind], running="job")
    assert status["status"] == "Cancelled" and "cancelled" in summary(status["results"])
    until(lambda: python.host.active_jobs() == [])
    assert python.text("spark.range(3).count()") == "3"


def test_jobs_of_threads_end_with_their_context(host: Host) -> None:
    context = host.new()
    context.run(THREADS + "future = kept_pool.submit(job, 0)")
    until(lambda: bool(host.active_jobs()))
    context.run("'another command'")
    host.destroy(context.name)
    until(lambda: host.active_jobs() == [])


def test_an_interrupt_that_meets_no_cell_does_not_end_the_process(python: Context) -> None:
    code = """
import signal, sys, threading
met = []
def outside():
    try:
        met.append(signal.getsignal(signal.SIGINT)(signal.SIGINT, sys._getframe()))
    except KeyboardInterrupt:
        met.append("interrupted")
thread = threading.Thread(target=outside)
thread.start()
thread.join()
print(met)
"""
    assert python.text(code) == "[None]"


@pytest.mark.any_runtime
def test_a_process_that_cannot_join_leaves_spark_as_it_is(host: Host, python: Context) -> None:
    """PySpark stops the SparkContext of which it could not make its own: here it is everybody's."""
    code = f"""
import os, subprocess, sys
broken = '''
{MOUNT}
from pyspark import accumulators
accumulators._start_update_server = lambda *_: 1 / 0
from _brickyard_node.kernel.attach import attach
attach()
'''
print(subprocess.run([sys.executable, "-c", broken], capture_output=True, text=True).stderr[-200:])
"""
    assert "ZeroDivisionError" in python.text(code)
    assert python.text("spark.range(3).count()") == "3"


@pytest.mark.any_runtime
def test_cancel_interrupts_python_and_what_it_started(python: Context) -> None:
    python.run("kept = 5")
    status = python.cancel_once("open('python-runs', 'w'); print('before')\nwhile True: pass", running="python-runs")
    assert (status["status"], status["results"]["data"]) == ("Cancelled", "before")
    shown = "open('shown', 'w'); print('kept'); display(pd.DataFrame({'a': [1]}))\nwhile True: pass"
    assert python.cancel_once(f"import pandas as pd; {shown}", running="shown")["results"]["data"].startswith("kept")
    python.cancel_once("!touch shell-runs; sleep 600", running="shell-runs")
    python.cancel_once("open('prints', 'w')\nwhile True: print('y' * 1000)", running="prints")
    assert python.text("kept") == "5"


@pytest.mark.any_runtime
def test_a_command_that_ignores_cancel_loses_its_process(host: Host) -> None:
    context = host.new()
    code = "import time\nopen('stubborn', 'w')\nwhile True:\n    try: time.sleep(60)\n    except KeyboardInterrupt: print('no')"
    status = context.cancel_once(code, running="stubborn")
    assert status["status"] == "Cancelled" and "replaced" in summary(status["results"])
    context.wait_ready()
    assert context.text("'time' in globals()") == "False"
    host.destroy(context.name)


@pytest.mark.any_runtime
@pytest.mark.parametrize(
    ("code", "words"), [("import os; os._exit(7)", "status 7"), ("import os; os.kill(os.getpid(), 9)", "SIGKILL")]
)
def test_a_process_that_dies_says_so(host: Host, code: str, words: str, golden: Golden) -> None:
    context = host.new()
    command, queued = context.start(code), context.start("1")
    for each in (command, queued):
        status = context.end_of(each)
        assert status["status"] == "Error" and words in summary(status["results"])
    until(lambda: host.status(context.name)["status"] == "Error")
    with golden.refused(Refused) as refused:
        context.start("1")
    assert refused.value.code == "DEAD"
    host.destroy(context.name)


@pytest.mark.any_runtime
def test_contexts_are_counted_and_forgotten(host: Host) -> None:
    context = host.new("sql")
    assert context.run("select 1", "sql")["data"] == [[1]]
    with pytest.raises(Refused, match="python"):
        context.start("1", "python")
    host.create(context.name, "sql")  # again: nothing happens
    names = []
    with pytest.raises(Refused) as refused:
        for number in range(5):
            host.create(f"many{number}", "python")
            names.append(f"many{number}")
    assert refused.value.code == "LIMIT"
    for name in (*names, context.name):
        host.destroy(name)
        with pytest.raises(Refused):
            host.status(name)
    with pytest.raises(Refused, match="scala"):
        host.create("other", "scala")


@pytest.mark.any_runtime
def test_a_spare_is_ready_at_once(host: Host) -> None:
    before = {entry.name for entry in (host.node_dir / "tmp").iterdir()}
    host.warm()
    until(lambda: len({entry.name for entry in (host.node_dir / "tmp").iterdir()} - before) == 1)
    until(lambda: spare_is_ready(host))


def spare_is_ready(host: Host) -> bool:
    """A context that takes a finished spare is Running in the very answer after its creation."""
    name = f"quick-{time.monotonic_ns()}"  # a context that is over does not begin again
    host.create(name, "python")
    ready: bool = host.status(name)["status"] == "Running"
    host.destroy(name)
    if not ready:
        host.warm()
        time.sleep(0.5)
    return ready


def _wait_for_batches(context: Context) -> None:
    until(lambda: context.text("len(seen) > 1 and query.exception() is None") == "True", "two batches")


@pytest.mark.any_runtime
def test_what_a_user_runs_who_may_no_longer(host: Host) -> None:
    """The command and all that wait end with the reason, their Spark jobs too; other users' go on. The context tells why."""
    python, other = host.new(user="anna"), host.new(user="bob")
    other.run("kept = 7")
    running = python.start("spark.range(10).rdd.map(lambda x: __import__('time').sleep(600)).count()")
    waiting = python.start("print('never')")
    until(host.active_jobs, "a job of the command")
    why = "anna may not run code on cluster C: that takes CAN_ATTACH_TO."
    assert host.withdraw("anna", why) == [python.name]
    for command in (running, waiting):
        answer = python.end_of(command)
        assert answer["status"] == "Error"
        assert summary(answer["results"]) == f"PermissionDenied: {why}"
    until(lambda: not host.active_jobs(), "the job's end")
    until(lambda: host.status(python.name)["status"] == "Error", "the context's end")
    with pytest.raises(Refused, match=re.escape(why)) as caught:
        python.start("print(1)")
    assert caught.value.code == "DEAD"
    assert other.text("kept") == "7"
    host.destroy(other.name)
    others = [host.new(user="bob") for _ in range(4 - len(host.overview()) + 1)]
    assert python.name not in [each["context_id"] for each in host.overview()], "it keeps nobody from having a context"
    for context in others:
        host.destroy(context.name)


def test_callbacks_of_one_context_do_not_reach_another(host: Host) -> None:
    """Streams call back into the Python process that started them, whichever context asked for callbacks last."""
    contexts = [host.new(), host.new()]
    stream = """
seen = []
def batch(frame, number): seen.append(frame.count())
source = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
query = source.writeStream.foreachBatch(batch).start()
"""
    for context in contexts:
        context.run(stream)
    for context in contexts:
        _wait_for_batches(context)
    for context in contexts:
        context.run("query.stop()")
        host.destroy(context.name)


@pytest.mark.any_runtime
def test_a_failure_is_told_although_nothing_can_show_it(host: Host) -> None:
    python = host.new()
    broken = "import sys\nfrom IPython.core import ultratb\nfor name in ('ListTB', 'VerboseTB', 'AutoFormattedTB'):\n"
    broken += "    getattr(ultratb, name).structured_traceback = None"
    assert python.text(broken) == ""
    assert python.failure("1/0") == "ZeroDivisionError: division by zero"
