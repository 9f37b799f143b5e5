"""The process of one kernel: `start.py kernel DIRECTORY PARENT_PID WORK_DIR`.

DIRECTORY contains connection.json and receives the sockets. The process attaches to the cluster's driver (attach.py), fills the
user's namespace and serves the Jupyter protocol until its parent ends it or it ends itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import logging
import os
import signal
import socket
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any, NoReturn, TextIO

from ipykernel.kernelapp import IPKernelApp
from IPython.display import HTML
from IPython.display import display as ipython_display
from jupyter_client.jsonutil import json_default
from traitlets.config import Config

from ..trees import FULL, roots
from ..wire import GROUP_KEY, NOTEBOOK_MAGIC, POOL_KEY, TABLE_MIME, USER_KEY, WIDGETS_KEY
from .cellmagics import make_md_magic, make_sh_magic
from .dbutils import NotebookExit, make_dbutils
from .display import Figures, bound_text, forget_outputs, make_display, pandas_table
from .fs import make_fs_magic
from .interrupts import only_end_code
from .jar import run_main
from .largeerrors import bound_errors
from .line import PATIENCE_S, Line
from .missing import EXPLAINED, explain
from .namespace import spark_names
from .notebooks import CellFailed, Notebooks
from .packages import Packages
from .paths import runtime_last
from .place import Place
from .quota import explain_kill, guard_files
from .sql import run
from .standins import StandIns
from .summary import make_summarize
from .task import MAGIC, TaskFailed, make_task_magic
from .widgets import Widgets

OUTPUT_LIMIT = 10 * 1024 * 1024 + 1  # characters printed by one command; one more than any result can show
CLUSTER_ID = "spark.databricks.clusterUsageTags.clusterId"
SHOWN_FRAMES = 10  # at either end of a deep recursion's traceback
PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """Makes the kernel kill this process when the thread that started it ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # the parent was gone before the prctl call
        os._exit(1)


def hear_the_end() -> None:
    """From now on SIGTERM, which announces the end of the node, does nothing here: code that wants to know of it sets a handler.
    The processes that code makes begin with the usual one: programs by themselves, forks (multiprocessing) by this. A signal that
    comes before a fork has it must not get lost, so it waits."""
    masks = threading.local()

    def note(_number: int, _frame: Any) -> None:
        pass

    def hold() -> None:
        masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def usual() -> None:
        if signal.getsignal(signal.SIGTERM) is note:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        go_on()

    def go_on() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.before)

    signal.signal(signal.SIGTERM, note)
    os.register_at_fork(before=hold, after_in_child=usual, after_in_parent=go_on)


def pack(value: Any) -> bytes:
    """Encodes JSON for the wire. Jupyter's own packer fails on lone surrogates, which would lose the output."""
    return json.dumps(value, allow_nan=False, default=_wire_default).encode("ascii")


def _wire_default(value: Any) -> Any:
    return json_default(value)


def make_app(directory: Path) -> Any:
    """Returns the Jupyter application, listening, with its streams and shell set up."""

    class KernelApp(IPKernelApp):
        def init_heartbeat(self) -> None:
            """Does nothing: the parent watches the process itself."""

    config = Config()
    config.HistoryManager.enabled = False
    config.HistoryManager.hist_file = ":memory:"
    config.InteractiveShell.cache_size = 0  # keeps no results in Out[...]: long-lived contexts would never free them
    config.InteractiveShell.colors = "NoColor"
    config.Completer.use_jedi = False
    app = KernelApp.instance(config=config)
    app.session.pack = pack
    # Sockets bind to a relative path: a socket path has at most 107 characters, and directories may have longer ones.
    os.chdir(str(directory))
    app.initialize(["-f", str(directory / "connection.json"), "--log-level=50"])
    only_end_code(app.kernel)
    return app


class OutputBudget:
    """Limits what one command prints: the excess is dropped here, before it costs anybody memory."""

    def __init__(self) -> None:
        self._left = OUTPUT_LIMIT

    def refill(self) -> None:
        self._left = OUTPUT_LIMIT

    def guard(self, stream: Any) -> None:
        """Puts the stream's `write` under this budget."""
        write = stream.write

        def bounded(text: str) -> Any:
            if not isinstance(text, str):
                return write(text)  # let it raise
            if self._left <= 0:
                return len(text)
            kept = text if len(text) <= self._left else text[: self._left]
            self._left -= len(kept)
            write(kept)
            return len(text)

        stream.write = bounded


