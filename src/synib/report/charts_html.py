"""Line charts, and means of several methods with their spread, for a page: drawn by plotly."""

import math
from collections.abc import Sequence
from typing import Any

from synib.report.bars import BAND, INK, SPREADS, ends, ours, role, valued
from synib.report.plot_html import Entry, Plot, across, axis, base, by_day, finite, marker, name_once, plain, short
from synib.studies.charts import Bars, Chart, Panel, Panels, Ranks, Row, Series, label

MARKED = 12  # points of a line up to which each is marked


def plot_chart(chart: Chart) -> Plot:
    """One line chart."""
    alone = Panels(
        chart.file, chart.title, chart.x, chart.y, [Panel("", chart.series)], chart.reading, 1, chart.chance, chart.limits
    )  # fmt: skip
    return plot_panels(alone, height=330, ticks=chart.ticks)


def plot_panels(panels: Panels, height: int = 200, ticks: Sequence[float] = ()) -> Plot:
    """Line charts side by side, with one legend."""
    own = any(panel.y for panel in panels.panels)
    every = [series for panel in panels.panels for series in panel.series]
    groups = {key: f"method-{k}" for k, key in enumerate(dict.fromkeys(map(_key, every)))}
    size = 7 if len(panels.panels) == 1 else 6
    if max((len(series.x) for series in every), default=0) > MARKED:
        size = 0
    reach = _reach([x for series in every for x in series.x])
    notes = {"chance": "dotted"} if panels.chance is not None else {}
    data: list[dict[str, Any]] = []
    shapes: list[dict[str, Any]] = []
    layout: dict[str, Any] = {**base(), "shapes": shapes}
    for k, panel in enumerate(panels.panels):
        number = str(k + 1) if k else ""  # plotly's first axis has no number
        layout[f"xaxis{number}"] = axis(
            anchor=f"y{number}", range=reach, showgrid=False, nticks=6, **({"tickvals": list(ticks)} if ticks else {}),
        )  # fmt: skip
        layout[f"yaxis{number}"] = axis(anchor=f"x{number}", **_scale(panel, panels))
        if panels.chance is not None:
            shapes.append(across("y", panels.chance, reach, number, "chance", dash="dot"))
        if panel.level is not None:
            shapes.append(across("y", panel.level, reach, number))
        for series in panel.series:
            traces = _line(series, panel, panels.x, size)
            shared = {
                "type": "scatter",
                "xaxis": f"x{number}",
                "yaxis": f"y{number}",
                "legendgroup": groups[_key(series)],
            }
            data += [{**shared, **trace} for trace in traces]
    name_once(data)
    name_once(shapes)
    grid = {
        "columns": max(1, panels.columns), "least": 190, "height": height, "own": own, "x": panels.x,
        "y": [panel.y for panel in panels.panels] if own else [panels.y] * len(panels.panels),
        "titles": [panel.title for panel in panels.panels], "remarks": [panel.remark for panel in panels.panels],
    }  # fmt: skip
    legend = [Entry(group, label, by_day(name), dashed) for (label, name, dashed), group in groups.items()]
    table = [row for panel in panels.panels for series in panel.series for row in _rows(series, panel)]
    return Plot(data, layout, table, legend, notes, grid)


def _key(series: Series) -> tuple[str, str, bool]:
    return series.label, series.name, series.dashed


def _counts(series: Series) -> Sequence[int | None]:
    """How many numbers each mean is of, where the series says so."""
    return series.n or [None] * len(series.x)


