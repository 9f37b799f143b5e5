"""A node host without Spark: it speaks the protocol and runs Python code as commands. Knobs are conf keys `test.*`."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

requests = os.fdopen(os.dup(0), "rb")
answers = os.fdopen(os.dup(1), "wb", buffering=0)
null = os.open(os.devnull, os.O_RDONLY)
os.dup2(null, 0)
os.dup2(2, 1)
lock = threading.Lock()
state: dict[str, Any] = {"contexts": {}, "commands": {}, "prepared": {}}


def send(message: dict[str, Any]) -> None:
    with lock:
        answers.write(json.dumps(message).encode() + b"\n")


def status(**fields: Any) -> None:
    send({"event": "status", **fields})


class Refused(Exception):
    pass


def prepare(request: dict[str, Any]) -> dict[str, Any]:
    state["prepared"] = request
    logs = Path(request["node_dir"], "logs")
    (logs / "driver.log").write_text("the driver's log\n")
    sys.stderr.write("the host is prepared\n")
    knobs = Path(request["manifest"]["home"])  # a warm node has no conf
    if request.get("warm"):
        status(message="running Spark once")
        while (knobs / "slow").exists():
            time.sleep(0.02)
        if (knobs / "broken").exists():
            raise Refused("SPARK_STARTUP_FAILURE", "Spark does not run here")
    return {}


def script_run(request: dict[str, Any]) -> dict[str, Any]:
    """By the code of the real node host, which a test has put beside this file."""
    import node_scripts  # type: ignore[import-not-found]  # noqa: PLC0415 - mypy does not know the copy

    def popen(argv: list[str], **options: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen(argv, start_new_session=True, **options)

    state["prepared"] = state["prepared"] or request
    venv = Path(request["node_dir"], "python")
    environ = node_scripts.environment(os.environ, request["env"].items(), request["manifest"], venv=venv)
    return dict(node_scripts.run_script(request, popen=popen, environ=environ))


def program_run(request: dict[str, Any]) -> dict[str, Any]:
    return script_run(request)


def become(request: dict[str, Any]) -> dict[str, Any]:
    assignment = request["assignment"]
    conf = assignment.get("spark_conf", {})
    state["assignment"] = assignment
    state["cluster_dir"] = request["cluster_dir"]
    state["jars"] = list(request["jars"])
    if reason := conf.get("test.cold"):
        status(cold_reason=reason)
    if seconds := conf.get("test.slow"):
        time.sleep(float(seconds))
    if conf.get("test.child"):
        children = [subprocess.Popen(["sleep", "1000"], start_new_session=True) for _ in range(3)]
        Path(state["prepared"]["node_dir"], "work", "children").write_text(" ".join(str(child.pid) for child in children))
    if raw := conf.get("test.raw"):  # bytes that make no sense
        answers.write(raw.encode() + b"\n")
    if conf.get("test.exit"):
        sys.stderr.write("last words\n")
        sys.stderr.flush()
        os._exit(int(conf["test.exit"]))
    if conf.get("test.fail"):
        status(phase="failed", failure={"code": "SPARK_STARTUP_FAILURE", "message": conf["test.fail"]})
        return {}
    if request["role"] == "worker" and not assignment.get("master_url"):
        status(phase="starting", message="waiting for the master")
        return {}
    ready(request["role"], assignment.get("master_url", ""), str(conf.get("test.master_host") or request["host"]))
    return {}


def ready(role: str, master_url: str, host: str = "127.0.0.1") -> None:
    status(phase="starting", message="starting")
    if role == "worker":
        status(phase="ready", worker_address="127.0.0.1:7001", message=f"registered at {master_url}")
    else:
        status(phase="ready", master_url=f"spark://{host}:7077", connect_port=15002, message="")


def master(request: dict[str, Any]) -> dict[str, Any]:
    ready("worker", request["master_url"])
    return {}


def jars(request: dict[str, Any]) -> dict[str, Any]:
    state["jars"] += request["paths"]
    return {}


def pulse(request: dict[str, Any]) -> dict[str, Any]:
    return {"silent_s": state.get("silent_s", 0)}


def connect_open(request: dict[str, Any]) -> dict[str, Any]:
    return {"port": int(state["assignment"]["spark_conf"]["test.port"])}


def metastore(request: dict[str, Any]) -> dict[str, Any]:
    draft = Path(state["prepared"]["node_dir"], "work", "draft")
    draft.write_text(json.dumps([request["ask"], request["answer"]]))
    draft.rename(draft.with_name("answer"))
    return {}


def closing(request: dict[str, Any]) -> dict[str, Any]:
    state["looks"] = state.get("looks", 0) + 1
    running = any(each["status"] == "Running" for each in state["commands"].values())
    return {"commands": running, "spark": state.get("spark", False), "looks": state["looks"]}


def retire(request: dict[str, Any]) -> dict[str, Any]:
    status(phase="retired")
    return {}


def fail_executors(request: dict[str, Any]) -> dict[str, Any]:
    Path(state["prepared"]["node_dir"], "logs", "blamed.log").write_text(request["why"])
    return {}


def killed(request: dict[str, Any]) -> dict[str, Any]:
    Path(state["prepared"]["node_dir"], "logs", "killed.log").write_text(request["why"])
    return {}


def context_create(request: dict[str, Any]) -> dict[str, Any]:
    state["contexts"][request["context_id"]] = request["user"]
    return {"status": "Running"}


def context_status(request: dict[str, Any]) -> dict[str, Any]:
    known(request)
    return {"status": "Running"}


def context_destroy(request: dict[str, Any]) -> dict[str, Any]:
    known(request)
    del state["contexts"][request["context_id"]]
    return {}


def contexts_withdraw(request: dict[str, Any]) -> dict[str, Any]:
    with Path(state["prepared"]["node_dir"], "work", "ended").open("a") as ended:
        ended.writelines(f"{user} {session_id}\n" for user, session_id in request["sessions"])
    return {"context_ids": [each for each, user in state["contexts"].items() if user == request["user"]]}


def session_own(request: dict[str, Any]) -> dict[str, Any]:
    return {}


def known(request: dict[str, Any]) -> None:
    if request["context_id"] not in state["contexts"]:
        raise Refused("NOT_FOUND", f"context {request['context_id']} does not exist")


def command_execute(request: dict[str, Any]) -> dict[str, Any]:
    known(request)
    state["commands"][request["command_id"]] = {"status": "Running", "results": None}
    threading.Thread(target=run, args=(request,), daemon=True).start()
    return {}


def run(request: dict[str, Any]) -> None:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            exec(request["command"], {"send": send, "answers": answers, "lock": lock, "state": state})  # noqa: S102 - its purpose
        except BaseException:
            out.write(traceback.format_exc())
    result = {"resultType": "text", "data": out.getvalue()}
    state["commands"][request["command_id"]] = {"status": "Finished", "results": result}


def command_status(request: dict[str, Any]) -> dict[str, Any]:
    known(request)
    if request["command_id"] not in state["commands"]:
        raise Refused("NOT_FOUND", "no such command")
    return dict(state["commands"][request["command_id"]])


def command_cancel(request: dict[str, Any]) -> dict[str, Any]:
    known(request)
    return {}


def answer(request: dict[str, Any]) -> None:
    try:
        send({"id": request["id"], "result": globals()[request["op"]](request)})
    except Refused as error:
        send({"id": request["id"], "error": {"code": error.args[0], "message": error.args[1]}})


def main() -> None:
    for line in requests:
        request = json.loads(line)
        deaf = state.get("assignment", {}).get("spark_conf", {}).get("test.deaf")
        if deaf and request["op"] in ("stop", "fail_executors"):
            continue
        if request["op"] == "stop":
            Path(state["prepared"]["node_dir"], "logs", "stopped.log").write_text("in order\n")
            send({"id": request["id"], "result": {}})
            return
        if request["op"] in ("script_run", "program_run"):
            threading.Thread(target=answer, args=(request,), daemon=True).start()
        else:
            answer(request)


main()
