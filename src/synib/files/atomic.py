"""Files of a run, including JSON and CSV tables: written atomically, by one process at a time."""

import contextlib
import csv
import importlib
import io
import json
import os
import platform
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

FORMULA = ("=", "+", "-", "@")  # what a spreadsheet takes for the beginning of one
IDENTIFIERS = ("cell", "shard")  # columns of texts, some of which look like numbers
LOCK = ".lock"
WINDOWS_OFFSET = 1 << 20  # Windows makes locked bytes unreadable: one beyond the text that names the holder is locked
UNFINISHED = re.compile(r"\..+\.(json|csv|md|html|svg|pt|safetensors|npy)\.[a-z0-9_]{8}")  # names that mkstemp makes
_unfinished: set[str] = set()  # temporary files of this process


class WriteError(OSError):
    """A file could not be written: no space, no permission, or a missing disk."""

    def __str__(self) -> str:
        return (
            f"Cannot write {self.filename}: {self.strerror}. Finished results are kept; run again to continue "
            "once there is space and permission to write."
        )


class LockedError(ValueError):
    """Another process is writing to the folder."""


@contextlib.contextmanager
def atomic_file(path: Path, previous: Path | None = None) -> Iterator[IO[bytes]]:
    """A file that replaces ``path`` when the block ends, and is removed if the block raises.

    Args:
        path: The file to write; its folder exists.
        previous: Where to keep the previous file at ``path``; by default it is lost.
    """
    refuse_link(path)
    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        _unfinished.add(temporary)
        with open(temporary, "w+b", opener=lambda *_: handle) as file:  # a file that knows its name
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        if previous is not None and path.exists():
            _link(path, previous)
        os.replace(temporary, path)
    except BaseException as e:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        if isinstance(e, OSError):
            raise WriteError(e.errno, e.strerror, str(path)) from e
        raise
    finally:
        _unfinished.discard(temporary)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically, as UTF-8."""
    with atomic_file(path) as file:
        file.write(text.encode())


def refuse_link(path: Path) -> None:
    """Raise ``ValueError`` if a path to be written is a symbolic link."""
    if path.is_symlink():
        raise ValueError(
            f"{path} is a symbolic link, and nothing is written through links: replace it by its target, or "
            "choose another folder."
        )


def make_folder(path: Path) -> None:
    """Create a folder with its parents, unless it exists; a symbolic link to a folder raises ``ValueError``."""
    refuse_link(path)
    path.mkdir(parents=True, exist_ok=True)


def check_writable(folder: Path) -> None:
    """Raise ``ValueError`` if files cannot be created in a folder, which need not exist yet; nothing is written."""
    absolute = folder.absolute()
    nearest = next(path for path in (absolute, *absolute.parents) if path.exists())
    if not nearest.is_dir():
        raise unwritable(folder, f"{nearest} is not a folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise unwritable(folder, "it is read-only, or you have no permission")


def unwritable(folder: Path, reason: str) -> ValueError:
    """The error for an output folder that cannot be written to."""
    return ValueError(f"Cannot write to the output folder {folder}: {reason}. Choose another folder.")


def remove_unfinished(folder: Path) -> None:
    """Remove temporary files of killed processes from a folder. No other process may be writing there."""
    for path in folder.iterdir() if folder.is_dir() else []:
        if UNFINISHED.fullmatch(path.name) and path.is_file():
            path.unlink(missing_ok=True)


def remove_own_unfinished() -> None:
    """Remove the temporary files of this process, which is about to end."""
    for name in tuple(_unfinished):
        with contextlib.suppress(OSError):
            os.unlink(name)


def _link(path: Path, other: Path) -> None:
    """Add a second name to a file, so that it exists at every moment; without hard links, rename it."""
    other.unlink(missing_ok=True)
    try:
        os.link(path, other)
    except OSError:
        os.replace(path, other)


def read_json(path: Path) -> Any:
    """The content of a JSON file, or ``None`` if there is no such file."""
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return None
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as e:
        raise ValueError(f"{path} is damaged ({e}): remove it and run again to restore it.") from e


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file atomically."""
    write_text(path, json.dumps(value, indent=1) + "\n")


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a table atomically; floats are rounded to six decimals, missing values and NaN are empty fields.

    Strings are written so that spreadsheets do not evaluate them as formulas, nor terminals as control codes; see
    :func:`plain_cell`.
    """
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    table = csv.DictWriter(text, columns, lineterminator="\n")
    table.writerow({name: plain_cell(name) for name in columns})
    for row in rows:
        table.writerow({k: round(v, 6) if isinstance(v, float) else plain_cell(v) for k, v in row.items() if v == v})
    write_text(path, text.getvalue())


def plain_cell(value: Any) -> Any:
    """A string that is safe in a table: a leading formula character gets a quotation mark, control characters are escaped."""
    if not isinstance(value, str):
        return value
    shown = "".join(c if c.isprintable() or c in "\n\t\u00a0\u3000" else repr(c)[1:-1] for c in value)
    return f"'{shown}" if shown.lstrip().startswith(FORMULA) and isinstance(_value(shown.strip()), str) else shown


def read_csv(path: Path) -> list[dict[str, Any]]:
    """The rows of a table: numbers as numbers, empty fields as ``None``."""
    try:
        columns, *lines = csv.reader(io.StringIO(path.read_text()))
    except FileNotFoundError as e:
        raise ValueError(f"There is no {path.name} in {path.parent}: is it the folder of a finished run?") from e
    except (ValueError, csv.Error) as e:  # empty, not text, or not a table
        raise ValueError(f"{path} is damaged: it contains no table. Run the experiment again to restore it.") from e
    for number, fields in enumerate(lines, 2):
        if len(fields) != len(columns):
            raise ValueError(
                f"{path} is damaged: line {number} has {len(fields)} fields, expected {len(columns)}. Run the experiment "
                "again to restore it."
            )
    return [
        {name: text if name in IDENTIFIERS else _value(text) for name, text in zip(columns, fields, strict=True)}
        for fields in lines
    ]


def _value(text: str) -> Any:
    if text == "":
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Exclude all other processes from this context for the same folder; yields whether the file system has locks.

    The lock is on the file ``.lock`` and is released when the process ends for any reason.
    """
    path = folder / LOCK
    while True:
        handle = _open(path)
        try:
            has_locks = _lock(handle)
        except BlockingIOError:
            holder = _holder(handle)
            os.close(handle)
            raise LockedError(
                f"Another run ({holder}) is writing to {folder}, which was not changed: wait until it ends, or "
                "choose another folder."
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
    """Open the lock file, if it is a regular file and not a link to another one."""
    refuse_link(path)
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
    except OSError as e:
        raise WriteError(e.errno, e.strerror, str(path)) from e
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(handle)
        raise ValueError(f"{path} is not a lock file of synib: choose another folder.")
    return handle


def _lock(handle: int) -> bool:
    """Lock an open file, or raise ``BlockingIOError`` if another process holds the lock; ``False`` if not supported."""
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
