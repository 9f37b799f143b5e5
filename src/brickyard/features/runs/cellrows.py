"""Rows of the cells of notebooks that ran as tasks."""

from __future__ import annotations

import msgspec
from sqlalchemy import Connection, delete, func, insert, select

from brickyard.domain.notebookcells import NotebookCell
from brickyard.store.tables import task_cells as t

MAX_BYTES = 24 << 20  # of one attempt. Drivers keep less (runtime/node/contexts/notebookcells.py)

_decode = msgspec.json.Decoder(NotebookCell).decode
_encode = msgspec.json.Encoder().encode


class CellRows:
    """Rows within one transaction."""

    def __init__(self, connection: Connection, *, locking: bool) -> None:
        del locking
        self._connection = connection

    def version(self, task_run_id: int) -> int:
        """The newest version of the attempt's cells; 0 if there are none."""
        query = select(func.max(t.c.version)).where(t.c.task_run_id == task_run_id)
        return self._connection.execute(query).scalar() or 0

    def put(self, run_id: int, task_run_id: int, cells: list[NotebookCell]) -> None:
        """Inserts or replaces cells, unless they are there in a newer version. Lock the run before."""
        query = select(t.c.number, t.c.version, func.length(t.c.doc)).where(t.c.task_run_id == task_run_id)
        kept = {number: (version, size) for number, version, size in self._connection.execute(query)}
        for cell in cells:
            version, size = kept.get(cell.number, (0, 0))
            if version >= cell.version:
                continue
            doc = _encode(cell).decode()
            if sum(each for _, each in kept.values()) - size + len(doc) > MAX_BYTES:
                why = "Its output was left out: the notebook has too much."
                bare = msgspec.structs.replace(cell, results=[], source=cell.source[:1_000], cut=why)
                doc = _encode(bare).decode()
            self._connection.execute(delete(t).where(t.c.task_run_id == task_run_id, t.c.number == cell.number))
            row = {"task_run_id": task_run_id, "number": cell.number, "run_id": run_id, "version": cell.version, "doc": doc}
            self._connection.execute(insert(t), row)
            kept[cell.number] = (cell.version, len(doc))

    def since(self, task_run_id: int, version: int, *, most: int) -> tuple[list[NotebookCell], bool]:
        """The attempt's cells that have changed after that version, those that changed first, at most `most` bytes of them unless
        the first one is larger; and whether there are more."""
        query = select(t.c.version, func.length(t.c.doc)).where(t.c.task_run_id == task_run_id, t.c.version > version)
        sizes = self._connection.execute(query.order_by(t.c.version)).all()
        last, left = 0, most
        for at, size in sizes:
            left -= size
            if last and left < 0:
                break
            last = at
        docs = select(t.c.doc).where(t.c.task_run_id == task_run_id, t.c.version > version, t.c.version <= last)
        found = [_decode(doc) for doc in self._connection.execute(docs.order_by(t.c.version)).scalars()]
        return found, len(found) < len(sizes)
