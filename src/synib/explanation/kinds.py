"""Kinds of interaction: clusters and directions of two modalities that interact, with their most typical rows."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from synib.checks import check_whole
from synib.measure.arrays import Array, as_numbers
from synib.measure.detectors.components import Rows, components
from synib.measure.detectors.features import BLOCK
from synib.measure.detectors.features import clusters as cluster
from synib.measure.detectors.spectral import leading_pair
from synib.measure.stats import Estimate, mean

TYPICAL = 3  # rows shown for each kind
FEWEST = 5  # rows of a cell, at least, to be reported


@dataclass(frozen=True)
class Cell:
    """A cluster of one modality together with a cluster of another.

    Args:
        modalities: Both names.
        clusters: The number of each cluster, from 0.
        effect: Mean interaction in the cell without main effects of the clusters; its interval is corrected for all cells.
        rows: Its most typical rows, which are nearest to the centres of both clusters.
    """

    modalities: tuple[str, str]
    clusters: tuple[int, int]
    effect: Estimate
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Direction:
    """The directions, one in each of two modalities, whose product correlates best with the interaction.

    Args:
        modalities: Both names.
        correlation: The correlation of the product with the interaction, in the rows used to find the directions.
        corners: (high or low along the first, along the second) → the mean interaction and the most typical rows there.
    """

    modalities: tuple[str, str]
    correlation: float
    corners: Mapping[tuple[str, str], tuple[float, tuple[int, ...]]]


@dataclass(frozen=True)
class Kinds:
    """The result of :func:`kinds`.

    Args:
        cells: Pairs of clusters, from the largest effect to the smallest.
        directions: For each pair of modalities the directions that interact.
        labels: Modality → the cluster of each row; -1 for a row that lacks a modality.
    """

    cells: tuple[Cell, ...]
    directions: tuple[Direction, ...]
    labels: Mapping[str, NDArray[np.int64]]

    def renumbered(self, numbers: NDArray[np.int64]) -> "Kinds":
        """The same kinds with the number of each row in another table."""

        def of(rows: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(int(numbers[row]) for row in rows)

        return Kinds(
            tuple(replace(cell, rows=of(cell.rows)) for cell in self.cells),
            tuple(
                replace(d, corners={sides: (effect, of(rows)) for sides, (effect, rows) in d.corners.items()})
                for d in self.directions
            ),
            self.labels,
        )

    def _repr_html_(self) -> str:
        from synib.explanation.html import kinds_html

        return kinds_html(self)

    def __str__(self) -> str:
        lines = []
        for cell in self.cells[:6]:
            (a, b), (i, j) = cell.modalities, cell.clusters
            lines.append(
                f"{a} {i} x {b} {j}: {cell.effect} (n = {cell.effect.n}), rows {', '.join(map(str, cell.rows))}"
            )
        for direction in self.directions:
            lines.append(
                f"{' x '.join(direction.modalities)}: correlation {direction.correlation:.2f} along one direction each"
            )
        return "\n".join(lines)


def kinds(
    interaction: ArrayLike | Tensor, modalities: Mapping[str, ArrayLike | Tensor], *, clusters: int = 4, seed: int = 0
) -> Kinds:
    """Describe an interaction: clusters by k-means, and directions by the audit's spectral detector.

    Clusters and components are those of :class:`synib.measure.detectors.Detectors`. They are found in the same rows that they
    describe, so they are exploratory and not a test.

    Args:
        interaction: A number for each row: the interaction of one class,
            ``explanation.rows.interaction_parameters[:, k]``, or the residual of an additive model.
        modalities: Name → ``(rows, width)``. Rows with NaN, which lack a modality, are left out.
        clusters: Number of clusters per modality.
        seed: Seed for the clusters.
    """
    check_whole("clusters", clusters, least=2)
    values = as_numbers(interaction, "interaction")
    vectors = {name: _vectors(x, name).reshape(len(values), -1) for name, x in modalities.items()}
    if values.ndim != 1 or any(len(x) != len(values) for x in vectors.values()):
        raise ValueError(f"interaction must be one number for each row of the modalities; got shape {values.shape}.")
    return kinds_of_rows(values, vectors, clusters=clusters, seed=seed)


def kinds_of_rows(values: Array, modalities: Mapping[str, Rows], *, clusters: int = 4, seed: int = 0) -> Kinds:
    """The same for modalities that are read in blocks of rows; see :func:`kinds` for the arguments."""
    blocks = torch.arange(len(values)).split(BLOCK)
    has_all = [torch.cat([x[block].isfinite().all(1) for block in blocks]) for x in modalities.values()]
    complete = np.isfinite(values) & torch.stack(has_all).all(0).numpy()
    if complete.sum() < clusters:
        raise ValueError(f"{clusters} clusters need as many rows with every modality; got {complete.sum()}.")
    if not complete.all():
        known = np.flatnonzero(complete)
        some = {name: x[torch.from_numpy(known)] for name, x in modalities.items()}
        found = kinds_of_rows(values[known], some, clusters=clusters, seed=seed)
        labels = {name: np.full(len(values), -1) for name in modalities}
        for name, label in found.labels.items():
            labels[name][known] = label
        return replace(found.renumbered(known), labels=labels)
    all_rows = torch.ones(len(values), dtype=torch.bool)
    parts = {name: components(x, all_rows) for name, x in modalities.items()}
    cluster_of = {name: cluster(c.leading.float(), clusters, seed) for name, c in parts.items()}
    distance = {name: _distances(c.leading, cluster_of[name], clusters) for name, c in parts.items()}
    centred = torch.from_numpy(values - values.mean())
    cells, directions = [], []
    pairs = list(combinations(modalities, 2))
    level = 1 - 0.05 / (len(pairs) * clusters**2)
    for a, b in pairs:
        effects = _without_margins(centred, cluster_of[a], cluster_of[b], clusters)
        for i in range(clusters):
            for j in range(clusters):
                members = ((cluster_of[a] == i) & (cluster_of[b] == j)).nonzero()[:, 0]
                if len(members) >= FEWEST:
                    typical = members[(distance[a] + distance[b])[members].argsort()[:TYPICAL]]
                    effect = mean(effects[members].numpy(), level=level)
                    cells.append(Cell((a, b), (i, j), effect, tuple(typical.tolist())))
        directions.append(_direction((a, b), centred, parts[a].white, parts[b].white))
    cells.sort(key=lambda cell: -abs(cell.effect.value))
    return Kinds(tuple(cells), tuple(directions), {name: label.numpy() for name, label in cluster_of.items()})


def _vectors(x: ArrayLike | Tensor, name: str) -> Tensor:
    """The rows of a modality; single precision is kept to avoid a large copy."""
    single = isinstance(x, np.ndarray) and x.dtype == np.float32
    return torch.from_numpy(x if single else as_numbers(x, name))


def _distances(x: Tensor, label: Tensor, count: int) -> Tensor:
    """The distance of each row from the centre of its cluster, in units of the mean distance."""
    member = torch.nn.functional.one_hot(label, count).to(x)
    centres = (member.mT @ x) / member.sum(0).clamp(min=1)[:, None]
    distances = (x - centres[label]).norm(dim=1)
    return distances / distances.mean().clamp(min=1e-12)


def _without_margins(values: Tensor, a: Tensor, b: Tensor, count: int) -> Tensor:
    """The values without main effects of the clusters, by least squares."""
    indicators = torch.cat([torch.nn.functional.one_hot(label, count).to(values) for label in (a, b)], 1)
    return values - indicators @ (torch.linalg.pinv(indicators) @ values)


def _direction(names: tuple[str, str], values: Tensor, a: Tensor, b: Tensor) -> Direction:
    blocks = torch.arange(len(values)).split(BLOCK)
    sums = values.new_zeros(a.shape[1], b.shape[1])
    for block in blocks:
        sums += (a[block].double() * values[block, None]).mT @ b[block].double()
    first_direction, second_direction = leading_pair(sums)
    along = tuple(
        torch.cat([x[block].double() @ v for block in blocks]) for x, v in ((a, first_direction), (b, second_direction))
    )
    product = along[0] * along[1]
    scale = (product.std() * values.std()).clamp(min=1e-12)
    correlation = float(((product - product.mean()) * (values - values.mean())).mean() / scale)
    corners = {}
    for first in ("high", "low"):
        for second in ("high", "low"):
            s, t = (1.0 if side == "high" else -1.0 for side in (first, second))
            inside = ((s * along[0] > 0) & (t * along[1] > 0)).nonzero()[:, 0]
            typical = inside[torch.minimum(s * along[0], t * along[1])[inside].argsort(descending=True)[:TYPICAL]]
            average = float(values[inside].mean()) if len(inside) else float("nan")
            corners[first, second] = average, tuple(typical.tolist())
    return Direction(names, correlation, corners)
