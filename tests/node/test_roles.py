"""How the end of a driver's JVM is told, whichever of its signs is seen first."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from brickyard.runtime.node import protocol
from brickyard.runtime.node.host.report import Report
from brickyard.runtime.node.jvm.launch import JvmOptions
from brickyard.runtime.node.spark.load import Stage
from brickyard.runtime.node.spark.place import Place
from tests.support.patience import PATIENCE_S, until


class Py4JError(Exception):
    pass


class Py4JNetworkError(Py4JError):
    pass


class Py4JJavaError(Py4JError):
    def __init__(self, trace: str) -> None:
        super().__init__(trace)
        self.java_exception = self
        self._trace = trace

    def toString(self) -> str:
        return self._trace

    def getCause(self) -> None:
        return None


@pytest.fixture
def roles(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module, with a stand-in for py4j, which is in runtimes only."""
    package, errors, classes = ModuleType("py4j"), ModuleType("py4j.protocol"), ModuleType("py4j.java_gateway")
    classes.JavaClass = object  # type: ignore[attr-defined] # it is made up
    for error in (Py4JError, Py4JJavaError, Py4JNetworkError):
        setattr(errors, error.__name__, error)
    monkeypatch.setitem(sys.modules, "py4j", package)
    monkeypatch.setitem(sys.modules, "py4j.protocol", errors)
    monkeypatch.setitem(sys.modules, "py4j.java_gateway", classes)
    return importlib.import_module("brickyard.runtime.node.host.driver")


class Channel(protocol.Channel):
    """The pipe to an agent that only listens."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        self.lines: list[str] = []
        self.failed = threading.Event()

    def status(self, **fields: Any) -> None:
        self.told.append(fields)
        if fields.get("phase") == "failed":
            self.failed.set()

    def log(self, line: str) -> None:
        self.lines.append(line)

    def failure(self) -> dict[str, Any]:
        assert self.failed.wait(PATIENCE_S)
        found = [fields["failure"] for fields in self.told if "failure" in fields]
        assert len(found) == 1
        failure: dict[str, Any] = found[0]
        return failure


class Jvm:
    """A JVM that lives; with `last_words`, it is about to end, and does so while somebody waits for it."""

    def __init__(self, directory: Path, last_words: str) -> None:
        self.options = JvmOptions(heap_mb=512)
        self.manifest: dict[str, str] = {}
        self.node_dir = directory
        self.log_file, self.stderr_file = directory / "driver.log", directory / "stderr.log"
        self.stdout_file = directory / "stdout.log"
        self._last_words = last_words
        self._on_end: Callable[[int], None] = lambda _: None
        self.alive = True

    def ended(self, patience_s: float) -> bool:
        if self._last_words and patience_s:
            self.alive = False
            self.stderr_file.write_text(self._last_words)
            self._on_end(3)
        return not self.alive

    def on_end(self, callback: Callable[[int], None]) -> None:
        self._on_end = callback


def place() -> Place:
    return Place(host="127.0.0.1", node_dir="/none", ui_key="")


def fail(roles: ModuleType, directory: Path, error: Exception, *, ready: bool = True, last_words: str = "") -> dict[str, Any]:
    """A driver whose work meets an error. Returns the failure that is told."""
    channel = Channel()
    report = Report(channel)
    if ready:
        report.tell(phase="ready")

    class Driver(roles.Role):  # type: ignore[misc, name-defined] # the module is loaded at run time
        def _take(self) -> None:
            raise error

    assignment = {"cluster_id": "c", "role": "single", "spark_conf": {}}
    Driver(jvm=Jvm(directory, last_words), assignment=assignment, place=place(), report=report).start()
    return channel.failure()


OUT_OF_MEMORY = "Terminating due to java.lang.OutOfMemoryError: Java heap space\n"


@pytest.mark.parametrize(
    "error", [ConnectionRefusedError("refused"), Py4JError("Answer from Java side is empty"), TypeError("JavaPackage")]
)
def test_a_broken_connection_before_the_end_does_not_hide_how_the_jvm_ended(
    roles: ModuleType, tmp_path: Path, error: Exception
) -> None:
    failure = fail(roles, tmp_path, error, last_words=OUT_OF_MEMORY)
    assert failure["code"] == "DRIVER_OUT_OF_MEMORY"


def test_an_answer_of_java_is_told_at_once(roles: ModuleType, tmp_path: Path) -> None:
    error = Py4JJavaError("org.apache.spark.SparkException: no such serializer")
    failure = fail(roles, tmp_path, error, ready=False)
    assert failure["code"] == "SPARK_STARTUP_FAILURE"
    assert "no such serializer" in failure["message"]


def test_an_error_of_a_driver_that_was_ready_is_no_failed_start(roles: ModuleType, tmp_path: Path) -> None:
    failure = fail(roles, tmp_path, RuntimeError("broken"))
    assert failure["code"] == "DRIVER_UNEXPECTED_FAILURE"
    assert "broken" in failure["message"]


class SilentChannel:
    """A JVM's catalog that asks the metastore nothing."""

    def take(self, _patience_ms: int) -> None:
        threading.Event().wait(0.02)


