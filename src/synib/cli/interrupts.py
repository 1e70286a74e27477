"""Handling of the first and the second Ctrl-C. This file is imported first and has no slow imports."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

INTERRUPTED = 130  # the exit code of a process that Ctrl-C ended


@contextlib.contextmanager
def interrupt_exits() -> Iterator[None]:
    """Context in which Ctrl-C exits immediately with a message and code 130; for use while no file is being written."""
    with _handler(lambda number, frame: _exit("synib: stopped.")):
        yield


@contextlib.contextmanager
def second_interrupt_exits() -> Iterator[None]:
    """Context in which the first Ctrl-C raises ``KeyboardInterrupt``, and the second exits immediately with code 130.

    Temporary files of this process are removed before it exits.
    """
    from synib.files.atomic import remove_own_unfinished

    interrupted = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        if interrupted:
            remove_own_unfinished()
            _exit("synib: ended immediately. Finished results are kept.")
        interrupted = True
        raise KeyboardInterrupt

    with _handler(handle):
        yield


@contextlib.contextmanager
def _handler(handle: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # in the background of a shell
    if ignored or threading.current_thread() is not threading.main_thread():  # signals come to the main thread only
        yield
        return
    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _exit(message: str) -> None:
    os.write(2, f"{message}\n".encode())
    os._exit(INTERRUPTED)
