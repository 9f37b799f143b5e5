"""Certificates as files, for servers and clients of tests."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from brickyard.machine.certificates import general_name
from brickyard.nodes.authority import CLIENTS, Authority


class Files(NamedTuple):
    """`ca` is what clients must trust."""

    ca: Path
    cert: Path
    key: Path


def certified(directory: Path, *hosts: str) -> Files:
    """A certificate for these hosts, by an authority of the directory. A second call replaces the certificate."""
    directory.mkdir(parents=True, exist_ok=True)
    found = Files(directory / "ca.pem", directory / "cert.pem", directory / "key.pem")
    authority = Authority(directory / "authority.pem", CLIENTS)
    made = authority.issue("test", [general_name(host) for host in hosts])
    found.ca.write_text(authority.pem)
    found.cert.write_bytes(made.pem)
    found.key.write_bytes(made.key_pem)
    return found
