"""The Jobs API's jobs: each request is one transaction; the run loop and `features/jobs/loop.py` do the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from brickyard.access import Authorizer
from brickyard.access.grants import grant_on_job, let_owner_see_runs
from brickyard.access.objects import WORKSPACE, of_job, of_run
from brickyard.access.principals import active_principal
from brickyard.domain.access import ObjectKind, Permission, Place, Principal
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock, Ids
from brickyard.domain.errors import InvalidParameterValue, PermissionDenied, QuotaExceeded
from brickyard.domain.notifications import EmailNotifications, WebhookNotifications
from brickyard.domain.pagetokens import JobCursor, NumberCursor, encode, first_of_page, job_cursor
from brickyard.domain.paging import asked_page, slices
from brickyard.domain.queries import JobPosition
from brickyard.domain.run import Run, TriggerType
from brickyard.domain.wakeups import Wake
from brickyard.features.jobs import continuous, rules, triggers
from brickyard.features.jobs.arrivals import Watched
from brickyard.features.jobs.model import (
    CancelAllRuns,
    Continuity,
    CreateJob,
    FileArrivalState,
    GetJob,
    JobId,
    JobRow,
    JobRunAs,
    JobSettings,
    JobView,
    ListJobs,
    ListJobsResponse,
    RepairRun,
    RepairRunResponse,
    ResetJob,
    RunNow,
    TableState,
    TableTriggerState,
    TriggerSettings,
    TriggerState,
    UpdateJob,
)
from brickyard.features.jobs.rows import JobRows, TriggerRows
from brickyard.features.jobs.runs import Runs
from brickyard.features.jobs.watches import Watches, table_of
from brickyard.store.store import Store
from brickyard.store.tx import Tx

MAX_JOBS = 12_000  # of a workspace, as at Databricks
DEFAULT_PAGE, MAX_PAGE = 20, 100
MAX_TOKEN = 64


class JobService:
    """One per server. Methods raise ApiError."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        ids: Ids,
        authorizer: Authorizer,
        runs: Runs,
        watches: Watches,
        wake_run: Wake[int],
    ) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._authorizer = authorizer
        self._runs = runs
        self._watches = watches
        self._wake_run = wake_run

    async def create(self, caller: Caller, request: CreateJob) -> int:
        """Creates a job, whose runs have the caller's rights, and returns its id."""
        now = self._clock.now_ms()
        fields = {name: getattr(request, name) for name in JobSettings.__struct_fields__}
        settings = rules.checked(JobSettings(**fields), now_ms=now)

        def work(tx: Tx) -> int:
            self._authorizer.require(tx, caller, Permission.WORKSPACE_ACCESS, WORKSPACE, to="create jobs in")
            if tx.rows(JobRows).count() >= MAX_JOBS:
                raise QuotaExceeded(f"The workspace has {MAX_JOBS} jobs, which is the maximum. Delete one first.")
            run_as = self._run_as(tx, caller, request.run_as, default=caller.user_name)
            row = JobRow(
                job_id=self._ids.number(),
                creator_user_name=caller.user_name,
                run_as=run_as,
                created_ms=now,
                settings=settings,
                next_ms=rules.next_ms(settings, after_ms=now),
            )
            self._check(tx, row)
            tx.rows(JobRows).insert(row)
            _watch(tx, row, now)
            on = of_job(row.job_id, row.owned_by)
            grant_on_job(tx, on, request.access_control_list or ())
            if row.run_as != row.owned_by:
                let_owner_see_runs(tx, on)
            return row.job_id

        return await self._store.write(work)

    async def get(self, caller: Caller, request: GetJob) -> JobView:
        """A job with its settings and a page of their arrays, and what its trigger has seen."""
        row, watched = await self._store.read(lambda tx: self._read(tx, caller, request))
        return _view(row, rules.multi(row.settings), watched=watched, first=first_of_page(request.page_token))

    async def get_older(self, caller: Caller, request: GetJob) -> JobView:
        """The same for API 2.0: settings in the older form of one task if they came so."""
        row, watched = await self._store.read(lambda tx: self._read(tx, caller, request))
        return _view(row, rules.older(row.settings), watched=watched, first=first_of_page(request.page_token))

    async def list(self, caller: Caller, request: ListJobs) -> ListJobsResponse:
        """Jobs, most recently created first."""
        return await self._list(caller, request, rules.multi)

    async def list_older(self, caller: Caller, request: ListJobs) -> ListJobsResponse:
        """The same for API 2.0: settings in the older form of one task, all of them, if they came so."""
        return await self._list(caller, request, rules.older)

    async def _list(self, caller: Caller, request: ListJobs, shown: Callable[[JobSettings], JobSettings]) -> ListJobsResponse:
        cursor = job_cursor(request.page_token)
        asked = asked_page(request.limit, request.offset, cursor, default=DEFAULT_PAGE, most=MAX_PAGE)

        def work(tx: Tx) -> Sequence[JobRow]:
            return tx.rows(JobRows).page(
                visible=self._authorizer.visible(tx, caller, ObjectKind.JOB),
                name=request.name or "",
                newest_first=not asked.backward,
                limit=asked.rows,
                offset=asked.offset,
                after=asked.after,
            )

        def token(row: JobRow, back: bool) -> str:
            return encode(JobCursor(back, JobPosition(created_ms=row.created_ms, job_id=row.job_id)))

        page = asked.cut(await self._store.read(work), token)
        return ListJobsResponse(
            jobs=[_listed(row, shown(row.settings), expanded=bool(request.expand_tasks)) for row in page.items],
            has_more=page.has_more,
            next_page_token=page.next_page_token,
            prev_page_token=page.prev_page_token,
        )

    async def reset(self, caller: Caller, request: ResetJob) -> None:
        """Replaces all settings of a job. Its active runs go on as they are."""
        await self._change(caller, request.job_id, lambda _: request.new_settings, request.new_settings.run_as)

    async def update(self, caller: Caller, request: UpdateJob) -> None:
        """Changes some settings of a job. Its active runs go on as they are."""
        remove = request.fields_to_remove or ()
        run_as = request.new_settings.run_as if request.new_settings is not None else None
        await self._change(caller, request.job_id, lambda old: rules.merged(old, request.new_settings, remove), run_as)

    async def delete(self, caller: Caller, request: JobId) -> None:
        """Deletes a job and cancels its active runs. The runs can be seen as long as any."""

        def work(tx: Tx) -> Sequence[int]:
            row = self._allowed(tx, caller, request.job_id, Permission.CAN_MANAGE, to="delete")
            cancelled = self._cancel(tx, caller, tx.runs.active_of_job(row.job_id))
            tx.rows(JobRows).delete(row.job_id)
            tx.rows(TriggerRows).delete(row.job_id)
            tx.grants.put(Place(ObjectKind.JOB, str(row.job_id)), ())
            return cancelled

        for run_id in await self._store.write(work):
            self._wake_run(run_id)

    async def run_now(self, caller: Caller, request: RunNow) -> int:
        """Begins a run of the job and returns its id. If a run has the idempotency token, returns that run's id. A continuous
        job begins again: its active run is cancelled, and the new one begins when that is over."""
        token = request.idempotency_token or ""
        if len(token) > MAX_TOKEN:
            raise InvalidParameterValue(f"idempotency_token is too long: at most {MAX_TOKEN} characters are allowed.")

        def work(tx: Tx) -> tuple[int, Sequence[int]]:
            row = self._allowed(tx, caller, request.job_id, Permission.CAN_MANAGE_RUN, to="run")
            if token and (same := self._runs.made(tx, row.run_as, token, job_id=row.job_id)) is not None:
                return same, ()
            if not continuous.is_on(row):
                return self._runs.make(tx, _principal(tx, row), rules.wanted(row, request)).run_id, ()
            cancelled = self._cancel(tx, caller, tx.runs.active_of_job(row.job_id))
            wanted = rules.wanted(row, request, trigger=TriggerType.CONTINUOUS_RESTART)
            return self._runs.make(tx, _principal(tx, row), wanted).run_id, cancelled

        run_id, cancelled = await self._store.write(work)
        for each in (*cancelled, run_id):
            self._wake_run(each)
        return run_id

    async def repair(self, caller: Caller, request: RepairRun) -> RepairRunResponse:
        """Runs tasks of a run that is over again, as a part of it: with the job's settings as they are now."""

        def work(tx: Tx) -> int:
            job_id = tx.runs.job_of(request.run_id)
            row = tx.rows(JobRows).get(job_id) if job_id is not None else None
            run = tx.runs.get(request.run_id)
            if run is None:
                raise InvalidParameterValue(f"Run {request.run_id} does not exist.")
            self._authorizer.require(tx, caller, Permission.CAN_MANAGE_RUN, of_run(run), to="repair")
            again = rules.to_repair(row, run, request)
            return self._runs.repair(tx, principal_for(tx, run.creator_user_name, f"Run {run.run_id}"), run, again)

        repair_id = await self._store.write(work)
        self._wake_run(request.run_id)
        return RepairRunResponse(repair_id=repair_id)

    async def cancel_all(self, caller: Caller, request: CancelAllRuns) -> None:
        """Cancels the active runs of a job, or only its queued ones."""
        if request.job_id is None:
            raise InvalidParameterValue("job_id is missing: runs are cancelled by job.")
        job_id = request.job_id

        def work(tx: Tx) -> Sequence[int]:
            self._allowed(tx, caller, job_id, Permission.CAN_MANAGE_RUN, to="cancel the runs of")
            only_queued = bool(request.all_queued_runs)
            return self._cancel(tx, caller, tx.runs.active_of_job(job_id), which=lambda run: run.queued or not only_queued)

        for run_id in await self._store.write(work):
            self._wake_run(run_id)

    # -- inside ------------------------------------------------------------------------------------------------------

    async def _change(
        self, caller: Caller, job_id: int, change: Callable[[JobSettings], JobSettings], run_as: JobRunAs | None
    ) -> None:
        now = self._clock.now_ms()

        def work(tx: Tx) -> None:
            if run_as is not None:
                tx.lock(f"grants/{ObjectKind.JOB}/{job_id}")  # before the job, as where permissions are changed
            row = self._allowed(tx, caller, job_id, Permission.CAN_MANAGE, to="change")
            settings = rules.checked(change(row.settings), now_ms=now)
            settings = msgspec.structs.replace(settings, run_as=run_as or row.settings.run_as)  # only a new one replaces it
            # Else the next run stays, even if it is due this very moment.
            same = all(getattr(settings, name) == getattr(row.settings, name) for name in triggers.WAYS)
            if not same:
                next_ms = rules.next_ms(settings, after_ms=now)
                row = msgspec.structs.replace(row, next_ms=next_ms, continuity=Continuity())
            identity = self._run_as(tx, caller, run_as, default=row.run_as)
            row = msgspec.structs.replace(row, settings=settings, run_as=identity)
            self._check(tx, row)
            tx.rows(JobRows).update(row)
            if run_as is not None and identity != row.owned_by:
                let_owner_see_runs(tx, of_job(job_id, row.owned_by))
            if not same:
                _watch(tx, row, now)

        await self._store.write(work)

    def _check(self, tx: Tx, row: JobRow) -> None:
        """Raises if a run could not be made now."""
        if any(each.work.run_job_task and each.work.run_job_task.job_id == row.job_id for each in row.settings.tasks or ()):
            raise InvalidParameterValue(f"Job {row.job_id} would run itself: jobs must not run each other in a circle.")
        if row.settings.tasks:
            self._runs.check(tx, _principal(tx, row), rules.wanted(row))
        if triggers.watches(row.settings):
            self._watches.require(tx, _principal(tx, row), row.settings)

    def _run_as(self, tx: Tx, caller: Caller, asked: JobRunAs | None, *, default: str) -> str:
        """The identity whose rights the job's runs have. Only administrators may name somebody else."""
        if asked is None:
            return default
        if asked.group_name:
            raise InvalidParameterValue("run_as.group_name is not supported: give user_name or service_principal_name.")
        names = [each for each in (asked.user_name, asked.service_principal_name) if each]
        if len(names) != 1:
            raise InvalidParameterValue("run_as must have one of user_name and service_principal_name.")
        if names[0] not in (caller.user_name, default) and not caller.is_admin:
            raise PermissionDenied("run_as: only administrators may let a job run as somebody else.")
        if active_principal(tx, names[0]) is None:
            raise InvalidParameterValue(f"run_as: {names[0][:140]!r} is not an active user or service principal.")
        return names[0]

    def _allowed(self, tx: Tx, caller: Caller, job_id: int, permission: Permission, *, to: str) -> JobRow:
        row = tx.rows(JobRows).get(job_id)
        if row is None:
            # Clients match this message to tell a missing job from a bad request.
            raise InvalidParameterValue(f"Job {job_id} does not exist.")
        self._authorizer.require(tx, caller, permission, of_job(row.job_id, row.owned_by), to=to)
        return row

    def _read(self, tx: Tx, caller: Caller, request: GetJob) -> tuple[JobRow, Watched | None]:
        row = self._allowed(tx, caller, request.job_id, Permission.CAN_VIEW, to="see")
        return row, tx.rows(TriggerRows).get(row.job_id) if triggers.watches(row.settings) else None

    def _cancel(
        self, tx: Tx, caller: Caller, run_ids: Sequence[int], *, which: Callable[[Run], bool] = lambda _: True
    ) -> Sequence[int]:
        found = [run for run_id in sorted(run_ids) if (run := tx.runs.get(run_id)) is not None and which(run)]
        return [run.run_id for run in found if tx.runs.cancel(run, caller.user_name, self._clock.now_ms())]


