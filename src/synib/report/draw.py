"""Every kind of figure as an SVG document and as a plot on a page."""

import io
from typing import Any

from synib.report import bars_html, bars_svg, lines_html, lines_svg, ternary_html, ternary_svg
from synib.report.plot import Plot
from synib.studies.charts import Bars, Chart, Figure, Panels, Triangles

SETTINGS: Any = {
    "svg.hashsalt": "synib", "font.family": "DejaVu Sans", "font.size": 10, "svg.fonttype": "path",
    "text.parse_math": False,
}  # fmt: skip


def svg(figure: Figure) -> str:
    """The figure as an SVG document. It holds no date: the same figure gives the same bytes."""
    import matplotlib

    text = io.StringIO()
    with matplotlib.rc_context(SETTINGS):
        _drawing(figure).savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return text.getvalue()


def plot(figure: Figure) -> Plot:
    """The figure as plotly draws it."""
    match figure:
        case Chart():
            return lines_html.plot_chart(figure)
        case Panels():
            return lines_html.plot_panels(figure)
        case Triangles():
            return ternary_html.plot_triangles(figure)
        case Bars():
            return bars_html.plot_bars(figure)


def _drawing(figure: Figure) -> Any:
    match figure:
        case Chart():
            return lines_svg.draw_chart(figure)
        case Panels():
            return lines_svg.draw_panels(figure)
        case Triangles():
            return ternary_svg.draw_triangles(figure)
        case Bars():
            return bars_svg.draw_bars(figure)
