"""Whether a kernel can be used on a device: it is compiled there once, and compared with torch."""

import importlib.util
import warnings
from collections.abc import Callable

import torch

_usable: dict[tuple[str, int | None], bool] = {}


def usable(kernel: str, device: torch.device, gives_the_bits_of_torch: Callable[[torch.device], bool]) -> bool:
    """Whether Triton is installed, compiles this kernel for a CUDA device, and the kernel gives the bits of torch.

    Args:
        kernel: Name of the kernel.
        device: The device.
        gives_the_bits_of_torch: Runs the kernel and torch on the same numbers and compares.
    """
    at = kernel, _index(device)
    if at not in _usable and device.type == "cuda":
        _usable[at] = importlib.util.find_spec("triton") is not None
        if _usable[at]:
            try:
                _usable[at] = gives_the_bits_of_torch(device)
            except Exception as e:  # an unsupported card, or a compiler that is missing
                _usable[at] = False
                warnings.warn(f"{kernel} runs as several kernels on {device}, since Triton failed: {e!r}", stacklevel=2)
    return _usable.get(at, False)


def is_usable(kernel: str, device: torch.device) -> bool:
    """Whether :func:`usable` has found so."""
    return _usable.get((kernel, _index(device)), False)


def _index(device: torch.device) -> int | None:
    return torch.cuda.current_device() if device.type == "cuda" and device.index is None else device.index
