"""Triangles as a piece of a page that answers to the mouse, drawn by plotly."""

from collections.abc import Iterator, Mapping
from math import sqrt
from textwrap import fill
from typing import Any

from synib.report.plot_html import Plot, base, plain
from synib.report.ternary import COLOURS, CORNERS, MISSING, SOFT, Places, halves, headings, mixture, step, ticks
from synib.studies.charts import Triangle, Triangles

ABSENT = "no such examples"
PAGE, LINE = 958, 4  # pixels that a page has across, and how many triangles share them


def plot_triangles(figure: Triangles) -> Plot:
    """The triangles as plotly draws them, with what makes tiles grow and shrink with the page: plotly would leave them."""
    data, layout = _plot(figure)
    domain = layout.get("ternary", {}).get("domain", {"x": [0, 1], "y": [0, 1]})
    wide, high = (b - a for a, b in (domain["x"], domain["y"]))
    margin = layout["margin"]
    sides = margin["l"] + margin["r"]
    up = high * (layout["height"] - margin["t"] - margin["b"])
    tiles = {"page": PAGE, "wide": wide, "sides": sides, "most": up * 2 / sqrt(3)}
    return Plot(data, layout, _table(figure), tiles=tiles)


def _plot(figure: Triangles) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """What plotly draws: a few triangles to a line, and in each its tiles with a value, those without, and its corners."""
    margin = {"l": 40, "r": 80, "t": 8, "b": 12}  # pixels, as all lengths here, on a page of the expected width
    wide = PAGE - margin["l"] - margin["r"]
    columns = max([1, *map(len, figure.rows.values())])
    line = min(LINE, columns)
    cell = min(340.0, wide / line)
    heads = headings(figure, int(cell / 8))
    head = 12 + 17 * max((h.count("\n") + 1 for h in heads), default=0)
    places = Places(len(figure.rows), columns, line, cell, step(figure), 22, head, 14)
    values, names = ticks(figure)
    notes: list[dict[str, Any]] = []
    data: list[dict[str, Any]] = []
    layout: dict[str, Any] = {
        **base(),
        "height": round(places.height) + margin["t"] + margin["b"],
        "margin": {**margin, "autoexpand": False},
        "annotations": notes,
        "coloraxis": {
            "colorscale": COLOURS.capitalize(), "cmin": figure.limits[0], "cmax": figure.limits[1],
            "colorbar": {
                "tickvals": values, "ticktext": names, "thickness": 12, "len": 1, "outlinewidth": 0,
                "x": 0.5 + line * cell / wide / 2, "xpad": 16,
            },
        },
    }  # fmt: skip
    bare = {"showgrid": False, "showline": False, "showticklabels": False, "ticks": "", "title": {"text": ""}}
    for i, (label, triangles) in enumerate(figure.rows.items()):
        for j, triangle in enumerate(triangles):
            subplot = f"ternary{i * columns + j + 1}" if i or j else "ternary"  # plotly has no ternary1
            x, y = places.centre(i, j)
            x += (wide - line * cell) / 2
            if i == 0:
                notes.append(_note(heads[j], x / wide, (y + places.tall / 2) / places.height, yanchor="bottom"))
            if j % line == 0:
                text = fill(label, int(places.tall / 8))
                notes.append(_note(text, (x - cell / 2) / wide, y / places.height, textangle=-90, xanchor="right"))
            layout[subplot] = {
                "domain": {
                    "x": [(x - places.side / 2) / wide, (x + places.side / 2) / wide],
                    "y": [(y - places.up / 2) / places.height, (y + places.up / 2) / places.height],
                },
                "aaxis": bare, "baxis": bare, "caxis": bare, "sum": 1, "bgcolor": "rgba(0,0,0,0)",
            }  # fmt: skip
            traces = _traces(triangle, _told(figure, label, j), 2 * places.rim)
            data += [{"type": "scatterternary", "subplot": subplot, "cliponaxis": False, **t} for t in traces]
    return data, layout


def _traces(triangle: Triangle, told: Mapping[str, Triangle], size: float) -> Iterator[dict[str, Any]]:
    """Tiles with a value, tiles without, and the corners' names.

    Args:
        told: The triangles whose values a tile tells, by what they are called.
        size: Diameter of a tile.
    """
    # Labels go in through ``meta``: in the template itself, a label with a brace would be read as a variable.
    lines = [f"%{{meta[{k + 1}]}}: %{{customdata[{k}]}}" for k in range(len(told))]
    shared = {
        "mode": "markers",
        "meta": [plain(triangle.label), *map(plain, told)],
        "hovertemplate": "<br>".join(
            ["<b>%{meta[0]}</b>", "U1 %{b:.3~f} · R %{c:.3~f} · S %{a:.3~f}", *lines, "<extra></extra>"]
        ),
    }
    values = [{mixture(row): row for row in other.rows} for other in told.values()]
    valued, missing = halves(triangle)
    colour = {"color": [round(row["mean"], 4) for row in valued], "coloraxis": "coloraxis"}
    tile = {"symbol": "hexagon", "size": size, **colour, "line": {"width": 0.5, **colour}}
    hollow = {"symbol": "hexagon-open", "size": 0.8 * size, "color": MISSING, "line": {"width": 1}}
    for rows, marker in ((valued, tile), (missing, hollow)):
        if rows:
            yield {
                **dict(zip("abc", zip(*map(mixture, rows), strict=True), strict=True)),
                "marker": marker,
                "customdata": [[_value(other.get(mixture(row))) for other in values] for row in rows],
                **shared,
            }
    # Invisible tiles keep the names at their distance.
    yield {
        "a": [1, 0, 0], "b": [0, 1, 0], "c": [0, 0, 1], "mode": "markers+text", "hoverinfo": "skip",
        "text": list(CORNERS), "textposition": ["top center", "bottom center", "bottom center"],
        "textfont": {"color": SOFT}, "marker": {"symbol": "hexagon", "size": size, "opacity": 0},
    }  # fmt: skip


def _told(figure: Triangles, label: str, column: int) -> dict[str, Triangle]:
    """The triangles whose values belong together: a column, if all rows have the same columns."""
    if len({tuple(t.label for t in triangles) for triangles in figure.rows.values()}) == 1:
        return {name: triangles[column] for name, triangles in figure.rows.items()}
    return {label: figure.rows[label][column]}


def _value(row: Mapping[str, Any] | None) -> str:
    if row is None or row["mean"] is None:
        return ABSENT
    spread = "" if row["se"] is None else f" ± {row['se']:.3f}"
    return f"{row['mean']:.3f}{spread} (n = {row['n']})"


def _note(text: str, x: float, y: float, **looks: Any) -> dict[str, Any]:
    """Words at a place that is given in fractions of the plot."""
    place = {"x": x, "y": y, "xref": "paper", "yref": "paper", "xanchor": "center", "yanchor": "middle"}
    return {"text": plain(text), "showarrow": False, **place, **looks}


def _table(figure: Triangles) -> list[dict[str, Any]]:
    """The numbers of all tiles."""
    names = (*CORNERS.values(), "mean", "se", "n")
    return [
        {"row": label, "method": triangle.label, **{name: row[name] for name in names}}
        for label, triangles in figure.rows.items()
        for triangle in triangles
        for row in triangle.rows
    ]
