"""Python packages made for a test, and an index of them: no test needs the internet."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path


def make_wheel(
    directory: Path, name: str, version: str = "1.0", *, files: Mapping[str, str] | None = None, requires: Sequence[str] = (),
    scripts: Mapping[str, str] | None = None, tag: str = "py3-none-any",
) -> Path:  # fmt: skip
    """Makes a wheel. `files`: path -> text (default: one module that says its version); `scripts`: name -> module:function."""
    about = f"{name}-{version}.dist-info"
    files = dict(files if files is not None else {f"{name}.py": f"VERSION = {version!r}\n"})
    required = "".join(f"Requires-Dist: {each}\n" for each in requires)
    files[f"{about}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{required}"
    pure = "true" if tag.endswith("-any") else "false"
    files[f"{about}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: {pure}\nTag: {tag}\n"
    if scripts:
        files[f"{about}/entry_points.txt"] = "[console_scripts]\n" + "".join(f"{key} = {to}\n" for key, to in scripts.items())
    record = "".join(f"{path},sha256={_digest(text)},{len(text.encode())}\n" for path, text in files.items())
    path = directory / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for inner, text in files.items():
            archive.writestr(inner, text)
        archive.writestr(f"{about}/RECORD", f"{record}{about}/RECORD,,\n")
    return path


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def make_index(directory: Path, *wheels: Path) -> str:
    """Makes a package index (PEP 503) of files, and moves the wheels there; returns its URL."""
    for wheel in wheels:
        page = directory / "simple" / wheel.name.split("-")[0].replace("_", "-") / "index.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        wheel.rename(page.with_name(wheel.name))
        with page.open("a") as out:
            out.write(f'<a href="{wheel.name}#sha256={digest}">{wheel.name}</a><br>\n')
    return (directory / "simple").as_uri()
