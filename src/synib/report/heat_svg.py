"""Heat maps, drawn by matplotlib."""

from textwrap import fill
from typing import TYPE_CHECKING, Any

from synib.report.heat import (
    colour_ticks,
    in_one_column,
    labelled,
    mean_of,
    outline,
    share_rows,
    text_colour,
    tile_colour,
    written,
)  # fmt: skip
from synib.report.scale import COLOUR_MAP
from synib.report.styles import MISSING, MUTED_TEXT, ON_TILES, shorten
from synib.studies.charts import HeatMap, HeatMaps

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

CELL = 0.36  # inches: height of a cell with a number in it
PICTURE = 3.0  # inches: height of a map with more rows than labels


def draw_heat_maps(figure: HeatMaps) -> "Drawing":
    """Heat maps side by side, or one below the other if they are wide, with the colour scale on the right."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure as Drawing

    shared = share_rows(figure)
    columns = 1 if in_one_column(figure) else max(1, len(figure.maps))
    lines = max(1, -(-len(figure.maps) // columns))
    tallest = max((len(drawn.rows) for drawn in figure.maps), default=1)
    widest = max((len(drawn.columns) for drawn in figure.maps), default=1)
    panel = CELL * tallest if shared else PICTURE
    width = max(7.6, 1.6 + 0.55 * widest * columns) if figure.numbers else 7.6
    title = fill(figure.title, int(12 * width))
    headings = [fill(drawn.title, int(11 * (width - 1.6) / columns)) for drawn in figure.maps]
    wrapped = max((heading.count("\n") for heading in headings), default=0)
    height = lines * (panel + 0.7 + 0.2 * wrapped) + 0.45 + 0.2 * title.count("\n")
    drawing = Drawing(figsize=(width, height), layout="constrained")
    drawing.get_layout_engine().set(wspace=0.05)  # type: ignore[union-attr,call-arg]
    grid = drawing.subplots(lines, columns, squeeze=False)
    for k, (axes, drawn) in enumerate(zip(grid.flat, figure.maps, strict=False)):
        _draw_map(axes, drawn, figure)
        axes.set_title(headings[k], loc="left", fontsize=10)
        axes.set_xlabel(figure.x, fontsize=9)
        if shared and k % columns:
            axes.tick_params(labelleft=False)
        elif figure.y:
            axes.set_ylabel(figure.y, fontsize=9)
    ticks, labels = colour_ticks(figure)
    scale = drawing.colorbar(
        ScalarMappable(Normalize(*figure.limits), COLOUR_MAP), ax=grid, ticks=ticks, fraction=0.03, pad=0.02, aspect=18
    )
    scale.ax.set_yticks(ticks, labels, fontsize=8.5)
    scale.ax.tick_params(length=2)
    scale.outline.set_visible(False)  # type: ignore[operator]
    drawing.suptitle(title, x=0.008, ha="left", fontsize=11, fontweight="bold")
    return drawing


def _draw_map(axes: "Axes", drawn: HeatMap, figure: HeatMaps) -> None:
    """Draw one map: a rectangle for each cell, its number in it, and the outline of the cells that are marked."""
    from matplotlib.collections import LineCollection, PatchCollection
    from matplotlib.patches import Rectangle

    gap = 0.03 if figure.numbers else 0.0
    tiles, colours = [], []
    for i, row in enumerate(drawn.cells):
        for j, cell in enumerate(row):
            mean = mean_of(cell)
            colour = "none" if mean is None else tile_colour(mean, *figure.limits)
            tiles.append(Rectangle((j - 0.5 + gap, i - 0.5 + gap), 1 - 2 * gap, 1 - 2 * gap))
            colours.append(colour)
            if figure.numbers:
                ink = MUTED_TEXT if mean is None else text_colour(colour)
                axes.text(j, i, written(cell), ha="center", va="center", fontsize=9.5, color=ink)
    edges = [MISSING if colour == "none" else colour for colour in colours]
    axes.add_collection(PatchCollection(tiles, facecolors=colours, edgecolors=edges, linewidths=0.4))
    if drawn.outlined:
        for order, (colour, thickness) in enumerate(zip(ON_TILES, (2.8, 1.2), strict=True)):
            looks: dict[str, Any] = {"colors": colour, "linewidths": thickness, "capstyle": "projecting"}
            lines = LineCollection(outline(drawn), zorder=3 + order, **looks)
            lines.set_clip_on(False)
            axes.add_collection(lines)
    axes.set_xlim(-0.5, len(drawn.columns) - 0.5)
    axes.set_ylim(len(drawn.rows) - 0.5, -0.5)
    for axis, labels in ((axes.xaxis, drawn.columns), (axes.yaxis, drawn.rows)):
        positions = labelled(labels)
        axis.set_ticks(positions, [shorten(labels[k]) for k in positions], fontsize=9)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
