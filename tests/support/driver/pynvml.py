"""NVML of a machine with two GPUs, where there is none. If NVIDIA_VISIBLE_DEVICES names some, the others are not there, as in a
container of NVIDIA's runtime. The numbers of their device nodes are not their positions."""

from __future__ import annotations

import os
from typing import NamedTuple

NVML_ERROR_GPU_IS_LOST, NVML_ERROR_NOT_FOUND, NVML_ERROR_RESET_REQUIRED = 15, 6, 16


class NVMLError(Exception):
    """The real one's code is in `value`."""

    value = NVML_ERROR_NOT_FOUND


class _Gpu(NamedTuple):
    number: int
    uuid: str


class _Utilization(NamedTuple):
    gpu: int


class _Memory(NamedTuple):
    used: int


MODEL = "NVIDIA Test-80GB"
ALL = (_Gpu(3, "GPU-test-three"), _Gpu(4, "GPU-test-four"))


def nvmlInit() -> None:
    """Always succeeds."""


def nvmlDeviceGetCount() -> int:
    return len(_there())


def nvmlDeviceGetHandleByIndex(index: int) -> _Gpu:
    return _there()[index]


def nvmlDeviceGetHandleByUUID(uuid: str) -> _Gpu:
    for each in _there():
        if each.uuid == uuid:
            return each
    raise NVMLError(uuid)


def nvmlDeviceGetMinorNumber(device: _Gpu) -> int:
    return device.number


def nvmlDeviceGetUUID(device: _Gpu) -> str:
    return device.uuid


def nvmlDeviceGetName(device: _Gpu) -> str:
    return MODEL


def nvmlDeviceGetUtilizationRates(device: _Gpu) -> _Utilization:
    return _Utilization(gpu=10 * device.number)


def nvmlDeviceGetMemoryInfo(device: _Gpu) -> _Memory:
    return _Memory(used=1 << 30)


def nvmlDeviceGetTemperature(device: _Gpu, sensor: int) -> int:
    return 50


def nvmlDeviceGetPowerUsage(device: _Gpu) -> int:
    return 100_000


NVML_TEMPERATURE_GPU = 0


def _there() -> tuple[_Gpu, ...]:
    visible = os.environ.get("NVIDIA_VISIBLE_DEVICES", "all").split(",")
    return tuple(each for each in ALL if "all" in visible or each.uuid in visible)
