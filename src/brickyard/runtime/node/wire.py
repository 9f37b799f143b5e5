"""Names in Jupyter messages that kernels and the node host share, and what bounds a kernel's questions."""

from __future__ import annotations

GROUP_KEY = "brickyard_command"  # in the metadata of an execute request: the command's id
USER_KEY = "brickyard_user"  # and its context's user
POOL_KEY = "brickyard_pool"  # and the pool of its context's jobs
WIDGETS_KEY = "brickyard_widgets"  # and the values that a person has chosen for widgets
TABLE_MIME = "application/vnd.brickyard.table+json"
EXIT_MIME = "application/vnd.brickyard.exit+json"
VALUE_MIME = "application/vnd.brickyard.value+json"  # what a task of a run sets for others
WIDGETS_MIME = "application/vnd.brickyard.widgets+json"  # all widgets of the context's notebook, when they have changed
RESTART_MIME = "application/vnd.brickyard.restart+json"
CELL_MIME = "application/vnd.brickyard.cell+json"  # what a notebook that runs by itself says of its cells
TASK_MAGIC = "brickyard_task"  # the cell magic of the one command in which a task of a run runs
NOTEBOOK_MAGIC = "brickyard_notebook"  # and that in which a notebook runs by itself
MAX_QUESTION = 1 << 20  # bytes of a question to the node host, as a line: the arguments of a notebook are the longest
