"""Atomic writes: a reader, or a crash, never sees half a file, and nothing is written through a symbolic link."""

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

UNFINISHED = re.compile(r"\..+\.(json|csv|md|html|svg|pt|safetensors|npy)\.[a-z0-9_]{8}")  # names that mkstemp makes
_unfinished: set[str] = set()  # temporary files of this process


class WriteError(OSError):
    """A file could not be written: no space, no permission, a disk that is gone."""

    def __str__(self) -> str:
        return (
            f"Cannot write {self.filename}: {self.strerror}. What was finished before is kept; run again to continue once "
            "there is space and permission to write."
        )


@contextlib.contextmanager
def atomic_file(path: Path, previous: Path | None = None) -> Iterator[IO[bytes]]:
    """A file to write to, which takes the place of ``path`` when the block ends, and is removed if the block raises.

    Args:
        path: The file to write; its folder exists.
        previous: Where to keep the file that ``path`` was until now; by default it is lost.
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
    """Raise ``ValueError`` if a path that is about to be written is a symbolic link."""
    if path.is_symlink():
        raise ValueError(
            f"{path} is a symbolic link; nothing is written through links. Replace it by what it points to, or choose "
            "another folder."
        )


def make_folder(path: Path) -> None:
    """Make a folder with its parents, unless it exists; a symbolic link to a folder is refused."""
    refuse_link(path)
    path.mkdir(parents=True, exist_ok=True)


def check_writable(folder: Path) -> None:
    """Raise ``ValueError`` if files cannot be made in a folder, which need not exist yet; nothing is written."""
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
    """Remove temporary files that killed processes left in a folder. No other process may be writing there."""
    for path in folder.iterdir() if folder.is_dir() else []:
        if UNFINISHED.fullmatch(path.name) and path.is_file():
            path.unlink(missing_ok=True)


def remove_own_unfinished() -> None:
    """Remove the temporary files of this process, which is about to end."""
    for name in tuple(_unfinished):
        with contextlib.suppress(OSError):
            os.unlink(name)


def _link(path: Path, other: Path) -> None:
    """Give a file a second name, so that it exists at every moment; where there are no hard links, rename it."""
    other.unlink(missing_ok=True)
    try:
        os.link(path, other)
    except OSError:
        os.replace(path, other)
