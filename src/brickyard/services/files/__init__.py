"""The workspace's files, which clusters may change at any moment: DBFS, volumes and the workspace's notebooks.

`safetree` opens files without following links, `uploads` holds what is on its way, `tree` is both for the services over them.
"""

from brickyard.services.files.service import DbfsService
from brickyard.services.files.tree import FileTree
from brickyard.services.files.uploads import Uploads
from brickyard.services.files.volumes import VolumeService
from brickyard.services.files.workspace import WorkspaceService

__all__ = ["DbfsService", "FileTree", "Uploads", "VolumeService", "WorkspaceService"]
