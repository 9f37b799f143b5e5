"""A real history server where nothing is walled, for a user without an entry in /etc/passwd."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.runtimes import SPARK_4, cache_dir, manifest_of

# test_connect_spark.py reads the log of a terminated cluster in every run.
pytestmark = [pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(300)]

ID = "0101-000000-abcdefgh"
EVENTS = (
    {"Event": "SparkListenerLogStart", "Spark Version": "4.0.1"},
    {"Event": "SparkListenerApplicationStart", "App Name": "a", "App ID": "app-1", "Timestamp": 1_700_000_000_000, "User": "u"},
    {"Event": "SparkListenerApplicationEnd", "Timestamp": 1_700_000_001_000},
)
PROGRAM = f"""
import asyncio, os, pwd, sys
from pathlib import Path
from brickyard.config.settings import Settings
from brickyard.gateway.history import HistoryServers
from brickyard.storage.directory import Storage

async def work(data, cache):
    servers = HistoryServers(settings=Settings(data_dir=data, cache_dir=cache, isolation="off"), storage=Storage(data))
    try:
        print((await servers.find({ID!r}, "")).run)
    finally:
        await servers.close()

try:
    pwd.getpwuid(os.getuid())
except KeyError:
    asyncio.run(work(Path(sys.argv[1]), Path(sys.argv[2])))
"""


def test_it_starts_and_reads_the_log(tmp_path: Path) -> None:
    nameless = ["unshare", "--user", "--map-user=54321", "--map-group=54321"]
    if subprocess.run([*nameless, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine gives no user namespaces to make a user without a name")
    manifest_of(SPARK_4)
    log = tmp_path / "logs" / ID / "i-1-1" / "eventlog" / "app-1"
    log.parent.mkdir(parents=True)
    log.write_text("".join(json.dumps(event, separators=(",", ":")) + "\n" for event in EVENTS))
    log.chmod(0o660)  # as Spark writes it
    argv = [*nameless, sys.executable, "-c", PROGRAM, str(tmp_path), str(cache_dir())]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=200, check=False)
    assert done.stdout == "/history/app-1\n", done.stderr[-3000:]
