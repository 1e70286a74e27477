"""Seeded use of torch's own generators, which all threads of a process share."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

_in_use = threading.RLock()


@contextmanager
def restored_generators(cuda: Sequence[int] = ()) -> Iterator[None]:
    """Context after which torch's generators are as they were before: that of the CPU, and those of CUDA devices.

    One thread at a time can be inside; others wait. Initial weights come from whatever functions a model calls, so they
    cannot be given a generator of their own. Code that draws from torch's generators outside of this context, in another
    thread, still disturbs them.

    Args:
        cuda: Indices of CUDA devices.
    """
    with _in_use, torch.random.fork_rng(devices=cuda):
        yield


@contextmanager
def seeded_generators(seed: int, cuda: Sequence[int] = ()) -> Iterator[None]:
    """Context in which torch's generators start from a seed; they are restored afterwards.

    Args:
        seed: The seed.
        cuda: Indices of CUDA devices, besides the CPU. ``torch.manual_seed`` would also seed devices that are not used.
    """
    with restored_generators(cuda):
        torch.default_generator.manual_seed(seed)
        for index in cuda:
            torch.cuda.default_generators[index].manual_seed(seed)
        yield
