"""Large results as files that links lead to: what Databricks' clients read instead of answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import lz4.frame
import pyarrow.ipc
import pytest
from databricks import sql
from databricks.sql.thrift_api.TCLIService import ttypes

from brickyard.api.edge.hosts import Hosts
from brickyard.domain.errors import PermissionDenied, ResourceDoesNotExist
from brickyard.features.statements.linked import READ_MS
from brickyard.features.statements.links import ResultLinks
from brickyard.features.statements.model import ExecutionState, SignedChunk
from brickyard.features.statements.results import OpenChunk, ResultFiles
from brickyard.features.statements.rows import StatementRows
from brickyard.features.statements.rules import KEPT_MS, LINK_MS
from brickyard.features.statements.service import StatementService
from brickyard.gateway.sql import linked, operations
from brickyard.gateway.sqlentrance import SqlEntrance
from tests.gateway.sqlworld import PATH, OneWarehouse, SqlWorld, served, sql_world
from tests.gateway.test_sql import fetched, finished, until

URL = "https://bricks.example.com"
_KIND = ttypes.TSparkRowSetType
READS = {"canReadArrowResult": True, "canDownloadResult": True}
DIRECT = {**READS, "getDirectResults": ttypes.TSparkGetDirectResults(maxRows=1000, maxBytes=1 << 20)}
LARGE, ROWS = "rows 1000 100", list(range(1000))


class Linked:
    """Two servers that share their storage and their key."""

    def __init__(self, world: SqlWorld, place: Path) -> None:
        self.world, self.place = world, place / "statements"
        shared = world.world
        self.statements = StatementService(
            store=shared.store,
            clock=shared.clock,
            authorizer=shared.authorizer,
            warehouses=OneWarehouse(),
            runner=None,  # type: ignore[arg-type] # no statement runs by it
            files=ResultFiles(self.place),
            links=ResultLinks(key=b"k" * 32, clock=shared.clock),
        )
        world.entrance, world.other = self.entrance(URL), self.entrance(URL)

    def entrance(self, url: str) -> SqlEntrance:
        """One more server."""
        made = SqlEntrance(
            self.world.world.authenticator,
            warehouses=OneWarehouse(),
            observer=self.world.observer,
            hosts=Hosts("", external=url),
            results=self.statements.linked,
        )
        made.open(self.world.world.gateway)
        return made

    async def read(self, link: Any) -> bytes:
        """What is behind a link. Raises ApiError."""
        address = urlsplit(link.fileLink)
        *_, statement_id, _, index = address.path.split("/")
        (signature,) = parse_qs(address.query)["signature"]
        request = SignedChunk(statement_id=statement_id, chunk_index=int(index), signature=signature)
        _, content = await self.statements.external(request)
        assert isinstance(content, OpenChunk)
        try:
            return b"".join([piece async for piece in content.pieces()])
        finally:
            content.close()

    async def rows(self, links: Any) -> list[int]:
        """The rows behind links, which lie as the links say."""
        found: list[int] = []
        for link in links:
            table = pyarrow.ipc.open_stream(await self.read(link)).read_all()
            assert (table.num_rows, table["id"][0].as_py()) == (link.rowCount, link.startRowOffset)
            found += table["id"].to_pylist()
        return found

    @property
    def files(self) -> list[str]:
        return sorted(path.name for path in self.place.glob("*/*"))


@pytest.fixture
async def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Linked]:
    """A result of two parts is a large one, and a file has two."""
    monkeypatch.setattr(operations, "HELD_BYTES", 1)
    monkeypatch.setattr(linked, "FILE_BYTES", 1500)
    async with sql_world(tmp_path) as world:
        yield Linked(world, tmp_path)


async def test_a_large_result_is_links_that_other_servers_answer_too(at: Linked) -> None:
    token = await at.world.world.token("me@example.com")
    session = await at.world.session(token)
    answer = await at.world.begin(token, session, LARGE, **DIRECT)
    direct = answer.directResults
    assert direct.resultSetMetadata.resultFormat == _KIND.URL_BASED_SET
    assert direct.closeOperation is None, "its files are needed"
    links, more = list(direct.resultSet.results.resultLinks), direct.resultSet.hasMoreRows
    while more:
        part = await fetched(at.world, token, answer.operationHandle)
        assert part.results.startRowOffset == sum(each.rowCount for each in links)
        links, more = links + part.results.resultLinks, part.hasMoreRows
    assert await at.rows(links) == ROWS
    assert await at.rows(reversed(links)), "in any order, and again"
    assert {urlsplit(each.fileLink)[:2] for each in links} == {("https", "bricks.example.com")}
    left_ms = links[0].expiryTime - at.world.world.clock.now_ms()
    assert 0 < left_ms <= LINK_MS
    again = await at.world.call(token, "FetchResults", ttypes.TFetchResultsReq(answer.operationHandle, startRowOffset=450))
    assert again.results.startRowOffset <= 450 < again.results.startRowOffset + again.results.resultLinks[0].rowCount
    await at.world.call(token, "CloseOperation", ttypes.TCloseOperationReq(answer.operationHandle))
    assert len(at.files) == len(links), "not all of what it has links to was read: the last call repeated some"
    await at.rows(links)
    at.world.world.clock.advance(ms=READ_MS + 1)
    await at.statements.run_once()
    assert not at.files
    with pytest.raises(ResourceDoesNotExist):
        await at.read(links[0])


async def test_small_results_and_clients_that_do_not_download_get_rows(at: Linked, monkeypatch: pytest.MonkeyPatch) -> None:
    token = await at.world.world.token("me@example.com")
    session = await at.world.session(token)
    inline = {**DIRECT, "canDownloadResult": False}
    native = ttypes.TSparkArrowTypes(complexTypesAsArrow=False)
    for statement, fields in ((LARGE, inline), ("rows 100 100", DIRECT), ("tables", DIRECT | {"useArrowNativeTypes": native})):
        at.world.spark.tables["tables"] = pyarrow.table({"a": pyarrow.array([[1], [2]])})
        direct = (await at.world.begin(token, session, statement, **fields)).directResults
        assert direct.resultSetMetadata.resultFormat != _KIND.URL_BASED_SET
        assert direct.resultSet.results.resultLinks is None
    monkeypatch.setattr(operations, "HELD_BYTES", 1 << 20)
    many = (await at.world.begin(token, session, "rows 1000 10", **DIRECT)).directResults
    assert many.resultSetMetadata.resultFormat == _KIND.ARROW_BASED_SET, "many small parts are a small result"
    assert not many.resultSet.hasMoreRows
    assert not at.files


async def test_a_link_is_for_its_file_and_expires_and_compressed_if_its_client_wants_that(at: Linked) -> None:
    token = await at.world.world.token("me@example.com")
    session = await at.world.session(token)
    answer = await at.world.begin(token, session, LARGE, canDecompressLZ4Result=True, **DIRECT)
    assert answer.directResults.resultSetMetadata.lz4Compressed
    link = answer.directResults.resultSet.results.resultLinks[0]
    plain = lz4.frame.decompress(await at.read(link))
    assert len(plain) == link.bytesNum
    assert pyarrow.ipc.open_stream(plain).read_all().num_rows == link.rowCount
    statement_id = urlsplit(link.fileLink).path.split("/")[-3]
    for wrong in (link.fileLink.replace("external/0", "external/1"), link.fileLink[:-1], link.fileLink.replace("=", "=9", 1)):
        with pytest.raises(PermissionDenied):
            await at.read(ttypes.TSparkArrowResultLink(fileLink=wrong))
    row = await at.world.world.store.read(lambda tx: tx.rows(StatementRows).get(statement_id))
    assert row is not None
    assert (row.user_name, row.state) == ("me@example.com", ExecutionState.CLOSED), "it is not the Statement Execution API's"
    at.world.world.clock.advance(ms=LINK_MS + 1)
    with pytest.raises(PermissionDenied):
        await at.read(link)


async def test_files_are_written_ahead_of_their_client_and_no_further(at: Linked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linked, "AHEAD_BYTES", 4000)
    token = await at.world.world.token("me@example.com")
    session = await at.world.session(token)
    answer = await at.world.begin(token, session, "rows 10000 100", **READS)
    await finished(at.world, token, answer.operationHandle)
    asked = ttypes.TGetResultSetMetadataReq(answer.operationHandle)
    described = await at.world.call(token, "GetResultSetMetadata", asked)
    assert described.resultFormat == _KIND.URL_BASED_SET
    assert not at.files, "another server may still go on with it"
    first = await fetched(at.world, token, answer.operationHandle)
    await until(lambda: len(at.files) >= len(first.results.resultLinks) + 2)
    await asyncio.sleep(0.1)
    assert len([name for name in at.files if not name.startswith(".")]) <= len(first.results.resultLinks) + 3
    await at.world.call(token, "CloseSession", ttypes.TCloseSessionReq(session))
    assert not at.files, "with its session"


async def test_a_killed_server_leaves_links_and_what_nobody_fetched_goes_on_as_links(at: Linked) -> None:
    token = await at.world.world.token("me@example.com")
    session = await at.world.session(token)
    answer = await at.world.begin(token, session, LARGE, **DIRECT)
    links = answer.directResults.resultSet.results.resultLinks
    waits = await at.world.begin(token, session, "rows 300 100", **READS)
    await finished(at.world, token, waits.operationHandle)
    asked = ttypes.TGetResultSetMetadataReq(waits.operationHandle)
    assert (await at.world.call(token, "GetResultSetMetadata", asked)).resultFormat == _KIND.URL_BASED_SET
    await at.world.entrance.close()  # as Spark and the files see it
    assert await at.rows(links) == ROWS[: sum(each.rowCount for each in links)]
    # It is small now, as the other server sees it, but its client was told of links.
    operations_held = operations.HELD_BYTES
    operations.HELD_BYTES = 1 << 20
    try:
        found, more = list[Any](), True
        while more:
            part = await fetched(at.world, token, waits.operationHandle, entrance=at.world.other)
            found, more = found + part.results.resultLinks, part.hasMoreRows
    finally:
        operations.HELD_BYTES = operations_held
    assert await at.rows(found) == ROWS[:300]
    at.world.world.clock.advance(ms=KEPT_MS + 1)
    await at.statements.run_once()
    assert not at.files, "nobody has closed them"


async def test_links_whose_client_was_gone_are_given_again(at: Linked) -> None:
    token = await at.world.world.token("me@example.com")
    session = await at.world.session(token)
    gone = asyncio.Event()
    await at.world.begin(token, session, LARGE, gone=gone, **DIRECT)
    answer = await at.world.begin(token, session, LARGE, **DIRECT)
    assert answer.directResults.resultSet.results.startRowOffset == 0
    assert at.world.spark.ran.count(LARGE) == 1
    handle = answer.operationHandle
    at_row = sum(each.rowCount for each in answer.directResults.resultSet.results.resultLinks)
    await at.world.call(token, "FetchResults", ttypes.TFetchResultsReq(handle), gone=asyncio.Event())
    assert (await fetched(at.world, token, handle)).results.startRowOffset == at_row


async def test_a_full_disk_and_an_error_of_spark_end_the_result(at: Linked, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_given: object) -> None:
        raise OSError(28, "No space left on device")

    token = await at.world.world.token("me@example.com")
    session = await at.world.session(token)
    monkeypatch.setattr("brickyard.features.statements.results.ChunkWriter.write", full)
    answer = await at.world.begin(token, session, LARGE, **DIRECT)
    status = answer.directResults.resultSet.status
    assert (status.statusCode, status.sqlState) == (ttypes.TStatusCode.ERROR_STATUS, linked.NO_DISK)
    assert not [name for name in at.files if name.startswith(".")]


@asynccontextmanager
async def with_links(at: Linked) -> AsyncIterator[str]:
    """The URL of a web server with both ways: calls, and links."""
    at.world.entrance = at.entrance("")
    plain = at.world.entrance

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] == "POST":
            await plain(scope, receive, send)
            return
        link = ttypes.TSparkArrowResultLink(fileLink=f"http://x{scope['path']}?{scope['query_string'].decode()}")
        body = await at.read(link)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(len(body)).encode())]})
        await send({"type": "http.response.body", "body": body})

    at.world.entrance = app  # type: ignore[assignment]
    async with served(at.world) as url:
        yield url
    at.world.entrance = plain


async def test_the_connector_follows_links(at: Linked) -> None:
    def client(url: str, token: str) -> tuple[list[int], list[int], int]:
        with (
            sql.connect("127.0.0.1", PATH, access_token=token, _connection_uri=url + PATH, enable_telemetry=False) as connection,
            connection.cursor() as cursor,
        ):
            all_rows = cursor.execute(LARGE).fetchall_arrow()["id"].to_pylist()
            some = [row[0] for row in cursor.execute(LARGE).fetchmany(450)]
            return all_rows, some, cursor.execute("rows 100 100").fetchall_arrow().num_rows

    async with with_links(at) as url:
        found = await asyncio.to_thread(client, url, await at.world.world.token("me@example.com"))
        assert not at.files, "it has closed what it has read"
    assert found == (ROWS, ROWS[:450], 100)
