"""Arrays out of .npz files that nobody has to trust: no pickles, and no more numbers than the file really has."""

import zipfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from synib.data.own_arrays import npy_head, zipped

MOST = 4 * 2**30  # bytes of all arrays that are read; compressed files can claim a thousand times their size


def read_npz(path: str | Path, names: Iterable[str]) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of these names, if they are whole and of numbers or texts; else ``ValueError``.

    Args:
        path: A file that ``np.savez`` or ``np.savez_compressed`` wrote.
        names: What to read of it.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"An .npz is a file; {path} is {'none' if path.exists() else 'not there'}.")
    with zipped(path) as archive:
        return _read(path, archive, list(names))


def _read(path: Path, archive: zipfile.ZipFile, names: list[str]) -> dict[str, np.ndarray[Any, Any]]:
    held = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
    missing = [name for name in names if name not in held]
    if missing:
        raise ValueError(f"{path} has no array {', '.join(missing)}; it has {', '.join(sorted(held)) or 'none'}.")
    claimed = sum(held[name].file_size for name in names)
    if claimed > MOST:
        raise ValueError(f"{path} unpacks to {claimed:,} bytes; at most {MOST:,} are read.")
    return {name: _array(path, archive, held[name], name) for name in names}


def _array(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> np.ndarray[Any, Any]:
    with archive.open(info) as stream:
        head = npy_head(path, name, cast(BinaryIO, stream), info.file_size)
    return replace(head, member=info).read()
