"""The Jobs API's runs: each request becomes desired state in one transaction; the run loop does the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from brickyard.access import Authorizer
from brickyard.access.grants import grant_on_job
from brickyard.access.objects import of_job, of_run
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock
from brickyard.domain.errors import InvalidParameterValue, InvalidState
from brickyard.domain.notebookcells import NotebookCell
from brickyard.domain.notifications import Notifying
from brickyard.domain.pagetokens import NumberCursor, RunCursor, encode, first_of_page, run_cursor
from brickyard.domain.paging import ARRAY_PAGE, asked_page
from brickyard.domain.queries import RunFilter, RunPosition
from brickyard.domain.run import NewRun, Output, Run, Task
from brickyard.domain.tasks import SubmitRun, SubmitTask
from brickyard.domain.wakeups import Wake
from brickyard.features.runs.cellrows import MAX_BYTES, CellRows
from brickyard.features.runs.exporting import exported, is_over, require_notebook, settled
from brickyard.features.runs.making import RunMaker
from brickyard.features.runs.model import (
    ExportedRun,
    ExportRun,
    GetOutput,
    GetRun,
    GetRunCells,
    ListRuns,
    ListRunsResponse,
    NotebookOutput,
    RunCells,
    RunId,
    RunJobOutput,
    RunOutput,
    RunView,
    ViewsToExport,
)
from brickyard.features.runs.sqloutput import sql_output
from brickyard.features.runs.views import attempt_view, iterations_page, listed_run, run_page, run_view
from brickyard.plan.submit import checked_tasks
from brickyard.store.store import Store
from brickyard.store.tx import Tx

DEFAULT_PAGE, MAX_PAGE = 20, 25
MAX_OLD_PAGE = 1_000  # of the 2.0 API
CELLS_BYTES = 4 << 20  # of one answer
MAX_RESULT = 5 * 1024 * 1024  # characters of what a notebook returns


class RunService:
    """One per server. Methods raise ApiError."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        authorizer: Authorizer,
        maker: RunMaker,
        wake: Wake[int],
    ) -> None:
        self._store = store
        self._clock = clock
        self._authorizer = authorizer
        self._maker = maker
        self._wake = wake

    async def submit(self, caller: Caller, request: SubmitRun) -> int:
        """Creates a run that begins at once and returns its id. If a run has the idempotency token, returns that run's id. The
        token of a deleted run is refused, as Databricks documents."""
        tasks = checked_tasks(request)
        submitted = await self._store.write(lambda tx: self._submit(tx, caller, request, tasks))
        self._wake(submitted)
        return submitted

    async def get(self, caller: Caller, request: GetRun) -> RunView:
        """A run with a page of its arrays, or, by its own id, an attempt at a task, with a page of its iterations."""
        first = first_of_page(request.page_token)

        def work(tx: Tx) -> tuple[Run, Task | None, Sequence[Task]]:
            run, task = self._seen(tx, caller, request.run_id)
            for_each = task is not None and task.spec.for_each_task is not None
            over = tx.runs.iterations(request.run_id, first=first, limit=ARRAY_PAGE + 1) if for_each else ()
            return run, task, over

        run, task, over = await self._store.read(work)
        if task is None:
            view, following = run_page(run_view(run, with_tasks=True, with_history=bool(request.include_history)), first)
            return msgspec.structs.replace(view, next_page_token=encode(NumberCursor(following)) if following else None)
        view = attempt_view(run, task, request.run_id)
        if task.spec.for_each_task is None:
            return view
        return iterations_page(view, run, over, first=first, size=ARRAY_PAGE)

    async def output(self, caller: Caller, request: GetOutput) -> RunOutput:
        """The output of an attempt at a task. For a run with one task that was never retried, the run's id works too."""

        def work(tx: Tx) -> tuple[Run, Task, int, Output | None]:
            run, task, attempt = self._attempt(tx, caller, request.run_id)
            return run, task, attempt, tx.runs.output(attempt)

        run, task, attempt, found = await self._store.read(work)
        view = attempt_view(run, task, attempt)
        child = next((each.child_run_id for each in task.attempts if each.task_run_id == attempt), 0)
        if found is None:
            error = view.state.state_message if view.state.result_state is not None else None
            return RunOutput(metadata=view, error=error, run_job_output=RunJobOutput(run_id=child) if child else None)
        return RunOutput(
            metadata=view,
            error=found.error or None,
            error_trace=found.error_trace or None,
            logs=found.logs if found.sql is None else None,
            notebook_output=_notebook_output(found) if task.spec.notebook_task is not None else None,
            sql_output=sql_output(run, task, attempt, found, request.base_url),
            logs_truncated=found.logs_truncated if found.sql is None else None,
        )

    async def cells(self, caller: Caller, request: GetRunCells) -> RunCells:
        """The cells of a notebook that an attempt runs or has run, as far as they have changed after a version."""

        def work(tx: Tx) -> tuple[list[NotebookCell], bool, bool]:
            _, task, attempt = self._attempt(tx, caller, request.run_id)
            require_notebook(task, request.run_id)
            cells, more = tx.rows(CellRows).since(attempt, request.after or 0, most=CELLS_BYTES)
            return settled(task, attempt, cells), more, is_over(task, attempt)

        cells, more, over = await self._store.read(work)
        return RunCells(cells=cells, has_more=more, over=over)

    async def export(self, caller: Caller, request: ExportRun) -> ExportedRun:
        """The notebook that an attempt runs or has run, with its output, as one page of HTML."""

        def work(tx: Tx) -> tuple[Run, Task, list[NotebookCell]]:
            run, task, attempt = self._attempt(tx, caller, request.run_id)
            require_notebook(task, request.run_id)
            cells, _ = tx.rows(CellRows).since(attempt, 0, most=MAX_BYTES)
            return run, task, settled(task, attempt, cells)

        run, task, cells = await self._store.read(work)
        return await asyncio.to_thread(exported, run, task, cells, request.views_to_export or ViewsToExport.CODE)

    async def list(self, caller: Caller, request: ListRuns) -> ListRunsResponse:
        """Runs, most recently started first."""
        which, cursor = _which(request), run_cursor(request.page_token)
        limit = request.limit
        # 0 stands for the most, as documented. A client of the 2.0 API may ask for more, and goes on with the token.
        if limit == 0 or (limit is not None and MAX_PAGE < limit <= MAX_OLD_PAGE):
            limit = MAX_PAGE
        asked = asked_page(limit, request.offset, cursor, default=DEFAULT_PAGE, most=MAX_PAGE)

        def work(tx: Tx) -> list[Run]:
            shown = msgspec.structs.replace(which, visible=self._authorizer.visible(tx, caller, ObjectKind.RUN))
            return tx.runs.page(shown, newest_first=not asked.backward, limit=asked.rows, offset=asked.offset, after=asked.after)

        def token(run: Run, back: bool) -> str:
            return encode(RunCursor(back, RunPosition(created_ms=run.created_ms, run_id=run.run_id)))

        page = asked.cut(await self._store.read(work), token)
        return ListRunsResponse(
            runs=[listed_run(run, expanded=bool(request.expand_tasks)) for run in page.items],
            has_more=page.has_more,
            next_page_token=page.next_page_token,
            prev_page_token=page.prev_page_token,
        )

    async def cancel(self, caller: Caller, request: RunId) -> None:
        """Cancels a run, which is over a moment later. Does nothing if it is over already."""

        def work(tx: Tx) -> int | None:
            run = _locked(tx, request.run_id)
            self._authorizer.require(tx, caller, Permission.CAN_MANAGE_RUN, of_run(run), to="cancel")
            return run.run_id if tx.runs.cancel(run, caller.user_name, self._clock.now_ms()) else None

        if (cancelled := await self._store.write(work)) is not None:
            self._wake(cancelled)

    async def delete(self, caller: Caller, request: RunId) -> None:
        """Deletes a run that is over."""

        def work(tx: Tx) -> None:
            run = _locked(tx, request.run_id)
            self._authorizer.require(tx, caller, Permission.CAN_MANAGE, of_run(run), to="delete")
            if not run.ended_ms:
                raise InvalidState(f"Run {run.run_id} is active and cannot be deleted. Cancel it (runs/cancel) first.")
            if run.idempotency_token:
                tx.runs.spend(run, self._clock.now_ms())
            tx.runs.delete(run.run_id)

        await self._store.write(work)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _seen(self, tx: Tx, caller: Caller, run_id: int) -> tuple[Run, Task | None]:
        """The run with that id, or the run and task of the attempt with that id."""
        run, task = _find(tx, run_id)
        self._authorizer.require(tx, caller, Permission.CAN_VIEW, of_run(run), to="see")
        return run, task

    def _attempt(self, tx: Tx, caller: Caller, run_id: int) -> tuple[Run, Task, int]:
        """The attempt with that id; of a run with one task its last one."""
        run, task = self._seen(tx, caller, run_id)
        if task is not None:
            return run, task, run_id
        if len(run.tasks) != 1:
            raise InvalidParameterValue(
                "Retrieving the output of runs with multiple tasks is not supported. Please retrieve the output of each"
                " individual task run instead."
            )
        task = run.tasks[0]
        return run, task, task.last.task_run_id if task.last is not None else task.task_run_id

    def _submit(self, tx: Tx, caller: Caller, request: SubmitRun, tasks: tuple[SubmitTask, ...]) -> int:
        token = request.idempotency_token or ""
        if token and (same := self._maker.made(tx, caller.user_name, token)) is not None:
            return same
        new = NewRun(
            tasks=tasks,
            job_clusters=tuple(request.job_clusters or ()),
            run_name=request.run_name or "",
            timeout_seconds=request.timeout_seconds or 0,
            idempotency_token=token,
            notifying=Notifying(**{name: getattr(request, name) for name in Notifying.__struct_fields__}),
        )
        self._maker.check_receivers(tx, new)
        run = self._maker.make(tx, caller, new)
        grant_on_job(tx, of_job(run.job_id, run.creator_user_name), request.access_control_list or ())
        return run.run_id


