"""Triangles: a quantity over the mixtures of three sources, as SVG and as a piece of a page that answers to the mouse."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import ceil, sqrt
from textwrap import fill
from typing import TYPE_CHECKING, Any

from synib.experiments.charts import Triangle, Triangles
from synib.report.draw import document

if TYPE_CHECKING:
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure as Drawing

CORNERS = {"S": "p_s", "U1": "p_u1", "R": "p_r"}  # top, left, right: the order of mpltern and of plotly
COLOURS = "viridis"
INK, SOFT, MISSING = "#1c2430", "#5b6573", "#c9ced6"
ABSENT = "no such examples"
PAGE, LINE = 958, 4  # pixels that a page has across, and how many triangles share them


def svg(figure: Triangles) -> str:
    """The triangles as an SVG document; the same triangles give the same bytes.

    A tile is the set of mixtures that are closer to its grid point than to any other: nothing is interpolated. Tiles
    without a value are hollow.
    """
    return document(_drawing, figure)


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


def step(figure: Triangles) -> float:
    """Distance between neighbours of the grid, as a difference of fractions; a half where there are too few points."""
    values = sorted({p for row in _points(figure) for p in _mixture(row)})
    return 1 / round(1 / min([0.5, *(b - a for a, b in pairwise(values))]))


@dataclass(frozen=True)
class _Places:
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


def _drawing(figure: Triangles) -> "Drawing":
    import mpltern  # noqa: F401  # brings the projection
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure as Drawing

    columns = max([1, *map(len, figure.rows.values())])
    cell = min(3.0, max(1.35, 10.6 / columns))  # inches, as all lengths here
    large, small = (10.0, 9.0) if cell > 2 else (9.0, 7.5)
    heads = _heads(figure, int(cell * 12))
    head = large / 55 * max((h.count("\n") + 1 for h in heads), default=0)
    places = _Places(len(figure.rows), columns, columns, cell, step(figure), small / 50, head, 0.14)
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
    values, names = _ticks(figure)
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
    valued, missing = _halves(triangle)
    # A rim of the tile's own colour, too thin to be seen, closes the hairlines between neighbours.
    colour = {"array": [row["mean"] for row in valued], "cmap": scale.cmap, "norm": scale.norm, "ec": "face", "lw": 0.3}
    hollow = {"facecolor": "none", "edgecolor": MISSING, "lw": 0.6}
    for rows, size, looks in ((missing, 0.8, hollow), (valued, 1.0, colour)):
        if rows:
            tiles = PolyCollection(
                [size * hexagon],
                offsets=axes.transProjection.transform([_mixture(row) for row in rows]),
                offset_transform=AffineDeltaTransform(axes.transData),
                clip_on=False,
            )
            tiles.set(**looks)
            axes.add_collection(tiles, autolim=False)


def _plot(figure: Triangles) -> dict[str, Any]:
    """What plotly draws: a few triangles to a line, and in each its tiles with a value, those without, and its corners."""
    margin = {"l": 40, "r": 80, "t": 50, "b": 12}  # pixels, as all lengths here, on a page of the expected width
    wide = PAGE - margin["l"] - margin["r"]
    columns = max([1, *map(len, figure.rows.values())])
    line = min(LINE, columns)
    cell = min(340.0, wide / line)
    heads = _heads(figure, int(cell / 8))
    head = 12 + 17 * max((h.count("\n") + 1 for h in heads), default=0)
    places = _Places(len(figure.rows), columns, line, cell, step(figure), 22, head, 14)
    values, names = _ticks(figure)
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
    values = [{_mixture(row): row for row in other.rows} for other in told.values()]
    valued, missing = _halves(triangle)
    colour = {"color": [round(row["mean"], 4) for row in valued], "coloraxis": "coloraxis"}
    tile = {"symbol": "hexagon", "size": size, **colour, "line": {"width": 0.5, **colour}}
    hollow = {"symbol": "hexagon-open", "size": 0.8 * size, "color": MISSING, "line": {"width": 1}}
    for rows, marker in ((valued, tile), (missing, hollow)):
        if rows:
            yield {
                **dict(zip("abc", zip(*map(_mixture, rows), strict=True), strict=True)),
                "marker": marker,
                "customdata": [[_value(other.get(_mixture(row))) for other in values] for row in rows],
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


def _halves(triangle: Triangle) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """The rows that have a value, and those that have none."""
    valued = [row for row in triangle.rows if row["mean"] is not None]
    return valued, [row for row in triangle.rows if row["mean"] is None]


def _mixture(row: Mapping[str, Any]) -> tuple[float, ...]:
    """The shares of the corners, without the last digits, in which sums that ought to be equal differ."""
    return tuple(round(float(row[p]), 6) for p in CORNERS.values())


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


def _points(figure: Triangles) -> Iterator[Mapping[str, Any]]:
    for triangles in figure.rows.values():
        for triangle in triangles:
            yield from triangle.rows


def _heads(figure: Triangles, width: int) -> list[str]:
    """The headings of the columns, in lines of so many letters at most."""
    return [fill(triangle.label, width) for triangle in next(iter(figure.rows.values()), ())]


def _ticks(figure: Triangles) -> tuple[list[float], list[str]]:
    """Values to mark on the colour scale, and how they are written: an end says so if there are values beyond it."""
    low, high = figure.limits
    means = [row["mean"] for row in _points(figure) if row["mean"] is not None]
    values = [low + k * (high - low) / 5 for k in range(6)]
    names = [f"{value:.3g}" for value in values]
    if any(mean < low for mean in means):
        names[0] = f"≤ {names[0]}"
    if any(mean > high for mean in means):
        names[-1] = f"≥ {names[-1]}"
    return values, names
