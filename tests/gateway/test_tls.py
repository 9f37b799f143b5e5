"""The certificate of the Spark Connect port: given, or made here; and the settings that ask for either."""

from __future__ import annotations

import datetime
import stat
from pathlib import Path

import grpc
import grpc.aio
import pytest

from brickyard.config.load import load
from brickyard.config.settings import ConfigError
from brickyard.gateway import tls
from brickyard.gateway.connect import ConnectGateway
from brickyard.gateway.errors import GatewayError
from tests.gateway.world import CLUSTER_ID, method, world
from tests.support.patience import PATIENCE_S
from tests.support.ports import free_port
from tests.support.server import Server


def pair(directory: Path) -> tuple[bytes, bytes]:
    return (directory / "connect.pem").read_bytes(), (directory / "connect-key.pem").read_bytes()


async def test_a_certificate_made_here_is_kept_and_trusted(tmp_path: Path) -> None:
    place = tmp_path / "tls"
    credentials = tls.self_signed(place, "127.0.0.1")
    made = pair(place)
    tls.self_signed(place, "127.0.0.1")
    assert pair(place) == made
    assert stat.S_IMODE((place / "connect-key.pem").stat().st_mode) == 0o600
    async with world(tmp_path) as w:
        gateway = ConnectGateway(authenticator=w.authenticator, attach=w.attach, credentials=credentials)
        await gateway.start("127.0.0.1", 0)
        try:
            trusting = grpc.ssl_channel_credentials(made[0])
            for name in ("localhost", "127.0.0.1"):
                async with grpc.aio.secure_channel(f"{name}:{gateway.port}", trusting) as channel:
                    with pytest.raises(grpc.aio.AioRpcError) as caught:
                        await method(channel.unary_unary, "Config")(b"", metadata=(("x-databricks-cluster-id", CLUSTER_ID),))
                    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED, "it got through to us"
        finally:
            await gateway.stop()


def test_a_certificate_made_here_is_replaced_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tls.self_signed(tmp_path, "127.0.0.1")
    first = pair(tmp_path)
    tls.self_signed(tmp_path, "::")
    assert pair(tmp_path) == first, "a wildcard is no name"
    tls.self_signed(tmp_path, "spark.example.com")
    second = pair(tmp_path)
    assert second != first, "a new name"
    (tmp_path / "connect-key.pem").write_bytes(first[1])
    tls.self_signed(tmp_path, "spark.example.com")
    third = pair(tmp_path)
    assert third != second, "a kill between the two files left a pair that does not match"
    monkeypatch.setattr(tls, "RENEW", tls.VALID + datetime.timedelta(days=1))
    tls.self_signed(tmp_path, "spark.example.com")
    assert pair(tmp_path) != third, "it was about to expire"


def test_a_wrong_certificate_is_named(tmp_path: Path) -> None:
    tls.self_signed(tmp_path / "a", "localhost")
    tls.self_signed(tmp_path / "b", "localhost")
    with pytest.raises(tls.TlsError, match="--tls-key"):
        tls.credentials(tmp_path / "a" / "connect.pem", tmp_path / "b" / "connect-key.pem")
    with pytest.raises(tls.TlsError, match="No such file"):
        tls.credentials(tmp_path / "none.pem", tmp_path / "none.pem")
    with (
        pytest.raises(RuntimeError) as caught,
        Server.running(
            tmp_path / "w",
            provider="simulated",
            connect_port=0x7FFF,
            tls_cert=tmp_path / "none.pem",
            tls_key=tmp_path / "none.pem",
        ),
    ):
        pass
    assert isinstance(caught.value.__cause__, GatewayError)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"tls_cert": "a.pem"}, "tls_cert and tls_key belong together"),
        ({"tls_cert": "a.pem", "tls_key": "b.pem", "tls_self_signed": True}, "leave one of them out"),
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