def leave(code: Any | None = None) -> NoReturn:
    """`exit()` and `quit()`: they end the command, like sys.exit(), but not the context."""
    raise SystemExit(code)


def show_error(shell: Any, kind: Any, error: BaseException, trace: Any, tb_offset: Any = None) -> list[str]:
    """Shows exceptions that IPython would show badly: not at all, without thousands of frames, as the task's own error,
    or with what to do."""
    if isinstance(error, TaskFailed):
        if error.text:
            shell._showtraceback(type(error.error), error.error, [error.text])
            return []
        kind, trace, error = type(error.error), error.trace, error.error
    explain(error, trace)
    explain_kill(error)
    if not isinstance(error, (NotebookExit, CellFailed)):
        shell.showtraceback((kind, error, shorten_trace(trace)))
    return []


def shorten_trace(trace: Any, keep: int = SHOWN_FRAMES) -> Any:
    """Returns the traceback with only its first and last frames. IPython takes many seconds to show those of a deep recursion."""
    frames = []
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    if len(frames) > 2 * keep:
        frames[keep - 1].tb_next = frames[-keep]
    return frames[0] if frames else None


def quiet_failed_queries() -> None:
    """Stops Spark 4 from writing each failed query to stderr, as JSON with Java's full stack, before it raises the error."""
    with contextlib.suppress(ImportError):  # Spark 3
        from pyspark.logger import PySparkLogger

        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)


def fill_namespace(app: Any, kernel_spark: Any, line: Line, packages: Packages, place: Place) -> Widgets:
    """Fills the user's namespace: spark, sc, sql, display, dbutils and the like, and the magics. Returns the widgets."""
    from pyspark.errors import PySparkException

    shell = app.shell
    spark = kernel_spark.spark

    def publish(bundle: dict[str, Any]) -> None:
        shell.display_pub.publish(data=bundle)

    figures = Figures()
    shell.events.register("post_execute", figures.close)  # before matplotlib registers its own
    display = make_display(publish, ipython_display, figures)

    def sql_magic(_line: str, cell: str) -> None:
        try:
            frame = run(spark, cell, dbutils.widgets)
        except (
            PySparkException,
            ValueError,
        ) as error:  # it is about the statement: our and PySpark's frames do not matter
            raise TaskFailed(error, text=f"{type(error).__name__}: {error}") from None
        if frame is not None:
            shell.user_ns["_sqldf"] = frame
            display(frame)

    def display_html(html: str) -> None:
        ipython_display(HTML(html))

    def frame_bundle(frame: Any) -> dict[str, Any]:
        return {TABLE_MIME: pandas_table(frame, labelled=True)}

    # IPython's advice about SystemExit is for people at a terminal.
    warnings.filterwarnings("ignore", message="To exit: use 'exit', 'quit', or Ctrl-D.")
    shell.register_magic_function(sql_magic, "cell", "sql")
    shell.register_magic_function(make_task_magic(shell.user_ns, run_main, place, shell.display_pub), "cell", MAGIC)
    bound_errors(shell)
    bound_text(shell.display_formatter, OUTPUT_LIMIT)
    forget_outputs(shell.history_manager)
    shell.set_custom_exc((NotebookExit, CellFailed, RecursionError, TaskFailed, CalledProcessError, *EXPLAINED), show_error)
    # For a cell's last value; what the user prints stays text. This imports nothing.
    shell.display_formatter.mimebundle_formatter.for_type_by_name("pandas.core.frame", "DataFrame", frame_bundle)
    summarize = make_summarize(spark, publish)
    dbutils = make_dbutils(
        publish, line, place=place, cluster_id=lambda: str(spark.conf.get(CLUSTER_ID, "")), summarize=summarize
    )
    notebooks = Notebooks(shell=shell, line=line, place=place, widgets=dbutils.widgets)
    shell.register_magic_function(notebooks.run_magic(), "line", "run")
    shell.register_magic_function(notebooks.notebook_magic, "cell", NOTEBOOK_MAGIC)
    shell.register_magic_function(make_sh_magic(shell), "cell", "sh")
    shell.register_magic_function(make_md_magic(display_html), "cell", "md")
    shell.register_magic_function(make_fs_magic(dbutils.fs, publish), "line", "fs")
    shell.register_magic_function(packages.pip, "line", "pip")
    shell.register_magic_function(lambda _: dbutils.library.restartPython(), "line", "restart_python")
    names: dict[str, Any] = {
        **spark_names(spark, kernel_spark.context, display),
        "display": display,
        "displayHTML": display_html,
        "dbutils": dbutils,
        "getArgument": dbutils.widgets.getArgument,
        "exit": leave,
        "quit": leave,
    }
    shell.push(names, interactive=False)
    sys.meta_path.append(StandIns(names, dbutils.entry_point.getContext()))
    return dbutils.widgets


