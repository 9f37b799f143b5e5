"""Packages of R made for a test, and a repository of them: no test needs the internet."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Sequence
from pathlib import Path


def add_package(
    repository: Path, name: str, version: str = "1.0", *, code: str = "", exports: Sequence[str] = (), imports: Sequence[str] = ()
) -> None:
    """Adds a source package to the repository, a directory that is made if it is not there. `code`: its R code."""
    contrib = repository / "src" / "contrib"
    contrib.mkdir(parents=True, exist_ok=True)
    about = f"Package: {name}\nVersion: {version}\n" + (f"Imports: {', '.join(imports)}\n" if imports else "")
    more = "Title: A Test\nDescription: For a test.\nAuthor: A Test\nMaintainer: A Test <test@example.com>\n"
    namespace = "".join(f"export({each})\n" for each in exports)
    files = {"DESCRIPTION": f"{about}{more}License: GPL-2\n", "NAMESPACE": namespace, "R/code.R": code}
    with tarfile.open(contrib / f"{name}_{version}.tar.gz", "w:gz") as archive:
        for path, text in files.items():
            data = text.encode()
            info = tarfile.TarInfo(f"{name}/{path}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    with (contrib / "PACKAGES").open("a") as index:
        index.write(f"{about}NeedsCompilation: no\n\n")
