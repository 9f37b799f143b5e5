"""Commits of several JVMs that race for the same names, as those of clusters do that write one Delta table."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.depth import ALL

# Six JVMs. test_single_spark.py has the one owner of a new name, within one.
pytestmark = [pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(1800)]
SOURCE = Path(__file__).with_name("java") / "OneName.java"
JVMS = 3
NAMES = 50_000 if ALL else 1_500  # in each of the two trees


def conf_of(top: Path) -> list[str]:
    """Hadoop's settings as a driver has them (runtime/node/spark/conf.py)."""
    values = {
        "fs.dbfs.impl": "brickyard.DbfsFiles",
        "fs.AbstractFileSystem.dbfs.impl": "brickyard.DbfsContext",
        "fs.brickyard.dbfs.root": top / "dbfs",
        "fs.brickyard.volumes.root": top / "volumes",
        "fs.brickyard.workspace.root": top / "workspace",
        "fs.brickyard.shared": "",
        "fs.brickyard.full": top / "full",
        "fs.defaultFS": "dbfs:///",
    }
    return [f"{key}={value}" for key, value in values.items()]


def test_of_jvms_that_rename_to_one_name_one_wins(tmp_path: Path, manifest: dict[str, Any]) -> None:
    trees = {"dbfs:/log": tmp_path / "dbfs/log", "dbfs:/Volumes/main/default/v": tmp_path / "volumes/main/default/v"}
    # Janino's compiler has a main method, which compiles a source and runs it.
    java = [f"{manifest['java_home']}/bin/java", "-Xmx256m", "-cp", f"{manifest['spark_home']}/jars/*:{manifest['classes']}"]
    java += ["org.codehaus.janino.SimpleCompiler", str(SOURCE), "tests.OneName"]
    for top, local in trees.items():
        local.mkdir(parents=True)
        ready = tmp_path / f"ready-{local.name}"
        ready.mkdir()
        racers = {
            me: subprocess.Popen(
                [*java, top, str(local), me, str(NAMES), str(JVMS), str(ready), *conf_of(tmp_path)],
                stdout=subprocess.PIPE, stderr=(tmp_path / f"{me}.err").open("w"), text=True,
            )
            for me in (f"jvm{number}" for number in range(JVMS))
        }  # fmt: skip
        said = {me: racer.communicate()[0] for me, racer in racers.items()}
        assert [racer.returncode for racer in racers.values()] == [0] * JVMS, (tmp_path / "jvm0.err").read_text()[-2000:]
        won = {me: set(text.split()) for me, text in said.items()}
        assert sum(map(bool, won.values())) > 1, "one came after the other"
        assert sum(map(len, won.values())) == NAMES == len(set.union(*won.values())), f"{top}: a name has two owners, or none"
        assert sorted(each.name for each in local.iterdir()) == sorted(map(str, range(NAMES))), "nothing else is left"
        for me, names in won.items():
            assert {(local / name).read_text() for name in names} == {me}
