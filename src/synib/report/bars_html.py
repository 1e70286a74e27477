"""Means of several methods with their spread for a page, drawn by plotly."""

from typing import Any

from synib.experiments.charts import Bars, Ranks, Row, label
from synib.report.bars import BAND, INK, SPREADS, ends, ours, role, valued
from synib.report.plot_html import Entry, Plot, across, axis, base, by_day, finite, marker, name_once, plain, short


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
                data += [{**shared, **trace} for trace in _traces(method, row, bars)]
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


def _traces(method: str, row: Row, bars: Bars) -> list[dict[str, Any]]:
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