def _line(series: Series, panel: Panel, x: str, size: int) -> list[dict[str, Any]]:
    """The band of one standard error to both sides, and the line."""
    colour = by_day(series.name)
    low = [m - s for m, s in zip(series.mean, series.se, strict=True)]
    high = [m + s for m, s in zip(series.mean, series.se, strict=True)]
    if panel.logarithmic:
        low = [value if value > 0 else mean / 1000 for value, mean in zip(low, series.mean, strict=True)]
    told = []
    for at, mean, se, n in zip(series.x, series.mean, series.se, _counts(series), strict=True):
        count = "" if n is None else f" (n = {n})"
        lines = [f"<b>{plain(series.label)}</b>", plain(panel.title.replace("\n", " ")), f"{plain(x)} {at:g}"]
        error = f" ± {short(se)}" if se else ""  # an error of 0 is also what a line has that does not tell its error
        told.append("<br>".join(filter(None, [*lines, f"{short(mean)}{error}{count}"])))
    band = {
        "x": [*map(finite, series.x), *map(finite, reversed(series.x))],
        "y": [*map(finite, low), *map(finite, reversed(high))],
        "mode": "none", "fill": "toself", "fillcolor": colour, "opacity": 0.15, "hoverinfo": "skip",
    }  # fmt: skip
    line = {
        "x": list(map(finite, series.x)), "y": list(map(finite, series.mean)), "name": plain(series.label),
        "mode": "lines+markers" if size else "lines", "hovertext": told, "hoverinfo": "text",
        "line": {"color": colour, "width": 2, "dash": "dash" if series.dashed else "solid"},
    }  # fmt: skip
    return [band, {**line, "marker": marker(series.name, size)} if size else line]


def _reach(points: Sequence[float]) -> list[float]:
    """The range of an axis: that of all points, and a little more."""
    low, high = min(points, default=0.0), max(points, default=1.0)
    more = 0.03 * (high - low) or 0.5
    return [low - more, high + more]


def _scale(panel: Panel, panels: Panels) -> dict[str, Any]:
    """The y axis of a panel: its own, or that of all. It stays where it is when methods are switched off."""
    limits = panel.limits if panel.y else panels.limits
    shown = [panel] if panel.y else panels.panels
    if panel.logarithmic:
        means = [m for series in panel.series for m in series.mean if m > 0] or [1.0]
        low, high = limits or (min(means) / 1.5, max(means) * 1.5)
        return {"type": "log", "dtick": 1, "range": [math.log10(low), math.log10(high)]}
    ends = [
        m + s * k
        for p in shown
        for series in p.series
        for m, s in zip(series.mean, series.se, strict=True)
        for k in (-1, 1)
    ]
    ends += [level for level in (panel.level, panels.chance) if level is not None]
    return {"nticks": 6, "range": list(limits or _reach([end for end in ends if math.isfinite(end)]))}


def _rows(series: Series, panel: Panel) -> list[dict[str, Any]]:
    """The numbers of a line."""
    return [
        {"panel": panel.title, "name": series.label, "x": x, "mean": mean, "se": se or None, "n": n}
        for x, mean, se, n in zip(series.x, series.mean, series.se, _counts(series), strict=True)
    ]


