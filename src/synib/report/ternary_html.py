"""Triangles as a piece of a page that answers to the mouse, drawn by plotly."""

import re
from collections.abc import Iterator, Mapping
from html import escape
from math import sqrt
from textwrap import fill
from typing import Any

from synib.experiments.charts import Triangle, Triangles
from synib.report.ternary import COLOURS, CORNERS, INK, MISSING, SOFT, Places, halves, headings, mixture, step, ticks

ABSENT = "no such examples"
PAGE, LINE = 958, 4  # pixels that a page has across, and how many triangles share them


def html(figure: Triangles) -> str:
    """The triangles as a piece of HTML whose tiles tell their numbers; it brings the library that it needs."""
    plot = _plot(figure)
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", figure.file)
    from plotly.io import to_html

    text = to_html(
        plot,
        config={
            "displaylogo": False,
            "modeBarButtons": [["toImage"]],
            "toImageButtonOptions": {"filename": name},
            "responsive": True,
        },
        full_html=False,
        include_plotlyjs=True,
        div_id=f"triangles-{name}",
        post_script=_fit(plot["layout"]),
        validate=False,  # the tests do; here it would only cost time
    )
    return f'<div style="overflow-x: auto"><div style="min-width: 45rem">{text}</div></div>'


def _plot(figure: Triangles) -> dict[str, Any]:
    """What plotly draws: a few triangles to a line, and in each its tiles with a value, those without, and its corners."""
    margin = {"l": 40, "r": 80, "t": 50, "b": 12}  # pixels, as all lengths here, on a page of the expected width
    wide = PAGE - margin["l"] - margin["r"]
    columns = max([1, *map(len, figure.rows.values())])
    line = min(LINE, columns)
    cell = min(340.0, wide / line)
    heads = headings(figure, int(cell / 8))
    head = 12 + 17 * max((h.count("\n") + 1 for h in heads), default=0)
    places = Places(len(figure.rows), columns, line, cell, step(figure), 22, head, 14)
    values, names = ticks(figure)
    font = {"family": "system-ui, Segoe UI, Roboto, sans-serif", "size": 13, "color": INK}
    notes: list[dict[str, Any]] = []
    data: list[dict[str, Any]] = []
    layout: dict[str, Any] = {
        "height": round(places.height) + margin["t"] + margin["b"],
        "margin": {**margin, "autoexpand": False},
        "paper_bgcolor": "#ffffff",
        "font": font,
        "title": {
            "text": _plain(figure.title), "font": {"size": 15, "weight": "bold"}, "pad": {"l": 8, "t": 12},
            "x": 0, "xref": "container", "xanchor": "left", "y": 1, "yref": "container", "yanchor": "top",
        },
        "annotations": notes,
        "coloraxis": {
            "colorscale": COLOURS.capitalize(), "cmin": figure.limits[0], "cmax": figure.limits[1],
            "colorbar": {
                "tickvals": values, "ticktext": names, "thickness": 12, "len": 1, "outlinewidth": 0,
                "x": 0.5 + line * cell / wide / 2, "xpad": 16,
            },
        },
        "hovermode": "closest",
        "hoverlabel": {"bgcolor": "#ffffff", "bordercolor": SOFT, "font": font, "align": "left"},
        "dragmode": False,  # tiles do not grow with a closer look
        "showlegend": False,
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
                "aaxis": bare, "baxis": bare, "caxis": bare, "sum": 1, "bgcolor": "#ffffff",
            }  # fmt: skip
            traces = _traces(triangle, _told(figure, label, j), 2 * places.rim)
            data += [{"type": "scatterternary", "subplot": subplot, "cliponaxis": False, **t} for t in traces]
    return {"data": data, "layout": layout}


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
        "meta": [_plain(triangle.label), *map(_plain, told)],
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


def _fit(layout: Mapping[str, Any]) -> str:
    """A script that has tiles grow and shrink with the page, which plotly would leave as they are."""
    domain = layout.get("ternary", {}).get("domain", {"x": [0, 1], "y": [0, 1]})
    wide, high = (b - a for a, b in (domain["x"], domain["y"]))
    margin = layout["margin"]
    up = high * (layout["height"] - margin["t"] - margin["b"])
    return f"""
        const plot = document.getElementById("{{plot_id}}");
        let width = {PAGE};
        const tile = (w) => Math.min({wide:.6f} * (w - {margin["l"] + margin["r"]}), {up * 2 / sqrt(3):.4f});
        new ResizeObserver(async () => {{
            if (!plot.clientWidth || plot.clientWidth === width) return;
            const factor = tile(plot.clientWidth) / tile(width);
            width = plot.clientWidth;
            await Plotly.Plots.resize(plot);
            Plotly.restyle(plot, {{"marker.size": plot.data.map((trace) => trace.marker.size * factor)}});
        }}).observe(plot);
    """


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
    return {"text": _plain(text), "showarrow": False, **place, **looks}


def _plain(text: str) -> str:
    """Text that plotly shows as it is, though it reads a little HTML."""
    return escape(text, quote=False).replace("\n", "<br>")
