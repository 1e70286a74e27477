"""Charts as SVG, with one colour for each method wherever it appears."""

import io
from typing import Any

from synib.experiments.charts import Chart

# Grey for what SynIB is compared with, blues for the paper's forms, orange for ours: told apart without colour by marker.
STYLES: dict[str, dict[str, Any]] = {
    "vanilla": {"color": "#8a8f98", "marker": "o"},
    "confidence": {"color": "#b98a5e", "marker": "s"},
    "masked-random": {"color": "#c9b458", "marker": "<"},
    "masked-oracle": {"color": "#7d8f3a", "marker": ">"},
    "synib-random": {"color": "#6fa8dc", "marker": "^"},
    "synib-learned": {"color": "#2f6fb5", "marker": "v"},
    "synib-marginal": {"color": "#d9541e", "marker": "D"},
    "synib-oracle": {"color": "#1b2a49", "marker": "*"},
}


def svg(chart: Chart) -> str:
    """The chart as an SVG document; the same chart gives the same bytes."""
    import matplotlib
    from matplotlib.figure import Figure

    settings: Any = {"svg.hashsalt": "synib", "font.family": "DejaVu Sans", "font.size": 10, "svg.fonttype": "path"}
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(7.6, 4.3), layout="constrained")
        axes = figure.add_subplot()
        few = max(len(s.x) for s in chart.series) <= 12
        if chart.chance is not None:
            axes.axhline(chart.chance, color="#c5c8ce", linewidth=1, linestyle=":", zorder=0)
            axes.annotate(
                "chance", (0.005, chart.chance), xycoords=("axes fraction", "data"), xytext=(0, 3), ha="left",
                textcoords="offset points", color="#8a8f98", fontsize=8,
            )  # fmt: skip
        for series in chart.series:
            style = STYLES.get(series.name, {"color": "#444444", "marker": "o"})
            low = [m - s for m, s in zip(series.mean, series.se, strict=True)]
            high = [m + s for m, s in zip(series.mean, series.se, strict=True)]
            axes.fill_between(series.x, low, high, color=style["color"], alpha=0.15, linewidth=0)
            axes.plot(
                series.x, series.mean, color=style["color"], label=series.label, linewidth=1.8,
                linestyle="--" if series.dashed else "-", marker=style["marker"] if few else None, markersize=5,
            )  # fmt: skip
        axes.set(xlabel=chart.x, ylabel=chart.y)
        axes.set_title(chart.title, loc="left", fontsize=11, fontweight="bold")
        if chart.limits:
            axes.set_ylim(chart.limits)
        if chart.ticks:
            axes.set_xticks(list(chart.ticks))
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#eceef1", linewidth=0.8)
        axes.set_axisbelow(True)
        figure.legend(loc="outside right center", frameon=False, fontsize=9)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return text.getvalue()
