"""Files written whole or not at all, whatever interrupts the writing, in a folder that one run at a time writes to."""

import contextlib
import importlib
import json
import os
import platform
import re
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import IO, Any

UNFINISHED = re.compile(r"\..+\.(json|csv|md|html|svg|pt|safetensors)\.[a-z0-9_]{8}")  # a name of mkstemp's
LOCK = ".lock"
BEYOND = 1 << 20  # where Windows locks a byte: what it locks nobody can read, and the file's own bytes name its holder
_being_written: set[str] = set()


class CannotWrite(OSError):
    """A file could not be written: no room, no permission, a disk that is gone."""

    def __str__(self) -> str:
        return (
            f"Cannot write {self.filename}: {self.strerror}. What was finished before is kept; when there is room and "
            "permission to write, the same command goes on from there."
        )


def write_whole(path: Path, write: Callable[[IO[bytes]], object], before: Path | None = None) -> None:
    """Write a file, whole or not at all: a reader, or a crash, never sees half of it.

    Args:
        path: The file.
        write: Writes its content.
        before: What to call the file that was there until now; by default it is gone.
    """
    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        _being_written.add(temporary)
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        if before is not None and path.exists():
            _link(path, before)
        os.replace(temporary, path)
    except BaseException as e:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        if isinstance(e, OSError):
            raise CannotWrite(e.errno, e.strerror, str(path)) from e
        raise
    finally:
        _being_written.discard(temporary)


def _link(path: Path, other: Path) -> None:
    """Give a file another name; its own stays, so that it is there at every moment, where the file system has links."""
    other.unlink(missing_ok=True)
    try:
        os.link(path, other)
    except OSError:
        os.replace(path, other)


def remove_unfinished(folder: Path) -> None:
    """Remove what processes that were killed while writing left in a folder. Nobody else may be writing there."""
    for path in folder.iterdir() if folder.is_dir() else []:
        if UNFINISHED.fullmatch(path.name) and path.is_file():
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def second_interrupt_ends() -> Iterator[None]:
    """Within this context the first Ctrl-C interrupts, as ever, and the second ends the process at once, with code 130.

    What was being written then is removed: a file is there whole or not at all.
    """
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # in the background of a shell
    if ignored or threading.current_thread() is not threading.main_thread():  # signals come to the main thread only
        yield
        return
    pressed = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        if pressed:
            for name in tuple(_being_written):
                with contextlib.suppress(OSError):
                    os.unlink(name)
            os.write(2, b"synib: ended at once. What was finished is kept.\n")
            os._exit(130)
        pressed = True
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


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
