"""Means of several methods with their spread, drawn by matplotlib."""

from textwrap import fill
from typing import TYPE_CHECKING, Any

from synib.report.bars import is_synib, legend_notes, row_of, spread_ends, style_name
from synib.report.styles import GREY, GRID, HIGHLIGHT, TEXT, shorten, style
from synib.studies.charts import Bars, Ranks, label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

PUBLISHED: dict[str, Any] = {
    "marker": "D", "markersize": 5, "markerfacecolor": "none", "markeredgecolor": TEXT, "markeredgewidth": 0.9,
    "linestyle": "",
}  # fmt: skip
LEGEND_LINES: dict[str, dict[str, Any]] = {
    "": {"color": GREY, "marker": "o", "markersize": 5},
    "diamond": PUBLISHED,
    "line": {"color": GREY, "linewidth": 1},
    "dotted": {"color": GREY, "linewidth": 1, "linestyle": ":"},
}


def draw_bars(bars: Bars) -> "Drawing":
    """A dot with its spread for each method, in rows that the panels share; SynIB's rows are highlighted."""
    from matplotlib.figure import Figure as Drawing
    from matplotlib.lines import Line2D

    columns = max(1, len(bars.panels))
    width = max(7.6, 2.2 + 2.4 * columns)
    headings = [fill(panel.title, int(11 * (width - 2.2) / columns)) for panel in bars.panels]
    notes = {shorten(words) if kind == "line" else words: kind for words, kind in legend_notes(bars).items()}
    one_line = 0.075 * len("".join(notes)) + 0.65 * len(notes) < width  # inches at font size 9
    legend_columns = len(notes) if one_line else 1
    title = fill(bars.title, int(12 * width))
    extra_lines = title.count("\n") + len(notes) // legend_columns - 1
    extra_lines += max((heading.count("\n") for heading in headings), default=0)
    figure = Drawing(figsize=(width, 0.21 * len(bars.methods) + 1.15 + 0.2 * extra_lines), layout="constrained")
    figure.get_layout_engine().set(wspace=0.06)  # type: ignore[union-attr,call-arg]
    all_axes = list(figure.subplots(1, columns, sharey=True, squeeze=False).flat)
    for axes, panel, heading in zip(all_axes, bars.panels, headings, strict=False):
        _draw_panel(axes, panel, bars)
        axes.set_title(heading, loc="left", fontsize=10)
    first = all_axes[0]
    first.set_yticks(range(len(bars.methods)), [shorten(label(method)) for method in bars.methods])
    for text, method in zip(first.get_yticklabels(), bars.methods, strict=True):
        text.set_fontweight("bold" if is_synib(method, bars) else "normal")
    first.set_ylim(max(1, len(bars.methods)) - 0.5, -0.5)  # the first method on top
    figure.suptitle(title, x=0.008, ha="left", fontsize=11, fontweight="bold")
    figure.legend(
        [Line2D([], [], **LEGEND_LINES[kind]) for kind in notes.values()], list(notes), loc="outside lower center",
        ncols=legend_columns, frameon=False, fontsize=9,
    )  # fmt: skip
    return figure


def _draw_panel(axes: "Axes", panel: Ranks, bars: Bars) -> None:
    """Draw one metric of each method."""
    for position, method in enumerate(bars.methods):
        highlighted = is_synib(method, bars)
        if highlighted:
            axes.axhspan(position - 0.5, position + 0.5, color=HIGHLIGHT, linewidth=0, zorder=0)
        row = row_of(panel, method)
        if row is None:
            continue
        colour = style(style_name(method, bars))["color"]
        if (ends := spread_ends(row, bars.spread)) is not None:
            axes.hlines(position, *ends, color=colour, linewidth=3 if highlighted else 2, alpha=0.55)
        axes.plot(row["mean"], position, marker="o", color=colour, markersize=7 if highlighted else 5)
        if row.get("paper") is not None:
            axes.plot(row["paper"], position, zorder=4, **PUBLISHED)
    reference = row_of(panel, bars.reference)
    if reference is not None:
        axes.axvline(reference["mean"], zorder=1, **LEGEND_LINES["line"])
    if panel.chance is not None:
        axes.axvline(panel.chance, zorder=1, **LEGEND_LINES["dotted"])
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(labelsize=9)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
