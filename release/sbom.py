"""The software bill of materials of a release, as CycloneDX 1.6: what the wheel holds, what it requires, and what it fetches.

Scope `required`: Python packages of requirements/main.txt, and the npm packages that the web page is built from. Scope
`optional`: PySpark and the JARs of layers, which a server fetches when a runtime is installed.
"""

from __future__ import annotations

import base64
import itertools
import json
import re
import tomllib
import uuid
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

_PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;\\]+)", re.MULTILINE)
_HERE = uuid.UUID("6b1f4b8e-0f0e-5f0e-9b0a-3a5c0d6c1d11")  # any: serial numbers of one version are the same


def bill(source: Path, *, version: str, made_at: datetime) -> str:
    """The bill of the checkout `source`, as JSON. The same checkout gives the same bytes."""
    purl = PackageURL("pypi", None, "brickyard", version)
    product = Component(name="brickyard", version=version, type=ComponentType.APPLICATION, purl=purl, bom_ref=str(purl))
    found = {str(each.purl): each for each in (*fetched(source), *page(source), *required(source))}
    bom = Bom(
        serial_number=uuid.uuid5(_HERE, f"{version} {made_at.isoformat()}"),
        metadata=BomMetaData(component=product, timestamp=made_at),
        components=found.values(),
    )
    bom.register_dependency(product, [each for each in found.values() if each.scope is ComponentScope.REQUIRED])
    return JsonV1Dot6(bom).output_as_string(indent=1) + "\n"


def required(source: Path) -> Iterator[Component]:
    """What a server imports."""
    yield from _python(source / "requirements" / "main.txt", ComponentScope.REQUIRED)


def page(source: Path) -> Iterator[Component]:
    """What the web page is built from."""
    packages = json.loads((source / "ui" / "package-lock.json").read_text())["packages"]
    for place, package in packages.items():
        if not place or package.get("dev"):
            continue
        scope, _, name = place.rpartition("node_modules/")[2].rpartition("/")
        yield _component(
            PackageURL("npm", scope or None, name, package["version"]), ComponentScope.REQUIRED, _integrity(package["integrity"])
        )


def fetched(source: Path) -> Iterator[Component]:
    """What a server fetches: PySpark of each runtime with what it needs, and the JARs of layers."""
    data = source / "src" / "brickyard" / "runtime" / "data"
    for lock in sorted(data.glob("spark-*.txt")):
        yield from _python(lock, ComponentScope.OPTIONAL)
    for layer in tomllib.loads((data / "layers.toml").read_text()).values():
        declared = [each["jars"] for each in layer["environments"].values()]
        for coordinates, digest in itertools.chain(*declared, *layer.get("sets", {}).values()):
            group, name, version, *classifier = coordinates.split(":")
            purl = PackageURL("maven", group, name, version, {"classifier": classifier[0]} if classifier else None)
            yield _component(purl, ComponentScope.OPTIONAL, HashType(alg=HashAlgorithm.SHA_256, content=digest))


def _python(lock: Path, scope: ComponentScope) -> Iterator[Component]:
    for name, version in _PINNED.findall(lock.read_text()):
        yield _component(PackageURL("pypi", None, name, version), scope)


def _component(purl: PackageURL, scope: ComponentScope, *hashes: HashType) -> Component:
    return Component(
        name=purl.name, group=purl.namespace, version=purl.version, purl=purl, bom_ref=str(purl), scope=scope, hashes=hashes
    )


def _integrity(text: str) -> HashType:
    """A hash as npm writes it: "sha512-" and base64."""
    kind, _, content = text.partition("-")
    return HashType(
        alg={"sha512": HashAlgorithm.SHA_512, "sha1": HashAlgorithm.SHA_1}[kind], content=base64.b64decode(content).hex()
    )
