"""What Slurm and slurmrestd say, in the shapes of their releases, and a job to submit."""

from __future__ import annotations

from brickyard.providers.slurm.jobs import Ask

NAME = "brickyard-1234567890123456-i-1"
ASK = Ask(
    name=NAME, script="#!/bin/sh\n", directory="/s/slurm/i-1", output="/s/slurm/i-1/output", environment={"PATH": "/bin"}, cpus=4,
    memory_mb=2048, gres="gpu:a100:1", partition="gpu", limit_minutes=90,
)  # fmt: skip


OLD_JOB = {
    "job_id": 5, "name": NAME, "job_state": "FAILED", "state_reason": "NonZeroExitCode", "partition": "main", "nodes": "node1",
    "exit_code": 19968, "restart_cnt": 0, "start_time": 1795453810, "end_time": 1795455010, "time_limit": 20, "user_id": 0,
    "nice": None,
}  # fmt: skip
NEW_JOB = OLD_JOB | {
    "job_state": ["FAILED"], "end_time": {"set": True, "infinite": False, "number": 1795455010},
    "exit_code": {"status": ["ERROR"], "return_code": {"set": True, "infinite": False, "number": 78},
                  "signal": {"id": {"set": False, "infinite": False, "number": 0}, "name": ""}},
    "time_limit": {"set": True, "infinite": False, "number": 20},
}  # fmt: skip


NODES = [
    {"name": "n1", "cpus": 64, "real_memory": 257_000, "gres": "gpu:a100:4", "features": "fast", "partitions": ["main", "old"]},
    {"name": "n2", "cpus": 64, "real_memory": 257_000, "gres": "gpu:a100:4", "features": ["fast"], "partitions": ["main"]},
]
OLD_PARTITIONS = [
    {"name": "main", "state": "UP", "max_time_limit": 2880, "flags": ["default"]},
    {"name": "old", "state": "DOWN", "max_time_limit": -1, "flags": []},
]
NEW_PARTITIONS = [
    {"name": "main", "partition": {"state": ["UP"]}, "maximums": {"time": {"set": True, "infinite": False, "number": 2880}}},
    {"name": "old", "partition": {"state": ["DOWN"]}, "maximums": {"time": {"set": False, "infinite": True, "number": 0}}},
]
