"""Figures as SVG, with one colour for each method and each source wherever it appears."""

import io
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from synib.experiments.charts import Chart, Figure, Panels, Series, Triangles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing
    from matplotlib.lines import Line2D

T = TypeVar("T")

# Grey for what SynIB is compared with, blues for the paper's forms, orange for ours: told apart without colour by marker.
STYLES: dict[str, dict[str, Any]] = {
    "vanilla": {"color": "#8a8f98", "marker": "o"},
    "confidence": {"color": "#b98a5e", "marker": "s"},
    "masked-random": {"color": "#c9b458", "marker": "<"},
    "masked-oracle": {"color": "#7d8f3a", "marker": ">"},
    "synib-random": {"color": "#6fa8dc", "marker": "^"},
    "synib-learned": {"color": "#2f6fb5", "marker": "v"},
    "synib-amortized": {"color": "#4aa7b0", "marker": "8"},
    "synib-marginal": {"color": "#d9541e", "marker": "D"},
    "synib-oracle": {"color": "#1b2a49", "marker": "*"},
    "experts": {"color": "#a8328a", "marker": "H"},
    "unimodal": {"color": "#c3c7cd", "marker": "."},
    "ensemble": {"color": "#5f6672", "marker": "d"},
    "ogm": {"color": "#9c7a54", "marker": "1"},
    "agm": {"color": "#8d6b94", "marker": "2"},
    "dnr": {"color": "#6b8f71", "marker": "3"},
    "mmpareto": {"color": "#a06a6a", "marker": "4"},
    "reconboost": {"color": "#5c8aa8", "marker": "+"},
    "mcr": {"color": "#b0a160", "marker": "x"},
    # The sources of the label. The green is lighter than the red, so that who cannot tell the hues can tell the shades.
    "U1": {"color": "#2b6cc4", "marker": "P"},
    "U2": {"color": "#b39ddb", "marker": "X"},
    "R": {"color": "#3fae7c", "marker": "p"},
    "S": {"color": "#c0202f", "marker": "h"},
    # What a model is given.
    "intact": {"color": "#2a2d34", "marker": (5, 0)},
    "x1": {"color": "#e07b39", "marker": (6, 0)},
    "x2": {"color": "#5b8def", "marker": (7, 0)},
    "ideal": {"color": "#b4b8bf", "marker": ""},
    # Pairs of sources.
    "U1·R": {"color": "#1f8a86", "marker": "|"},
    "U1·S": {"color": "#7b3f9e", "marker": "_"},
    "R·S": {"color": "#b07a1e", "marker": ","},
}


def svg(figure: Figure) -> str:
    """The figure as an SVG document; the same figure gives the same bytes."""
    if isinstance(figure, Triangles):
        from synib.report import ternary

        return ternary.svg(figure)
    if isinstance(figure, Panels):
        return document(_panels, figure)
    return document(_chart, figure)


def document(draw: Callable[[T], "Drawing"], figure: T) -> str:
    """What ``draw`` makes of a figure, as an SVG document without a date and with ids that repeat."""
    import matplotlib

    settings: Any = {
        "svg.hashsalt": "synib", "font.family": "DejaVu Sans", "font.size": 10, "svg.fonttype": "path",
        "text.parse_math": False,
    }  # fmt: skip
    text = io.StringIO()
    with matplotlib.rc_context(settings):
        draw(figure).savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return text.getvalue()


def _chart(chart: Chart) -> "Drawing":
    from matplotlib.figure import Figure as Drawing

    figure = Drawing(figsize=(7.6, 4.3), layout="constrained")
    axes = figure.add_subplot()
    _lines(axes, chart.series, chart.chance, _markers(chart.series))
    axes.set(xlabel=chart.x, ylabel=chart.y)
    axes.set_title(chart.title, loc="left", fontsize=11, fontweight="bold")
    if chart.limits:
        axes.set_ylim(chart.limits)
    if chart.ticks:
        axes.set_xticks(list(chart.ticks))
    figure.legend(loc="outside right center", frameon=False, fontsize=9)
    return figure


