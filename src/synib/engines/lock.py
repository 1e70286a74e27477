"""A folder that one run at a time writes to."""

import contextlib
import importlib
import json
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from synib.engines.files import CannotWrite

LOCK = ".lock"
BEYOND = 1 << 20  # where Windows locks a byte: what it locks nobody can read, and the file's own bytes name its holder


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[bool]:
    """Within this context no other process may enter it for the same folder; it yields whether the file system has locks.

    The lock is the operating system's, on the file ``.lock``: however the process ends, it is free again.
    """
    path = folder / LOCK
    while True:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as e:
            raise CannotWrite(e.errno, e.strerror, str(path)) from e
        try:
            has_locks = _lock(handle)
        except BlockingIOError:
            holder = _holder(handle)
            os.close(handle)
            raise ValueError(
                f"{folder} is being written to by another run ({holder}); nothing was touched. Wait for its end, or choose "
                "another folder with --out."
            ) from None
        # Whoever held it has removed the file in between: what was locked is nobody's.
        if path.exists() and os.path.samestat(os.fstat(handle), os.stat(path)):
            break
        os.close(handle)
    try:
        os.ftruncate(handle, 0)
        with contextlib.suppress(OSError):  # a full disk: the lock holds without a name
            os.write(handle, json.dumps({"process": os.getpid(), "host": platform.node()}).encode())
        yield has_locks
    finally:
        if os.name == "nt":  # where an open file cannot be removed
            os.close(handle)
            path.unlink(missing_ok=True)
        else:
            path.unlink(missing_ok=True)
            os.close(handle)


def _lock(handle: int) -> bool:
    """Lock an open file, or raise ``BlockingIOError`` if another process has; ``False`` where the file system cannot."""
    try:
        fcntl: Any = importlib.import_module("fcntl")
    except ModuleNotFoundError:  # Windows
        msvcrt: Any = importlib.import_module("msvcrt")
        os.lseek(handle, BEYOND, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError as e:
            raise BlockingIOError from e
        os.lseek(handle, 0, os.SEEK_SET)
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True


def _holder(handle: int) -> str:
    try:
        os.lseek(handle, 0, os.SEEK_SET)
        said = json.loads(os.read(handle, 1000))
        return f"process {said['process']} on {said['host']}"
    except (OSError, ValueError, KeyError, TypeError):  # it has only just come
        return "of which nothing more is known yet"
