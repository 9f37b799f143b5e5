"""With `log_format` json, whatever a process writes is a line of JSON: by Python, by a child, and by gRPC's C code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from brickyard.logs.bounded import LogFile
from tests.support.patience import PATIENCE_S

BEGIN = """
import logging, os, subprocess, sys, threading, warnings
import structlog
from brickyard.logs import serverlog
outputs = serverlog.configure_process(level="info", form="json")
log = structlog.get_logger("brickyard")
"""
EVERYTHING = """
log.info("ours", token="dapi0123456789abcdef")
print("to standard output")
sys.stderr.write("two lines\\nof text, with dapi0123456789abcdef\\n")
os.write(2, b"as C code does\\n")
os.write(2, b"not UTF-8: \\xff\\n\\n")
print('{"event": "made elsewhere"}')
subprocess.run(["sh", "-c", "echo of a child; echo and its error >&2"], check=True)
warnings.warn("a warning")
logging.getLogger("asyncio").error("a library's")
thread = threading.Thread(target=lambda: 1 / 0)
thread.start()
thread.join()
os.write(2, b"x" * 200_000 + b"\\n")
raise ValueError("unhandled")
"""
GRPC = """
import grpc
channel = grpc.insecure_channel("127.0.0.1:1")
try:
    channel.unary_unary("/a/b")(b"", timeout=0.3)
except grpc.RpcError:
    pass
"""


def run(program: str, **environment: str) -> list[dict[str, Any]]:
    """The lines of a process with such a log, on both outputs."""
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        env={**os.environ, **environment}, timeout=PATIENCE_S,
    )  # fmt: skip
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_every_line_is_json() -> None:
    lines = run(EVERYTHING)
    texts = {line["text"] for line in lines if line["event"] == "output"}
    assert {
        "to standard output", "two lines", "of text, with dapi***", "as C code does", "not UTF-8: \\xff", "of a child",
        "and its error",
    } <= texts  # fmt: skip
    assert sum(line["text"].count("x") for line in lines if set(line.get("text", "")) == {"x"}) == 200_000
    events = [line["event"] for line in lines]
    assert {"ours", "made elsewhere", "a library's", "thread_crashed", "crashed"} <= set(events)
    assert any("a warning" in event for event in events)
    [crashed] = [line for line in lines if line["event"] == "crashed"]
    assert "ValueError: unhandled" in crashed["exception"]
    assert all(line["timestamp"] and line["level"] for line in lines if line["event"] != "made elsewhere")
    assert "dapi0123" not in json.dumps(lines)


def test_grpcs_own_lines_are_json() -> None:
    lines = run(GRPC, GRPC_VERBOSITY="debug", GRPC_TRACE="tcp,channel,call_error,http")
    assert len([line for line in lines if line["event"] == "output"]) > 3
    assert any(".cc:" in line["text"] for line in lines if line["event"] == "output")


def test_the_log_is_rotated_with_all_that_writes_to_it(tmp_path: Path) -> None:
    program = """
from pathlib import Path
path = Path(sys.argv[1])
print("before")
sys.stdout.flush()
while b"before" not in path.read_bytes(): pass
assert serverlog.rotate(path, limit=1, outputs=outputs)
log.info("ours")
print("after")
"""
    path = tmp_path / "server.log"
    with path.open("wb") as file:
        subprocess.run([sys.executable, "-c", BEGIN + program, str(path)], stdout=file, stderr=file, check=True)
    before, after = path.with_name("server.log.1").read_text(), path.read_text()
    assert [json.loads(line).get("text") for line in before.splitlines()] == ["before"]
    assert {json.loads(line)["event"] for line in after.splitlines()} == {"ours", "output"}


@pytest.mark.parametrize("as_json", [False, True])
def test_an_agents_log(tmp_path: Path, as_json: bool) -> None:
    log = LogFile(tmp_path / "agent.log", as_json=as_json)
    log.write('a "line"', "error", text="more")
    log.close()
    [line] = (tmp_path / "agent.log").read_text().splitlines()
    if as_json:
        found = json.loads(line)
        assert (found["event"], found["level"], found["text"]) == ('a "line"', "error", "more")
        assert found["timestamp"].endswith("Z")
    else:
        assert line.endswith('Z a "line"')
