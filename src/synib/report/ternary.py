"""Ternary plots, a quantity over mixtures of three sources: the part shared by both renderers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, sqrt
from textwrap import fill
from typing import Any

from synib.report.scale import scale_ticks
from synib.studies.charts import Triangle, Triangles

CORNERS = {"S": "p_s", "U1": "p_u1", "R": "p_r"}  # top, left, right: the order of mpltern and of plotly


def grid_step(figure: Triangles) -> float:
    """Distance between neighbouring grid points, as a difference of fractions; 0.5 if there are too few points."""
    fractions = sorted({fraction for row in _points(figure) for fraction in mixture(row)})
    return 1 / round(1 / min([0.5, *(b - a for a, b in pairwise(fractions))]))


@dataclass(frozen=True)
class TriangleGrid:
    """The positions of triangles, in any unit of length.

    Args:
        rows, columns: Number of triangles.
        line: Number of columns side by side; the other columns follow below, with all their rows.
        cell: Width of a triangle with the tiles that extend beyond its corners, and the gap.
        step: Distance between neighbouring grid points, as a fraction of a side.
        corner: Height of the name of a corner.
        heading: Height of the heading above a line.
        gap: Space between neighbouring triangles.
    """

    rows: int
    columns: int
    line: int
    cell: float
    step: float
    corner: float
    heading: float
    gap: float

    @property
    def side(self) -> float:
        return (self.cell - self.gap) / (1 + self.step)

    @property
    def altitude(self) -> float:
        """Height of the triangle itself."""
        return self.side * sqrt(3) / 2

    @property
    def tile_radius(self) -> float:
        """The distance by which tiles extend above and below the triangle."""
        return self.side * self.step / sqrt(3)

    @property
    def cell_height(self) -> float:
        """Height of the triangle with its tiles and the names of its corners."""
        return self.altitude + 2 * (self.tile_radius + self.corner)

    @property
    def height(self) -> float:
        return ceil(self.columns / self.line) * (self.heading + self.rows * self.cell_height)

    def centre(self, row: int, column: int) -> tuple[float, float]:
        """Centre of a triangle, measured from the lower left corner of the grid."""
        line, position = divmod(column, self.line)
        above = (line + 1) * self.heading + (line * self.rows + row) * self.cell_height
        return (position + 0.5) * self.cell, self.height - above - self.cell_height / 2


def split_by_value(triangle: Triangle) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """The rows with a value, and those without."""
    filled = [row for row in triangle.rows if row["mean"] is not None]
    return filled, [row for row in triangle.rows if row["mean"] is None]


def mixture(row: Mapping[str, Any]) -> tuple[float, ...]:
    """The fractions of the corners, rounded so that equal fractions compare equal."""
    return tuple(round(float(row[name]), 6) for name in CORNERS.values())


def headings(figure: Triangles, width: int) -> list[str]:
    """The headings of the columns, wrapped to a number of characters."""
    return [fill(triangle.label, width) for triangle in next(iter(figure.rows.values()), ())]


def colour_ticks(figure: Triangles) -> tuple[list[float], list[str]]:
    """Ticks of the colour scale and their labels; the end labels show whether there are values beyond."""
    return scale_ticks(figure.limits, (row["mean"] for row in _points(figure)))


def _points(figure: Triangles) -> Iterator[Mapping[str, Any]]:
    for triangles in figure.rows.values():
        for triangle in triangles:
            yield from triangle.rows
