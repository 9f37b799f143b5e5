"""Rows of global init scripts, and their contents by digest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from sqlalchemy import Connection, bindparam, delete, insert, select

from brickyard.domain.scripts import GlobalScript, GlobalScriptRef
from brickyard.store.prepared import Prepared
from brickyard.store.tables import clusters
from brickyard.store.tables import global_init_scripts as t
from brickyard.store.tables import script_contents as c

_decode = msgspec.json.Decoder(GlobalScript).decode
_encode = msgspec.json.Encoder().encode

_ALL = Prepared(select(t.c.doc).order_by(t.c.position))
_CONTENT = select(c.c.content).where(c.c.digest == bindparam("digest"))
_DIGESTS = select(c.c.digest)
_REMEMBERED = select(clusters.c.cluster_id).where(clusters.c.doc.contains(bindparam("digest"))).limit(1)
_FORGET = delete(c).where(c.c.digest == bindparam("digest"))


class ScriptRows:
    """Within one transaction. Whoever changes the scripts, or makes a cluster remember some, locks SCRIPTS (`Tx.lock`) first."""

    SCRIPTS = "global init scripts"

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def all(self) -> list[GlobalScript]:
        """Every script, in the order in which they run."""
        return [_decode(doc) for (doc,) in _ALL.all(self._connection)]

    def enabled(self) -> tuple[GlobalScriptRef, ...]:
        """Those that run on nodes of a cluster that starts now."""
        found = (script for script in self.all() if script.enabled)
        return tuple(GlobalScriptRef(script_id=each.script_id, name=each.name, digest=each.digest) for each in found)

    def replace(self, scripts: Sequence[GlobalScript]) -> None:
        """Writes all scripts in this order, and forgets contents that neither a script nor a cluster names any more."""
        self._connection.execute(delete(t))
        if scripts:
            rows = [
                {"script_id": script.script_id, "position": position, "doc": _encode(script).decode()}
                for position, script in enumerate(scripts)
            ]
            self._connection.execute(insert(t), rows)
        named = {script.digest for script in scripts}
        for digest in list(self._connection.execute(_DIGESTS).scalars()):
            if digest not in named and self._connection.execute(_REMEMBERED, {"digest": digest}).first() is None:
                self._connection.execute(_FORGET, {"digest": digest})

    def keep(self, digest: str, content: str) -> None:
        """Stores a content, in base64, unless it is there already."""
        if self._connection.execute(_CONTENT, {"digest": digest}).first() is None:
            self._connection.execute(insert(c).values(digest=digest, content=content))

    def contents(self, digests: Iterable[str]) -> dict[str, str]:
        """The contents that exist, by digest."""
        found = {digest: self._connection.execute(_CONTENT, {"digest": digest}).scalar() for digest in set(digests)}
        return {digest: content for digest, content in found.items() if content is not None}
