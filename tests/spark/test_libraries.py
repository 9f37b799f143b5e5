"""What users install on a cluster, on real Spark: one cluster of a driver and a worker for all of it."""

from __future__ import annotations

import base64
import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from databricks.sdk.service.compute import (
    Kind,
    Library,
    LibraryFullStatus,
    LibraryInstallStatus,
    MavenLibrary,
    PythonPyPiLibrary,
    RCranLibrary,
    ResultType,
    State,
)

from tests.spark.live import Live
from tests.support.maven import Repository, make_jar, serve
from tests.support.packages import make_index, make_sdist, make_wheel
from tests.support.patience import until
from tests.support.rpackages import add_package
from tests.support.runtimes import SPARK_4

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of packages."""
    top = tmp_path_factory.mktemp("packages")
    greeting = {"greeting/__init__.py": "", "greeting/main.py": "def run():\n    import sys; print('hello from', sys.prefix)\n"}
    make_index(
        top,
        make_wheel(top, "greeting", files=greeting, scripts={"greet": "greeting.main:run"}),
        make_wheel(top, "cloudpickle", "99.0"),
        make_wheel(top, "pyspark", "99.0"),
        make_wheel(top, "scoped", "1.0", requires=["other"]),
        make_wheel(top, "scoped", "2.0"),
        make_wheel(top, "other"),
        make_sdist(top, "sourced"),
    )
    add_package(top / "cran", "greeter", code="hello <- function() 'hello from R'\n", exports=["hello"])
    return top


@pytest.fixture(scope="module")
def maven(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repository]:
    """The machine's Maven repository."""
    with serve(tmp_path_factory.mktemp("maven")) as made:
        yield made


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory, packages: Path, maven: Repository) -> Iterator[Live]:
    conf = packages / "pip.conf"
    conf.write_text(f"[global]\nindex-url = {(packages / 'simple').as_uri()}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_CONFIG_FILE", str(conf))
        patch.setenv("BRICKYARD_MAVEN_URL", maven.url)
        patch.setenv("BRICKYARD_CRAN_URL", (packages / "cran").as_uri())
        for name in ("PIP_FIND_LINKS", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
            patch.delenv(name, raising=False)
        made = Live(tmp_path_factory.mktemp("live") / "workspace")
        made.start()
        try:
            yield made
        finally:
            made.close()


@pytest.fixture(scope="module")
def cluster(live: Live) -> str:
    return live.create("libraries", SPARK_4, num_workers=1)


PIP = """
import subprocess, sys
def pip(*words):
    done = subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True)
    return done.stdout + done.stderr
def on_worker(function):
    return sc.parallelize([0], 1).map(lambda _: function()).first()
"""


def test_every_node_has_an_environment_over_the_runtimes_packages(live: Live, cluster: str) -> None:
    live.wait(cluster, State.RUNNING, workers=1)
    said = live.run(cluster, PIP + """
import os, pandas
assert "Successfully installed greeting" in (out := pip("install", "greeting")), out
print(subprocess.run("greet && command -v pip && command -v python", shell=True, capture_output=True, text=True).stdout.split())
import greeting
def worker():
    import sys, pandas, importlib.util
    return sys.prefix, importlib.util.find_spec("greeting") is None, pandas.__version__
prefix, missing, version = on_worker(worker)
print(prefix != sys.prefix, missing, version == pandas.__version__)
print("Successfully installed greeting" in on_worker(lambda: pip("install", "greeting")), not on_worker(worker)[1])
""")  # fmt: skip
    first, second, third = said.strip().splitlines()
    assert "/node/python'" in first and "/node/python/bin/pip" in first and "/node/python/bin/python" in first
    assert second == "True True True", "another environment, in which nobody has installed anything"
    assert third == "True True"


def test_a_newer_version_of_the_runtimes_package_is_the_users_but_never_sparks_own(live: Live, cluster: str) -> None:
    said = live.run(cluster, PIP + """
print("cloudpickle-99.0" in pip("install", "--upgrade", "cloudpickle"))
print("Successfully" in pip("install", "pyspark==99.0"), "constraint" in pip("install", "pyspark==99.0"))
""")  # fmt: skip
    assert said.split() == ["True", "False", "True"]
    said = live.run(cluster, """
import importlib.metadata, subprocess, sys
code = "import cloudpickle; print(cloudpickle.VERSION)"
print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout, spark.range(3).count())
""")  # fmt: skip
    assert said.split() == ["99.0", "3"]


SCOPED = """
import sys
def version(_):
    try:
        import scoped
        return scoped.VERSION
    except ImportError:
        return "none"
from pyspark.sql.functions import udf
print(version(0), {row[0] for row in spark.range(0, 2, 1, 2).select(udf(version)("id")).collect()})
"""


def test_pip_installs_for_one_context_and_its_functions_on_the_workers(live: Live, cluster: str) -> None:
    live.wait(cluster, State.RUNNING, workers=1)
    one, two = live.context(cluster), live.context(cluster)
    assert "Successfully installed other-1.0 scoped-1.0" in in_context(live, cluster, one, "%pip install scoped==1.0")
    assert in_context(live, cluster, one, "x = 1" + SCOPED).strip() == "1.0 {'1.0'}"
    assert "Successfully installed scoped-2.0" in in_context(live, cluster, two, "%pip install scoped==2.0")
    assert in_context(live, cluster, two, SCOPED).strip() == "2.0 {'2.0'}"
    assert in_context(live, cluster, one, SCOPED).strip() == "1.0 {'1.0'}"
    assert live.run(cluster, SCOPED).strip() == "none {'none'}", "no other context has it"

    said = in_context(live, cluster, one, "%pip install scoped==2.0")
    assert "until dbutils.library.restartPython()" in said
    assert in_context(live, cluster, one, SCOPED).strip() == "1.0 {'2.0'}", "this process has imported the former one"
    assert in_context(live, cluster, one, "print('last')\ndbutils.library.restartPython()\nprint('never')") == "last"
    assert in_context(live, cluster, one, "print('x' in globals())" + SCOPED).split() == ["False", "2.0", "{'2.0'}"]
    in_context(live, cluster, one, "%pip uninstall -y scoped")
    in_context(live, cluster, one, "%restart_python")
    assert in_context(live, cluster, one, SCOPED).strip() == "none {'none'}"
    answer = live.finish(cluster, one, live.begin(cluster, one, "%pip install no-such-package"))
    assert answer.results is not None and answer.results.result_type is ResultType.ERROR
    assert "exit code 1" in str(answer.results.summary)


# Classes, made by the compiler among Spark's own: there may be no other on the machine.
COMPILE = """
import base64, json
compiler = spark._jvm.org.codehaus.janino.SimpleCompiler()
compiler.cook(source)
print(json.dumps({name: base64.b64encode(bytes(data)).decode() for name, data in compiler.getBytecodes().items()}))
"""
JAVA = """
package org.test;

public class Plus {
    public static int plus(int given) { return given + Step.of(); }
}

class Step {
    static int of() { return 40; }
}

public class Greeting {
    public static String say() { return "hello"; }
}
"""
USE = """
call = "java_method('org.test.Plus', 'plus', cast(id as int))"
print(*(row[0] for row in spark.range(0, 4, 1, 2).selectExpr(call).collect()))
"""
GREET = """
print(spark.sql("SELECT java_method('org.test.Greeting', 'say')").first()[0], spark._jvm.org.test.Greeting.say())
"""

MISSING = """
try:
    spark._jvm.java.lang.Class.forName("org.test.Plus")
except Exception as error:
    print(error)
"""


def settled(live: Live, cluster: str) -> list[LibraryInstallStatus | None]:
    over = (LibraryInstallStatus.INSTALLED, LibraryInstallStatus.FAILED)

    def there() -> list[LibraryInstallStatus | None] | None:
        found = list(live.w.libraries.cluster_status(cluster))
        return [each.status for each in found] if all(each.status in over for each in found) else None

    return until(there, f"never settled: {list(live.w.libraries.cluster_status(cluster))}")


def test_jars_are_there_at_once_for_running_contexts_and_executors_and_after_a_restart(
    live: Live, cluster: str, maven: Repository, tmp_path: Path
) -> None:
    live.wait(cluster, State.RUNNING, workers=1)
    old = live.context(cluster)
    classes = json.loads(in_context(live, cluster, old, f"source = {JAVA!r}\n{COMPILE}"))
    files = {name.replace(".", "/") + ".class": base64.b64decode(data) for name, data in classes.items()}
    maven.add("org.test:step:1.0", files={"org/test/Step.class": files["org/test/Step.class"]})
    maven.add("org.test:plus:1.0", requires=("org.test:step:1.0",), files={"org/test/Plus.class": files["org/test/Plus.class"]})
    make_jar(tmp_path / "greeting.jar", {"org/test/Greeting.class": files["org/test/Greeting.class"]})
    live.w.dbfs.upload("/jars/greeting.jar", io.BytesIO((tmp_path / "greeting.jar").read_bytes()))

    plus = Library(maven=MavenLibrary(coordinates="org.test:plus:1.0"))
    live.w.libraries.install(cluster, [plus, Library(jar="dbfs:/jars/greeting.jar")])
    assert settled(live, cluster) == [LibraryInstallStatus.INSTALLED] * 2, [
        each.messages for each in live.w.libraries.cluster_status(cluster)
    ]
    assert in_context(live, cluster, old, USE).split() == ["40", "41", "42", "43"], "on executors, with what it requires"
    assert in_context(live, cluster, old, GREET).split() == ["hello", "hello"], "in SQL, and in Python"
    assert live.run(cluster, USE + GREET).split("\n")[1] == "hello hello", "in a context that is made later"

    live.w.libraries.uninstall(cluster, [plus])
    live.w.clusters.restart(cluster)
    live.wait(cluster, State.RUNNING, workers=1)
    assert settled(live, cluster) == [LibraryInstallStatus.INSTALLED]
    assert "ClassNotFoundException" in (said := live.run(cluster, GREET + MISSING)) and said.startswith("hello hello")


@pytest.mark.extended  # another start; test_starts_spark.py has settings that end one
def test_a_jar_of_the_conf_that_does_not_exist_ends_the_start_with_its_name(live: Live) -> None:
    conf = {"spark.jars": "dbfs:/jars/none.jar"}
    missing = live.create("missing", SPARK_4, is_single_node=True, kind=Kind.CLASSIC_PREVIEW, spark_conf=conf)
    code, parameters, message = live.ended(missing)
    assert code == "SPARK_STARTUP_FAILURE", (code, parameters)
    assert all(word in message for word in ("spark.jars", "dbfs:/jars/none.jar")), message


def test_a_wheel_that_was_overwritten_is_installed_anew_and_one_that_failed_is_tried_again(
    live: Live, cluster: str, tmp_path: Path
) -> None:
    live.wait(cluster, State.RUNNING, workers=1)
    place, library = "/wheels/ours-1.0-py3-none-any.whl", Library(whl="dbfs:/wheels/ours-1.0-py3-none-any.whl")

    def put(answer: str) -> None:
        made = make_wheel(tmp_path, "ours", files={"ours.py": f"ANSWER = {answer!r}\n"})
        live.w.dbfs.upload(place, io.BytesIO(made.read_bytes()), overwrite=True)

    def status() -> LibraryInstallStatus | None:
        settled(live, cluster)
        return next(each.status for each in live.w.libraries.cluster_status(cluster) if each.library == library)

    def said() -> list[str]:
        """By the driver and by a worker, in a context of its own."""
        asked = "import ours\ndef there():\n    import ours\n    return ours.ANSWER\nprint(ours.ANSWER, on_worker(there))"
        return in_context(live, cluster, live.context(cluster), PIP + asked).split()

    live.w.dbfs.upload(place, io.BytesIO(b"no wheel"), overwrite=True)
    live.w.libraries.install(cluster, [library])
    assert status() is LibraryInstallStatus.FAILED
    put("first")
    live.w.libraries.install(cluster, [library])
    assert status() is LibraryInstallStatus.INSTALLED
    assert said() == ["first", "first"]
    put("second")
    live.w.libraries.install(cluster, [library])
    assert said() == ["first", "first"], "nothing was uninstalled: it stays"
    live.w.libraries.uninstall(cluster, [library])
    live.w.libraries.install(cluster, [library])
    assert status() is LibraryInstallStatus.INSTALLED
    assert said() == ["second", "second"]


@pytest.mark.extended  # slow; tests/agent/test_libraries.py builds on a node
def test_what_exists_only_as_source_is_built_on_every_node(live: Live, cluster: str) -> None:
    live.wait(cluster, State.RUNNING, workers=1)
    before = len(list(live.w.libraries.cluster_status(cluster)))
    live.w.libraries.install(cluster, [Library(pypi=PythonPyPiLibrary(package="sourced"))])
    found = settled(live, cluster)
    assert (len(found), found[-1]) == (before + 1, LibraryInstallStatus.INSTALLED), list(live.w.libraries.cluster_status(cluster))
    said = live.run(cluster, PIP + """
def version():
    import sourced
    return sourced.VERSION
print(version(), on_worker(version))
""")  # fmt: skip
    assert said.split() == ["1.0", "1.0"]


def in_context(live: Live, cluster: str, context: str, code: str) -> str:
    answer = live.finish(cluster, context, live.begin(cluster, context, code))
    assert answer.results is not None and answer.results.result_type is ResultType.TEXT, answer
    return str(answer.results.data)


@pytest.mark.extended  # slow; tests/agent/test_cran.py installs on a node
@pytest.mark.skipif(shutil.which("Rscript") is None, reason="this machine has no R (Debian: r-base-core)")
def test_programs_in_r_find_the_clusters_packages_on_all_nodes(live: Live, cluster: str) -> None:
    live.wait(cluster, State.RUNNING, workers=1)
    live.w.libraries.install(cluster, [Library(cran=RCranLibrary(package="greeter"))])

    def ended() -> LibraryFullStatus | None:
        (found,) = [each for each in live.w.libraries.cluster_status(cluster) if each.library and each.library.cran]
        return found if found.status in (LibraryInstallStatus.INSTALLED, LibraryInstallStatus.FAILED) else None

    found = until(ended, "the library is there")
    assert found.status is LibraryInstallStatus.INSTALLED, found.messages
    assert live.run(cluster, "%sh Rscript -e 'cat(greeter::hello())'").strip() == "hello from R"
    said = live.run(cluster, PIP + """
def r():
    return subprocess.run(["Rscript", "-e", "cat(greeter::hello())"], capture_output=True, text=True).stdout
print(on_worker(r))
""")  # fmt: skip
    assert said.strip() == "hello from R"
