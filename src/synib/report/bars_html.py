"""Means of several methods with their spread, drawn by plotly."""

from typing import Any

from synib.report.bars import is_synib, legend_notes, row_of, spread_ends, style_name
from synib.report.contrast import on_light
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
from synib.report.styles import HIGHLIGHT, TEXT
from synib.studies.charts import Bars, Ranks, Row, label


def plot_bars(bars: Bars) -> Plot:
    """A dot with its spread for each method, in rows that the panels share; SynIB's rows are highlighted."""
    data: list[dict[str, Any]] = []
    shapes: list[dict[str, Any]] = []
    layout: dict[str, Any] = {**base_layout(), "shapes": shapes}
    limits = [max(1, len(bars.methods)) - 0.5, -0.5]  # the first method on top
    for k, panel in enumerate(bars.panels):
        number = axis_number(k)
        layout[f"xaxis{number}"] = axis(anchor=f"y{number}", nticks=6)
        layout[f"yaxis{number}"] = axis(
            anchor=f"x{number}", showgrid=False, range=limits, ticks="", tickvals=list(range(len(bars.methods)))
        )
        for position, method in enumerate(bars.methods):
            if is_synib(method, bars):
                shapes.append(_highlight(position, number))
            row = row_of(panel, method)
            if row is not None:
                shared = {
                    "type": "scatter", "mode": "markers", "xaxis": f"x{number}", "yaxis": f"y{number}", "y": [position],
                    "legendgroup": f"method-{position}", "hoverinfo": "text", "cliponaxis": False,
                    "hovertext": [_hover_text(method, panel, row, bars)],
                }  # fmt: skip
                data += [{**shared, **trace} for trace in _traces(method, row, bars)]
        reference = row_of(panel, bars.reference)
        if reference is not None:
            shapes.append(rule("x", reference["mean"], limits, number, plain(label(bars.reference))))
        if panel.chance is not None:
            shapes.append(rule("x", panel.chance, limits, number, "chance", dash="dot"))
    name_once(data)
    name_once(shapes)
    grid = {
        "columns": len(bars.panels), "minWidth": 180, "height": 24 * max(1, len(bars.methods)) + 6, "ownY": False,
        "x": "", "y": [""] * len(bars.panels), "titles": [panel.title for panel in bars.panels],
        "remarks": [""] * len(bars.panels),
        "rows": [{"label": label(method), "bold": is_synib(method, bars)} for method in bars.methods],
    }  # fmt: skip
    legend = [
        LegendEntry(f"method-{k}", label(method), on_light(style_name(method, bars)))
        for k, method in enumerate(bars.methods)
    ]
    return Plot(data, layout, _table(bars), legend, legend_notes(bars), grid)


def _highlight(position: int, number: str) -> dict[str, Any]:
    """The background of a highlighted row."""
    area = {
        "x0": 0,
        "x1": 1,
        "y0": position - 0.5,
        "y1": position + 0.5,
        "xref": f"x{number} domain",
        "yref": f"y{number}",
    }
    return {"type": "rect", "layer": "below", **area, "fillcolor": HIGHLIGHT, "line": {"width": 0}}


def _traces(method: str, row: Row, bars: Bars) -> list[dict[str, Any]]:
    """Our value with its spread, and the paper's value if there is one."""
    name, mean = style_name(method, bars), row["mean"]
    dot: dict[str, Any] = {"x": [finite(mean)], "marker": marker(name, 11 if is_synib(method, bars) else 9)}
    if (ends := spread_ends(row, bars.spread)) is not None:
        dot["error_x"] = {
            "type": "data", "symmetric": False, "arrayminus": [finite(mean - ends[0])],
            "array": [finite(ends[1] - mean)], "width": 0, "thickness": 3 if is_synib(method, bars) else 2,
            "color": on_light(name),
        }  # fmt: skip
    if row.get("paper") is None:
        return [dot]
    hollow = {"symbol": "diamond-open", "size": 9, "color": TEXT, "line": {"color": TEXT, "width": 1.2}}
    return [dot, {"x": [row["paper"]], "marker": hollow}]


def _hover_text(method: str, panel: Ranks, row: Row, bars: Bars) -> str:
    lines = [f"<b>{plain(label(method))}</b>", plain(panel.title.replace("\n", " "))]
    error = "" if row.get("se") is None else f" ± {short(row['se'])}"
    lines.append(f"{short(row['mean'])}{error} (n = {row['n']})")
    if (ends := spread_ends(row, bars.spread)) is not None and bars.spread == "interval":
        lines.append(f"95 % confidence interval [{short(ends[0])}, {short(ends[1])}]")
    if row.get("paper") is not None:
        lines.append(f"paper {row['paper']:g}")
    return "<br>".join(lines)


def _table(bars: Bars) -> list[dict[str, Any]]:
    """The numbers behind the dots."""
    rows = []
    for panel in bars.panels:
        for method in bars.methods:
            if (row := row_of(panel, method)) is not None:
                low, high = spread_ends(row, bars.spread) or (None, None)
                numbers = {name: row.get(name) for name in ("mean", "se", "n")}
                spread = {"low": low, "high": high, "paper": row.get("paper")}
                rows.append({"panel": panel.title, "method": method, **numbers, **spread})
    return rows
