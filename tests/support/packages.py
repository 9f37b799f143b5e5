"""Python packages made for a test, and an index of them: no test needs the internet."""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
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


# A build backend that lies in the package itself, so that nothing has to be fetched for it.
_BACKEND = """
import pathlib, zipfile
NAME, VERSION, REQUIRES, SAID = {name!r}, {version!r}, {requires!r}, {said!r}
def build_wheel(directory, config_settings=None, metadata_directory=None):
    if SAID:
        raise SystemExit(SAID)
    about, file = f"{{NAME}}-{{VERSION}}.dist-info", f"{{NAME}}-{{VERSION}}-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(directory, file), "w") as wheel:
        wheel.writestr(f"{{NAME}}.py", f"VERSION = {{VERSION!r}}\\n")
        required = "".join(f"Requires-Dist: {{each}}\\n" for each in REQUIRES)
        wheel.writestr(f"{{about}}/METADATA", f"Metadata-Version: 2.1\\nName: {{NAME}}\\nVersion: {{VERSION}}\\n{{required}}")
        wheel.writestr(f"{{about}}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{{about}}/RECORD", "")
    return file
"""


def make_sdist(
    directory: Path, name: str, version: str = "1.0", *, requires: Sequence[str] = (), build_requires: Sequence[str] = (),
    said: str = "",
) -> Path:  # fmt: skip
    """Makes a source distribution of one module. `said`: its build fails with these words."""
    backend = _BACKEND.format(name=name, version=version, requires=list(requires), said=said)
    needed = list(build_requires)
    files = {
        "pyproject.toml": f"[build-system]\nrequires = {needed!r}\nbuild-backend = 'backend'\nbackend-path = ['.']\n",
        "backend.py": backend,
        "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
    }
    path = directory / f"{name}-{version}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for inner, text in files.items():
            entry = tarfile.TarInfo(f"{name}-{version}/{inner}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return path


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def make_index(directory: Path, *wheels: Path) -> str:
    """Makes a package index (PEP 503) of files, and moves the wheels and source distributions there; returns its URL."""
    for wheel in wheels:
        page = directory / "simple" / wheel.name.split("-")[0].replace("_", "-") / "index.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        wheel.rename(page.with_name(wheel.name))
        with page.open("a") as out:
            out.write(f'<a href="{wheel.name}#sha256={digest}">{wheel.name}</a><br>\n')
    return (directory / "simple").as_uri()
