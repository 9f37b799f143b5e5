"""How the JVMs of a training cluster record what they load, and how Java makes a file from each record."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..jvm import archives
from ..jvm.launch import WORKER, module_flags

if TYPE_CHECKING:
    from ..documents import ManifestDocument


class Recording:
    """For class-data archives: lists of classes. Lists instead of an archive at a JVM's exit, because some Java distributions
    lack the base archive that the latter needs. One JVM is driver, master and worker: unused classes cost nothing."""

    suffix = archives.ARCHIVE_SUFFIX
    jvms: tuple[str, ...] = ("node",)

    def __init__(self, manifest: ManifestDocument, scratch: Path) -> None:
        self._manifest = manifest
        self.scratch = scratch

    def path(self, name: str, number: object = "") -> Path:
        """Returns where the record of a JVM is; `number` tells executors apart."""
        return self.scratch / f"{name}{number}.record"

    def flags(self, name: str, number: object = "") -> list[str]:
        """Returns the flags of a JVM that records."""
        return archives.list_flags(str(self.path(name, number)))

    def command(self, name: str, argv: Sequence[str], out: Path) -> list[str]:
        """Returns the command that makes `out` from the record. `argv`: the command line of the JVM that recorded."""
        java, flags = f"{self._manifest['java_home']}/bin/java", module_flags(self._manifest["java_version"])
        class_path = argv[argv.index("-cp") + 1]
        return archives.archive_command(java, str(self.path(name)), str(out), module_flags=flags, class_path=class_path)


class CacheRecording(Recording):
    """For caches. All classes of a cache are there when its JVM starts, so a worker has a cache of its own."""

    suffix = archives.CACHE_SUFFIX
    jvms = ("node", WORKER)

    def flags(self, name: str, number: object = "") -> list[str]:
        return archives.record_flags(str(self.path(name, number)))

    def command(self, name: str, argv: Sequence[str], out: Path) -> list[str]:
        return archives.cache_command(argv, str(self.path(name)), str(out))


def recording_of(manifest: ManifestDocument, scratch: Path) -> Recording:
    return (CacheRecording if archives.keeps_caches(manifest["java_version"]) else Recording)(manifest, scratch)
