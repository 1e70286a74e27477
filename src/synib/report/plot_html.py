"""What plotly draws on a page: the same for all kinds of figures, in colours that can be read by day and by night."""

import colorsys
import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from typing import Any

from synib.report.bars import BAND, INK
from synib.report.styles import OTHERS, STYLES, style
from synib.report.ternary import MISSING, SOFT

DAY, NIGHT = "#ffffff", "#1d242d"  # what figures are drawn on
GUIDE, GRID = "#9aa1ab", "#eceef1"
FONT = {"family": "system-ui, Segoe UI, Roboto, sans-serif", "size": 13, "color": INK}
# What matplotlib's markers are called by plotly. Those that are strokes need a line of their own.
SYMBOLS: dict[Any, str] = {
    "o": "circle", "s": "square", "<": "triangle-left", ">": "triangle-right", "^": "triangle-up", "v": "triangle-down",
    "8": "octagon", "D": "diamond", "*": "star", "H": "hexagon2", ".": "circle-open", "d": "diamond-tall",
    "1": "y-down-open", "2": "y-up-open", "3": "y-left-open", "4": "y-right-open", "+": "cross-thin-open",
    "x": "x-thin-open", "P": "cross", "X": "x", "p": "pentagon", "h": "hexagon", (5, 0): "star-square",
    (6, 0): "hexagram", (7, 0): "star-diamond", "": "circle-dot", "|": "line-ns-open", "_": "line-ew-open",
    ",": "square-dot", (4, 0): "diamond-wide",
}  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """A method in the legend, which can be switched off and on.

    Args:
        group: What its traces have as ``legendgroup``.
        label: What it is called.
        colour: By day.
        dashed: Whether its lines are.
    """

    group: str
    label: str
    colour: str
    dashed: bool = False

    @property
    def night(self) -> str:
        return dark()[self.colour]


@dataclass(frozen=True)
class Plot:
    """A figure as plotly draws it, with what the page's script needs besides.

    Args:
        data, layout: Plotly's own words. Every colour in them is one that :func:`dark` knows.
        table: The numbers behind the figure.
        legend: What can be switched.
        notes: What else is drawn: words → ``"dotted"``, ``"line"``, ``"diamond"`` or ``""``.
        grid: Titles and sizes of panels, for which the script finds places in the width that there is.
        tiles: How the size of tiles follows from the width, for triangles.
    """

    data: Sequence[Mapping[str, Any]]
    layout: Mapping[str, Any]
    table: Sequence[Mapping[str, Any]]
    legend: Sequence[Entry] = ()
    notes: Mapping[str, str] = field(default_factory=dict)
    grid: Mapping[str, Any] | None = None
    tiles: Mapping[str, float] | None = None

    def plain(self, title: str, file: str) -> dict[str, Any]:
        """For the page's script."""
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
        """The numbers behind the figure."""
        text = io.StringIO()
        if self.table:
            writer = csv.DictWriter(text, list(self.table[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.table)
        return text.getvalue()


def base() -> dict[str, Any]:
    """The layout that all figures share. Nothing can be dragged or zoomed: on a phone the page must scroll."""
    return {
        "font": FONT,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "hovermode": "closest",
        "hoverlabel": {"bgcolor": DAY, "bordercolor": SOFT, "font": FONT, "align": "left"},
        "dragmode": False,
        "showlegend": False,
    }


def axis(**more: Any) -> dict[str, Any]:
    """An axis without a line, over a light grid."""
    return {
        "fixedrange": True, "automargin": False, "zeroline": False, "showline": False, "gridcolor": GRID,
        "tickfont": {"size": 12}, **more,
    }  # fmt: skip


def across(axis: str, value: float, reach: Sequence[float], panel: str, name: str = "", **looks: Any) -> dict[str, Any]:
    """A thin line through a panel at a value of its x or its y axis; the legend of a downloaded figure may name it.

    Args:
        axis, value: Where.
        reach: From where to where on the other axis. (Plotly fails over a line "between" in fractions of a panel.)
        panel: Number of the panel's axes.
        name: What it is called.
        looks: Of the line.
    """
    other = "y" if axis == "x" else "x"
    ends = {f"{axis}0": value, f"{axis}1": value, f"{other}0": reach[0], f"{other}1": reach[1]}
    places = {f"{which}ref": f"{which}{panel}" for which in "xy"}
    named = {"name": name, "legendgroup": name} if name else {}
    return {
        "type": "line",
        "layer": "between",
        **ends,
        **places,
        **named,
        "line": {"color": GUIDE, "width": 1, **looks},
    }


def name_once(drawn: Sequence[dict[str, Any]]) -> None:
    """Have each group named once in plotly's own legend, which a downloaded figure has; what has no name is left out."""
    seen: set[str] = set()
    for one in drawn:
        group = one.get("legendgroup", "")
        one["showlegend"] = bool(one.get("name")) and group not in seen
        if one["showlegend"]:
            seen.add(group)


def marker(name: str, size: float) -> dict[str, Any]:
    """A method's mark."""
    colour = by_day(name)
    return {
        "color": colour, "symbol": SYMBOLS[style(name)["marker"]], "size": size, "opacity": 1,
        "line": {"color": colour, "width": 1.5 if "open" in SYMBOLS[style(name)["marker"]] else 0},
    }  # fmt: skip


def by_day(name: str) -> str:
    """The colour of a method, dark enough for a white page."""
    return readable(style(name)["color"], DAY)


@cache
def dark() -> dict[str, str]:
    """From every colour by day to what it is by night."""
    colours = [*(looks["color"] for looks in STYLES.values()), *OTHERS]
    ours = {
        DAY: NIGHT,
        INK: "#e8ebef",
        SOFT: "#a3adba",
        GUIDE: "#77818f",
        GRID: "#333c48",
        BAND: "#3a2a20",
        MISSING: "#566172",
    }
    return {readable(colour, DAY): readable(colour, NIGHT) for colour in colours} | ours


def readable(colour: str, ground: str, least: float = 3.0) -> str:
    """The colour, made lighter or darker where it can hardly be told from the ground (WCAG asks for 3 to 1)."""
    if contrast(colour, ground) >= least:
        return colour
    hue, light, full = colorsys.rgb_to_hls(*_parts(colour))
    night = luminance(ground) < 0.2
    if night:
        light = max(light, 1 - light)  # the darkest by day is the lightest by night
    while contrast(made := _hex(colorsys.hls_to_rgb(hue, light, full)), ground) < least:
        light += 0.01 if night else -0.01
    return made


def contrast(one: str, other: str) -> float:
    """From 1 (the same) to 21 (black on white), as WCAG measures it."""
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in _parts(colour))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _parts(colour: str) -> tuple[float, float, float]:
    red, green, blue = (int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5))
    return red, green, blue


def _hex(parts: tuple[float, ...]) -> str:
    return "#" + "".join(f"{round(255 * p):02x}" for p in parts)


def plain(text: str) -> str:
    """Text that plotly shows as it is, though it reads a little HTML."""
    return escape(text, quote=False).replace("\n", "<br>")


def short(value: float) -> str:
    """A number for a hover, of any size."""
    return f"{value:.3f}" if value == 0 or 0.01 <= abs(value) < 100 else f"{value:.3g}"


def finite(value: float | None) -> float | None:
    """A number as JSON has it, without the digits that nobody sees."""
    return float(f"{value:.6g}") if value is not None and math.isfinite(value) else None
