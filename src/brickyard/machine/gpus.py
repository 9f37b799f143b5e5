"""The machine's GPUs: which there are, what they do, and whether they are still there. Nothing here fails without a driver.

`opened` is the one way to them, for providers and agents: NVML, or a file that stands in for it where there is no GPU.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU. Its device node is /dev/nvidia<number>, which need not be its position in NVML's list."""

    number: int
    uuid: str
    model: str = ""


class GpuLostError(Exception):
    """A GPU that was there is gone, or does nothing any more until the machine is reset. The message says so."""


class Gpus(Protocol):
    """The GPUs of a machine. Methods may block for a moment."""

    def found(self) -> tuple[Gpu, ...]:
        """Those that can be used now; none without a driver."""
        ...

    def read(self, uuid: str) -> dict[str, float]:
        """Values of one GPU under the names of its metrics; those that cannot be measured are absent. Raises GpuLostError."""
        ...


def opened(file: str = "") -> Gpus:
    """The GPUs of NVML or, with `file`, those that a JSON file names, which is read anew for every call."""
    return StandIn(Path(file)) if file else Nvml()


def measure(gpus: Gpus, uuids: Sequence[str]) -> dict[str, float]:
    """Values of a node's GPUs together; one that not all of them have is absent. Raises GpuLostError."""
    read = [gpus.read(uuid) for uuid in uuids]
    combined: dict[str, Callable[[list[float]], float]] = {
        "gpu_fraction": lambda values: sum(values) / len(values),
        "gpu_memory_bytes": sum,
        "gpu_temperature_c": max,
        "gpu_power_w": sum,
    }
    return {
        name: of([each[name] for each in read]) for name, of in combined.items() if read and all(name in each for each in read)
    }


class Nvml:
    """GPUs of NVIDIA's driver."""

    def found(self) -> tuple[Gpu, ...]:
        nvml = _library()
        if nvml is None:
            return ()
        found = []
        with contextlib.suppress(nvml.NVMLError):
            for index in range(nvml.nvmlDeviceGetCount()):
                with contextlib.suppress(nvml.NVMLError):  # it is lost: the others are not
                    device = nvml.nvmlDeviceGetHandleByIndex(index)
                    number, uuid = nvml.nvmlDeviceGetMinorNumber(device), nvml.nvmlDeviceGetUUID(device)
                    found.append(Gpu(number=number, uuid=str(uuid), model=str(nvml.nvmlDeviceGetName(device))))
        return tuple(found)

    def read(self, uuid: str) -> dict[str, float]:
        nvml = _library()
        if nvml is None:
            return {}
        lost = (nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_NOT_FOUND, nvml.NVML_ERROR_RESET_REQUIRED)
        values: dict[str, float] = {}
        try:
            device = nvml.nvmlDeviceGetHandleByUUID(uuid)
            for name, ask in (
                ("gpu_fraction", lambda: nvml.nvmlDeviceGetUtilizationRates(device).gpu / 100),
                ("gpu_memory_bytes", lambda: float(nvml.nvmlDeviceGetMemoryInfo(device).used)),
                ("gpu_temperature_c", lambda: float(nvml.nvmlDeviceGetTemperature(device, nvml.NVML_TEMPERATURE_GPU))),
                ("gpu_power_w", lambda: nvml.nvmlDeviceGetPowerUsage(device) / 1000),
            ):
                try:
                    values[name] = ask()
                except nvml.NVMLError as error:
                    if error.value in lost:
                        raise
        except nvml.NVMLError as error:
            if error.value in lost:
                raise GpuLostError(f"GPU {uuid} is lost: {error}") from error
        return values


class StandIn:
    """GPUs of a file: a list of `_Described`."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def found(self) -> tuple[Gpu, ...]:
        return tuple(Gpu(number=each.number, uuid=each.uuid, model=each.model) for each in self._listed() if not each.lost)

    def read(self, uuid: str) -> dict[str, float]:
        for each in self._listed():
            if each.uuid == uuid and not each.lost:
                return each.values
        raise GpuLostError(f"GPU {uuid} is lost: GPU is lost")

    def _listed(self) -> list[_Described]:
        return _decode_described(self.file.read_bytes())


class _Described(Gpu, frozen=True, kw_only=True):
    values: dict[str, float] = {}
    lost: bool = False


_decode_described = msgspec.json.Decoder(list[_Described]).decode


@functools.cache
def _library() -> Any:
    """NVML, loaded and started at the first use; None if it cannot be. It stays loaded, because it takes long to start."""
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception:  # a library that is missing, broken, or of another version than its driver: then there are no GPUs
        return None
    return nvml