def _principal(tx: Tx, row: JobRow) -> Principal:
    return principal_for(tx, row.run_as, f"Job {row.job_id}")


def principal_for(tx: Tx, user_name: str, what: str) -> Principal:
    """Whose rights the runs have, as they are now."""
    found = active_principal(tx, user_name)
    if found is None:
        raise InvalidParameterValue(
            f"{what} runs with the rights of {user_name}, who is deactivated or removed. Somebody else must update it."
        )
    return found


def _watch(tx: Tx, row: JobRow, now: int) -> None:
    """Has the job's trigger look from now on: what is there already does not count."""
    if triggers.watches(row.settings):
        tx.rows(TriggerRows).put(row.job_id, Watched(since_ms=now))
    else:
        tx.rows(TriggerRows).delete(row.job_id)


def _listed(row: JobRow, settings: JobSettings, *, expanded: bool) -> JobView:
    """A job of a list, which has the first of its tasks and job clusters if they are asked for."""
    view = _view(row, settings)
    if expanded:
        return msgspec.structs.replace(view, has_more=True if view.next_page_token else None, next_page_token=None)
    settings = msgspec.structs.replace(view.settings, tasks=None, job_clusters=None)
    return msgspec.structs.replace(view, settings=settings, next_page_token=None)


def _view(row: JobRow, settings: JobSettings, *, first: int = 0, watched: Watched | None = None) -> JobView:
    """A job as clients see it, with the page of its arrays that begins with that number."""
    (tasks, clusters, parameters), following = slices((settings.tasks, settings.job_clusters, settings.parameters), first)
    settings = msgspec.structs.replace(
        settings,
        tasks=tasks,
        job_clusters=clusters,
        parameters=parameters,
        webhook_notifications=settings.webhook_notifications or WebhookNotifications(),  # Databricks always has both
        email_notifications=settings.email_notifications or EmailNotifications(),
    )
    return JobView(
        job_id=row.job_id,
        creator_user_name=row.creator_user_name,
        run_as_user_name=row.run_as,
        created_time=row.created_ms,
        settings=settings,
        next_run_time=(row.next_ms or None) if triggers.type_of(row.settings) is TriggerType.PERIODIC else None,
        trigger_state=_trigger_state(row, watched) if watched is not None else None,
        next_page_token=encode(NumberCursor(following)) if following else None,
    )


def _trigger_state(row: JobRow, watched: Watched) -> TriggerState:
    trigger, updated = row.settings.trigger or TriggerSettings(), set(map(table_of, watched.fresh))
    tables = trigger.table_update
    states = [TableState(table_name=each, has_seen_updates=each in updated) for each in tables.table_names] if tables else None
    return TriggerState(
        file_arrival=FileArrivalState() if trigger.file_arrival else None,
        table=TableTriggerState(last_seen_table_states=states) if states else None,
        last_trigger_time=watched.fired_ms or None,
        message=watched.why or None,
    )
