"""The certificate that the server shows: given, or by the workspace's authority; and the settings that ask for either."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from cryptography import x509

from brickyard.config.load import load
from brickyard.config.settings import ConfigError, Settings
from brickyard.gateway import tls
from brickyard.gateway.connect import ConnectGateway
from brickyard.gateway.entrance import credentials
from brickyard.gateway.errors import GatewayError
from brickyard.machine import addresses
from tests.gateway.world import CLUSTER_ID, World, method, world
from tests.support.certificates import certified
from tests.support.patience import PATIENCE_S
from tests.support.ports import free_port
from tests.support.server import Server


def made(directory: Path, **settings: Any) -> tls.ServerCertificate:
    directory.mkdir(exist_ok=True)
    return tls.certificate(Settings(data_dir=directory, **settings), directory / "clients-ca.pem")


def named(certificate: tls.ServerCertificate) -> list[str]:
    parsed = x509.load_pem_x509_certificate(certificate.pair.chain)
    return [str(name.value) for name in parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value]


async def refused(world: World, certificate: tls.ServerCertificate, trusted: bytes, name: str = "127.0.0.1") -> str:
    """The status of a call without a token: UNAUTHENTICATED if it comes through."""
    gateway = ConnectGateway(authenticator=world.authenticator, attach=world.attach, credentials=lambda: credentials(certificate))
    await gateway.start("127.0.0.1", 0)
    try:
        return await status(gateway.port, trusted, name)
    finally:
        await gateway.stop()


async def status(port: int, trusted: bytes, name: str = "127.0.0.1") -> str:
    trusting = grpc.ssl_channel_credentials(trusted)
    async with grpc.aio.secure_channel(f"{name}:{port}", trusting) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await method(channel.unary_unary, "Config")(b"", metadata=(("x-databricks-cluster-id", CLUSTER_ID),))
        return str(caught.value.code().name)


async def test_a_certificate_of_our_own_authority_is_trusted(tmp_path: Path) -> None:
    certificate, ca_file = made(tmp_path, tls=True), tmp_path / "tls" / "ca.pem"
    assert stat.S_IMODE((tmp_path / "clients-ca.pem").stat().st_mode) == 0o600
    assert "PRIVATE" not in ca_file.read_text()
    async with world(tmp_path) as w:
        for name in ("localhost", "127.0.0.1"):
            assert await refused(w, certificate, ca_file.read_bytes(), name) == "UNAUTHENTICATED"
        made(tmp_path / "another", tls=True)
        other = tmp_path / "another" / "tls" / "ca.pem"
        assert await refused(w, certificate, other.read_bytes()) == "UNAVAILABLE"
    trusted = ca_file.read_bytes()
    again = made(tmp_path, tls=True)
    assert ca_file.read_bytes() == trusted, "clients need not trust another"
    assert again.pair != certificate.pair


def test_it_has_the_names_by_which_clients_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = named(
        made(
            tmp_path,
            host="10.1.2.3",
            host_names="a.example.com, b.example.com",
            public_url="https://c.example.com",
            external_url="https://d.example.com",
        )
    )
    assert {
        "localhost",
        "127.0.0.1",
        "::1",
        "10.1.2.3",
        "a.example.com",
        "b.example.com",
        "c.example.com",
        "d.example.com",
    } <= set(found)
    monkeypatch.setattr(tls, "own_addresses", lambda: ["192.0.2.7", "fd00::7"])
    for everywhere in ("0.0.0.0", "::"):  # noqa: S104 - nothing listens there
        found = named(made(tmp_path, host=everywhere))
        assert {"192.0.2.7", "fd00::7"} <= set(found)
        assert everywhere not in found


def test_the_machine_has_addresses_that_others_reach() -> None:
    assert not {"127.0.0.1", "::1"} & set(addresses.own_addresses())


def keep(_: Path) -> None:
    """Nothing changes."""


def renew(directory: Path) -> None:
    certified(directory, "127.0.0.1")


def spoil(directory: Path) -> None:
    (directory / "key.pem").write_text("nothing")


def remove(directory: Path) -> None:
    (directory / "cert.pem").unlink()


@pytest.mark.parametrize(("change", "renews"), [(keep, False), (renew, True), (spoil, False), (remove, False)])
async def test_a_given_certificate_is_read_again(tmp_path: Path, change: Callable[[Path], None], renews: bool) -> None:
    """Also by a gRPC server that runs already. One that cannot be used changes nothing."""
    given = certified(tmp_path / "given", "127.0.0.1")
    certificate = made(tmp_path, tls_cert=given.cert, tls_key=given.key)
    assert not (tmp_path / "tls").exists()
    before = certificate.pair
    async with world(tmp_path) as w:
        gateway = ConnectGateway(authenticator=w.authenticator, attach=w.attach, credentials=lambda: credentials(certificate))
        await gateway.start("127.0.0.1", 0)
        try:
            change(tmp_path / "given")
            await certificate.run_once()
            assert (certificate.pair != before) == renews
            assert await status(gateway.port, given.ca.read_bytes()) == "UNAUTHENTICATED"
            other = certified(tmp_path / "other", "127.0.0.1")
            for source, target in zip(other, given, strict=True):
                target.write_bytes(source.read_bytes())
            await certificate.run_once()
            assert await status(gateway.port, other.ca.read_bytes()) == "UNAUTHENTICATED"
        finally:
            await gateway.stop()


def test_a_wrong_certificate_is_named(tmp_path: Path) -> None:
    first, second = (certified(tmp_path / name, "localhost") for name in ("a", "b"))
    with pytest.raises(GatewayError, match="--tls-key"):
        tls.given(first.cert, second.key)
    with pytest.raises(GatewayError, match="No such file"):
        tls.given(tmp_path / "none.pem", tmp_path / "none.pem")
    with (
        pytest.raises(RuntimeError) as caught,
        Server.running(tmp_path / "w", provider="simulated", tls_cert=tmp_path / "none.pem", tls_key=tmp_path / "none.pem"),
    ):
        pass
    assert isinstance(caught.value.__cause__, GatewayError)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"tls_cert": "a.pem"}, "tls_cert and tls_key belong together"),
        ({"connect_port": 70_000}, "connect_port must be between 0"),
        ({"connect_port": "high"}, "connect_port"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(options: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        load(environ={}, options=options)


def test_a_server_serves_connect_on_the_port_that_it_is_given(tmp_path: Path) -> None:
    port = free_port()
    with Server.running(tmp_path / "w", provider="simulated", connect_port=port):
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel, pytest.raises(grpc.RpcError) as caught:
            method(channel.unary_unary, "Config")(b"", timeout=PATIENCE_S)
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        with (
            pytest.raises(RuntimeError) as refused,
            Server.running(tmp_path / "second", provider="simulated", connect_port=port),
        ):
            pass
        assert isinstance(refused.value.__cause__, GatewayError)
    with Server.running(tmp_path / "none", provider="simulated", connect_port=0) as without:
        assert without.application is not None
        assert without.application.connect is None
