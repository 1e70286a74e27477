"""Every kind of figure as an SVG document and as a plot on a page."""

import io
from collections.abc import Callable
from typing import Any

from synib.report import bars_html, bars_svg, heat_html, heat_svg, lines_html, lines_svg, ternary_html, ternary_svg
from synib.report.plot import Plot
from synib.studies.charts import Bars, Chart, Figure, HeatMaps, Panels, Triangles

SETTINGS: Any = {
    "svg.hashsalt": "synib", "font.family": "DejaVu Sans", "font.size": 10, "svg.fonttype": "path",
    "text.parse_math": False,
}  # fmt: skip
# Kind of figure → how matplotlib draws it, and how plotly does.
KINDS: dict[type, tuple[Callable[[Any], Any], Callable[[Any], Plot]]] = {
    Chart: (lines_svg.draw_chart, lines_html.plot_chart),
    Panels: (lines_svg.draw_panels, lines_html.plot_panels),
    Triangles: (ternary_svg.draw_triangles, ternary_html.plot_triangles),
    Bars: (bars_svg.draw_bars, bars_html.plot_bars),
    HeatMaps: (heat_svg.draw_heat_maps, heat_html.plot_heat_maps),
}


def svg(figure: Figure) -> str:
    """The figure as an SVG document without a date: the same figure gives the same bytes."""
    import matplotlib

    text = io.StringIO()
    with matplotlib.rc_context(SETTINGS):
        KINDS[type(figure)][0](figure).savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return text.getvalue()


def plot(figure: Figure) -> Plot:
    """The figure as plotly draws it."""
    return KINDS[type(figure)][1](figure)
