"""The workspace's files, which clusters may change at any moment: DBFS, volumes and the workspace's notebooks.

`tree` is one of these trees for the services over them. What is on its way to one is in `uploads`, and in `multipart` if it
arrives in parts.
"""

from brickyard.features.files.multipart import MultipartSessions
from brickyard.features.files.presigned import PresignedUrls
from brickyard.features.files.service import DbfsService
from brickyard.features.files.transfers import VolumeTransfers
from brickyard.features.files.tree import FileTree
from brickyard.features.files.uploads import Uploads
from brickyard.features.files.versions import NotebookVersions
from brickyard.features.files.volumes import VolumeService
from brickyard.features.files.workspace import WorkspaceService

__all__ = [
    "DbfsService",
    "FileTree",
    "MultipartSessions",
    "NotebookVersions",
    "PresignedUrls",
    "Uploads",
    "VolumeService",
    "VolumeTransfers",
    "WorkspaceService",
]
