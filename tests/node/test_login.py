"""JVMs of a user without an entry in /etc/passwd."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from brickyard.runtime.node.jvm import launch, login
from brickyard.runtime.node.jvm.launch import JvmOptions
from brickyard.runtime.node.spark import conf as sparkconf
from brickyard.runtime.node.spark.place import Place
from brickyard.runtime.node.waiting import command

MANIFEST: Any = {
    "java_home": "/java", "java_version": "17.0.1", "spark_home": "/spark", "spark_version": "4.0.1", "scala_version": "2.13",
    "node_archive": "", "python": "/python", "has_connect": False, "connect_missing": "", "classes": "/ours.jar",
}  # fmt: skip
PLACE = Place(host="10.0.0.1", node_dir="/node", ui_key="")
ASSIGNMENT: Any = {
    "cluster_id": "c", "role": "driver", "cores": 2, "memory_mb": 4096, "secret": "s",
    "spark_conf": {"spark.executor.extraJavaOptions": "-Dmine=1"},
}  # fmt: skip


@pytest.fixture(params=[True, False])
def nameless(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    value = bool(request.param)
    monkeypatch.setattr(login, "is_nameless", lambda: value)
    return value


@pytest.mark.parametrize("properties", ["", "/node/submit.properties"])
def test_its_drivers_start_through_a_class_that_gives_hadoop_a_name(nameless: bool, properties: str) -> None:
    argv = launch.command(MANIFEST, JvmOptions(heap_mb=512), node_dir=Path("/node"), archive="", properties=properties)
    main = argv.index(launch.SUBMIT if properties else launch.GATEWAY)
    assert (argv[main - 2 : main] == [login.NAME, login.MAIN]) is nameless
    assert (login.MAIN in argv) is nameless
    assert argv[argv.index("-cp") + 1] == "/spark/jars/*:/ours.jar"


def test_its_executors_do_so_too_and_the_users_options_stay(nameless: bool) -> None:
    made = sparkconf.driver_conf(ASSIGNMENT, MANIFEST, PLACE, master_url="spark://x", executor_archive="").values
    options = made["spark.executor.extraJavaOptions"].split()
    assert "-Dmine=1" in options
    assert (options[-2:] == [login.NAME, login.MAIN]) is nameless
    assert made[sparkconf.EXECUTOR_LAST_JARS] == "/ours.jar"


def test_a_training_has_our_classes_only_for_such_a_user(nameless: bool) -> None:
    training: Any = {**MANIFEST, "classes": "", "login_classes": "/ours.jar"}
    made = sparkconf.driver_conf(ASSIGNMENT, training, PLACE, master_url="spark://x", executor_archive="").values
    assert (made.get(sparkconf.EXECUTOR_LAST_JARS) == "/ours.jar") is nameless
    assert launch.class_path(training, JvmOptions(heap_mb=512)) == "/spark/jars/*" + (":/ours.jar" if nameless else "")
    bare: Any = {**MANIFEST, "classes": ""}
    assert login.words(bare) == [], "while our classes are still being compiled, nothing needs a name"


def test_a_waiting_executor_takes_such_a_command() -> None:
    argv = ["/java/bin/java", "-cp", "/x", "-Xmx1g", "-Dspark.a=b", login.NAME, login.MAIN, command.EXECUTOR, "--cores", "1"]
    found = command.parse(argv, {})
    assert found is not None
    assert command.misfit(found, found) == ""
    started = command.start(found, "some.Main")
    assert started[-4:] == [command.OPEN, login.MAIN, "some.Main", command.EXECUTOR]
    plain = command.parse([each for each in argv if each != login.MAIN], {})
    assert plain is not None
    assert command.misfit(plain, found) != ""
    assert login.MAIN not in command.start(plain, "some.Main")
