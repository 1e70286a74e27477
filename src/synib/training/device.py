"""Where training happens: which device, in which precision, and whether its memory sufficed."""

import contextlib
import gc
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, cast, get_args

import torch

Precision = Literal["float32", "tf32", "bf16"]


def device_name(device: str) -> str:
    """The device in words."""
    if device.startswith("cuda"):
        return torch.cuda.get_device_name(device)
    return f"{platform.machine()} CPU, {torch.get_num_threads()} threads"


def hardware() -> str:
    """This machine in words."""
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass  # not Linux: what platform says must do
    return f"{model}, {os.cpu_count()} cores"


def choose_device(device: str) -> str:
    """``"auto"`` is CUDA where there is some; a device that is not there is refused."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        kind = torch.device(device).type
    except RuntimeError:
        raise ValueError(f"--device is auto, cpu or cuda; got {device!r}.") from None
    if kind == "cuda" and not torch.cuda.is_available():
        raise ValueError("--device cuda was asked for, but torch finds no CUDA device here; use --device cpu.")
    index = torch.device(device).index
    if kind == "cuda" and index is not None and index >= torch.cuda.device_count():
        raise ValueError(f"There is no device {device!r}: torch sees {torch.cuda.device_count()} CUDA devices here.")
    if kind not in ("cpu", "cuda"):
        raise ValueError(f"--device is auto, cpu or cuda; got {device!r}.")
    return device


def choose_precision(precision: str, device: str) -> Precision:
    """The precision, if there is such a one on the device."""
    if precision not in get_args(Precision):
        raise ValueError(f"--precision is {', '.join(get_args(Precision))}; got {precision!r}.")
    if precision == "tf32" and not device.startswith("cuda"):
        raise ValueError("--precision tf32 is for CUDA devices; on a CPU use float32.")
    return cast(Precision, precision)


@contextlib.contextmanager
def without_denormals() -> Iterator[None]:
    """Within this context a CPU takes numbers below 1e-38 for 0.

    Adam's averages of a parameter without a gradient (a unit that is never active) become such numbers, with which a CPU
    computes some twenty times slower.
    """
    already = (torch.full((1,), 1e-39) * 1.0).item() == 0.0
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(already)


@contextlib.contextmanager
def matrix_products(precision: Precision, device: torch.device) -> Iterator[None]:
    """Matrix products of this precision, inside the context only."""
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
    """Give back what a finished or failed shard held on the device."""
    gc.collect()
    if torch.device(device).type == "cuda":
        torch.cuda.empty_cache()


def out_of_memory(e: Exception) -> bool:
    """Whether an error says that memory did not suffice."""
    # Not every allocation goes through torch's own allocator, and those of libraries fail with a plain error.
    signs = ("DefaultCPUAllocator:", "out of memory", "ALLOC_FAILED")
    return isinstance(e, torch.OutOfMemoryError | MemoryError) or any(sign in str(e) for sign in signs)
