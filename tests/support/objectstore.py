"""A real S3-speaking server on loopback (moto), in a process of its own."""

from __future__ import annotations

import contextlib
import http.client
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import obstore
from obstore.store import S3Store

from tests.support.patience import PATIENCE_S

_SERVE = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
server.stop()
"""
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}


class ObjectStore(NamedTuple):
    endpoint: str
    bucket: str

    @property
    def store(self) -> Any:
        config: Any = {"endpoint": self.endpoint, "region": "us-east-1", "access_key_id": "key", "secret_access_key": "secret"}
        return S3Store(self.bucket, config=config, client_options={"allow_http": True})

    def put(self, key: str, data: bytes) -> None:
        obstore.put(self.store, key, data)

    def get(self, key: str) -> bytes:
        return bytes(obstore.get(self.store, key).bytes())

    def names(self, top: str) -> list[str]:
        """Of all objects below it."""
        return [each["path"] for batch in self.store.list(f"{top}/") for each in batch]


@contextlib.contextmanager
def serve(bucket: str = "bucket") -> Iterator[ObjectStore]:
    """Serves one bucket until the end."""
    process = subprocess.Popen([sys.executable, "-c", _SERVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        connection.request("PUT", f"/{bucket}")
        assert connection.getresponse().status == 200
        connection.close()
        yield ObjectStore(f"http://127.0.0.1:{port}", bucket)
    finally:
        process.kill()
        process.communicate()