def _notebook_output(found: Output) -> NotebookOutput:
    if found.result is None:
        return NotebookOutput()
    return NotebookOutput(result=found.result[:MAX_RESULT], truncated=len(found.result) > MAX_RESULT)


def _locked(tx: Tx, run_id: int) -> Run:
    """The run with that id, or the run of the attempt with that id."""
    run = tx.runs.get(run_id)
    if run is None:
        raise _unknown(run_id)
    return run


def _find(tx: Tx, run_id: int) -> tuple[Run, Task | None]:
    """The run with that id, or the run and task of the attempt with that id."""
    if (run := tx.runs.get(run_id)) is not None:
        return run, None
    parent = tx.runs.run_of(run_id)
    run = tx.runs.get(parent) if parent is not None else None
    if run is not None:
        for task in run.all_tasks:
            if run_id == task.task_run_id or any(each.task_run_id == run_id for each in task.attempts):
                return run, task
        if (iteration := tx.runs.iteration(run_id)) is not None:
            return run, iteration
    raise _unknown(run_id)


def _which(request: ListRuns) -> RunFilter:
    if request.active_only and request.completed_only:
        raise InvalidParameterValue("active_only and completed_only cannot both be true.")
    return RunFilter(
        job_id=request.job_id or None,
        active=True if request.active_only else False if request.completed_only else None,
        start_ms=request.start_time_from or 0,
        end_ms=request.start_time_to or 0,
        type=request.run_type,
    )


def _unknown(run_id: int) -> InvalidParameterValue:
    # Clients match this message to tell a missing run from a bad request.
    return InvalidParameterValue(f"Run {run_id} does not exist.")
