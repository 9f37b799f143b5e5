"""Where the text of SQL tasks comes from: the workspace's files and saved queries, with the rights of the run's owner."""

from __future__ import annotations

from brickyard.access.principals import caller_of
from brickyard.domain.access import Principal
from brickyard.domain.errors import InvalidParameterValue
from brickyard.features.files import WorkspaceService
from brickyard.features.runs.sqltasks import SavedText
from brickyard.features.savedqueries.rules import defaults
from brickyard.features.savedqueries.service import SavedQueryService
from brickyard.plan.sqltasks import MAX_TEXT


class TaskSources:
    """Implements `features.runs.sqltasks.SqlSources`."""

    def __init__(self, *, workspace: WorkspaceService, queries: SavedQueryService) -> None:
        self._workspace = workspace
        self._queries = queries

    async def file(self, owner: Principal, path: str) -> str:
        opened = await self._workspace.open(caller_of(owner, token_id=""), path)
        try:
            size = opened.entry.size
            if size > MAX_TEXT:
                raise InvalidParameterValue(f"{path} has {size} bytes; a SQL task's file has at most {MAX_TEXT}.")
            content = b"".join([piece async for piece in opened.pieces(0, size)])
            return content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InvalidParameterValue(f"{path} is not UTF-8: {error.reason} at byte {error.start}.") from error
        except OSError as error:
            raise InvalidParameterValue(f"{path} cannot be read: {error.strerror}.") from error
        finally:
            opened.close()

    async def query(self, owner: Principal, query_id: str) -> SavedText:
        found = await self._queries.fields(owner, query_id)
        return SavedText(
            text=found.query_text or "", catalog=found.catalog or "", schema=found.schema or "", defaults=defaults(found)
        )
