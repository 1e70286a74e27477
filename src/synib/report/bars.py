"""Means of several methods with their spread, one metric beside the other, drawn with matplotlib."""

from textwrap import fill
from typing import TYPE_CHECKING, Any

from synib.measure import interval
from synib.report.styles import brief, style
from synib.studies.charts import Bars, Ranks, Row, label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing
    from matplotlib.lines import Line2D

INK, SOFT, LINE, BAND = "#1c2430", "#8a8f98", "#eceef1", "#fdf1ea"
SPREADS = {"interval": "with 95 % interval", "error": "± standard error"}
PUBLISHED: dict[str, Any] = {
    "marker": "D", "markersize": 5, "markerfacecolor": "none", "markeredgecolor": INK, "markeredgewidth": 0.9,
    "linestyle": "",
}  # fmt: skip


def draw_bars(bars: Bars) -> "Drawing":
    """A dot with its spread for each method, in rows that the panels share; SynIB's rows are set off."""
    from matplotlib.figure import Figure as Drawing

    columns = max(1, len(bars.panels))
    width = max(7.6, 2.2 + 2.4 * columns)
    heads = [fill(panel.title, int(11 * (width - 2.2) / columns)) for panel in bars.panels]
    legend = _legend(bars)
    across = len(legend) if 0.075 * len("".join(legend)) + 0.65 * len(legend) < width else 1  # inches at font size 9
    title = fill(bars.title, int(12 * width))
    more = max((head.count("\n") for head in heads), default=0) + title.count("\n") + len(legend) // across - 1
    figure = Drawing(figsize=(width, 0.21 * len(bars.methods) + 1.15 + 0.2 * more), layout="constrained")
    figure.get_layout_engine().set(wspace=0.06)  # type: ignore[union-attr,call-arg]
    places = list(figure.subplots(1, columns, sharey=True, squeeze=False).flat)
    for axes, panel, head in zip(places, bars.panels, heads, strict=False):
        _rows(axes, panel, bars)
        axes.set_title(head, loc="left", fontsize=10)
    places[0].set_yticks(range(len(bars.methods)), [brief(label(method)) for method in bars.methods])
    for text, method in zip(places[0].get_yticklabels(), bars.methods, strict=True):
        text.set_fontweight("bold" if ours(method) else "normal")
    places[0].set_ylim(max(1, len(bars.methods)) - 0.5, -0.5)  # the first method on top
    figure.suptitle(title, x=0.008, ha="left", fontsize=11, fontweight="bold")
    figure.legend(
        list(legend.values()), list(legend), loc="outside lower center", ncols=across, frameon=False, fontsize=9
    )
    return figure


def _rows(axes: "Axes", panel: Ranks, bars: Bars) -> None:
    """Draw one metric of each method."""
    for place, method in enumerate(bars.methods):
        if ours(method):
            axes.axhspan(place - 0.5, place + 0.5, color=BAND, linewidth=0, zorder=0)
        row = valued(panel, method)
        if row is None:
            continue
        colour = style(role(method, bars))["color"]
        if (spread := ends(row, bars.spread)) is not None:
            axes.hlines(place, *spread, color=colour, linewidth=3 if ours(method) else 2, alpha=0.55)
        axes.plot(row["mean"], place, marker="o", color=colour, markersize=7 if ours(method) else 5)
        if row.get("paper") is not None:
            axes.plot(row["paper"], place, zorder=4, **PUBLISHED)
    reference = valued(panel, bars.reference)
    if reference is not None:
        axes.axvline(reference["mean"], color=SOFT, linewidth=1, zorder=1)
    if panel.chance is not None:
        axes.axvline(panel.chance, color=SOFT, linewidth=1, linestyle=":", zorder=1)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(labelsize=9)
    axes.grid(axis="x", color=LINE, linewidth=0.8)
    axes.set_axisbelow(True)


def _legend(bars: Bars) -> dict[str, "Line2D"]:
    """What marks and lines mean, those that are drawn."""
    from matplotlib.lines import Line2D

    told = {f"mean over {bars.over} {SPREADS[bars.spread]}": Line2D([], [], color=SOFT, marker="o", markersize=5)}
    drawn = [row for panel in bars.panels for method in bars.methods if (row := valued(panel, method))]
    if any(row.get("paper") is not None for row in drawn):
        told["the paper's"] = Line2D([], [], **PUBLISHED)
    if any(valued(panel, bars.reference) for panel in bars.panels):
        told[brief(label(bars.reference))] = Line2D([], [], color=SOFT, linewidth=1)
    if any(panel.chance is not None for panel in bars.panels):
        told["chance"] = Line2D([], [], color=SOFT, linewidth=1, linestyle=":")
    return told


def valued(panel: Ranks, method: str) -> Row | None:
    """A method's row, if there is a mean in it."""
    row = panel.rows.get(method)
    return row if row is not None and row["mean"] is not None else None


def ends(row: Row, spread: str) -> tuple[float, float] | None:
    """Where the spread of a mean begins and ends: its own interval if it brings one (``low, high``); none of one number."""
    mean, se = row["mean"], row.get("se")
    if row.get("low") is not None and spread == "interval":
        return row["low"], row["high"]
    if se is None:
        return None
    return interval(mean, se, row["n"]) if spread == "interval" else (mean - se, mean + se)


def ours(method: str) -> bool:
    return method == "experts" or method.startswith("synib")


def role(method: str, bars: Bars) -> str:
    """What a row has its colour as."""
    method = bars.kinds.get(method, method)
    return "unimodal" if method.startswith("unimodal-") else method
