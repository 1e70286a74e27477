"""Triangles drawn with matplotlib."""

from textwrap import fill
from typing import TYPE_CHECKING, Any

from synib.report.ternary import COLOURS, CORNERS, MISSING, SOFT, Places, halves, headings, mixture, step, ticks
from synib.studies.charts import Triangle, Triangles

if TYPE_CHECKING:
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure as Drawing


def draw_triangles(figure: Triangles) -> "Drawing":
    """Rows of triangles with a colour scale.

    A tile is the set of mixtures that are closer to its grid point than to any other: nothing is interpolated. Tiles
    without a value are hollow.
    """
    import mpltern  # noqa: F401  # brings the projection
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure as Drawing

    columns = max([1, *map(len, figure.rows.values())])
    cell = min(3.0, max(1.35, 10.6 / columns))  # inches, as all lengths here
    large, small = (10.0, 9.0) if cell > 2 else (9.0, 7.5)
    heads = headings(figure, int(cell * 12))
    head = large / 55 * max((h.count("\n") + 1 for h in heads), default=0)
    places = Places(len(figure.rows), columns, columns, cell, step(figure), small / 50, head, 0.14)
    width = max(7.6, columns * cell + 1.4)
    height = places.height + 0.55
    left = (width - columns * cell - 0.4) / 2

    drawing = Drawing(figsize=(width, height))
    scale = ScalarMappable(Normalize(*figure.limits), COLOURS)

    def write(x: float, y: float, text: str, **looks: Any) -> None:
        drawing.text(x / width, y / height, text, **{"ha": "center", "va": "center", **looks})

    def space(x: float, y: float, w: float, h: float, **kind: Any) -> Any:
        return drawing.add_axes((x / width, y / height, w / width, h / height), **kind)

    write(0.1, height - 0.1, figure.title, ha="left", va="top", fontsize=11, fontweight="bold")
    for i, (label, triangles) in enumerate(figure.rows.items()):
        for j, triangle in enumerate(triangles):
            x, y = places.centre(i, j)
            x, y = x + left, y + 0.1
            if i == 0:
                write(x, y + places.tall / 2 + 0.03, heads[j], va="bottom", fontsize=large)
            if j == 0:
                write(left - 0.05, y, fill(label, int(places.tall * 13)), ha="right", rotation=90, fontsize=large)
            for name, across, above in zip(CORNERS, (0, -0.5, 0.5), (1, -1, -1), strict=True):
                away = places.up / 2 + places.rim + places.name / 2
                write(x + across * places.side, y + above * away, name, fontsize=small, color=SOFT)
            axes = space(x - places.side / 2, y - places.up / 2, places.side, places.up, projection="ternary")
            _tiles(axes, triangle, places.step, scale)
    long = min(3.0, places.height - head - 0.4)
    axes = space(left + columns * cell + 0.15, 0.1 + (places.height - head - long) / 2, 0.14, long)
    values, names = ticks(figure)
    drawing.colorbar(scale, cax=axes, ticks=values)
    axes.set_yticks(values, names, fontsize=8.5)
    axes.tick_params(length=2)
    axes.spines[:].set_visible(False)
    return drawing


def _tiles(axes: Any, triangle: Triangle, grid: float, scale: "ScalarMappable") -> None:
    """A hexagon for each point, measured as the axes are: neighbours touch whatever the size of the picture."""
    import numpy as np
    from matplotlib.collections import PolyCollection
    from matplotlib.path import Path
    from matplotlib.transforms import AffineDeltaTransform

    axes.set_axis_off()
    axes.set_title("", y=1)  # to look for a free place for a title would take most of the time
    hexagon = np.asarray(Path.unit_regular_polygon(6).vertices) * grid * 2 / 3  # the triangle's height is 1
    valued, missing = halves(triangle)
    # A rim of the tile's own colour, too thin to be seen, closes the hairlines between neighbours.
    colour = {"array": [row["mean"] for row in valued], "cmap": scale.cmap, "norm": scale.norm, "ec": "face", "lw": 0.3}
    hollow = {"facecolor": "none", "edgecolor": MISSING, "lw": 0.6}
    for rows, size, looks in ((missing, 0.8, hollow), (valued, 1.0, colour)):
        if rows:
            tiles = PolyCollection(
                [size * hexagon],
                offsets=axes.transProjection.transform([mixture(row) for row in rows]),
                offset_transform=AffineDeltaTransform(axes.transData),
                clip_on=False,
            )
            tiles.set(**looks)
            axes.add_collection(tiles, autolim=False)
