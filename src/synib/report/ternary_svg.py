"""Triangles, drawn by matplotlib."""

from textwrap import fill
from typing import TYPE_CHECKING, Any

from synib.report.scale import COLOUR_MAP
from synib.report.styles import MISSING, MUTED_TEXT
from synib.report.ternary import (
    CORNERS,
    TriangleGrid,
    colour_ticks,
    grid_step,
    headings,
    mixture,
    split_by_value,
)  # fmt: skip
from synib.studies.charts import Triangle, Triangles

if TYPE_CHECKING:
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure as Drawing


def draw_triangles(figure: Triangles) -> "Drawing":
    """Rows of triangles with a colour scale.

    A tile is the set of mixtures that are closer to its grid point than to any other: nothing is interpolated. Tiles
    without a value are hollow.
    """
    import mpltern  # noqa: F401  # registers the projection
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure as Drawing

    columns = max([1, *map(len, figure.rows.values())])
    cell = min(3.0, max(1.35, 10.6 / columns))  # inches, as all lengths here
    large, small = (10.0, 9.0) if cell > 2 else (9.0, 7.5)
    column_headings = headings(figure, int(cell * 12))
    heading = large / 55 * max((text.count("\n") + 1 for text in column_headings), default=0)
    grid = TriangleGrid(len(figure.rows), columns, columns, cell, grid_step(figure), small / 50, heading, 0.14)
    width = max(7.6, columns * cell + 1.4)
    height = grid.height + 0.55
    left = (width - columns * cell - 0.4) / 2

    drawing = Drawing(figsize=(width, height))
    scale = ScalarMappable(Normalize(*figure.limits), COLOUR_MAP)

    def write(x: float, y: float, text: str, **looks: Any) -> None:
        drawing.text(x / width, y / height, text, **{"ha": "center", "va": "center", **looks})

    def add_axes(x: float, y: float, w: float, h: float, **kind: Any) -> Any:
        return drawing.add_axes((x / width, y / height, w / width, h / height), **kind)

    write(0.1, height - 0.1, figure.title, ha="left", va="top", fontsize=11, fontweight="bold")
    for i, (label, triangles) in enumerate(figure.rows.items()):
        for j, triangle in enumerate(triangles):
            x, y = grid.centre(i, j)
            x, y = x + left, y + 0.1
            if i == 0:
                write(x, y + grid.cell_height / 2 + 0.03, column_headings[j], va="bottom", fontsize=large)
            if j == 0:
                text = fill(label, int(grid.cell_height * 13))
                write(left - 0.05, y, text, ha="right", rotation=90, fontsize=large)
            distance = grid.altitude / 2 + grid.tile_radius + grid.corner / 2
            for name, across, above in zip(CORNERS, (0, -0.5, 0.5), (1, -1, -1), strict=True):
                write(x + across * grid.side, y + above * distance, name, fontsize=small, color=MUTED_TEXT)
            axes = add_axes(x - grid.side / 2, y - grid.altitude / 2, grid.side, grid.altitude, projection="ternary")
            _draw_tiles(axes, triangle, grid.step, scale)
    length = min(3.0, grid.height - heading - 0.4)
    axes = add_axes(left + columns * cell + 0.15, 0.1 + (grid.height - heading - length) / 2, 0.14, length)
    ticks, labels = colour_ticks(figure)
    drawing.colorbar(scale, cax=axes, ticks=ticks)
    axes.set_yticks(ticks, labels, fontsize=8.5)
    axes.tick_params(length=2)
    axes.spines[:].set_visible(False)
    return drawing


def _draw_tiles(axes: Any, triangle: Triangle, step: float, scale: "ScalarMappable") -> None:
    """Draw a hexagon at each point, in units of the axes: neighbours touch at any size of the figure."""
    import numpy as np
    from matplotlib.collections import PolyCollection
    from matplotlib.path import Path
    from matplotlib.transforms import AffineDeltaTransform

    axes.set_axis_off()
    axes.set_title("", y=1)  # placing a title automatically would take most of the time
    hexagon = np.asarray(Path.unit_regular_polygon(6).vertices) * step * 2 / 3  # the triangle's height is 1
    filled, missing = split_by_value(triangle)
    # A thin outline in the tile's own colour closes the hairlines between neighbours.
    colour = {"array": [row["mean"] for row in filled], "cmap": scale.cmap, "norm": scale.norm, "ec": "face", "lw": 0.3}
    hollow = {"facecolor": "none", "edgecolor": MISSING, "lw": 0.6}
    for rows, size, looks in ((missing, 0.8, hollow), (filled, 1.0, colour)):
        if rows:
            tiles = PolyCollection(
                [size * hexagon],
                offsets=axes.transProjection.transform([mixture(row) for row in rows]),
                offset_transform=AffineDeltaTransform(axes.transData),
                clip_on=False,
            )
            tiles.set(**looks)
            axes.add_collection(tiles, autolim=False)
