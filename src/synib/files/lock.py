"""A lock on a folder, held by the operating system for the process that writes there."""

import contextlib
import importlib
import json
import os
import platform
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from synib.files.atomic import WriteError, refuse_link

LOCK = ".lock"
WINDOWS_OFFSET = 1 << 20  # Windows makes locked bytes unreadable: one beyond the text that names the holder is locked


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Keep every other process out of this context for the same folder; yields whether the file system has locks.

    The lock is on the file ``.lock`` and ends with the process, however that ends.
    """
    path = folder / LOCK
    while True:
        handle = _open(path)
        try:
            has_locks = _lock(handle)
        except BlockingIOError:
            holder = _holder(handle)
            os.close(handle)
            raise ValueError(
                f"{folder} is being written to by another run ({holder}); nothing was touched. Wait until it ends, or choose "
                "another folder."
            ) from None
        # The process that held the lock may have removed the file in between; then another file is the lock now.
        if path.exists() and os.path.samestat(os.fstat(handle), os.stat(path)):
            break
        os.close(handle)
    try:
        os.ftruncate(handle, 0)
        with contextlib.suppress(OSError):  # a full disk: the lock holds without the name of its holder
            os.write(handle, json.dumps({"process": os.getpid(), "host": platform.node()}).encode())
        yield has_locks
    finally:
        if os.name == "nt":  # where an open file cannot be removed
            os.close(handle)
            path.unlink(missing_ok=True)
        else:
            path.unlink(missing_ok=True)
            os.close(handle)


def _open(path: Path) -> int:
    """Open the lock's file, if it is a file of its own and not another name of one elsewhere."""
    refuse_link(path)
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
    except OSError as e:
        raise WriteError(e.errno, e.strerror, str(path)) from e
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(handle)
        raise ValueError(f"{path} is not a lock file of synib; choose another folder.")
    return handle


def _lock(handle: int) -> bool:
    """Lock an open file, or raise ``BlockingIOError`` if another process has; ``False`` where the file system cannot."""
    try:
        fcntl: Any = importlib.import_module("fcntl")
    except ModuleNotFoundError:  # Windows
        msvcrt: Any = importlib.import_module("msvcrt")
        os.lseek(handle, WINDOWS_OFFSET, os.SEEK_SET)
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
        holder = json.loads(os.read(handle, 1000))
        return f"process {holder['process']} on {holder['host']}"
    except (OSError, ValueError, KeyError, TypeError):  # it has only just begun
        return "its process is not known yet"
