"""Line charts, one or several side by side, drawn by plotly."""

import math
from collections.abc import Sequence
from typing import Any

from synib.report.contrast import on_light
from synib.report.lines import band, has_markers, line_key
from synib.report.plot import (
    LegendEntry,
    Plot,
    axis,
    axis_number,
    base_layout,
    finite,
    marker,
    name_once,
    plain,
    rule,
    short,
)  # fmt: skip
from synib.studies.charts import Chart, Panel, Panels, Series


def plot_chart(chart: Chart) -> Plot:
    """One line chart."""
    panels = Panels(
        chart.file, chart.title, chart.x, chart.y, [Panel("", chart.series)], chart.reading, 1, chart.chance, chart.limits
    )  # fmt: skip
    return plot_panels(panels, height=330, ticks=chart.ticks)


def plot_panels(panels: Panels, height: int = 200, ticks: Sequence[float] = ()) -> Plot:
    """Line charts side by side, with one legend."""
    every_line = [series for panel in panels.panels for series in panel.series]
    groups = {key: f"method-{k}" for k, key in enumerate(dict.fromkeys(map(line_key, every_line)))}
    marker_size = (7 if len(panels.panels) == 1 else 6) if has_markers(every_line) else 0
    span = _padded([x for series in every_line for x in series.x])
    data: list[dict[str, Any]] = []
    shapes: list[dict[str, Any]] = []
    layout: dict[str, Any] = {**base_layout(), "shapes": shapes}
    for k, panel in enumerate(panels.panels):
        number = axis_number(k)
        layout[f"xaxis{number}"] = axis(
            anchor=f"y{number}", range=span, showgrid=False, nticks=6, **({"tickvals": list(ticks)} if ticks else {}),
        )  # fmt: skip
        layout[f"yaxis{number}"] = axis(anchor=f"x{number}", **_y_axis(panel, panels))
        if panels.chance is not None:
            shapes.append(rule("y", panels.chance, span, number, "chance", dash="dot"))
        if panel.level is not None:
            shapes.append(rule("y", panel.level, span, number))
        for series in panel.series:
            group = groups[line_key(series)]
            shared = {"type": "scatter", "xaxis": f"x{number}", "yaxis": f"y{number}", "legendgroup": group}
            data += [{**shared, **trace} for trace in _traces(series, panel, panels.x, marker_size)]
    name_once(data)
    name_once(shapes)
    own_y = any(panel.y for panel in panels.panels)
    grid = {
        "columns": max(1, panels.columns), "minWidth": 190, "height": height, "ownY": own_y, "x": panels.x,
        "y": [panel.y for panel in panels.panels] if own_y else [panels.y] * len(panels.panels),
        "titles": [panel.title for panel in panels.panels], "remarks": [panel.remark for panel in panels.panels],
    }  # fmt: skip
    legend = [LegendEntry(group, label, on_light(name), dashed) for (label, name, dashed), group in groups.items()]
    table = [row for panel in panels.panels for series in panel.series for row in _rows(series, panel)]
    return Plot(data, layout, table, legend, {"chance": "dotted"} if panels.chance is not None else {}, grid)


def _counts(series: Series) -> Sequence[int | None]:
    """The n of each mean, if the series has it."""
    return series.n or [None] * len(series.x)


def _traces(series: Series, panel: Panel, x: str, marker_size: int) -> list[dict[str, Any]]:
    """The band of one standard error, and the line."""
    colour = on_light(series.name)
    low, high = band(series)
    if panel.logarithmic:
        low = [value if value > 0 else mean / 1000 for value, mean in zip(low, series.mean, strict=True)]
    area = {
        "x": [*map(finite, series.x), *map(finite, reversed(series.x))],
        "y": [*map(finite, low), *map(finite, reversed(high))],
        "mode": "none", "fill": "toself", "fillcolor": colour, "opacity": 0.15, "hoverinfo": "skip",
    }  # fmt: skip
    line = {
        "x": list(map(finite, series.x)), "y": list(map(finite, series.mean)), "name": plain(series.label),
        "mode": "lines+markers" if marker_size else "lines", "hovertext": _hover_texts(series, panel, x),
        "hoverinfo": "text", "line": {"color": colour, "width": 2, "dash": "dash" if series.dashed else "solid"},
    }  # fmt: skip
    return [area, {**line, "marker": marker(series.name, marker_size)} if marker_size else line]


def _hover_texts(series: Series, panel: Panel, x: str) -> list[str]:
    texts = []
    for at, mean, se, n in zip(series.x, series.mean, series.se, _counts(series), strict=True):
        lines = [f"<b>{plain(series.label)}</b>", plain(panel.title.replace("\n", " ")), f"{plain(x)} {at:g}"]
        error = f" ± {short(se)}" if se else ""  # a line without errors has errors of 0
        count = "" if n is None else f" (n = {n})"
        texts.append("<br>".join(filter(None, [*lines, f"{short(mean)}{error}{count}"])))
    return texts


def _padded(values: Sequence[float]) -> list[float]:
    """The range of the values with a margin on both sides."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    padding = 0.03 * (high - low) or 0.5
    return [low - padding, high + padding]


def _y_axis(panel: Panel, panels: Panels) -> dict[str, Any]:
    """Scale and range of a panel's y axis, for this panel or shared by all. Hiding a method does not change it."""
    limits = panel.limits if panel.y else panels.limits
    if panel.logarithmic:
        means = [mean for series in panel.series for mean in series.mean if mean > 0] or [1.0]
        low, high = limits or (min(means) / 1.5, max(means) * 1.5)
        return {"type": "log", "dtick": 1, "range": [math.log10(low), math.log10(high)]}
    values = [level for level in (panel.level, panels.chance) if level is not None]
    for sharing in [panel] if panel.y else panels.panels:
        for series in sharing.series:
            values += [end for ends in band(series) for end in ends if math.isfinite(end)]
    return {"nticks": 6, "range": list(limits or _padded(values))}


def _rows(series: Series, panel: Panel) -> list[dict[str, Any]]:
    """The values of a line."""
    return [
        {"panel": panel.title, "name": series.label, "x": x, "mean": mean, "se": se or None, "n": n}
        for x, mean, se, n in zip(series.x, series.mean, series.se, _counts(series), strict=True)
    ]
