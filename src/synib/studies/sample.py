"""The models of a finished run to train again, in the groups in which the run trained them."""

import math
import random
from collections.abc import Sequence
from pathlib import Path

from synib.files import read_csv, read_json
from synib.training.cells import Cell, digest, grouped


def recorded_shards(folder: Path, cells: Sequence[Cell]) -> list[list[Cell]]:
    """The shards in which a run trained its cells; empty if its folder does not record them.

    Without ``shards.json``, as in a published folder, they are recovered from ``timings.csv``, which has each shard's
    name (a hash of its cells) and size: a shard is a sequence of consecutive cells of one program.
    """
    recorded = read_json(folder / "shards.json")
    if recorded is not None:
        by_id = {cell.id: cell for cell in cells}
        try:
            return [[by_id[i] for i in shard] for shard in recorded]
        except (KeyError, TypeError) as e:
            raise ValueError(f"{folder / 'shards.json'} is damaged: it does not contain the cells of the run.") from e
    timings = read_csv(folder / "timings.csv") if (folder / "timings.csv").is_file() else []
    names = {row.get("shard") for row in timings}
    sizes = {size for row in timings if isinstance(size := row.get("cells"), int) and size > 0}
    shards = [
        same[start : start + size]
        for same in grouped(cells, len)
        for size in sorted(sizes)
        for start in range(len(same) - size + 1)
        if digest([cell.id for cell in same[start : start + size]]) in names
    ]
    return shards if {cell.id for shard in shards for cell in shard} == {cell.id for cell in cells} else []


def draw(shards: Sequence[Sequence[Cell]], share: float, cells: int | None, seed: int) -> list[list[Cell]]:
    """Shards drawn at random, in order, until they contain enough cells.

    Args:
        shards: All shards of the run.
        share: The required number of cells, as a fraction of all.
        cells: The required number of cells, instead of a fraction.
        seed: Seed of the selection.
    """
    if not 0 < share <= 1:
        raise ValueError(f"share must be a number above 0 and at most 1; got {share}.")
    if cells is not None and cells < 1:
        raise ValueError(f"cells must be a whole number of at least 1; got {cells}.")
    total = sum(map(len, shards))
    enough = math.ceil(round(share * total, 9)) if cells is None else min(cells, total)
    chosen: list[int] = []
    drawn = 0
    for place in random.Random(seed).sample(range(len(shards)), len(shards)):
        if drawn >= enough:
            break
        chosen.append(place)
        drawn += len(shards[place])
    return [list(shards[place]) for place in sorted(chosen)]
