"""Arrays that are computed once and stored on disk, memory-mapped, with a record of their source."""

import contextlib
import hashlib
import json
import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from synib.files.atomic import atomic_file, make_folder, refuse_link, write_json

FORMAT = "synib arrays 1"
_intact: set[tuple[str, ...]] = set()  # files whose checksum this process has compared: path, state, checksum


class Record(NamedTuple):
    """The record of a cached array.

    Args:
        source: What it was computed from, as plain values: another source gives another array.
        notes: Plain values stored with it.
        file: Name of its file in the folder.
        sha256: Checksum of that file.
    """

    source: Any
    notes: Any
    file: str
    sha256: str


class ArrayCache:
    """Arrays in a folder, and the file ``NAME.json`` with the source and checksum of each.

    Array and record are written atomically, the record last, so an interrupted call keeps the previous state. The
    checksum is compared when a process first opens an array.

    Args:
        folder: Folder of the arrays; created if it does not exist.
        name: Name of the record file.
    """

    def __init__(self, folder: str | Path, name: str) -> None:
        self.folder = Path(folder)
        make_folder(self.folder)
        self._path = self.folder / f"{name}.json"
        refuse_link(self._path)
        self._records = _read_records(self._path)

    def record(self, key: str) -> Record | None:
        """The record of an array, if there is one."""
        return self._records.get(key)

    def open(self, key: str) -> NDArray[Any] | None:
        """The array, or ``None`` if it is missing or damaged. Writing to it does not change the file."""
        record = self._records.get(key)
        if record is None or not os.path.lexists(self.folder / record.file):
            return None
        path = self.folder / record.file
        try:
            if _is_intact(path, record.sha256):
                # "c": a read-only array would be no tensor without a warning, and changed pages are private.
                return np.load(path, mmap_mode="c", allow_pickle=False)
        except (OSError, ValueError):
            pass
        warnings.warn(f"{path} is damaged and is computed again.", stacklevel=3)
        return None

    @contextlib.contextmanager
    def create(
        self, key: str, source: Any, shape: tuple[int, ...], dtype: str, notes: Any = None
    ) -> Iterator[NDArray[Any]]:
        """A new array on disk to fill; it is stored when the block ends without an error.

        Args:
            key: The name of the array.
            source: What it is computed from.
            shape, dtype: Shape and dtype of the array.
            notes: Stored with it, in their state at the end of the block.
        """
        checksum = hashlib.sha256(json.dumps([key, source], sort_keys=True).encode()).hexdigest()
        path = self.folder / f"{re.sub(r'[^A-Za-z0-9]+', '-', key)}-{checksum[:16]}.npy"
        if path.is_symlink():
            path.unlink()
        with atomic_file(path) as file:
            array = np.lib.format.open_memmap(file.name, mode="w+", dtype=np.dtype(dtype), shape=shape)
            yield array
            array.flush()
            del array
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
        old = self._records.get(key)
        self._records[key] = Record(json.loads(json.dumps(source)), notes, path.name, sha256)
        _intact.add(_state(path, sha256))
        write_json(self._path, {"format": FORMAT, "arrays": {name: r._asdict() for name, r in self._records.items()}})
        if old is not None and old.file not in {record.file for record in self._records.values()}:
            with contextlib.suppress(OSError):  # where a process still maps it, it may have to stay
                (self.folder / old.file).unlink()


def _read_records(path: Path) -> dict[str, Record]:
    """The records in a file, or none if it is unusable."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        records = {key: Record(**entry) for key, entry in content["arrays"].items()}
        usable = content["format"] == FORMAT and all(_is_plain(record) for record in records.values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
    return records if usable else {}


def _is_plain(record: Record) -> bool:
    """Whether a record names a file in its own folder."""
    return Path(record.file).name == record.file and isinstance(record.sha256, str)


def _is_intact(path: Path, sha256: str) -> bool:
    """Whether a file is unchanged since it was written; read once per process, unless it changes."""
    if path.is_symlink():
        return False
    state = _state(path, sha256)
    if state not in _intact:
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != sha256:
                return False
        _intact.add(state)
    return True


def _state(path: Path, sha256: str) -> tuple[str, ...]:
    stat = path.stat()
    return str(path.absolute()), str(stat.st_ino), str(stat.st_size), str(stat.st_mtime_ns), sha256