def _panels(panels: Panels) -> "Drawing":
    from matplotlib.figure import Figure as Drawing

    columns = max(1, min(panels.columns, len(panels.panels)))
    rows = max(1, math.ceil(len(panels.panels) / columns))
    width = max(7.6, 2.7 * columns)
    every = [series for panel in panels.panels for series in panel.series]
    chance = [] if panels.chance is None else [("chance", "chance", False)]
    labels = [*dict.fromkeys((s.label, s.name, s.dashed) for s in every), *chance]
    across, deep = _legend_shape([label for label, _, _ in labels], width)

    height = (min(3.3, 0.8 * width / columns) + 0.25) * rows + 0.75 + 0.2 * deep
    figure = Drawing(figsize=(width, height), layout="constrained")
    shared = not any(panel.y for panel in panels.panels)
    places = list(figure.subplots(rows, columns, sharex=True, sharey=shared, squeeze=False).flat)
    handles: dict[tuple[str, str, bool], Line2D] = {}
    for axes, panel in zip(places, panels.panels, strict=False):
        keys = [*chance, *((s.label, s.name, s.dashed) for s in panel.series)]
        drawn = _lines(axes, panel.series, panels.chance, _markers(every), width=1.5, size=4, word=False)
        handles.update(zip(keys, drawn, strict=True))
        axes.set_title(panel.title, loc="left", fontsize=10)
        if panel.y:
            axes.set(ylabel=panel.y, yscale="log" if panel.logarithmic else "linear", ylim=panel.limits)
            if panel.logarithmic:
                # Matplotlib writes powers as formulas, and in our figures all text is plain.
                axes.yaxis.set_major_formatter("{x:g}")
                axes.yaxis.set_minor_formatter("")
        if panel.level is not None:
            axes.axhline(panel.level, color="#c5c8ce", linewidth=1, zorder=0)
    for axes in places[::columns] if shared else []:
        axes.set_ylabel(panels.y)
    for axes in places[len(panels.panels) :]:
        axes.remove()
    for axes in places[: len(panels.panels)][-columns:]:  # the lowest of each column, also where the last row is short
        axes.set_xlabel(panels.x)
        axes.xaxis.set_tick_params(labelbottom=True)
    if panels.limits:
        places[0].set_ylim(panels.limits)
    figure.suptitle(panels.title, x=0.008, ha="left", fontsize=11, fontweight="bold")
    figure.legend(
        [handles[key] for key in labels], [label for label, _, _ in labels], loc="outside lower center",
        ncols=across, frameon=False, fontsize=9, handlelength=2.6,
    )  # fmt: skip
    figure.draw_without_rendering()  # corners can be compared once the axes have their places
    for axes, panel in zip(places, panels.panels, strict=False):
        if panel.remark:
            _remark(axes, panel.remark)
    return figure


def _lines(
    axes: "Axes", lines: Iterable[Series], chance: float | None, markers: bool, width: float = 1.8, size: float = 5,
    word: bool = True,
) -> list["Line2D"]:  # fmt: skip
    """Draw lines with their bands over a light grid; returns them, after that of guessing, which ``word`` names in place."""
    drawn = []
    if chance is not None:
        drawn.append(axes.axhline(chance, color="#c5c8ce", linewidth=1, linestyle=":", zorder=0))
        if word:
            axes.annotate(
                "chance", (0.005, chance), xycoords=("axes fraction", "data"), xytext=(0, 3), ha="left",
                textcoords="offset points", color="#8a8f98", fontsize=8,
            )  # fmt: skip
    for series in lines:
        style = STYLES.get(series.name, {"color": "#444444", "marker": "o"})
        low = [m - s for m, s in zip(series.mean, series.se, strict=True)]
        high = [m + s for m, s in zip(series.mean, series.se, strict=True)]
        axes.fill_between(series.x, low, high, color=style["color"], alpha=0.15, linewidth=0)
        drawn += axes.plot(
            series.x, series.mean, color=style["color"], label=series.label, linewidth=width,
            linestyle="--" if series.dashed else "-", marker=style["marker"] if markers else None, markersize=size,
        )  # fmt: skip
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#eceef1", linewidth=0.8)
    axes.set_axisbelow(True)
    return drawn


def _markers(lines: Iterable[Series]) -> bool:
    """Whether the points are few enough to mark each."""
    return max((len(s.x) for s in lines), default=0) <= 12


def _legend_shape(labels: Sequence[str], width: float) -> tuple[int, int]:
    """Columns and rows of a legend that is as wide as the figure at most, with rows of about the same length."""
    entry = 0.65 + 0.085 * max((len(label) for label in labels), default=0)  # inches at font size 9
    deep = max(1, math.ceil(len(labels) / max(1, int(width / entry))))
    return max(1, math.ceil(len(labels) / deep)), deep


def _remark(axes: "Axes", remark: str) -> None:
    """Write into the corner that has the least of lines and bands in it."""
    import numpy as np

    text = axes.text(0, 0, remark, transform=axes.transAxes, fontsize=8.5, color="#3c4450", zorder=5)
    text.set_bbox({"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 1.5})
    text.set_in_layout(False)
    margin = 0.03
    box = text.get_window_extent().transformed(axes.transAxes.inverted())
    wide, high = box.width + 2 * margin, box.height + 2 * margin
    paths = [(line.get_path(), line.get_transform()) for line in axes.get_lines()]
    paths += [(path, axes.transData) for band in axes.collections for path in band.get_paths()]
    drawn = [(to - axes.transAxes).transform(path.interpolated(20).vertices) for path, to in paths]
    x, y = np.concatenate([np.empty((0, 2)), *drawn]).T

    def crowd(corner: tuple[bool, bool]) -> int:
        right, top = corner
        inside = ((x > 1 - wide) if right else (x < wide)) & ((y > 1 - high) if top else (y < high))
        return int(inside.sum())

    # Of corners that are equally free the first: curves of accuracy leave the lower right.
    right, top = min([(True, False), (False, True), (False, False), (True, True)], key=crowd)
    text.set_position((1 - margin if right else margin, 1 - margin if top else margin))
    text.set(ha="right" if right else "left", va="top" if top else "bottom")
