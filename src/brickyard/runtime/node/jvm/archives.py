"""What a JVM finds ready when it starts: an archive of the classes that it will load, or from Java 25 on a cache that also has
them linked, with profiles of their methods (JEP 483, 514 and 515). Pure.

Java uses such a file only if the class path begins as it did when the file was made, and if the options about modules are the
same. Otherwise it says so on stdout and starts without.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

CACHES_SINCE = 25  # major version of Java
CACHE_SUFFIX, ARCHIVE_SUFFIX = ".aot", ".jsa"
_SAID = re.compile(r"^\[[^\]]*\]\[(warning|error) *\]\[(cds|aot)[^\]]*\] *(.+)$", re.MULTILINE)
_HARMLESS = ("Failed to link AdapterHandlerEntry", "Saved blob's name")  # a small part of a cache that is used


def major(java_version: str) -> int:
    """Returns the major version: 8 of 1.8.0, 25 of 25.0.2. Java that says nothing is taken for 17."""
    found = re.match(r"(?:1\.)?(\d+)", java_version)
    return int(found.group(1)) if found else 17


def keeps_caches(java_version: str) -> bool:
    return major(java_version) >= CACHES_SINCE


def suffix(java_version: str) -> str:
    """Returns how the files end that this Java can use: those of two versions can lie side by side."""
    return CACHE_SUFFIX if keeps_caches(java_version) else ARCHIVE_SUFFIX


def archive_flags(archive: str) -> list[str]:
    """Returns flags that use an archive or a cache if it suits.

    It is mapped at the address that it was made for. Some builds of Java map it elsewhere by default, and then every JVM
    rewrites all of it: a third of a second, and 130 MiB that no two JVMs share.

    The profiles in a cache are not used: with them the second compiler begins at once to compile what a start runs, and while
    Spark starts it takes a fifth of the processor time of all that the driver does.
    """
    placed = ["-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0"]
    if archive.endswith(CACHE_SUFFIX):
        return [f"-XX:AOTCache={archive}", *placed, "-XX:-AOTReplayTraining", "-Xlog:aot+codecache*=off"]
    return ["-Xshare:auto", f"-XX:SharedArchiveFile={archive}", *placed, "-Xlog:cds+dynamic=off", "-Xlog:class+path=off"]


def refusal(said: str) -> str:
    """Returns why Java did not use its archive or cache, from what it said on stdout, or "" if it said nothing of that kind. Of a
    cache, warnings alone mean nothing: only with an error is it left aside."""
    found = [each for each in _SAID.findall(said) if not each[2].startswith(_HARMLESS)]
    refused = any(level == "error" or tag == "cds" for level, tag, _ in found)
    return str(found[0][2]).strip() if refused else ""


def list_flags(class_list: str) -> list[str]:
    """Returns flags of a JVM that records which classes it loads."""
    return [f"-XX:DumpLoadedClassList={class_list}"]


def listed(record: str) -> set[str]:
    """Returns the classes of such a record, by names with slashes. Its other lines begin with @ or #."""
    return {line.split(" ", 1)[0] for line in record.splitlines() if line and line[0] not in "@#"}


def archive_command(java: str, class_list: str, archive: str, *, module_flags: Sequence[str], class_path: str) -> list[str]:
    """Returns the command that makes an archive from such a list."""
    return [
        java, "-Xshare:dump", f"-XX:SharedClassListFile={class_list}", f"-XX:SharedArchiveFile={archive}", "-Xmx1g",
        "-Xlog:disable", *module_flags, "-cp", class_path,
    ]  # fmt: skip


_RECORD, _RECORD_TO = "-XX:AOTMode=record", "-XX:AOTConfiguration="


def record_flags(record: str) -> list[str]:
    """Returns flags of a JVM that records, when it ends, what a cache needs. In the JVM's own options, never in JDK_JAVA_OPTIONS:
    the launcher that Spark starts for every executor reads that variable too, and would overwrite the record."""
    return [_RECORD, f"{_RECORD_TO}{record}"]


def cache_command(argv: Sequence[str], record: str, cache: str) -> list[str]:
    """Returns the command that makes a cache from a record. `argv`: the command line of the JVM that recorded."""
    end = argv.index("-cp")
    kept = [each for each in argv[:end] if each != _RECORD and not each.startswith(_RECORD_TO)]
    return [*kept, "-XX:AOTMode=create", f"{_RECORD_TO}{record}", f"-XX:AOTCache={cache}", *argv[end : end + 2]]
