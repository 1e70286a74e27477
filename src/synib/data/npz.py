"""Arrays out of .npz files that nobody has to trust: no pickles, and no more numbers than the file really has."""

import math
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

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
    try:
        with zipfile.ZipFile(path) as archive:
            return _read(path, archive, list(names))
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError) as mistake:
        raise ValueError(f"{path} is no .npz, or is cut or damaged ({mistake}): get it anew.") from mistake


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
        try:
            version = np.lib.format.read_magic(stream)
            header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
            shape, _, dtype = header(stream)
        except (ValueError, KeyError) as mistake:
            raise ValueError(f"{path} is damaged: {name} is no array ({mistake}).") from mistake
        if dtype.hasobject:
            raise ValueError(f"{path} holds objects as {name}, which are pickles, and pickles are not read here.")
        # The header is only what the file claims, and an array is made before its numbers are there.
        if stream.tell() + math.prod(shape) * dtype.itemsize != info.file_size:
            raise ValueError(f"{path} is damaged: {name} has other than {shape} numbers in it.")
    with archive.open(info) as stream:
        return np.lib.format.read_array(stream, allow_pickle=False)
