"""Runs SQL tasks on their warehouses: statement after statement, in one session.

The text is read once, when an attempt begins, and kept with the attempt's output. A statement's id follows from its attempt. It
is recorded, in the transaction that also finds the attempt still undecided, before it runs. So a server that finds it on record
asks what became of it, and no kill runs it twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import msgspec

from brickyard.access.principals import active_principal
from brickyard.clusters.statements import StatementSilent, TaskStatement, TaskStatements
from brickyard.domain.access import Principal
from brickyard.domain.errors import ApiError, DatabaseTrouble
from brickyard.domain.run import Conclusion, Output, Run, RunResultState, TerminationCode
from brickyard.domain.sqltasks import SqlParameter, SqlScript, session_id, statement_id
from brickyard.plan.references import parameter_values, resolved
from brickyard.plan.run import FAILED
from brickyard.plan.sqltasks import SqlTextError, notebook_text, rows_of, statements_of
from brickyard.reconcile.runpass import Call
from brickyard.reconcile.runs import Ended, NodeSilent
from brickyard.store.store import Store
from brickyard.store.tx import Tx

WAIT_S = 1.0  # how long a look waits for a statement: the next one then begins at once
OVER = "The task is over."


class SavedText(msgspec.Struct, frozen=True, kw_only=True):
    """The text of a saved query, where it begins, and the defaults of its parameters by name."""

    text: str
    catalog: str = ""
    schema: str = ""
    defaults: dict[str, SqlParameter] = {}


class SqlSources(Protocol):
    """Where the text of SQL tasks is, for those who may read it. Methods raise ApiError."""

    async def file(self, owner: Principal, path: str) -> str:
        """A file of the workspace."""
        ...

    async def query(self, owner: Principal, query_id: str) -> SavedText:
        """A saved query."""
        ...


class SqlTasks:
    """Implements `reconcile.runs.TaskNodes` for SQL tasks."""

    def __init__(
        self,
        *,
        store: Store,
        sources: Callable[[], SqlSources],
        statements: Callable[[], TaskStatements],
        refusal: Callable[[Call], Awaitable[str]],
    ) -> None:
        """`refusal`: why the run's owner may not run statements on the attempt's warehouse now; "" if they may."""
        self._store = store
        self._sources = sources
        self._statements = statements
        self._refusal = refusal

    async def begin(self, call: Call) -> Ended | None:
        script = await self._script(call)
        if script is None:
            if why := await self._refusal(call):
                return _failed(TerminationCode.UNAUTHORIZED_ERROR, f"PermissionDenied: {why}")
            try:
                read = await self._read(call)
            except SqlTextError as error:
                return _failed(TerminationCode.INVALID_RUN_CONFIGURATION, str(error))
            except DatabaseTrouble:
                raise
            except ApiError as error:
                return _failed(TerminationCode.STORAGE_ACCESS_ERROR, error.message)
            await self._store.write(lambda tx: _keep(tx, call, read), background=True)
        if script is None or not script.begun:
            await self._begin_next(call)
        return None

    async def look(self, call: Call) -> Ended | None:
        """Begins the next statement when the last one has succeeded. Returns the outcome of the last of all, or of one that
        failed."""
        while (script := await self._script(call)) is not None:
            if script.begun:
                statement = self._statement(call, script, script.begun - 1)
                end = await self._statements().look(statement, wait_s=WAIT_S)
                if end is None:
                    return None
                if end.error:
                    return _failed(TerminationCode.RUN_EXECUTION_ERROR, end.error, script)
                if script.begun == len(script.statements):
                    done = Conclusion(RunResultState.SUCCESS, TerminationCode.SUCCESS, "", rows=rows_of(end.table))
                    return Ended(conclusion=done, output=Output(sql=script, table=end.table))
            if not await self._begin_next(call):
                return None
        return None

    async def stop(self, call: Call) -> Output | None:
        """The output of an attempt that was stopped."""
        if call.attempt.result not in (RunResultState.CANCELED, RunResultState.TIMEDOUT):
            return None
        script = await self._script(call)
        return None if script is None else Output(sql=script, error=call.attempt.message)

    async def end(self, call: Call) -> None:
        script = await self._script(call)
        if script is not None and script.begun:
            try:
                await self._statements().end(self._statement(call, script, script.begun - 1))
            except StatementSilent as silence:
                raise NodeSilent(str(silence)) from silence

    async def _begin_next(self, call: Call) -> bool:
        """Records the next statement, and begins it. False: the attempt is over, or another server was faster."""
        script = await self._script(call)
        if script is None or script.begun == len(script.statements):
            return False
        following = self._statement(call, script, script.begun)

        def record(tx: Tx) -> bool:
            found = tx.runs.output(call.attempt.task_run_id) if _undecided(tx, call) is not None else None
            if found is None or found.sql != script:
                return False
            begun = msgspec.structs.replace(script, begun=script.begun + 1)
            tx.runs.set_output(call.attempt.task_run_id, Output(sql=begun))
            self._statements().record(tx, following)
            return True

        if not await self._store.write(record, background=True):
            return False
        await self._statements().start(following)
        return True

    async def _script(self, call: Call) -> SqlScript | None:
        found = await self._store.read(lambda tx: tx.runs.output(call.attempt.task_run_id), background=True)
        return None if found is None else found.sql

    async def _read(self, call: Call) -> SqlScript:
        """The statements, with the values of their parameters. Raises ApiError and SqlTextError."""
        owner = await self._store.read(lambda tx: active_principal(tx, call.run.creator_user_name), background=True)
        task, notebook = call.task.spec.sql_task, call.task.spec.notebook_task
        if owner is None:
            raise SqlTextError(OVER)
        given = (task.parameters if task is not None else notebook and notebook.base_parameters) or {}
        values = {name: SqlParameter(name, value) for name, value in _resolved(call, given).items()}
        if notebook is not None:
            text = notebook_text(await self._sources().file(owner, notebook.notebook_path))
            return SqlScript(statements=statements_of(text, values))
        if task is None or task.query is None:
            text = await self._sources().file(owner, task.file.path if task is not None and task.file is not None else "")
            return SqlScript(statements=statements_of(text, values))
        saved = await self._sources().query(owner, task.query.query_id)
        known = {name: msgspec.structs.replace(value, type=_type(saved, name)) for name, value in values.items()}
        statements = statements_of(saved.text, saved.defaults | known)
        return SqlScript(statements=statements, catalog=saved.catalog, schema=saved.schema)

    def _statement(self, call: Call, script: SqlScript, number: int) -> TaskStatement:
        of = (call.attempt.task_run_id, call.attempt.starting_ms)
        return TaskStatement(
            statement_id=statement_id(*of, number),
            session_id=session_id(*of),
            user_name=call.run.creator_user_name,
            cluster_id=call.attempt.cluster_id,
            statement=script.statements[number],
            catalog="" if number else script.catalog,
            schema="" if number else script.schema,
            application=f"Task {call.task.spec.task_key} of run {call.run.run_id}",
            refusal=lambda: self._over(call),
        )

    async def _over(self, call: Call) -> str:
        def work(tx: Tx) -> str:
            cluster = tx.clusters.get(call.attempt.cluster_id)
            same = cluster is not None and cluster.incarnation == call.attempt.generation
            return "" if same and _undecided(tx, call) is not None else OVER

        return await self._store.read(work, background=True)


def _resolved(call: Call, given: Mapping[str, str]) -> dict[str, str]:
    """The values of a task's parameters, and of the job's."""
    own = {name: resolved(each, call.run, call.task, call.attempt) for name, each in given.items()}
    return parameter_values(call.run) | own


def _type(saved: SavedText, name: str) -> str:
    return saved.defaults[name].type if name in saved.defaults else "STRING"


def _keep(tx: Tx, call: Call, script: SqlScript) -> None:
    """Keeps what an attempt runs, unless another server has done so or the attempt is over."""
    if _undecided(tx, call) is not None and tx.runs.output(call.attempt.task_run_id) is None:
        tx.runs.set_output(call.attempt.task_run_id, Output(sql=script))


def _undecided(tx: Tx, call: Call) -> Run | None:
    """The run, if the attempt has no result yet. Inside `write` it stays so until the commit."""
    run = tx.runs.get(call.run.run_id)
    attempts = (each for task in run.all_tasks for each in task.attempts) if run is not None else ()
    mine = next((each for each in attempts if each.task_run_id == call.attempt.task_run_id), None)
    return run if mine is not None and not mine.decided else None


def _failed(code: TerminationCode, message: str, script: SqlScript | None = None) -> Ended:
    said = FAILED if code is TerminationCode.RUN_EXECUTION_ERROR else message
    return Ended(conclusion=Conclusion(RunResultState.FAILED, code, said), output=Output(error=message, sql=script))
