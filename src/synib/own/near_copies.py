"""Near-copies: rows that agree up to a tiny distance in every modality and therefore count as one observation.

Candidate pairs come from cells of random projections and are confirmed by exact distances, so that time and memory grow
with the number of rows, not of pairs.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synib.files.pages import blocks, release
from synib.own.data_checks import digests
from synib.own.table import Table

NEAR = 1e-3  # of the typical distance of two rows, in every modality
SMALLER = (1e-3, 1e-4, 1e-5)  # distances to try; a smaller one if many rows are that close by chance
EQUAL, CLOSE = (
    5,
    50,
)  # copies must be this many times more frequent than pairs that are equal, or as close, by chance
PAIRS = 20_000  # random pairs from which the typical distance is estimated
ROWS = 4096  # rows read at a time, since files may be larger than the memory
CELL, DIMENSIONS, GRIDS = 16.0, 4, 8  # cell width in distances, projections per cell, and independent grids
ROUNDS = 8  # rows of a cell with which all others in it are compared

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Spread:
    """How far apart two random rows are in one modality.

    Args:
        typical: The median distance.
        equal: The fraction of pairs with a distance of at most ``NEAR``, or without the modality in both rows.
        first, dimension: 1 % of all other pairs are closer than ``first`` typical distances, and their share is proportional
            to the distance to the power ``dimension``.
    """

    typical: float
    equal: float
    first: float
    dimension: float

    def share(self, distance: float) -> float:
        """The share of pairs that are closer than ``distance`` typical distances by chance."""
        return 0.01 * min(1.0, distance / self.first) ** self.dimension


def near_copies(table: Table) -> Integers:
    """A label for each row that near-copies share: all modalities agree up to a thousandth of their typical distance.

    If rows agree that often by chance, as with few or categorical features, a smaller distance is used, or no copies are
    reported.
    """
    if "_near_copies" not in vars(table):  # cached: a table does not change, and several callers need the result
        object.__setattr__(table, "_near_copies", _near_copies(table))
    labels: Integers = vars(table)["_near_copies"]
    return labels.copy()


def _near_copies(table: Table) -> Integers:
    rows = len(table.target)
    no_copies = np.arange(rows)
    random = np.random.default_rng(0)
    left, right = random.integers(0, rows, (2, min(PAIRS, 20 * rows)))
    left, right = left[left != right], right[left != right]
    spreads = {name: _spread(_distances(table, name, left, right)) for name in table.modalities}
    if not spreads or rows < 2:
        return no_copies
    points = _projected(table, spreads, random)
    _, exact = np.unique(digests(table), return_inverse=True)
    for near in (*SMALLER, 0.0):
        label = _first_of(exact.reshape(-1))
        if near:
            for grid in range(GRIDS):
                cells = _cells(points[:, grid], near, len(spreads), random)
                cells = np.where(label == no_copies, cells, -1 - no_copies)  # one row represents its known copies
                label = _merged(label, *_confirmed(table, spreads, near, cells))
        sizes = np.bincount(np.unique(label, return_inverse=True)[1]).astype(np.float64)
        pairs = float((sizes * (sizes - 1) / 2).sum())
        equal, close = np.prod([s.equal for s in spreads.values()]), min(s.share(near) for s in spreads.values())
        all_pairs = rows * (rows - 1) / 2
        if not pairs:
            return no_copies
        # If very many rows are equal, the features have few possible values, and equal rows are not copies.
        if pairs >= (EQUAL * equal + CLOSE * close) * all_pairs and pairs <= max(0.02, 10 / rows) * all_pairs:
            return np.unique(label, return_inverse=True)[1].astype(np.int64).reshape(-1)
    return no_copies


def dependence_groups(table: Table) -> Integers | None:
    """A label for each row that rows of one group and copies share; ``None`` if all rows are independent."""
    copies = near_copies(table)
    has_copies = copies.max(initial=0) + 1 < len(copies)
    if table.group is None:
        return copies if has_copies else None
    groups = np.unique(table.group, return_inverse=True)[1].reshape(-1)
    label = _first_of(groups)
    if has_copies:
        label = _merged(label, np.arange(len(copies)), _first_of(copies))
    return np.unique(label, return_inverse=True)[1].astype(np.int64).reshape(-1)


def check_split(table: Table) -> None:
    """Raise ``ValueError`` if copies of a row are in different parts of the split column."""
    if table.split is None:
        return
    copies, split = near_copies(table), np.asarray(table.split)
    order = np.argsort(copies, kind="stable")
    in_two_parts = (copies[order][1:] == copies[order][:-1]) & (split[order][1:] != split[order][:-1])
    if in_two_parts.any():
        first, second = (int(rows[in_two_parts.argmax()]) for rows in (order[:-1], order[1:]))
        raise ValueError(
            f"Row {_in_file(table, first)} and its copy, row {_in_file(table, second)} (from 0), are in two parts of the split "
            f"column, {split[first]} and {split[second]}, {_other_pairs(int(in_two_parts.sum()))}so that models would be "
            "tested on rows they were trained on: remove copies, or put them into one part."
        )


def _in_file(table: Table, row: int) -> int:
    return row if table.row_numbers is None else int(table.row_numbers[row])


def _other_pairs(pairs: int) -> str:
    return "" if pairs == 1 else f"as are {pairs - 1:,} other pair{'s' * (pairs > 2)}, "


def _distances(table: Table, name: str, left: Integers, right: Integers) -> Floats:
    """Euclidean distances of pairs of rows; 0 if both lack the modality, infinite if only one does."""
    x, present = table.modalities[name], table.present[name]
    distances = np.empty(len(left))
    step = max(1, 2**20 // max(1, x.shape[1]))
    for at in range(0, len(left), step):
        left_rows, right_rows = left[at : at + step], right[at : at + step]
        difference = np.asarray(x[left_rows], np.float64) - np.asarray(x[right_rows], np.float64)
        distances[at : at + step] = np.sqrt(np.einsum("ij,ij->i", difference, difference))
        release(x)
    distances[present[left] != present[right]] = np.inf
    return distances


def _spread(distances: Floats) -> Spread:
    finite = distances[np.isfinite(distances) & (distances > 0)]
    if not len(finite):
        return Spread(0.0, float((distances == 0).mean()) if len(distances) else 1.0, 1.0, 0.0)
    typical = float(np.median(finite))
    equal = float((distances <= NEAR * typical).mean())
    unequal = finite[finite > NEAR * typical] / typical
    first, tenth, half = np.quantile(unequal, (0.01, 0.1, 0.5)) if len(unequal) else (1.0, 1.0, 1.0)
    slopes = (np.log(10) / max(np.log(tenth / first), 0.05), np.log(5) / max(np.log(half / tenth), 0.03))
    return Spread(typical, equal, float(first), float(min(slopes)))


def _projected(table: Table, spreads: dict[str, Spread], random: np.random.Generator) -> Floats:
    """Random projections of all modalities, in units of their typical distance: ``(rows, grids, dimensions)``."""
    rows = len(table.target)
    points = np.zeros((rows, GRIDS * DIMENSIONS))
    for name, x in table.modalities.items():
        directions = random.normal(size=(x.shape[1], GRIDS * DIMENSIONS)) / (spreads[name].typical or 1.0)
        lacks = random.normal(size=GRIDS * DIMENSIONS)
        centre = np.asarray(x[: min(rows, ROWS)], np.float64).mean(0)
        for at, block in blocks(x, ROWS):
            points[at] += np.where(table.present[name][at, None], (block - centre) @ directions, lacks)
    return points.reshape(rows, GRIDS, DIMENSIONS)


def _cells(points: Floats, near: float, modalities: int, random: np.random.Generator) -> Integers:
    """A hash of each row's cell; rows within ``near`` of each other in every modality are mostly in the same cell."""
    width = CELL * near * np.sqrt(modalities)
    corners = np.floor(points / width + random.uniform(size=points.shape[1])).astype(np.int64)
    odd = random.integers(0, 2**62, points.shape[1], dtype=np.int64) * 2 + 1
    with np.errstate(over="ignore"):
        return np.asarray((corners * odd).sum(1))