class StartingDriver:
    """A driver that starts; `catalog` is what moving its tables comes to."""

    def __init__(self, catalog: Callable[[], list[str]]) -> None:
        self._catalog = catalog
        self.answers = threading.Event()  # for the job that needs no executor
        self.executors = threading.Event()
        self.executors.set()
        self.sessions = threading.Event()  # one has answered

    def first_answer(self) -> None:
        assert self.answers.wait(PATIENCE_S)

    def make_thread(self) -> None:
        """There is no Java to prepare it for."""

    def warm_up(self) -> None:
        """There is nothing to plan."""

    def pulse(self) -> None:
        """It answers."""

    def ports(self) -> list[int]:
        """It has opened none."""
        return []

    def keep_sessions(self, _classes: str) -> None:
        """It has none."""

    def send_jars(self, _paths: list[str]) -> None:
        """There are none."""

    def finish_writes(self, _channel: Any, _older: str) -> list[str]:
        """None was left."""
        return []

    def answer_sql(self) -> None:
        """A session answers."""
        self.sessions.set()

    def first_job(self) -> None:
        """Waits for an executor, which never comes if `executors` is cleared."""
        assert self.executors.wait(PATIENCE_S)

    def setting(self, _key: str) -> str:
        """What getting ready asks first; here it ends with that."""
        raise ValueError("no such setting\nat Spark.conf")

    @property
    def scala(self) -> Any:
        return SimpleNamespace(jvm=SimpleNamespace(brickyard=SimpleNamespace(CatalogChannel=SilentChannel)))

    def share_catalog(self, _channel: Any, _older: str, _cluster_id: str, *, apart: bool) -> list[str]:
        return self._catalog()


def starting(
    roles: ModuleType,
    directory: Path,
    driver: StartingDriver,
    *,
    warm: bool = False,
    kernels: Callable[[], None] = lambda: None,
    conf: dict[str, str] | None = None,
) -> tuple[Any, Channel]:
    """A driver's role that has been started, in a JVM that was `warm` or not. `kernels` is called when kernels may start."""

    class Starting(roles.DriverRole):  # type: ignore[misc, name-defined] # the module is loaded at run time
        def _start_master(self) -> str:
            return "local[1]"

        def _start_driver(self, _master_url: str) -> StartingDriver:
            self._keeps_writes = self._keeps_catalog = True
            return driver

    channel = Channel()
    assignment = {"cluster_id": "c", "role": "single", "spark_conf": conf or {}}
    jvm = Jvm(directory, "")
    jvm.options = jvm.options._replace(frugal=warm)
    common = {
        "jvm": jvm,
        "assignment": assignment,
        "place": place()._replace(metastore=True),
        "report": Report(channel),
    }
    role = Starting(commands=SimpleNamespace(warm=kernels, activity=lambda: (False, 0)), **common)
    role.start()
    return role, channel


