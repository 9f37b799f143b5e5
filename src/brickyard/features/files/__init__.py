"""The workspace's files, which clusters may change at any moment: DBFS, volumes and the workspace's notebooks.

`safetree` opens files without following links, `uploads` holds what is on its way, `tree` is both for the services over them.
"""

from brickyard.features.files.service import DbfsService
from brickyard.features.files.tree import FileTree
from brickyard.features.files.uploads import Uploads
from brickyard.features.files.volumes import VolumeService
from brickyard.features.files.workspace import WorkspaceService

__all__ = ["DbfsService", "FileTree", "Uploads", "VolumeService", "WorkspaceService"]
