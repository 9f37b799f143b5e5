"""The workspace's files (DBFS): the service, uploads in progress, and the tree, which clusters may change at any moment."""

from brickyard.services.files.service import DbfsService

__all__ = ["DbfsService"]
