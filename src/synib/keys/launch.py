"""Launching Triton kernels from several threads: a kernel is compiled when it is first called, by one thread at a time."""

import threading
from collections.abc import Callable
from typing import Any

_launching = threading.RLock()


class OneAtATime:
    """A kernel that one thread at a time launches, since compiling and caching are not documented to bear several.

    Args:
        kernel: A kernel, as ``triton.jit`` returns it.
    """

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        def launch(*arguments: Any, **constants: Any) -> None:
            with _launching:
                self.kernel[grid](*arguments, **constants)

        return launch
