"""Jobs in several processes, for a limited time."""

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import Any


def results(work: Callable[[Any], Any], jobs: Sequence[Any], workers: int, seconds: float) -> Iterator[Any]:
    """The results of jobs in the order in which they end; jobs begin in the given order, none after so many seconds."""
    start, waiting = time.perf_counter(), list(reversed(jobs))
    pending: set[Future[Any]] = set()
    # Processes of their own from the start: CUDA cannot be used in a fork.
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        while True:
            while waiting and len(pending) < workers and time.perf_counter() - start < seconds:
                pending.add(pool.submit(work, waiting.pop()))
            if not pending:
                return
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
