"""Triangles: where they go, and what a quantity over the mixtures of three sources is made of, however it is drawn."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, sqrt
from textwrap import fill
from typing import Any

from synib.studies.charts import Triangle, Triangles

CORNERS = {"S": "p_s", "U1": "p_u1", "R": "p_r"}  # top, left, right: the order of mpltern and of plotly
COLOURS = "viridis"
SOFT, MISSING = "#5b6573", "#c9ced6"


def step(figure: Triangles) -> float:
    """Distance between neighbours of the grid, as a difference of fractions; a half where there are too few points."""
    values = sorted({p for row in points(figure) for p in mixture(row)})
    return 1 / round(1 / min([0.5, *(b - a for a, b in pairwise(values))]))


@dataclass(frozen=True)
class Places:
    """Where triangles go, in any unit.

    Args:
        rows, columns: How many there are.
        line: How many of the columns are beside each other; the others continue below, with all their rows.
        cell: Width that each has, with the tiles that reach beyond its corners.
        step: Distance between neighbours of its grid.
        name: Height of a corner's name.
        head: Height of the heading above a line.
        gap: Space between two beside each other.
    """

    rows: int
    columns: int
    line: int
    cell: float
    step: float
    name: float
    head: float
    gap: float

    @property
    def side(self) -> float:
        return (self.cell - self.gap) / (1 + self.step)

    @property
    def up(self) -> float:
        """Height of the triangle itself."""
        return self.side * sqrt(3) / 2

    @property
    def rim(self) -> float:
        """How far tiles reach above and below it, which is a tile's radius."""
        return self.side * self.step / sqrt(3)

    @property
    def tall(self) -> float:
        """Height of the triangle with everything that belongs to it."""
        return self.up + 2 * (self.rim + self.name)

    @property
    def height(self) -> float:
        return ceil(self.columns / self.line) * (self.head + self.rows * self.tall)

    def centre(self, row: int, column: int) -> tuple[float, float]:
        """Middle of a triangle, from the lower left of all."""
        above = (column // self.line + 1) * self.head + (column // self.line * self.rows + row) * self.tall
        return (column % self.line + 0.5) * self.cell, self.height - above - self.tall / 2


def halves(triangle: Triangle) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """The rows that have a value, and those that have none."""
    valued = [row for row in triangle.rows if row["mean"] is not None]
    return valued, [row for row in triangle.rows if row["mean"] is None]


def mixture(row: Mapping[str, Any]) -> tuple[float, ...]:
    """The shares of the corners, without the last digits, in which sums that ought to be equal differ."""
    return tuple(round(float(row[p]), 6) for p in CORNERS.values())


def points(figure: Triangles) -> Iterator[Mapping[str, Any]]:
    for triangles in figure.rows.values():
        for triangle in triangles:
            yield from triangle.rows


def headings(figure: Triangles, width: int) -> list[str]:
    """The headings of the columns, in lines of so many letters at most."""
    return [fill(triangle.label, width) for triangle in next(iter(figure.rows.values()), ())]


def ticks(figure: Triangles) -> tuple[list[float], list[str]]:
    """Values to mark on the colour scale, and how they are written: an end says so if there are values beyond it."""
    low, high = figure.limits
    means = [row["mean"] for row in points(figure) if row["mean"] is not None]
    values = [low + k * (high - low) / 5 for k in range(6)]
    names = [f"{value:.3g}" for value in values]
    if any(mean < low for mean in means):
        names[0] = f"≤ {names[0]}"
    if any(mean > high for mean in means):
        names[-1] = f"≥ {names[-1]}"
    return values, names
