"""Triangles, drawn by plotly."""

from collections.abc import Iterator, Mapping
from textwrap import fill
from typing import Any

from synib.report.plot import Plot, base_layout, plain
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

ABSENT = "no such examples"
PAGE_WIDTH, LINE = 958, 4  # pixels that a page is expected to have, and the triangles side by side
MARGIN = {"l": 40, "r": 80, "t": 8, "b": 12}  # pixels, as all lengths here
WIDTH = PAGE_WIDTH - MARGIN["l"] - MARGIN["r"]
BARE_AXIS = {"showgrid": False, "showline": False, "showticklabels": False, "ticks": "", "title": {"text": ""}}


def plot_triangles(figure: Triangles) -> Plot:
    """A few triangles in a line, and in each its tiles with a value, those without, and its corners."""
    columns = max([1, *map(len, figure.rows.values())])
    line = min(LINE, columns)
    cell = min(340.0, WIDTH / line)
    column_headings = headings(figure, int(cell / 8))
    heading = 12 + 17 * max((text.count("\n") + 1 for text in column_headings), default=0)
    grid = TriangleGrid(len(figure.rows), columns, line, cell, grid_step(figure), 22, heading, 14)
    left = (WIDTH - line * cell) / 2
    notes: list[dict[str, Any]] = []
    data: list[dict[str, Any]] = []
    layout: dict[str, Any] = {
        **base_layout(),
        "height": round(grid.height) + MARGIN["t"] + MARGIN["b"],
        "margin": {**MARGIN, "autoexpand": False},
        "annotations": notes,
        "coloraxis": _colour_scale(figure, 0.5 + line * cell / WIDTH / 2),
    }
    for i, (label, triangles) in enumerate(figure.rows.items()):
        for j, triangle in enumerate(triangles):
            subplot = f"ternary{i * columns + j + 1}" if i or j else "ternary"  # plotly has no ternary1
            x, y = grid.centre(i, j)
            x += left
            if i == 0:
                top = (y + grid.cell_height / 2) / grid.height
                notes.append(_note(column_headings[j], x / WIDTH, top, yanchor="bottom"))
            if j % line == 0:
                text = fill(label, int(grid.cell_height / 8))
                notes.append(_note(text, (x - cell / 2) / WIDTH, y / grid.height, textangle=-90, xanchor="right"))
            layout[subplot] = {
                "domain": {
                    "x": [(x - grid.side / 2) / WIDTH, (x + grid.side / 2) / WIDTH],
                    "y": [(y - grid.altitude / 2) / grid.height, (y + grid.altitude / 2) / grid.height],
                },
                "aaxis": BARE_AXIS, "baxis": BARE_AXIS, "caxis": BARE_AXIS, "sum": 1, "bgcolor": "rgba(0,0,0,0)",
            }  # fmt: skip
            traces = _traces(triangle, _described(figure, label, j), 2 * grid.tile_radius)
            data += [{"type": "scatterternary", "subplot": subplot, "cliponaxis": False, **t} for t in traces]
    # Plotly scales triangles with the page, but not tiles: the script does.
    tiles = {
        "pageWidth": PAGE_WIDTH, "share": grid.side / WIDTH, "margins": MARGIN["l"] + MARGIN["r"], "maxSide": grid.side,
    }  # fmt: skip
    return Plot(data, layout, _table(figure), tiles=tiles)


def _colour_scale(figure: Triangles, x: float) -> dict[str, Any]:
    ticks, labels = colour_ticks(figure)
    low, high = figure.limits
    bar = {"tickvals": ticks, "ticktext": labels, "thickness": 12, "len": 1, "outlinewidth": 0, "x": x, "xpad": 16}
    return {"colorscale": COLOUR_MAP.capitalize(), "cmin": low, "cmax": high, "colorbar": bar}


def _traces(triangle: Triangle, described: Mapping[str, Triangle], size: float) -> Iterator[dict[str, Any]]:
    """Tiles with a value, tiles without, and the names of the corners.

    Args:
        triangle: The triangle to draw.
        described: Name → the triangle whose values the hover text of a tile shows under this name.
        size: Diameter of a tile.
    """
    # Labels go in through ``meta``: in the template itself, a label with a brace would be read as a variable.
    lines = [f"%{{meta[{k + 1}]}}: %{{customdata[{k}]}}" for k in range(len(described))]
    shared = {
        "mode": "markers",
        "meta": [plain(triangle.label), *map(plain, described)],
        "hovertemplate": "<br>".join(
            ["<b>%{meta[0]}</b>", "U1 %{b:.3~f} · R %{c:.3~f} · S %{a:.3~f}", *lines, "<extra></extra>"]
        ),
    }
    values = [{mixture(row): row for row in other.rows} for other in described.values()]
    filled, missing = split_by_value(triangle)
    colour = {"color": [round(row["mean"], 4) for row in filled], "coloraxis": "coloraxis"}
    tile = {"symbol": "hexagon", "size": size, **colour, "line": {"width": 0.5, **colour}}
    hollow = {"symbol": "hexagon-open", "size": 0.8 * size, "color": MISSING, "line": {"width": 1}}
    for rows, marker in ((filled, tile), (missing, hollow)):
        if rows:
            yield {
                **dict(zip("abc", zip(*map(mixture, rows), strict=True), strict=True)),
                "marker": marker,
                "customdata": [[_hover_value(other.get(mixture(row))) for other in values] for row in rows],
                **shared,
            }
    # Invisible tiles keep the names at their distance.
    yield {
        "a": [1, 0, 0], "b": [0, 1, 0], "c": [0, 0, 1], "mode": "markers+text", "hoverinfo": "skip",
        "text": list(CORNERS), "textposition": ["top center", "bottom center", "bottom center"],
        "textfont": {"color": MUTED_TEXT}, "marker": {"symbol": "hexagon", "size": size, "opacity": 0},
    }  # fmt: skip


def _described(figure: Triangles, label: str, column: int) -> dict[str, Triangle]:
    """The triangles whose values belong together: a column, if all rows have the same columns."""
    if len({tuple(t.label for t in triangles) for triangles in figure.rows.values()}) == 1:
        return {name: triangles[column] for name, triangles in figure.rows.items()}
    return {label: figure.rows[label][column]}


def _hover_value(row: Mapping[str, Any] | None) -> str:
    if row is None or row["mean"] is None:
        return ABSENT
    spread = "" if row["se"] is None else f" ± {row['se']:.3f}"
    return f"{row['mean']:.3f}{spread} (n = {row['n']})"


def _note(text: str, x: float, y: float, **looks: Any) -> dict[str, Any]:
    """A text at a position in fractions of the plot."""
    position = {"x": x, "y": y, "xref": "paper", "yref": "paper", "xanchor": "center", "yanchor": "middle"}
    return {"text": plain(text), "showarrow": False, **position, **looks}


def _table(figure: Triangles) -> list[dict[str, Any]]:
    """The values of all tiles."""
    names = (*CORNERS.values(), "mean", "se", "n")
    return [
        {"row": label, "method": triangle.label, **{name: row[name] for name in names}}
        for label, triangles in figure.rows.items()
        for triangle in triangles
        for row in triangle.rows
    ]
