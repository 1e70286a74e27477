"""A plotly figure, and the parts shared by all kinds of figures."""

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from synib.report.contrast import LIGHT, dark_colours, on_light
from synib.report.styles import GRID, GUIDE, MUTED_TEXT, TEXT, style

FONT = {"family": "system-ui, Segoe UI, Roboto, sans-serif", "size": 13, "color": TEXT}
# Plotly's names of matplotlib's markers. Markers that consist of strokes need a line.
SYMBOLS: dict[Any, str] = {
    "o": "circle", "s": "square", "<": "triangle-left", ">": "triangle-right", "^": "triangle-up", "v": "triangle-down",
    "8": "octagon", "D": "diamond", "*": "star", "H": "hexagon2", ".": "circle-open", "d": "diamond-tall",
    "1": "y-down-open", "2": "y-up-open", "3": "y-left-open", "4": "y-right-open", "+": "cross-thin-open",
    "x": "x-thin-open", "P": "cross", "X": "x", "p": "pentagon", "h": "hexagon", (5, 0): "star-square",
    (6, 0): "hexagram", (7, 0): "star-diamond", "": "circle-dot", "|": "line-ns-open", "_": "line-ew-open",
    ",": "square-dot", (4, 0): "diamond-wide",
}  # fmt: skip


@dataclass(frozen=True)
class LegendEntry:
    """A button of the legend, which shows and hides a method.

    Args:
        group: The ``legendgroup`` of the method's traces.
        label: The name of the method.
        colour: Its colour on a light page.
        dashed: Whether its lines are dashed.
    """

    group: str
    label: str
    colour: str
    dashed: bool = False

    @property
    def dark_colour(self) -> str:
        return dark_colours()[self.colour]


@dataclass(frozen=True)
class Plot:
    """A plotly figure, with the additional input of the page's script.

    Args:
        data, layout: Traces and layout in plotly's schema. Every colour is a key of
            :func:`~synib.report.contrast.dark_colours`.
        table: The values behind the figure.
        legend: The methods that can be hidden.
        notes: Other entries of the legend: label → ``"dotted"``, ``"line"``, ``"diamond"`` or ``""``.
        grid: Titles and sizes of panels, which the script arranges to fit the width of the page.
        tiles: The widths from which the script computes the size of tiles, for triangles.
    """

    data: Sequence[Mapping[str, Any]]
    layout: Mapping[str, Any]
    table: Sequence[Mapping[str, Any]]
    legend: Sequence[LegendEntry] = ()
    notes: Mapping[str, str] = field(default_factory=dict)
    grid: Mapping[str, Any] | None = None
    tiles: Mapping[str, float] | None = None

    def script_input(self, title: str, file: str) -> dict[str, Any]:
        """The input of the page's script, ready for JSON."""
        return {
            "title": title,
            "file": re.sub(r"[^A-Za-z0-9_-]+", "-", file),
            "data": self.data,
            "layout": self.layout,
            "grid": self.grid,
            "tiles": self.tiles,
            "csv": self.csv(),
        }

    def csv(self) -> str:
        """The values behind the figure, as CSV."""
        text = io.StringIO()
        if self.table:
            writer = csv.DictWriter(text, list(self.table[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.table)
        return text.getvalue()


def base_layout() -> dict[str, Any]:
    """The layout shared by all figures. Dragging and zooming are disabled, so that a page scrolls on a phone."""
    return {
        "font": FONT,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "hovermode": "closest",
        "hoverlabel": {"bgcolor": LIGHT, "bordercolor": MUTED_TEXT, "font": FONT, "align": "left"},
        "dragmode": False,
        "showlegend": False,
    }


def axis_number(panel: int) -> str:
    """The suffix of a panel's axes: plotly's first axis has none, the second is ``x2``."""
    return str(panel + 1) if panel else ""


def axis(**properties: Any) -> dict[str, Any]:
    """An axis without a line, over a light grid."""
    return {
        "fixedrange": True, "automargin": False, "zeroline": False, "showline": False, "gridcolor": GRID,
        "tickfont": {"size": 12}, **properties,
    }  # fmt: skip


def rule(axis: str, value: float, span: Sequence[float], number: str, name: str = "", **looks: Any) -> dict[str, Any]:
    """A thin line through a panel at a value of its x or y axis.

    Args:
        axis, value: The axis and the position on it.
        span: Start and end on the other axis. (Plotly fails with fractions of a panel in the layer "between".)
        number: The number of the panel's axes.
        name: Its name in the legend of a downloaded figure.
        looks: Further properties of the line.
    """
    other = "y" if axis == "x" else "x"
    return {
        "type": "line",
        "layer": "between",
        **{f"{axis}0": value, f"{axis}1": value, f"{other}0": span[0], f"{other}1": span[1]},
        **{f"{which}ref": f"{which}{number}" for which in "xy"},
        **({"name": name, "legendgroup": name} if name else {}),
        "line": {"color": GUIDE, "width": 1, **looks},
    }


def name_once(drawn: Sequence[dict[str, Any]]) -> None:
    """Show each group once in the legend of a downloaded figure; unnamed traces and shapes are excluded."""
    seen: set[str] = set()
    for item in drawn:
        group = item.get("legendgroup", "")
        item["showlegend"] = bool(item.get("name")) and group not in seen
        if item["showlegend"]:
            seen.add(group)


def marker(name: str, size: float) -> dict[str, Any]:
    """The marker of a method."""
    colour, symbol = on_light(name), SYMBOLS[style(name)["marker"]]
    return {
        "color": colour, "symbol": symbol, "size": size, "opacity": 1,
        "line": {"color": colour, "width": 1.5 if "open" in symbol else 0},
    }  # fmt: skip


def plain(text: str) -> str:
    """Text that plotly shows literally, although it interprets some HTML."""
    return escape(text, quote=False).replace("\n", "<br>")


def short(value: float) -> str:
    """A number of any size, for a hover text."""
    return f"{value:.3f}" if value == 0 or 0.01 <= abs(value) < 100 else f"{value:.3g}"


def finite(value: float | None) -> float | None:
    """A number for JSON, with 6 digits; ``None`` instead of NaN and infinity."""
    return float(f"{value:.6g}") if value is not None and math.isfinite(value) else None
