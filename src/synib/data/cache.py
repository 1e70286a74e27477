"""Arrays with one row per file, read once and then memory-mapped; rows of changed files are read again."""

import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synib.checks import check_whole
from synib.data.media import BrokenFile
from synib.files.arrays import ArrayCache


class Cached(NamedTuple):
    """The result of reading the files.

    Args:
        values: One row per file, in order, memory-mapped; zeros for a broken file.
        broken: Name → what is wrong with the file.
    """

    values: Tensor
    broken: dict[str, str]


def cached(
    folder: str | Path,
    name: str,
    files: Mapping[str, Path],
    read: Callable[[Path], NDArray[Any]],
    shape: tuple[int, ...],
    dtype: str,
    recipe: str,
    *,
    workers: int = 1,
    on_file: Callable[[int, int], None] | None = None,
) -> Cached:
    """One row per file, read once: the next call memory-maps the stored array (:class:`~synib.files.arrays.ArrayCache`).

    A file that is new, or whose size or modification time has changed, is read again; other rows are copied.

    Args:
        folder: Folder of the array.
        name: The name of the array.
        files: Name → path, one per row.
        read: Converts a file to a row; a :class:`~synib.data.media.BrokenFile` is recorded, other errors are raised.
        shape, dtype: Shape and dtype of a row.
        recipe: All settings of ``read``, as text: another recipe gives another array.
        workers: Number of reading threads.
        on_file: Called with the number of files read so far, and the number of files to read.
    """
    check_whole("workers", workers)
    cache = ArrayCache(folder, name)
    settings = {"recipe": recipe, "shape": list(shape), "dtype": dtype}
    stamps = {key: _size_and_time(path) for key, path in files.items()}
    source = settings | {"files": [list(item) for item in stamps.items()]}  # a list: their order counts
    before = cache.open(name)
    known = cache.record(name)
    copied: dict[str, NDArray[Any]] = {}
    broken: dict[str, str] = {}
    if before is not None and known is not None and _holds_rows(before, known.source, settings):
        if known.source == source:
            return Cached(torch.from_numpy(before), known.notes)
        for row, (key, stamp) in enumerate(known.source["files"]):
            if key in stamps and stamps[key] == stamp:
                copied[key] = before[row]
                if key in known.notes:
                    broken[key] = known.notes[key]
    to_read = [(row, key) for row, key in enumerate(files) if key not in copied]

    def read_row(item: tuple[int, str]) -> tuple[int, str, NDArray[Any] | str]:
        try:
            return *item, read(files[item[1]])
        except BrokenFile as e:
            return *item, str(e)

    with (
        cache.create(name, source, (len(files), *shape), dtype, broken) as rows,
        ThreadPoolExecutor(workers) as pool,
    ):
        for row, key in enumerate(files):
            if key in copied:
                rows[row] = copied[key]
        for done, (row, key, values) in enumerate(pool.map(read_row, to_read), 1):
            if isinstance(values, str):
                broken[key] = values
            else:
                rows[row] = values
            if on_file:
                on_file(done, len(to_read))
    mapped = cache.open(name)
    assert mapped is not None
    return Cached(torch.from_numpy(mapped), broken)


def _holds_rows(array: NDArray[Any], source: Any, settings: Mapping[str, Any]) -> bool:
    """Whether an array contains the rows of the recorded files, read with the same settings."""
    try:
        same = all(source[name] == value for name, value in settings.items())
        return same and array.shape == (len(source["files"]), *settings["shape"]) and array.dtype == settings["dtype"]
    except (TypeError, KeyError):
        return False


def _size_and_time(path: Path) -> list[int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return [stat.st_size, stat.st_mtime_ns]


def gather(x: Tensor, rows: NDArray[np.int64], scratch: str | Path | None = None) -> Tensor:
    """Some rows of a tensor that may be memory-mapped and larger than memory.

    Consecutive rows are a view, which stays mapped. Others are copied to memory or, with ``scratch``, to an unnamed
    file in that folder, which is mapped and removed with the tensor.
    """
    if len(rows) and (np.diff(rows) == 1).all():
        return x[int(rows[0]) : int(rows[-1]) + 1]
    at = torch.from_numpy(np.ascontiguousarray(rows))
    if scratch is None or not len(rows):
        return x[at]
    Path(scratch).mkdir(parents=True, exist_ok=True)
    shape = (len(rows), *x.shape[1:])
    with tempfile.TemporaryFile(dir=scratch) as file:
        out = torch.from_numpy(np.memmap(file, dtype=str(x.dtype).removeprefix("torch."), mode="w+", shape=shape))
    for start in range(0, len(rows), 256):
        out[start : start + 256] = x[at[start : start + 256]]
    return out