def plot_bars(bars: Bars) -> Plot:
    """A dot with its spread for each method, in rows that the panels share; SynIB's rows are set off."""
    groups = {method: f"method-{k}" for k, method in enumerate(bars.methods)}
    data: list[dict[str, Any]] = []
    shapes: list[dict[str, Any]] = []
    layout: dict[str, Any] = {**base(), "shapes": shapes}
    rows = [max(1, len(bars.methods)) - 0.5, -0.5]  # the first on top
    notes = {f"mean over {bars.over} {SPREADS[bars.spread]}": ""}
    for k, panel in enumerate(bars.panels):
        number = str(k + 1) if k else ""  # plotly's first axis has no number
        layout[f"xaxis{number}"] = axis(anchor=f"y{number}", nticks=6)
        layout[f"yaxis{number}"] = axis(
            anchor=f"x{number}", showgrid=False, range=rows, ticks="",
            tickvals=list(range(len(bars.methods))),
        )  # fmt: skip
        for place, method in enumerate(bars.methods):
            if ours(method):
                shapes.append(_band(place, number))
            row = valued(panel, method)
            if row is not None:
                shared = {
                    "type": "scatter", "mode": "markers", "xaxis": f"x{number}", "yaxis": f"y{number}", "y": [place],
                    "legendgroup": groups[method], "hoverinfo": "text", "cliponaxis": False,
                    "hovertext": [_told(method, panel, row, bars)],
                }  # fmt: skip
                data += [{**shared, **trace} for trace in _bar(method, row, bars)]
                if row.get("paper") is not None:
                    notes["the paper's"] = "diamond"
        reference = valued(panel, bars.reference)
        if reference is not None:
            shapes.append(across("x", reference["mean"], rows, number, plain(label(bars.reference))))
            notes[label(bars.reference)] = "line"
        if panel.chance is not None:
            shapes.append(across("x", panel.chance, rows, number, "chance", dash="dot"))
            notes["chance"] = "dotted"
    name_once(data)
    name_once(shapes)
    grid = {
        "columns": len(bars.panels), "least": 180, "height": 24 * max(1, len(bars.methods)) + 6, "own": False, "x": "",
        "y": [""] * len(bars.panels), "titles": [panel.title for panel in bars.panels],
        "remarks": [""] * len(bars.panels),
        "rows": [{"label": label(method), "bold": ours(method)} for method in bars.methods],
    }  # fmt: skip
    legend = [Entry(groups[m], label(m), by_day(role(m, bars))) for m in bars.methods]
    return Plot(data, layout, _table(bars), legend, notes, grid)


def _band(place: int, number: str) -> dict[str, Any]:
    """What sets a row off."""
    where = {"x0": 0, "x1": 1, "y0": place - 0.5, "y1": place + 0.5, "xref": f"x{number} domain", "yref": f"y{number}"}
    return {"type": "rect", "layer": "below", **where, "fillcolor": BAND, "line": {"width": 0}}


def _bar(method: str, row: Row, bars: Bars) -> list[dict[str, Any]]:
    """Our value with its spread, and the paper's, where there is one."""
    dot: dict[str, Any] = {"x": [finite(row["mean"])], "marker": marker(role(method, bars), 11 if ours(method) else 9)}
    if (spread := ends(row, bars.spread)) is not None:
        dot["error_x"] = {
            "type": "data", "symmetric": False, "arrayminus": [finite(row["mean"] - spread[0])],
            "array": [finite(spread[1] - row["mean"])], "width": 0, "thickness": 3 if ours(method) else 2,
            "color": by_day(role(method, bars)),
        }  # fmt: skip
    if row.get("paper") is None:
        return [dot]
    hollow = {"symbol": "diamond-open", "size": 9, "color": INK, "line": {"color": INK, "width": 1.2}}
    return [dot, {"x": [row["paper"]], "marker": hollow}]


def _told(method: str, panel: Ranks, row: Row, bars: Bars) -> str:
    """What a dot says."""
    lines = [f"<b>{plain(label(method))}</b>", plain(panel.title.replace("\n", " "))]
    error = "" if row.get("se") is None else f" ± {short(row['se'])}"
    lines.append(f"{short(row['mean'])}{error} (n = {row['n']})")
    if (spread := ends(row, bars.spread)) is not None and bars.spread == "interval":
        lines.append(f"95 % interval [{short(spread[0])}, {short(spread[1])}]")
    if row.get("paper") is not None:
        lines.append(f"the paper's {row['paper']:g}")
    return "<br>".join(lines)


def _table(bars: Bars) -> list[dict[str, Any]]:
    """The numbers behind the dots."""
    rows = []
    for panel in bars.panels:
        for method in bars.methods:
            if (row := valued(panel, method)) is not None:
                low, high = ends(row, bars.spread) or (None, None)
                numbers = {name: row.get(name) for name in ("mean", "se", "n")}
                rows.append(
                    {
                        "panel": panel.title,
                        "method": method,
                        **numbers,
                        "low": low,
                        "high": high,
                        "paper": row.get("paper"),
                    }
                )
    return rows