def _confirmed(table: Table, spreads: dict[str, Spread], near: float, cells: Integers) -> tuple[Integers, Integers]:
    """Pairs of rows of one cell that are close in every modality: each row and the first close row of its cell."""
    kept: list[tuple[Integers, Integers]] = []
    for row, first in _candidates(cells):
        agree = np.ones(len(row), np.bool_)
        for name, spread in spreads.items():
            places = np.flatnonzero(agree)
            agree[places] = _distances(table, name, row[places], first[places]) <= near * spread.typical
        kept.append((row[agree], first[agree]))
        cells[row[agree]] = -1 - row[agree]  # confirmed: removed from its cell
        cells[np.unique(first)] = -1 - np.unique(first)  # compared with all others of its cell
    if not kept:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return np.concatenate([row for row, _ in kept]), np.concatenate([first for _, first in kept])


def _candidates(cells: Integers) -> Iterator[tuple[Integers, Integers]]:
    """Each row of a cell paired with the first row of that cell, repeated for the rows that remain."""
    for _ in range(ROUNDS):
        order = np.argsort(cells, kind="stable")
        starts = np.flatnonzero(np.r_[True, cells[order][1:] != cells[order][:-1]])
        sizes = np.diff(np.r_[starts, len(order)])
        first = np.repeat(order[starts], sizes)
        others = first != order
        if not others.any():
            return
        yield order[others], first[others]


def _merged(label: Integers, row: Integers, other: Integers) -> Integers:
    """Labels after merging these pairs: for each row the lowest row in its connected component."""
    while True:
        least = np.minimum(label[row], label[other])
        changed = label.copy()
        for side in (row, other):
            np.minimum.at(changed, label[side], least)
            np.minimum.at(changed, side, least)
        changed = changed[changed]
        if (changed == label).all():
            return label
        label = changed


def _first_of(numbers: Integers) -> Integers:
    """For each row the first row with the same number."""
    _, first, which = np.unique(numbers, return_index=True, return_inverse=True)
    return np.asarray(first[which.reshape(-1)], np.int64)
