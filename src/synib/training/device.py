"""Devices and precisions: selection, description, and recognition of out-of-memory errors."""

import contextlib
import gc
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, cast

import torch

from synib.checks import check_choice

Precision = Literal["float32", "tf32", "bf16"]


def device_name(device: str) -> str:
    """A description of the device, for reports and messages."""
    if device.startswith("cuda"):
        return torch.cuda.get_device_name(device)
    return f"{platform.machine()} CPU, {torch.get_num_threads()} threads"


def hardware() -> str:
    """A description of the processor of this machine."""
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass  # not Linux
    return f"{model}, {os.cpu_count()} cores"


def choose_device(device: str) -> str:
    """The device to train on; ``"auto"`` is CUDA if available. Raises ``ValueError`` if the device is not available."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        kind = torch.device(device).type
    except RuntimeError:
        kind = ""
    if kind not in ("cpu", "cuda"):
        raise ValueError(f"device must be auto, cpu or cuda; got {device!r}.")
    if kind == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device is {device!r}, but torch finds no CUDA device on this machine: use 'cpu'.")
    index = torch.device(device).index
    if kind == "cuda" and index is not None and index >= torch.cuda.device_count():
        raise ValueError(f"Device {device!r} does not exist: torch finds {torch.cuda.device_count()} CUDA devices.")
    return device


def choose_devices(device: str) -> list[str]:
    """The devices to train on: those of a list ``"cuda:0,cuda:1"``, or all visible ones for ``"cuda"`` and ``"auto"``.

    ``"cpu,cpu"`` is two processes that share the cores. Raises ``ValueError`` if a device is not available.
    """
    listed = [choose_device(part.strip()) for part in device.split(",")]
    if listed == ["cuda"] and torch.cuda.device_count() > 1:
        return [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    if len(listed) == 1:
        return listed
    if len({torch.device(part).type for part in listed}) > 1:
        raise ValueError(f"Several devices must be of one kind, because they train equal shards; got {device!r}.")
    if listed[0].startswith("cuda") and (len(set(listed)) < len(listed) or "cuda" in listed):
        raise ValueError(f"Several CUDA devices must be numbered and different, such as cuda:0,cuda:1; got {device!r}.")
    return listed


def choose_precision(precision: str, device: str) -> Precision:
    """Return the precision if the device supports it; otherwise raise ``ValueError``."""
    check_choice("precision", precision, Precision)
    if precision == "tf32" and not device.startswith("cuda"):
        raise ValueError("Precision tf32 needs a CUDA device: use float32 on a CPU.")
    return cast(Precision, precision)


@contextlib.contextmanager
def using_threads(count: int) -> Iterator[None]:
    """Context in which torch uses so many threads on a CPU."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def without_denormals() -> Iterator[None]:
    """Context in which a CPU treats denormal numbers (below 1e-38) as 0.

    Adam's averages for a parameter without gradient (a unit that is never active) shrink to denormal numbers, with
    which a CPU is about twenty times slower.
    """
    already = (torch.full((1,), 1e-39) * 1.0).item() == 0.0
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(already)


@contextlib.contextmanager
def matrix_products(precision: Precision, device: torch.device) -> Iterator[None]:
    """Context in which matrix products have the given precision."""
    if precision == "bf16":
        with torch.autocast(device.type, dtype=torch.bfloat16):
            yield
    elif precision == "tf32":
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(before)
    else:
        yield


def release(device: torch.device | str) -> None:
    """Free the device memory of a finished or failed shard."""
    gc.collect()
    if torch.device(device).type == "cuda":
        torch.cuda.empty_cache()


def out_of_memory(e: Exception) -> bool:
    """Whether an error is an out-of-memory error."""
    # Libraries that bypass torch's allocator raise a plain RuntimeError.
    signs = ("DefaultCPUAllocator:", "out of memory", "ALLOC_FAILED")
    return isinstance(e, torch.OutOfMemoryError | MemoryError) or any(sign in str(e) for sign in signs)
