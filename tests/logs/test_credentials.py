"""Whose credentials go to an object store: never the machine's to an endpoint that a user names."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.config.load import load
from brickyard.config.settings import ConfigError
from brickyard.domain.places import Kind, parse
from brickyard.logs.credentials import MachineCredentials, credentials, origin
from brickyard.logs.transfers import Job, TransferFailed, run
from brickyard.providers.bootstrap import credential_rules
from tests.support.objectstore import KEYS, serve

OWN = "the machine's own secret"
MACHINE = {
    "PATH": "/bin", "AWS_ACCESS_KEY_ID": "machine", "AWS_SECRET_ACCESS_KEY": OWN, "AWS_WEB_IDENTITY_TOKEN_FILE": OWN,
    "AZURE_CLIENT_ID": "machine", "AZURE_CLIENT_SECRET": OWN, "GOOGLE_SERVICE_ACCOUNT": OWN,
}  # fmt: skip
SKIP = {Kind.S3: "AWS_SKIP_SIGNATURE", Kind.ABFSS: "AZURE_SKIP_SIGNATURE", Kind.GS: "GOOGLE_SKIP_SIGNATURE"}
COMPLETE = [
    {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}, {"AZURE_STORAGE_SAS_TOKEN"}, {"AZURE_STORAGE_ACCOUNT_KEY"},
    {"AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_TENANT_ID"}, {"GOOGLE_SERVICE_ACCOUNT_KEY"},
]  # fmt: skip
VARIABLES = [
    *sorted(set[str]().union(*COMPLETE)), "AWS_REGION", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_METADATA_ENDPOINT", "AZURE_FEDERATED_TOKEN_FILE", "AZURE_MSI_ENDPOINT",
]  # fmt: skip
ENDPOINTS = ["", "http://theirs.test", "https://theirs.test:9000", "https://listed.test", "https://LISTED.test:443/"]
RULES = MachineCredentials(True, ("https://listed.test",))


@given(
    kind=st.sampled_from(sorted(SKIP)),
    cluster=st.dictionaries(st.sampled_from(VARIABLES), st.sampled_from(["", "theirs"])),
    variable=st.sampled_from(ENDPOINTS),
    endpoint=st.sampled_from(ENDPOINTS),
    used=st.booleans(),
)
def test_the_machines_credentials_never_go_where_only_a_user_sends_them(
    kind: Kind, cluster: dict[str, str], variable: str, endpoint: str, used: bool
) -> None:
    """Without the machine's variables, the store's library would ask the machine's metadata service: it must be told not to."""
    name = {Kind.S3: "AWS_ENDPOINT_URL", Kind.ABFSS: "AZURE_STORAGE_ENDPOINT"}.get(kind, "")
    variables = cluster | ({name: variable} if name and variable else {})
    rules = MachineCredentials(used, RULES.endpoints)
    found = credentials(kind, cluster=variables, machine=MACHINE, endpoint=endpoint, rules=rules)
    own = any(all(found.get(each) == "theirs" for each in names) for names in COMPLETE)
    sent = OWN in found.values()
    if own or not used or "theirs" in f"{variables.get(name)}{endpoint}":
        assert not sent
        assert own or found[SKIP[kind]] == "true"
    assert not {each for each in cluster if "FILE" in each or "METADATA" in each or "MSI" in each or "FULL" in each} & {
        each for each in found if found[each] == "theirs"
    }, "where the library would look for credentials is no choice of a user's"


def test_what_the_machine_and_amazon_say_is_trusted() -> None:
    def sent(endpoint: str, **machine: str) -> bool:
        return OWN in credentials(Kind.S3, cluster={}, machine=MACHINE | machine, endpoint=endpoint).values()

    assert sent("")
    assert sent("https://minio.test:9000/", AWS_ENDPOINT_URL="https://minio.test:9000")
    for name in ("s3", "s3-us-west-2", "s3.eu-central-1", "s3.us-gov-east-1"):
        assert sent(f"https://{name}.amazonaws.com"), name
    for url in (
        "http://s3.amazonaws.com", "https://s3.amazonaws.com.theirs.test", "https://s3.amazonaws.com:444",
        "https://x.us-east-1.elb.amazonaws.com", "https://s3.us-east-1.amazonaws.com@theirs.test", "https://vpce-1.s3.amazonaws.com",
    ):  # fmt: skip
        assert not sent(url), url
    region = credentials(Kind.S3, cluster={"AWS_REGION": "eu-west-1"}, machine=MACHINE)
    assert region["AWS_REGION"] == "eu-west-1" and OWN in region.values(), "a region is no credential"


def test_an_origin_has_one_form() -> None:
    assert origin("HTTPS://Minio.Test.:443/") == origin("https://minio.test") == "https://minio.test"
    assert origin("http://[::1]:9000") == "http://[::1]:9000"
    assert {origin(each) for each in ("s3.test", "ftp://s3.test", "http://u@s3.test", "http://s3.test:x", "")} == {""}


class Curious(ThreadingHTTPServer):
    """A store of the user's that keeps what it is sent."""

    def __init__(self) -> None:
        self.headers: list[str] = []
        super().__init__(("127.0.0.1", 0), Keeping)


class Keeping(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Curious)
        self.server.headers.append(str(self.headers).lower())
        self.send_response(403)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@pytest.fixture
def curious() -> Iterator[Curious]:
    with Curious() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_an_endpoint_that_a_user_names_sees_no_credentials(curious: Curious, tmp_path: Path) -> None:
    machine = {"AWS_ACCESS_KEY_ID": "AKIAMACHINE", "AWS_SECRET_ACCESS_KEY": OWN, "AWS_SESSION_TOKEN": "token-of-the-machine"}
    url = f"http://127.0.0.1:{curious.server_port}"
    job = Job(place=parse("s3://bucket/x.sh", endpoint=url), local=str(tmp_path / "x"), max_bytes=1 << 20, limit_s=60)
    with pytest.raises(TransferFailed) as caught:
        asyncio.run(run(job, env=credentials(Kind.S3, cluster={}, machine=machine, endpoint=url), python=sys.executable))
    assert caught.value.code == "DENIED" and "machine_credentials_endpoints" in str(caught.value)
    assert len(curious.headers) == 1
    assert not [each for each in curious.headers if "authorization" in each or "akiamachine" in each or "x-amz-security" in each]


def test_a_listed_endpoint_gets_them(tmp_path: Path) -> None:
    with serve() as store:
        store.put("x.sh", b"true")
        settings = load(environ={"BRICKYARD_MACHINE_CREDENTIALS_ENDPOINTS": f"https://other.test, {store.endpoint}/"})
        rules = credential_rules(settings)
        job = Job(place=parse("s3://bucket/x.sh", endpoint=store.endpoint), local=str(tmp_path / "x"), limit_s=60)
        env = credentials(Kind.S3, cluster={}, machine=KEYS, endpoint=store.endpoint, rules=rules)
        assert env.items() >= KEYS.items()
        asyncio.run(run(job, env=env, python=sys.executable))
        assert (tmp_path / "x").read_bytes() == b"true"


@pytest.mark.parametrize("value", ["minio.test:9000", "https://minio.test/bucket", "https://u:p@minio.test"])
def test_a_list_of_endpoints_has_urls(value: str) -> None:
    with pytest.raises(ConfigError, match="machine_credentials_endpoints"):
        load(environ={"BRICKYARD_MACHINE_CREDENTIALS_ENDPOINTS": value})
