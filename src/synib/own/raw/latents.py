"""Cache of latents on disk, keyed by content and computed in blocks, so that a killed process loses only one block."""

import contextlib
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from synib.files import WriteError, atomic_file, read_json, write_json
from synib.files.arrays import ArrayCache
from synib.files.atomic import LockedError, locked, remove_unfinished
from synib.own.columns import Array

CACHE = "SYNIB_CACHE"
FORMAT = 2  # increased if the same encoder would give other numbers for the same content
NAME = "latents"
WAIT = 0.2  # seconds between checks whether another process has finished


class Latents(NamedTuple):
    """The vectors of one column by one encoder.

    Args:
        values: (rows, width) of float32, memory-mapped; NaN for rows without a vector.
        broken: Row → the problem with its file.
    """

    values: Array
    broken: dict[int, str]


Block = tuple[Array, dict[int, str]]


def cache_folder() -> Path:
    """The cache folder: ``$SYNIB_CACHE``, or ``synib`` in the user's cache folder. It may be deleted at any time."""
    chosen = os.environ.get(CACHE, "")
    if chosen:
        return Path(chosen)
    above = os.environ.get("XDG_CACHE_HOME", "") or os.environ.get("LOCALAPPDATA", "")
    return (Path(above) if above else Path.home() / ".cache") / "synib"


def stored(
    source: dict[str, Any], rows: int, width: int, step: int, blocks: Callable[[int], Iterator[Block]]
) -> Latents:
    """The latents of this source, from the cache, or computed and cached.

    If another process computes the same latents, this one waits for it. Blocks left by a killed process are reused.

    Args:
        source: The cache key: checksum of the content, name and revision of the encoder.
        rows, width: Shape of the array.
        step: Rows of a block.
        blocks: A function of the number of rows that are already computed, which yields the following blocks: ``step`` rows
            each, the last one possibly fewer; rows of broken files are counted from the first row of all.
    """
    described = {"format": FORMAT, "rows": rows, "width": width, **source}
    folder = _folder(described)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        while (latents := _open(folder, described)) is None:
            with contextlib.suppress(LockedError), locked(folder):
                if (latents := _open(folder, described)) is None:  # another process may have finished in between
                    _compute(folder, described, rows, width, step, blocks)
                    continue
                break
            time.sleep(WAIT)
    except WriteError as e:
        raise ValueError(f"{e} Latents are cached in {cache_folder()}; set {CACHE} to another folder.") from e
    except OSError as e:
        raise ValueError(
            f"Latents cannot be cached in {folder} ({e.strerror or e}): set {CACHE} to another folder."
        ) from e
    return latents


def cached(source: dict[str, Any], rows: int, width: int) -> Latents | None:
    """The latents of this source if the cache has them."""
    described = {"format": FORMAT, "rows": rows, "width": width, **source}
    folder = _folder(described)
    if not folder.is_dir():
        return None
    try:
        return _open(folder, described)
    except (OSError, WriteError):  # whoever computes them says what is wrong with the folder
        return None


def forget(source: dict[str, Any], rows: int, width: int) -> None:
    """Remove latents from the cache, so that they are computed again next time; open ones stay usable."""
    shutil.rmtree(_folder({"format": FORMAT, "rows": rows, "width": width, **source}), ignore_errors=True)


def _folder(described: dict[str, Any]) -> Path:
    return cache_folder() / NAME / hashlib.sha256(repr(sorted(described.items())).encode()).hexdigest()[:32]


def _open(folder: Path, source: dict[str, Any]) -> Latents | None:
    cache = ArrayCache(folder, NAME)
    record = cache.record(NAME)
    if record is None or record.source != source:
        return None
    values = cache.open(NAME)
    if values is None or values.shape != (source["rows"], source["width"]):
        return None
    return Latents(values, {int(row): str(why) for row, why in record.notes.items()})


def _compute(
    folder: Path, source: dict[str, Any], rows: int, width: int, step: int, blocks: Callable[[int], Iterator[Block]]
) -> None:
    """Compute the missing blocks, concatenate all blocks, and remove them."""
    block_folder = folder / f"blocks-{step}"
    block_folder.mkdir(exist_ok=True)
    remove_unfinished(block_folder)
    count = -(-rows // step)
    first_missing = next(
        (k for k in range(count) if _block(block_folder, k, min(step, rows - k * step), width) is None), count
    )
    computed = blocks(first_missing * step) if first_missing < count else iter(())
    for k, (values, broken) in enumerate(computed, first_missing):
        if values.shape != (min(step, rows - k * step), width):
            raise ValueError(
                f"an encoder gave {values.shape} numbers for {min(step, rows - k * step)} rows of {width}."
            )
        write_json(block_folder / f"{k:08d}.json", {str(row): why for row, why in broken.items()})
        with atomic_file(block_folder / f"{k:08d}.npy") as file:  # written last: its presence means a complete block
            np.save(file, values.astype(np.float32), allow_pickle=False)
    notes: dict[str, str] = {}
    with ArrayCache(folder, NAME).create(NAME, source, (rows, width), "float32", notes) as array:
        for k in range(count):
            block = _block(block_folder, k, min(step, rows - k * step), width)
            if block is None:
                raise ValueError(f"{block_folder} was changed while latents were computed: run again.")
            array[k * step : k * step + len(block[0])] = block[0]
            notes.update(block[1])
    shutil.rmtree(block_folder, ignore_errors=True)


def _block(parts: Path, k: int, rows: int, width: int) -> tuple[Array, dict[str, str]] | None:
    """A complete block from an earlier process; ``None`` if there is none."""
    path = parts / f"{k:08d}.npy"
    try:
        if path.is_symlink():
            return None
        values = np.load(path, mmap_mode="r", allow_pickle=False)
        broken = read_json(parts / f"{k:08d}.json")
    except (OSError, ValueError):
        return None
    fits = values.shape == (rows, width) and values.dtype == np.float32 and isinstance(broken, dict)
    return (values, broken) if fits else None
