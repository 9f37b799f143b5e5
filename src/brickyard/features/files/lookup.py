"""Whether files that a specification names are there, as far as its caller may see them."""

from __future__ import annotations

from brickyard.domain.caller import Caller
from brickyard.domain.errors import ApiError, ResourceDoesNotExist
from brickyard.domain.places import Kind, Place
from brickyard.features.files.errors import IsADirectory
from brickyard.features.files.service import DbfsService
from brickyard.features.files.volumes import VolumeService
from brickyard.features.files.workspace import WorkspaceService


class FileLookup:
    """One per server."""

    def __init__(self, *, dbfs: DbfsService, volumes: VolumeService, workspace: WorkspaceService) -> None:
        self._dbfs = dbfs
        self._volumes = volumes
        self._workspace = workspace

    async def trouble(self, caller: Caller, place: Place) -> str:
        """What is wrong with the file, as the end of a sentence; "" if it is there, or if that cannot be told: the caller may not
        see it, or it lies on the node or in an object store."""
        try:
            is_directory = await self._is_directory(caller, place)
        except ResourceDoesNotExist:
            return "does not exist"
        except IsADirectory:
            return "is a directory"
        except ApiError:  # PermissionDenied above all: whether it is there is not for this caller to know
            return ""
        return "is a directory" if is_directory else ""

    async def _is_directory(self, caller: Caller, place: Place) -> bool:
        if place.kind is Kind.WORKSPACE:
            return (await self._workspace.status(caller, place.node_path)).entry.is_dir
        if place.kind is Kind.DBFS:
            return (await self._dbfs.status(caller, f"/{place.path}")).is_dir
        if place.kind is Kind.VOLUMES:
            (await self._volumes.open(caller, place.node_path)).close()
        return False
