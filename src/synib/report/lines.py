"""Line charts, one or several side by side, drawn with matplotlib."""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from synib.report.styles import brief, style
from synib.studies.charts import Chart, Panels, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing
    from matplotlib.lines import Line2D


def draw_chart(chart: Chart) -> "Drawing":
    """One line chart."""
    from matplotlib.figure import Figure as Drawing

    figure = Drawing(figsize=(7.6, 4.3), layout="constrained")
    axes = figure.add_subplot()
    drawn = _lines(axes, chart.series, chart.chance, _markers(chart.series))[chart.chance is not None :]
    axes.set(xlabel=chart.x, ylabel=chart.y)
    axes.set_title(chart.title, loc="left", fontsize=11, fontweight="bold")
    if chart.limits:
        axes.set_ylim(chart.limits)
    if chart.ticks:
        axes.set_xticks(list(chart.ticks))
    names = [brief(series.label) for series in chart.series]
    figure.legend(drawn, names, loc="outside right center", frameon=False, fontsize=9)
    return figure


def draw_panels(panels: Panels) -> "Drawing":
    """Line charts side by side, with one legend."""
    from matplotlib.figure import Figure as Drawing

    columns = max(1, min(panels.columns, len(panels.panels)))
    rows = max(1, math.ceil(len(panels.panels) / columns))
    width = max(7.6, 2.7 * columns)
    every = [series for panel in panels.panels for series in panel.series]
    chance = [] if panels.chance is None else [("chance", "chance", False)]
    labels = [*dict.fromkeys((s.label, s.name, s.dashed) for s in every), *chance]
    across, deep = _legend_shape([brief(label) for label, _, _ in labels], width)

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
        [handles[key] for key in labels], [brief(label) for label, _, _ in labels], loc="outside lower center",
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
        looks = style(series.name)
        low = [m - s for m, s in zip(series.mean, series.se, strict=True)]
        high = [m + s for m, s in zip(series.mean, series.se, strict=True)]
        axes.fill_between(series.x, low, high, color=looks["color"], alpha=0.15, linewidth=0)
        drawn += axes.plot(
            series.x, series.mean, color=looks["color"], label=series.label, linewidth=width,
            linestyle="--" if series.dashed else "-", marker=looks["marker"] if markers else None, markersize=size,
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
