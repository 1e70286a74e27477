"""Kernels are compiled by one thread at a time."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from synib.keys.launch import OneAtATime


def test_threads_launch_kernels_one_after_the_other_with_their_arguments():
    inside, calls = threading.Lock(), []

    class Kernel:
        def __getitem__(self, grid):
            def launch(x, size):
                assert inside.acquire(blocking=False)
                time.sleep(0.001)
                calls.append((grid, x, size))
                inside.release()

            return launch

    first, second = OneAtATime(Kernel()), OneAtATime(Kernel())
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: (first, second)[i % 2][(i,)](10 * i, size=i), range(40)))
    assert sorted(calls) == [((i,), 10 * i, i) for i in range(40)]
