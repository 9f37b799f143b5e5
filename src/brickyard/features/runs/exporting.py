"""What is shown of a notebook that ran as a task. Pure."""

from __future__ import annotations

import msgspec

from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.notebookcells import NotebookCell
from brickyard.domain.run import Run, Task
from brickyard.features.runs.model import ExportedRun, ViewItem, ViewsToExport
from brickyard.features.runs.notebookmodel import notebook_model
from brickyard.features.runs.notebookpage import notebook_page

_UNFINISHED = {"RUNNING": "CANCELLED", "WAITING": "SKIPPED"}


def require_notebook(task: Task, run_id: int) -> None:
    """Raises InvalidParameterValue unless the task is a notebook."""
    if task.spec.notebook_task is None:
        raise InvalidParameterValue(
            f"Run {run_id} is not a run of a notebook: only notebook runs can be exported in HTML format. Use runs/get-output."
        )


def is_over(task: Task, attempt: int) -> bool:
    """Whether the attempt's cells change no more."""
    found = next((each for each in task.attempts if each.task_run_id == attempt), None)
    return found.decided and bool(found.ended_ms) if found is not None else task.result is not None


def settled(task: Task, attempt: int, cells: list[NotebookCell]) -> list[NotebookCell]:
    """The cells as they are shown: once the attempt is over, none runs, also if its driver was lost before it could say so."""
    if not is_over(task, attempt):
        return cells
    return [msgspec.structs.replace(cell, state=_UNFINISHED.get(cell.state, cell.state)) for cell in cells]


def exported(run: Run, task: Task, cells: list[NotebookCell], views: ViewsToExport) -> ExportedRun:
    """The views of a notebook. Takes a while if there is much output."""
    if views is ViewsToExport.DASHBOARDS or task.spec.notebook_task is None:
        return ExportedRun(views=[])
    path = task.spec.notebook_task.notebook_path
    name = path.rstrip("/").rpartition("/")[2]
    cells = sorted(cells, key=lambda cell: cell.number)
    about = f"{path}, task {task.spec.task_key} of run {run.run_id}"
    content = notebook_page(name, about, cells, model=notebook_model(name, cells))
    return ExportedRun(views=[ViewItem(name=name, type="NOTEBOOK", content=content)])
