"""Paths in volumes: `/Volumes/<catalog>/<schema>/<volume>/...`. Functions raise InvalidParameterValue."""

from __future__ import annotations

from brickyard.domain.errors import InvalidParameterValue
from brickyard.features.files.arguments import VOLUMES, parts_of
from brickyard.features.files.volumenames import LEVELS


def path_names(path: str) -> tuple[str, ...]:
    """The names below /Volumes."""
    top, *rest = parts_of(path) or ("",)
    if top != VOLUMES:
        raise InvalidParameterValue(
            f"{path[:100]!r} is not in a volume. The Files API takes paths of the form /Volumes/catalog/schema/volume/path; use "
            "the DBFS API for dbfs:/ and the Workspace API for /Workspace."
        )
    return tuple(rest)


def volume_names(path: str) -> tuple[str, ...]:
    """The same for a volume or what is in it."""
    parts = path_names(path)
    if len(parts) < LEVELS:
        raise InvalidParameterValue(
            f"{path[:100]!r} is not in a volume: begin with /Volumes/catalog/schema/volume. Volumes are made with "
            "unity-catalog/volumes."
        )
    return parts


def file_names(path: str) -> tuple[str, ...]:
    """The same for what is in a volume."""
    parts = volume_names(path)
    if len(parts) == LEVELS:
        raise InvalidParameterValue(f"{path[:300]!r} is a volume; add the path of what is in it.")
    return parts
