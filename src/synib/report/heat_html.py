"""Heat maps, drawn by plotly."""

from typing import Any

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
from synib.report.plot import Plot, axis, axis_number, base_layout, finite, plain, short
from synib.report.scale import COLOUR_MAP
from synib.report.styles import MUTED_TEXT, ON_TILES
from synib.studies.charts import HeatMap, HeatMaps, Row

CELL, PICTURE = 34, 300  # pixels: height of a cell with a number in it, and of a map with more rows than labels


def plot_heat_maps(figure: HeatMaps) -> Plot:
    """Heat maps side by side with one colour scale; every cell has a hover text."""
    shared = share_rows(figure)
    data: list[dict[str, Any]] = []
    shapes: list[dict[str, Any]] = []
    ticks, tick_labels = colour_ticks(figure)
    low, high = figure.limits
    bar = {"tickvals": ticks, "ticktext": tick_labels, "thickness": 12, "len": 1, "outlinewidth": 0, "x": 1, "xpad": 12}
    layout: dict[str, Any] = {
        **base_layout(),
        "shapes": shapes,
        "coloraxis": {"colorscale": COLOUR_MAP.capitalize(), "cmin": low, "cmax": high, "colorbar": bar},
    }
    for k, drawn in enumerate(figure.maps):
        number = axis_number(k)
        axes_of_map = {"xaxis": f"x{number}", "yaxis": f"y{number}"}
        for name, other, texts in (("x", "y", drawn.columns), ("y", "x", drawn.rows)):
            positions = labelled(texts)
            layout[f"{name}axis{number}"] = axis(
                anchor=f"{other}{number}",
                showgrid=False,
                ticks="",
                tickvals=positions,
                ticktext=[plain(texts[i]) for i in positions],
            )
        layout[f"xaxis{number}"]["range"] = [-0.5, len(drawn.columns) - 0.5]
        layout[f"yaxis{number}"]["range"] = [len(drawn.rows) - 0.5, -0.5]
        data.append({**axes_of_map, **_tiles(drawn, figure)})
        if figure.numbers:
            data += [{**axes_of_map, **trace} for trace in _numbers(drawn, figure)]
        for start, end in outline(drawn):
            for colour, width in zip(ON_TILES, (4, 1.6), strict=True):
                ends = {"x0": start[0], "y0": start[1], "x1": end[0], "y1": end[1]}
                line = {"color": colour, "width": width}
                shapes.append(
                    {"type": "line", "xref": axes_of_map["xaxis"], "yref": axes_of_map["yaxis"], **ends, "line": line}
                )
    shapes.sort(key=lambda shape: ON_TILES.index(shape["line"]["color"]))  # all white lines above all black ones
    labels = [text for drawn in figure.maps[:1] for text in drawn.rows]
    rows = [{"label": text, "bold": False} for text in labels] if shared else None
    grid = {
        "columns": 1 if in_one_column(figure) else len(figure.maps), "minWidth": 200, "right": 84, "ownY": not shared,
        "height": CELL * len(labels) + 4 if shared else PICTURE, "x": figure.x,
        "y": ["" if shared else figure.y] * len(figure.maps), "titles": [drawn.title for drawn in figure.maps],
        "remarks": [""] * len(figure.maps), "rows": rows,
    }  # fmt: skip
    return Plot(data, layout, _table(figure), grid=grid)


def _tiles(drawn: HeatMap, figure: HeatMaps) -> dict[str, Any]:
    """The coloured cells."""
    gap = 2 if figure.numbers else 0
    return {
        "type": "heatmap", "x": list(range(len(drawn.columns))), "y": list(range(len(drawn.rows))),
        "z": [[finite(mean_of(cell)) for cell in row] for row in drawn.cells], "coloraxis": "coloraxis",
        "xgap": gap, "ygap": gap, "hoverinfo": "text", "hoverongaps": False,
        "hovertext": [
            [_hover_text(drawn, i, j, cell) for j, cell in enumerate(row)] for i, row in enumerate(drawn.cells)
        ],
    }  # fmt: skip


def _numbers(drawn: HeatMap, figure: HeatMaps) -> list[dict[str, Any]]:
    """The texts of the cells: a trace for each text colour."""
    texts: dict[str, list[tuple[int, int, str]]] = {}
    for i, row in enumerate(drawn.cells):
        for j, cell in enumerate(row):
            mean = mean_of(cell)
            ink = MUTED_TEXT if mean is None else text_colour(tile_colour(mean, *figure.limits))
            texts.setdefault(ink, []).append((j, i, written(cell)))
    return [
        {"type": "scatter", "mode": "text", "hoverinfo": "skip", "textfont": {"color": ink, "size": 13}}
        | dict(zip(("x", "y", "text"), map(list, zip(*placed, strict=True)), strict=True))
        for ink, placed in texts.items()
    ]


def _hover_text(drawn: HeatMap, i: int, j: int, cell: Row | None) -> str:
    lines = [f"<b>{plain(drawn.title)}</b>", plain(f"{drawn.rows[i]} · {drawn.columns[j]}")]
    if cell is None or cell["mean"] is None:
        return "<br>".join([*lines, "not trained"])
    error = "" if cell.get("se") is None else f" ± {short(cell['se'])}"
    return "<br>".join([*lines, f"{short(cell['mean'])}{error} (n = {cell['n']})"])


def _table(figure: HeatMaps) -> list[dict[str, Any]]:
    """The numbers of all cells."""
    return [
        {"map": drawn.title, "row": drawn.rows[i], "column": drawn.columns[j]}
        | {name: None if cell is None else cell.get(name) for name in ("mean", "se", "n")}
        for drawn in figure.maps
        for i, row in enumerate(drawn.cells)
        for j, cell in enumerate(row)
    ]
