"""`%run` and `dbutils.notebook.run`: notebooks and files that contexts on nodes read, with their users' permissions."""

from __future__ import annotations

import base64

from brickyard.clusters.attach.contextusers import context_caller
from brickyard.domain.errors import ApiError, DatabaseTrouble
from brickyard.domain.node import AskNotebook, NotebookReply
from brickyard.features.files.errors import FileSystemError, NotebookTooLarge
from brickyard.features.files.formats import MAX_NOTEBOOK, Format
from brickyard.features.files.notebooks import EXTENSIONS
from brickyard.features.files.tree import OpenFile
from brickyard.features.files.workspace import WorkspaceService
from brickyard.nodes.tokens import InstanceTokens
from brickyard.store.membership import ALONE, Members, addresses
from brickyard.store.store import Store

_LANGUAGES = {extension.lstrip("."): language.value.lower() for extension, language in EXTENSIONS.items()}


class ContextNotebooks:
    """One per server."""

    def __init__(self, *, store: Store, workspace: WorkspaceService, tokens: InstanceTokens, members: Members = ALONE) -> None:
        self._store = store
        self._workspace = workspace
        self._tokens = tokens
        self._members = members

    async def ask(self, asked: AskNotebook) -> NotebookReply:
        """Answers an agent, whose own token has been checked. Refusals are answers too. The user needs CAN_READ, as for `%run` on
        Databricks."""
        proof, servers = self._tokens.server_token(asked.instance_id), addresses(self._members)
        try:
            caller = await context_caller(self._store, self._tokens, asked)
            found = await self._workspace.export(caller, asked.path, format=Format.AUTO)
            content = found.content if isinstance(found.content, bytes) else await _whole(asked.path, found.content)
            language = _LANGUAGES.get(found.file_type, "")
            text = base64.b64encode(content).decode()
            return NotebookReply(server_token=proof, content=text, language=language, servers=servers)
        except DatabaseTrouble:
            raise
        except ApiError as error:
            return NotebookReply(server_token=proof, error_code=error.error_code, message=error.message, servers=servers)


async def _whole(path: str, opened: OpenFile) -> bytes:
    """The content of a file, which this closes."""
    size = opened.entry.size
    try:
        if size > MAX_NOTEBOOK:
            raise NotebookTooLarge(f"{path} has {size} bytes; at most {MAX_NOTEBOOK} can be run.")
        return b"".join([piece async for piece in opened.pieces(0, size)])
    except OSError as error:
        raise FileSystemError(f"{path} cannot be read: {error.strerror}.") from error
    finally:
        opened.close()
