"""The image's settings and health check, and the compose file. tests/kubernetes/test_manifests.py has what Kubernetes needs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

import brickyard as product
from brickyard.config.load import load
from brickyard.config.settings import Settings
from tests.support.command import Cli
from tests.support.patience import PATIENCE_S
from tests.support.ports import free_port

PLACE = Path(__file__).parents[2] / "deploy" / "container"
CONTAINERFILE = (PLACE / "Containerfile").read_text()
IMAGE_SETTINGS = PLACE / "brickyard.toml"
SERVERS = ("one", "two")


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    text = re.sub(r"\$\{\w+:(?:-|\?)([^}]*)\}", r"\1", (PLACE / "compose.yaml").read_text())  # with the defaults
    return dict(yaml.safe_load(text)["services"])


def settings_of(service: dict[str, Any]) -> Settings:
    """As the server reads them in its container."""
    environ = {name: str(value) for name, value in service["environment"].items()}
    environ |= {"BRICKYARD_DATABASE_URL": environ["BRICKYARD_DATABASE_URL"].replace(" ", "")}
    return load(config_file=IMAGE_SETTINGS, environ=environ)


def test_the_image_serves_beyond_its_own_network_and_has_its_data_below_the_volume() -> None:
    settings = load(config_file=IMAGE_SETTINGS, environ={})
    (volume,) = re.findall(r"^VOLUME (\S+)$", CONTAINERFILE, re.MULTILINE)
    assert f"COPY deploy/container/{IMAGE_SETTINGS.name} /etc/brickyard/brickyard.toml" in CONTAINERFILE
    assert (settings.host, settings.data_dir.parent) == ("0.0.0.0", Path(volume))  # noqa: S104 - the container's network
    assert f"--cache-dir {settings.cache_dir}" in CONTAINERFILE
    assert f"EXPOSE {settings.port} {settings.connect_port}" in CONTAINERFILE


def health(port: int) -> int:
    (text,) = re.findall(r"^  CMD (\[.*\])$", CONTAINERFILE, re.MULTILINE)
    program = [sys.executable if word == "python3" else word for word in json.loads(text)]
    environment = {**os.environ, "BRICKYARD_PORT": str(port)}
    return subprocess.run(program, env=environment, capture_output=True, check=False, timeout=PATIENCE_S).returncode


def test_the_health_check_tells_a_server_from_none(tmp_path: Path) -> None:
    cli, port = Cli(tmp_path), free_port()
    assert health(port) != 0
    assert cli.run("up", "--detach", "--port", str(port)).returncode == 0
    try:
        assert health(port) == 0
    finally:
        cli.run("down")


def test_the_servers_of_the_compose_file_are_one_workspace_on_one_machine(services: dict[str, Any]) -> None:
    one, two = (settings_of(services[name]) for name in SERVERS)
    assert (one.database_url, one.storage_url) == (two.database_url, two.storage_url)
    assert urlsplit(one.database_url or "").hostname in services
    own = {(each.data_dir, each.port, each.connect_port, each.public_url) for each in (one, two)}
    assert all(len(set(column)) == 2 for column in zip(*own, strict=True)), "each has its own"
    for name, settings in zip(SERVERS, (one, two), strict=True):
        assert urlsplit(settings.public_url or "").port == settings.port
        assert {services[name][space] for space in ("pid", "network_mode")} == {"service:machine"}
        (mount,) = services[name]["volumes"]
        assert settings.data_dir.is_relative_to(mount.partition(":")[2])
        assert settings.storage_dir.is_relative_to(mount.partition(":")[2])


def test_the_proxy_leads_to_both_servers_and_is_published_on_this_machine_alone(services: dict[str, Any]) -> None:
    proxy = (PLACE / "nginx.conf").read_text()
    both = [settings_of(services[name]) for name in SERVERS]
    upstreams = re.findall(r"server 127\.0\.0\.1:(\d+) ", proxy)
    assert [int(each) for each in upstreams] == [each.port for each in both] + [each.connect_port for each in both]
    listens = re.findall(r"^\s+listen (\d+)", proxy, re.MULTILINE)
    assert services["machine"]["ports"] == [f"127.0.0.1:{each}:{each}" for each in listens]
    assert {urlsplit(each.external_url or "").port for each in both} == {int(listens[0])}


def test_the_image_of_the_compose_file_is_this_version(services: dict[str, Any]) -> None:
    images = {services[name]["image"] for name in (*SERVERS, "machine")}
    assert images == {f"brickyard:{product.__version__}"}
    assert tomllib.loads(IMAGE_SETTINGS.read_text()).keys() <= set(Settings.names())
