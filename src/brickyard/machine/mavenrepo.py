"""Which Maven repository this machine uses."""

from __future__ import annotations

from collections.abc import Mapping

VARIABLE = "BRICKYARD_MAVEN_URL"
CENTRAL = "https://repo1.maven.org/maven2"


def repository(environ: Mapping[str, str]) -> str:
    """Returns the repository's URL, or "" for none: `BRICKYARD_MAVEN_URL`, otherwise Maven Central."""
    return environ.get(VARIABLE, CENTRAL).rstrip("/")
