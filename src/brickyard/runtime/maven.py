"""Fetches files from Maven repositories: what belongs to a runtime and is in no Python package."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from brickyard.domain.runtimes import Runtime
from brickyard.machine.mavenrepo import VARIABLE

SILENCE_S = 10.0  # longest wait for an answer: an installation must not hang on a network that drops packets
WHOLE_S = 600.0
_CHUNK = 2**18
_CHECKSUM_LIMIT = 1024


class ArtifactMissing(Exception):
    """The file could not be fetched; the message says from where and why."""


class Artifact(NamedTuple):
    """The coordinates of a JAR."""

    group: str
    name: str
    version: str
    classifier: str = ""

    @property
    def jar(self) -> str:
        """The name of the JAR."""
        return "-".join(filter(None, self[1:])) + ".jar"

    @property
    def path(self) -> str:
        """The path of the JAR in a repository."""
        return f"{self.group.replace('.', '/')}/{self.name}/{self.version}/{self.jar}"


def artifact(coordinates: str) -> Artifact:
    """Returns the artifact with those coordinates, as "io.delta:delta-storage:4.4.0"; a classifier may follow."""
    return Artifact(*coordinates.split(":"))


def iceberg(runtime: Runtime) -> Artifact:
    """Returns Iceberg for the runtime's Spark, in one JAR with all that it needs."""
    line = ".".join(runtime.spark_version.split(".")[:2])
    return Artifact("org.apache.iceberg", f"iceberg-spark-runtime-{line}_{runtime.scala_version}", runtime.iceberg)


def fetch(artifact: Artifact, directory: Path, *, base: str, look: Callable[[], None], sha256: str = "") -> Path:
    """Fetches the artifact's JAR into `directory`, completely or not at all; `base` is the repository's URL, `sha256` the pinned
    checksum, if there is one. Calls `look` meanwhile. Raises ArtifactMissing, and OSError for problems with `directory`."""
    if not base:
        raise ArtifactMissing(f"{VARIABLE} is empty")
    if not base.startswith(("https://", "http://")):
        raise ArtifactMissing(f"{VARIABLE} is {base!r}, which is no http or https URL")
    url = f"{base}/{artifact.path}"
    target = directory / url.rpartition("/")[2]
    draft = target.with_suffix(".part")
    try:
        with _told_from(base):
            expected = sha256 or _checksum(url)
            found = _download(url, draft, look, hashlib.sha256() if sha256 else hashlib.sha1(usedforsecurity=False))
        if found != expected:
            why = "with the pinned SHA-256" if sha256 else "whose SHA-1 it names"
            raise ArtifactMissing(f"what {url} sent is not the file {why}")
        draft.rename(target)
    finally:
        draft.unlink(missing_ok=True)
    return target


@contextlib.contextmanager
def _told_from(base: str) -> Iterator[None]:
    """Turns network errors into messages for users."""
    try:
        yield
    except urllib.error.HTTPError as error:
        raise ArtifactMissing(f"{error.url or base} answers {error.code} {error.reason}") from error
    except urllib.error.URLError as error:
        raise ArtifactMissing(f"{base} cannot be reached: {error.reason}") from error
    except (TimeoutError, ConnectionError, ssl.SSLError, http.client.HTTPException) as error:
        raise ArtifactMissing(f"{base} stopped answering: {error or type(error).__name__}") from error


def _checksum(url: str) -> str:
    """Returns the file's SHA-1 from the repository, which has one for every file. Some repositories append the file's name."""
    with _open(url + ".sha1") as response:
        words = response.read(_CHECKSUM_LIMIT).decode("ascii", "replace").split()
    if not words or len(words[0]) != 40:
        raise ArtifactMissing(f"{url}.sha1 is no checksum")
    return str(words[0]).lower()


def _download(url: str, draft: Path, look: Callable[[], None], digest: hashlib._Hash) -> str:
    """Writes the file and returns its checksum. A SHA-1 of the repository's guards against broken transfers; the address guards
    against strangers."""
    deadline = time.monotonic() + WHOLE_S
    with _open(url) as response, draft.open("wb") as file:
        while chunk := response.read(_CHUNK):
            file.write(chunk)
            digest.update(chunk)
            if time.monotonic() > deadline:
                raise TimeoutError(f"{url} did not come within {WHOLE_S:.0f} s")
            look()
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def _open(url: str) -> http.client.HTTPResponse:
    response: http.client.HTTPResponse = urllib.request.urlopen(url, timeout=SILENCE_S)  # noqa: S310 - `fetch` has checked the scheme
    return response
