"""Arrays made from many files, made once: on disk, memory-mapped, and remade where a file has changed."""

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synib.checks import check_whole
from synib.data.media import BrokenFile

FORMAT = "synib cache 1"


class Cached(NamedTuple):
    """What was read from the files.

    Args:
        values: A row for each file, in their order, memory-mapped; zeros where the file is broken.
        broken: Name → what is wrong with its file.
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
    """A row for each file, read once: the next call maps what this one wrote.

    ``NAME.json`` in the folder says what was read how: the recipe, every file's size and time, and which are broken. A file
    that has changed, or is new, is read again; the others' rows are copied. Array and account are each written whole or not
    at all, and the account names its array, so an interrupted call leaves what was there before.

    Args:
        folder: Where it is kept.
        name: What it is called there.
        files: Name → path, one for each row.
        read: Makes a row of a file; a :class:`~synib.data.media.BrokenFile` is noted, other errors are raised.
        shape, dtype: Of a row.
        recipe: All settings of ``read``, as text: another recipe is another array.
        workers: Threads that read.
        on_file: Called with how many files were read, and of how many.
    """
    check_whole("workers", workers)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    stamps = {key: _stamp(path) for key, path in files.items()}
    made_of = {"format": FORMAT, "recipe": recipe, "shape": list(shape), "dtype": dtype, "files": stamps}
    array_name = f"{name}-{hashlib.sha256(json.dumps(made_of).encode()).hexdigest()[:16]}.npy"
    whole = (len(files), *shape)
    old = _account(folder / f"{name}.json")
    before = _mapped(folder / old["array"], dtype) if old else None
    if old and before is not None and old["array"] == array_name and before.shape == whole:
        return Cached(torch.from_numpy(before), old["broken"])
    kept: dict[str, int] = {}
    same = old and before is not None and before.shape == (len(old["files"]), *shape)
    if same and all(old[k] == made_of[k] for k in ("format", "recipe", "shape", "dtype")):
        kept = {key: row for row, (key, stamp) in enumerate(old["files"].items()) if stamps.get(key) == stamp}

    broken: dict[str, str] = {}
    with tempfile.NamedTemporaryFile(dir=folder, prefix=f"{name}-", suffix=".part", delete=False) as file:
        part = Path(file.name)
    try:
        rows = np.lib.format.open_memmap(part, mode="w+", dtype=np.dtype(dtype), shape=whole)
        todo = []
        for row, key in enumerate(files):
            if key not in kept:
                todo.append((row, key))
            elif key in old["broken"]:
                broken[key] = old["broken"][key]
            elif before is not None:
                rows[row] = before[kept[key]]

        def one(item: tuple[int, str]) -> tuple[int, str, NDArray[Any] | str]:
            try:
                return *item, read(files[item[1]])
            except BrokenFile as e:
                return *item, str(e)

        with ThreadPoolExecutor(workers) as pool:
            for done, (row, key, made) in enumerate(pool.map(one, todo), 1):
                if isinstance(made, str):
                    broken[key] = made
                else:
                    rows[row] = made
                if on_file:
                    on_file(done, len(todo))
        rows.flush()
        del rows
        os.replace(part, folder / array_name)
    finally:
        part.unlink(missing_ok=True)
    _write(folder / f"{name}.json", made_of | {"array": array_name, "broken": broken})
    if old and old["array"] != array_name:
        before = None
        with suppress(OSError):  # where somebody still maps it, it may have to stay
            (folder / old["array"]).unlink()
    mapped = _mapped(folder / array_name, dtype)
    assert mapped is not None
    return Cached(torch.from_numpy(mapped), broken)


def gather(x: Tensor, rows: NDArray[np.int64], scratch: str | Path | None = None) -> Tensor:
    """Some rows of a tensor that may be memory-mapped and larger than memory.

    Neighbouring rows are a view, which stays mapped. Others are copied, into memory or, with ``scratch``, into a nameless file
    in that folder, which is mapped and gone when the tensor is.
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


def _stamp(path: Path) -> list[int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return [found.st_size, found.st_mtime_ns]


def _account(path: Path) -> dict[str, Any]:
    """The account, or nothing where there is none that can be used."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        right = (
            told["format"] == FORMAT
            and {*told["broken"]} <= {*told["files"]}
            and Path(told["array"]).name == told["array"]
        )
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return told if right else {}


def _mapped(path: Path, dtype: str) -> NDArray[Any] | None:
    # "c": pages are private, so that nothing can write to the file; a read-only array would be no tensor without a warning.
    try:
        array = np.load(path, mmap_mode="c", allow_pickle=False)
    except (OSError, ValueError):
        return None
    return array if array.dtype == np.dtype(dtype) else None


def _write(path: Path, told: dict[str, Any]) -> None:
    with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".part", delete=False, encoding="utf-8") as file:
        json.dump(told, file, indent=1)
    os.replace(file.name, path)