def described(cell: str) -> str:
    """Returns a command's job description for the Spark UI: the command's beginning, or the task's name."""
    first, _, _ = cell.partition("\n")
    magic, _, task = first.partition(" ")
    return task.strip() if task and magic in (f"%%{MAGIC}", f"%%{NOTEBOOK_MAGIC}") else cell.strip()[:100]


def before_each(app: Any, kernel_spark: Any, budget: OutputBudget, place: Place, widgets: Widgets) -> Callable[[Any], None]:
    """Returns the hook that runs before every command."""

    def begin(info: Any) -> None:
        if place.depth:
            return  # a cell of a notebook, within the command
        budget.refill()
        metadata = app.kernel.get_parent().get("metadata") or {}
        command_id, owner = metadata.get(GROUP_KEY), (str(metadata.get(USER_KEY, "")), str(metadata.get(POOL_KEY, "")))
        if not command_id:
            return
        widgets._choose(metadata.get(WIDGETS_KEY) or {})
        try:
            kernel_spark.begin(str(command_id), described(info.raw_cell or ""), *owner)
        except Exception as error:
            # Without a driver, code that does not need Spark still runs; code that needs it raises a clearer error.
            print(f"Spark's driver does not answer: {error}", file=sys.stderr)

    return begin


def kind_of_spark() -> Callable[[], Any]:
    """Returns what makes the kernel's access to Spark, depending on the environment: Spark Connect, or the driver's JVM, to which
    this connects. The import is slow."""
    if "SPARK_REMOTE" in os.environ:
        from .connect import KernelConnect

        return KernelConnect
    from .attach import reach
    from .spark import KernelSpark

    return partial(KernelSpark, reach())


def join_spark(kind: Callable[[], Any], log: TextIO) -> Any:
    """Returns the kernel's access to Spark. Nobody hears yet what this process prints: until there is a kernel, it belongs into
    the log, and so does what is wrong."""
    with log, contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
        try:
            return kind()
        except Exception:
            traceback.print_exc()
            log.flush()
            os._exit(1)  # threads of the application wait for commands


def await_driver() -> socket.socket:
    """Waits until the parent says that there is a driver. The slow part that needs no driver is done before.
    Returns the socket over which it said so, for questions to it."""
    parent = socket.socket(fileno=os.dup(0))  # no child inherits it
    if parent.recv(3) != b"go\n":
        sys.exit(0)  # this kernel will never be needed
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    parent.settimeout(PATIENCE_S)
    return parent


def hide_ourselves() -> None:
    """Removes our modules from `sys.modules`, once we import nothing more. Users' code then cannot import them, and objects
    sent to Spark's workers, which do not have them, are pickled by value."""
    package = __name__.partition(".")[0]
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]


def main() -> None:
    directory, parent, work_dir = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    die_with_parent(parent)
    hear_the_end()
    kind = kind_of_spark()
    log = os.fdopen(os.dup(2), "w", buffering=1)  # the application takes over the standard streams
    app = make_app(directory)
    line = Line(await_driver() if "hold" in sys.argv[4:] else None)
    kernel_spark = join_spark(kind, log)
    budget = OutputBudget()
    budget.guard(sys.stdout)
    budget.guard(sys.stderr)
    quiet_failed_queries()
    packages = Packages(app.shell, kernel_spark.spark)
    place = Place()
    widgets = fill_namespace(app, kernel_spark, line, packages, place)
    app.shell.events.register("pre_run_cell", before_each(app, kernel_spark, budget, place, widgets))
    if mark := os.environ.get(FULL, ""):
        guard_files(mark, roots(os.environ).values())
    os.chdir(work_dir)
    hide_ourselves()
    runtime_last()
    packages.resume()
    sys.path[:] = ["", *(entry for entry in sys.path if entry != "")]  # users import from their working directory
    sys.argv[:] = [""]
    app.start()
