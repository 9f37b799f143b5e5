"""`brickyard cluster exec` and `logs` on a real cluster."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from tests.spark.live import Live
from tests.spark.shared import Lent
from tests.support.command import Cli
from tests.support.patience import until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture
def cli(lent_single: Lent, tmp_path: Path) -> Cli:
    """The command for the workspace of the shared clusters."""
    made = Cli(tmp_path)
    assert isinstance(lent_single.user, Live)
    made.data = lent_single.user.data
    made.environment["BRICKYARD_DATA_DIR"] = str(made.data)
    return made


def test_code_is_run_and_its_result_printed(cli: Cli, lent_single: Lent, tmp_path: Path) -> None:
    def executed(*arguments: str) -> subprocess.CompletedProcess[str]:
        return cli.run("cluster", "exec", lent_single.cluster_id, *arguments)

    assert executed("spark.range(7).count()").stdout == "7\n"
    (tmp_path / "report.sql").write_text("select id, id * 2 as twice from range(2) order by id")
    assert [line.split() for line in executed("--file", str(tmp_path / "report.sql")).stdout.splitlines()] == [
        ["id", "twice"], ["0", "0"], ["1", "2"],
    ]  # fmt: skip
    results = json.loads(executed("--language", "sql", "--json", "select 1 as one").stdout)
    assert (results["resultType"], results["data"]) == ("table", [[1]])
    failed = executed("print('\\x1b[2J'); 1 / 0")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "ZeroDivisionError" in failed.stderr and "\x1b" not in failed.stderr
    assert (
        lent_single.user.w.api_client.do("GET", "/api/2.1/clusters/list-attached", query={"cluster_id": lent_single.cluster_id})[
            "contexts"
        ]
        == []
    ), "each context is gone"


def test_ctrl_c_cancels_the_code(cli: Cli, lent_single: Lent) -> None:
    code = "import time; time.sleep(600)"
    running = cli.start("cluster", "exec", lent_single.cluster_id, code)
    attached = {"cluster_id": lent_single.cluster_id}
    do = lent_single.user.w.api_client.do
    until(lambda: do("GET", "/api/2.1/clusters/list-attached", query=attached)["contexts"], "no context")
    running.send_signal(signal.SIGINT)
    _, said = running.communicate()
    assert (running.returncode, said.strip()) == (130, "brickyard: interrupted.")
    assert do("GET", "/api/2.1/clusters/list-attached", query=attached)["contexts"] == []


def test_a_log_is_followed(cli: Cli, lent_single: Lent) -> None:
    following = cli.start("cluster", "logs", lent_single.cluster_id, "--follow", PYTHONUNBUFFERED="1")
    assert following.stdout is not None
    try:
        lent_single.run("spark._jvm.org.slf4j.LoggerFactory.getLogger('mine').warn('told to the log')")
        assert next(line for line in following.stdout if line.rstrip().endswith("WARN mine: told to the log"))
    finally:
        following.send_signal(signal.SIGINT)
        following.communicate()
