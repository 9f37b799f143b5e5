"""Spark's file systems on a node: a name that must be new is given to one writer, and an overwrite is one step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.node.node import Node

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600), pytest.mark.any_runtime]

RACES = Path(__file__).with_name("java") / "Races.java"
ROUNDS = 1000

COMPILE = """
compiler = sc._jvm.org.codehaus.janino.SimpleCompiler()
compiler.setParentClassLoader(sc._jvm.java.lang.Thread.currentThread().getContextClassLoader())
compiler.cook(r'''{source}''')
array, conf, made = sc._gateway.new_array, sc._jsc.hadoopConfiguration(), []
def outcome(top, way, rounds):
    types, values = array(sc._jvm.java.lang.Class, 4), array(sc._jvm.java.lang.Object, 4)
    named = ["java.lang.Object", "java.lang.String", "java.lang.String", "java.lang.Integer"]
    for index, (name, value) in enumerate(zip(named, [conf, top, way, rounds])):
        types[index] = sc._jvm.java.lang.Class.forName(name)
        values[index] = value
    types[0] = conf.getClass()
    return compiler.getClassLoader().loadClass("tests.Races").getConstructor(types).newInstance(values).outcome()
"""
MOVES = """
hadoop = sc._jvm.org.apache.hadoop.fs
fs = hadoop.Path("dbfs:/m").getFileSystem(conf)
context = hadoop.FileContext.getFileContext(hadoop.Path("dbfs:/m").toUri(), conf)
options = array(sc._jvm.org.apache.hadoop.fs.Options.Rename, 1)
options[0] = sc._jvm.org.apache.hadoop.fs.Options.Rename.OVERWRITE
def file(name, text):
    dbutils.fs.put(f"dbfs:/m/{name}", text, True)
    return hadoop.Path(f"dbfs:/m/{name}")
def there(name):
    return dbutils.fs.head(f"dbfs:/m/{name}")
def fails(act):
    try:
        act()
    except Exception as error:
        return next((kind for kind in ("FileAlreadyExists", "FileNotFound") if kind in str(error)), str(error))
"""
# What is done -> what is seen then.
EXPECTED = {
    "fs.rename(file('a', '1'), file('b', '2')), there('a'), there('b')": "(False, '1', '2')",
    "fs.rename(file('a', '1'), hadoop.Path('dbfs:/m/new/c')), there('new/c')": "(True, '1')",
    "fs.rename(file('a', '1'), hadoop.Path('dbfs:/m/new')), there('new/a')": "(True, '1')",
    "fs.rename(hadoop.Path('dbfs:/m/new'), hadoop.Path('dbfs:/m/moved')), there('moved/c')": "(True, '1')",
    "fs.rename(hadoop.Path('dbfs:/m/moved'), hadoop.Path('dbfs:/m/moved/in')), there('moved/c')": "(False, '1')",
    "fails(lambda: fs.rename(hadoop.Path('dbfs:/m/none'), hadoop.Path('dbfs:/m/x')))": "'FileNotFound'",
    "fails(lambda: context.rename(file('a', '1'), file('b', '2'), array(hadoop.Options.Rename, 0))), there('b')":
        "('FileAlreadyExists', '2')",
    "context.rename(file('a', '1'), file('b', '2'), options), there('b'), fs.exists(hadoop.Path('dbfs:/m/a'))":
        "(None, '1', False)",
    # A process that was killed between the two names of a file is finished by the next one.
    "os.link('/dbfs/m/b', '/dbfs/m/d'), fs.rename(hadoop.Path('dbfs:/m/b'), hadoop.Path('dbfs:/m/d')), "
    "fs.exists(hadoop.Path('dbfs:/m/b'))": "(None, True, False)",
}  # fmt: skip


def test_a_new_name_has_one_owner(new_node: Callable[[], Node]) -> None:
    node = new_node()
    node.become("single", cores=2)
    node.wait_phase("ready")
    node.run(COMPILE.format(source=RACES.read_text()))
    for scheme in ("dbfs:", f"file:{node.directory}/work"):
        for way in ("context", "rename", "create"):
            found = node.run(f"print(outcome('{scheme}/races-{way}', '{way}', {ROUNDS}))")
            assert found.strip() == f"0 0 0 {ROUNDS}", (scheme, way)
    node.run(f"import os\n{MOVES}".replace("/dbfs/", f"{node.directory}/dbfs/"))
    for act, seen in EXPECTED.items():
        assert node.run(act.replace("'/dbfs/", f"'{node.directory}/dbfs/")) == seen, act
