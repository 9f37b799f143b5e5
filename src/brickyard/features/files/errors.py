"""Errors of the files API, and the file system errors they correspond to."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator

from brickyard.domain.errors import (
    ApiError,
    InvalidParameterValue,
    ResourceAlreadyExists,
    ResourceDoesNotExist,
    StorageFull,
    is_full_disk,
)


class MaxBlockSizeExceeded(ApiError):
    error_code = "MAX_BLOCK_SIZE_EXCEEDED"
    http_status = 400


class MaxReadSizeExceeded(ApiError):
    error_code = "MAX_READ_SIZE_EXCEEDED"
    http_status = 400


class PartialDelete(ApiError):
    """Databricks' error for a tree too large to delete in one call; clients call again."""

    error_code = "PARTIAL_DELETE"
    http_status = 503


class AlreadyExists(ApiError):
    """The Files API's and the CLI's error for an upload to a path that exists."""

    error_code = "ALREADY_EXISTS"
    http_status = 409


class DirectoryNotEmpty(ApiError):
    error_code = "DIRECTORY_NOT_EMPTY"
    http_status = 400


class VolumeDirectoryNotEmpty(DirectoryNotEmpty):
    """Of a volume: the CLI looks for the reason in the details."""

    error_info = "FILES_API_DIRECTORY_IS_NOT_EMPTY"


class IsADirectory(InvalidParameterValue):
    """A directory where a file is needed."""


class PreconditionFailed(ApiError):
    """The file was changed after the time that the client named."""

    error_code = "PRECONDITION_FAILED"
    http_status = 412


class RangeNotSatisfiable(ApiError):
    error_code = "OUT_OF_RANGE"
    http_status = 416


class NotebookTooLarge(ApiError):
    error_code = "MAX_NOTEBOOK_SIZE_EXCEEDED"
    http_status = 400


class FileSystemError(ApiError):
    error_code = "IO_ERROR"
    http_status = 400


MISSING = "No file or directory exists on path {path}."
MISSING_OBJECT = "Path ({path}) doesn't exist."  # Databricks' words for the workspace


@contextlib.contextmanager
def translated(path: str, *, missing: str = MISSING) -> Iterator[None]:
    """Converts file system errors to the API's errors about that path."""
    try:
        yield
    except FileNotFoundError as error:
        raise ResourceDoesNotExist(missing.format(path=path)) from error
    except FileExistsError as error:
        raise ResourceAlreadyExists(f"A file or directory already exists at the path {path}.") from error
    except NotADirectoryError as error:
        raise ResourceAlreadyExists(f"A part of the path {path} is a file where a directory is needed.") from error
    except IsADirectoryError as error:
        raise IsADirectory(f"{path} is a directory; give the path of a file.") from error
    except TimeoutError as error:
        raise PartialDelete(
            f"{path} is too large to delete in one call. Part of it was deleted; call again to continue."
        ) from error
    except OSError as error:
        if error.errno == errno.ENOTEMPTY:
            raise FileSystemError(
                f"The directory {path} is not empty. Pass recursive=true to delete its contents; if you did, "
                "something is still writing there."
            ) from error
        if error.errno == errno.ENAMETOOLONG:
            raise InvalidParameterValue(f"A name in the path {path[:100]}... is too long: 255 bytes are allowed.") from error
        if is_full_disk(error):
            raise StorageFull(
                "The workspace's disk is full: it has no free bytes or no free inodes. Delete files, or enlarge the disk."
            ) from error
        raise FileSystemError(f"{path} could not be used: {error.strerror}.") from error
