"""Which repository of R packages this machine uses."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

VARIABLE = "BRICKYARD_CRAN_URL"


def repository(environ: Mapping[str, str]) -> str:
    """Returns the repository's URL: `BRICKYARD_CRAN_URL`; "" for the one that R on the node is set to."""
    return environ.get(VARIABLE, "").rstrip("/")


def directory(environ: Mapping[str, str]) -> str:
    """Returns the directory of this machine that the repository is (file:///...), or "": nodes must see it."""
    parts = urlsplit(repository(environ))
    return unquote(parts.path) if parts.scheme == "file" else ""
