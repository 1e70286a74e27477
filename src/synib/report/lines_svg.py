"""Line charts, one or several side by side, drawn by matplotlib."""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from synib.report.lines import LineKey, band, has_markers, line_key
from synib.report.styles import GREY, GRID, RULE, shorten, style
from synib.studies.charts import Chart, Panels, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing
    from matplotlib.lines import Line2D


def draw_chart(chart: Chart) -> "Drawing":
    """One line chart, with the legend on its right."""
    from matplotlib.figure import Figure as Drawing

    figure = Drawing(figsize=(7.6, 4.3), layout="constrained")
    axes = figure.add_subplot()
    if chart.chance is not None:
        _draw_chance(axes, chart.chance)
        axes.annotate(
            "chance", (0.005, chart.chance), xycoords=("axes fraction", "data"), xytext=(0, 3), ha="left",
            textcoords="offset points", color=GREY, fontsize=8,
        )  # fmt: skip
    lines = _draw_lines(axes, chart.series, has_markers(chart.series), width=1.8, size=5)
    axes.set(xlabel=chart.x, ylabel=chart.y)
    axes.set_title(chart.title, loc="left", fontsize=11, fontweight="bold")
    if chart.limits:
        axes.set_ylim(chart.limits)
    if chart.ticks:
        axes.set_xticks(list(chart.ticks))
    labels = [shorten(series.label) for series in chart.series]
    figure.legend(lines, labels, loc="outside right center", frameon=False, fontsize=9)
    return figure


def draw_panels(panels: Panels) -> "Drawing":
    """Line charts side by side, with one legend below."""
    from matplotlib.figure import Figure as Drawing

    columns = max(1, min(panels.columns, len(panels.panels)))
    rows = max(1, math.ceil(len(panels.panels) / columns))
    width = max(7.6, 2.7 * columns)
    every_line = [series for panel in panels.panels for series in panel.series]
    chance = [] if panels.chance is None else [("chance", "chance", False)]
    keys: list[LineKey] = [*dict.fromkeys(map(line_key, every_line)), *chance]
    labels = [shorten(label) for label, _, _ in keys]
    legend_columns, legend_rows = _legend_shape(labels, width)

    height = (min(3.3, 0.8 * width / columns) + 0.25) * rows + 0.75 + 0.2 * legend_rows
    figure = Drawing(figsize=(width, height), layout="constrained")
    share_y = not any(panel.y for panel in panels.panels)
    all_axes = list(figure.subplots(rows, columns, sharex=True, sharey=share_y, squeeze=False).flat)
    used, unused = all_axes[: len(panels.panels)], all_axes[len(panels.panels) :]
    handles: dict[LineKey, Line2D] = {}
    for axes, panel in zip(used, panels.panels, strict=True):
        if panels.chance is not None:
            handles[chance[0]] = _draw_chance(axes, panels.chance)
        lines = _draw_lines(axes, panel.series, has_markers(every_line), width=1.5, size=4)
        handles.update(zip(map(line_key, panel.series), lines, strict=True))
        axes.set_title(panel.title, loc="left", fontsize=10)
        if panel.y:
            axes.set(ylabel=panel.y, yscale="log" if panel.logarithmic else "linear", ylim=panel.limits)
            if panel.logarithmic:
                # Matplotlib writes powers as formulas, but these figures show plain text only.
                axes.yaxis.set_major_formatter("{x:g}")
                axes.yaxis.set_minor_formatter("")
        if panel.level is not None:
            axes.axhline(panel.level, color=RULE, linewidth=1, zorder=0)
    for axes in all_axes[::columns] if share_y else []:
        axes.set_ylabel(panels.y)
    for axes in unused:
        axes.remove()
    for axes in used[-columns:]:  # the lowest of each column, also if the last row is short
        axes.set_xlabel(panels.x)
        axes.xaxis.set_tick_params(labelbottom=True)
    if panels.limits:
        all_axes[0].set_ylim(panels.limits)
    figure.suptitle(panels.title, x=0.008, ha="left", fontsize=11, fontweight="bold")
    figure.legend(
        [handles[key] for key in keys], labels, loc="outside lower center", ncols=legend_columns, frameon=False,
        fontsize=9, handlelength=2.6,
    )  # fmt: skip
    figure.draw_without_rendering()  # places the axes, so that their corners can be compared
    for axes, panel in zip(used, panels.panels, strict=True):
        if panel.remark:
            _write_remark(axes, panel.remark)
    return figure


def _draw_chance(axes: "Axes", chance: float) -> "Line2D":
    return axes.axhline(chance, color=RULE, linewidth=1, linestyle=":", zorder=0)


def _draw_lines(axes: "Axes", lines: Iterable[Series], markers: bool, width: float, size: float) -> list["Line2D"]:
    """Draw lines with their bands over a light grid."""
    drawn = []
    for series in lines:
        looks = style(series.name)
        axes.fill_between(series.x, *band(series), color=looks["color"], alpha=0.15, linewidth=0)
        drawn += axes.plot(
            series.x, series.mean, color=looks["color"], label=series.label, linewidth=width,
            linestyle="--" if series.dashed else "-", marker=looks["marker"] if markers else None, markersize=size,
        )  # fmt: skip
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    return drawn


def _legend_shape(labels: Sequence[str], width: float) -> tuple[int, int]:
    """Columns and rows of a legend that fits the width of the figure, with rows of similar length."""
    entry_width = 0.65 + 0.085 * max((len(label) for label in labels), default=0)  # inches at font size 9
    rows = max(1, math.ceil(len(labels) / max(1, int(width / entry_width))))
    return max(1, math.ceil(len(labels) / rows)), rows


def _write_remark(axes: "Axes", remark: str) -> None:
    """Write into the corner with the fewest lines and bands."""
    import numpy as np

    text = axes.text(0, 0, remark, transform=axes.transAxes, fontsize=8.5, color="#3c4450", zorder=5)
    text.set_bbox({"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 1.5})
    text.set_in_layout(False)
    margin = 0.03
    box = text.get_window_extent().transformed(axes.transAxes.inverted())
    width, height = box.width + 2 * margin, box.height + 2 * margin
    paths = [(line.get_path(), line.get_transform()) for line in axes.get_lines()]
    paths += [(path, axes.transData) for band in axes.collections for path in band.get_paths()]
    vertices = [(to - axes.transAxes).transform(path.interpolated(20).vertices) for path, to in paths]
    x, y = np.concatenate([np.empty((0, 2)), *vertices]).T

    def vertices_inside(corner: tuple[bool, bool]) -> int:
        right, top = corner
        inside = ((x > 1 - width) if right else (x < width)) & ((y > 1 - height) if top else (y < height))
        return int(inside.sum())

    # Among equally free corners the first wins: accuracy curves usually leave the lower right free.
    right, top = min([(True, False), (False, True), (False, False), (True, True)], key=vertices_inside)
    text.set_position((1 - margin if right else margin, 1 - margin if top else margin))
    text.set(ha="right" if right else "left", va="top" if top else "bottom")