def test_the_first_session_is_made_when_the_driver_is_ready(roles: ModuleType, tmp_path: Path) -> None:
    reading, read = threading.Event(), threading.Event()

    def catalog() -> list[str]:
        reading.set()
        assert read.wait(PATIENCE_S)
        return []

    driver = StartingDriver(catalog)
    driver.answers.set()
    role, channel = starting(roles, tmp_path, driver)
    assert reading.wait(PATIENCE_S)
    assert [fields["phase"] for fields in channel.told if "phase" in fields][-1] == "ready", "it would cost the start two seconds"
    assert not role.access.open_within(0.0), "a session that is made now would not see the tables"
    read.set()
    assert role.access.open_within(PATIENCE_S)
    role._stopping.set()


def test_in_a_warm_jvm_sessions_and_the_first_kernel_wait_for_no_answer(roles: ModuleType, tmp_path: Path) -> None:
    driver, kernels = StartingDriver(list), threading.Event()
    role, channel = starting(roles, tmp_path, driver, warm=True, kernels=kernels.set)
    assert kernels.wait(PATIENCE_S)
    assert role.access.open_within(PATIENCE_S)
    assert "ready" not in [fields.get("phase") for fields in channel.told], "Spark has not answered yet"
    driver.answers.set()
    until(lambda: "ready" in [fields.get("phase") for fields in channel.told])
    role._stopping.set()


@pytest.mark.parametrize(
    ("conf", "waits"),
    [({}, False), ({"spark.sql.ansi.enabled": "true"}, False), ({"spark.executor.extraJavaOptions": "-Dx"}, True)],
)
def test_a_cold_driver_waits_for_an_executor_if_settings_reach_it(
    roles: ModuleType, tmp_path: Path, conf: dict[str, str], waits: bool
) -> None:
    driver = StartingDriver(list)
    (driver.executors if waits else driver.answers).set()
    (driver.answers if waits else driver.executors).clear()  # whoever asks for this waits
    role, channel = starting(roles, tmp_path, driver, conf=conf)
    until(lambda: "ready" in [fields.get("phase") for fields in channel.told])
    role._stopping.set()
    driver.answers.set()
    driver.executors.set()


def test_a_cold_driver_that_cannot_get_ready_for_first_commands_says_so_and_goes_on(roles: ModuleType, tmp_path: Path) -> None:
    driver = StartingDriver(list)
    driver.answers.set()
    role, channel = starting(roles, tmp_path, driver)
    until(lambda: [line for line in channel.lines if "first commands will take longer" in line and "no such setting" in line])
    assert [fields["phase"] for fields in channel.told if "phase" in fields][-1] == "ready"
    role._stopping.set()


@pytest.mark.parametrize("warm", [False, True])
def test_settings_of_sessions_are_tried_before_the_driver_is_ready(roles: ModuleType, tmp_path: Path, warm: bool) -> None:
    def refused() -> list[str]:
        raise Py4JJavaError("java.lang.IllegalArgumentException: spark.sql.shuffle.partitions should be int, but was abc")

    conf = {"spark.sql.shuffle.partitions": "abc"}
    driver = StartingDriver(refused)
    driver.answers.set()
    _, channel = starting(roles, tmp_path, driver, warm=warm, conf=conf)
    failure = channel.failure()
    assert failure["code"] == "SPARK_STARTUP_FAILURE"
    assert 'spark.sql.shuffle.partitions = "abc"' in failure["message"]
    assert "ready" not in [fields.get("phase") for fields in channel.told], "the cluster would be RUNNING"
    driver = StartingDriver(list)
    driver.answers.set()
    role, channel = starting(roles, tmp_path, driver, warm=warm, conf=conf)
    until(lambda: "ready" in [fields.get("phase") for fields in channel.told])
    assert driver.sessions.is_set()
    role._stopping.set()


@pytest.mark.parametrize("warm", [False, True])
def test_a_catalog_that_cannot_be_had_is_a_failed_start(roles: ModuleType, tmp_path: Path, warm: bool) -> None:
    def catalog() -> list[str]:
        raise Py4JJavaError("java.nio.file.AccessDeniedException: /cluster/catalog")

    driver = StartingDriver(catalog)
    driver.answers.set()
    role, channel = starting(roles, tmp_path, driver, warm=warm)
    failure = channel.failure()
    assert failure["code"] == "SPARK_STARTUP_FAILURE"
    assert "/cluster/catalog" in failure["message"]
    assert not role.access.open_within(0.0)


class FakeDriver:
    """What a driver is asked about its work; `asked` counts how often its executors were."""

    def __init__(self) -> None:
        self.waiting, self.asked = 0, 0

    def stages(self) -> list[Any]:
        return [Stage(tasks=1 + self.waiting, running=1, done=0)] if self.waiting else []

    def executors(self) -> list[dict[str, Any]]:
        self.asked += 1
        empty = dict.fromkeys(("activeTasks", "completedTasks", "memoryUsed", "diskUsed", "totalShuffleWrite", "totalGCTime"), 0)
        return [{"id": "0", "maxTasks": 1, **empty}]


class FakeMaster:
    def homes(self) -> dict[str, str]:
        return {"0": "127.0.0.1:7078"}


def test_a_load_is_asked_for_when_it_matters(roles: ModuleType, tmp_path: Path) -> None:
    channel, now = Channel(), 1000.0
    activity = sys.modules["brickyard.runtime.node.spark.activity"]
    loadreports = sys.modules["brickyard.runtime.node.host.loadreports"]
    role = roles.DriverRole(
        commands=None,  # nobody has any
        monotonic=lambda: now,
        jvm=Jvm(tmp_path, ""),
        assignment={"role": "driver"},
        place=place(),
        report=Report(channel),
    )
    driver, master = FakeDriver(), FakeMaster()

    def tell(*, busy: bool = False, jobs: int = 1) -> list[dict[str, Any]]:
        before = len(channel.told)
        role._loads.tell(driver, master, activity.Activity(busy=busy, jobs=jobs, connect=(0,)))
        return [fields["load"] for fields in channel.told[before:]]

    role._report.tell(alive_workers=("127.0.0.1:7078",))
    assert not tell(busy=True), "the first user's first jobs come before it"
    driver.waiting = 3
    (load,) = tell(busy=True)
    assert (load["pending"], load["workers"][0][0]) == (3, "127.0.0.1:7078")
    now += loadreports.CALM_S
    driver.waiting = 0
    (load,) = tell()
    assert load["pending"] == 0
    asked = driver.asked
    assert not tell(), "nothing has changed"
    assert driver.asked == asked + 1, "but what the executors hold may not be known yet"
    now += loadreports.LAG_S + 1
    assert not tell(), "nothing has begun since"
    assert driver.asked == asked + 1
    tell(jobs=2)
    assert driver.asked == asked + 2
    role._report.tell(alive_workers=())
    tell(jobs=2)
    assert driver.asked == asked + 3, "workers have come or gone"


def test_the_pulse_counts_how_long_nothing_is_answered(roles: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    pulse = sys.modules["brickyard.runtime.node.host.pulse"]
    monkeypatch.setattr(pulse, "ASK_S", 0.01)
    monkeypatch.setattr(pulse, "TICK_S", 0.01)
    answers, stop = threading.Event(), threading.Event()

    class Heart:
        def beat(self) -> None:
            answers.wait(PATIENCE_S)
            raise Py4JJavaError("what Java raises is an answer, too")

        def measure(self) -> None:
            """It has no numbers."""

    felt = pulse.Pulse(Heart(), stop=stop)
    felt.start()
    until(lambda: felt.silent_s > 0.2)
    answers.set()
    until(lambda: felt.silent_s < 0.1)
    stop.set()


def test_a_broken_connection_is_no_answer(roles: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    pulse = sys.modules["brickyard.runtime.node.host.pulse"]
    monkeypatch.setattr(pulse, "ASK_S", 0.01)
    monkeypatch.setattr(pulse, "TICK_S", 0.01)
    stop = threading.Event()

    class Heart:
        def beat(self) -> None:
            raise Py4JNetworkError("connection refused")

    felt = pulse.Pulse(Heart(), stop=stop)
    felt.start()
    until(lambda: felt.silent_s > 0.5)
    stop.set()
