"""Figures as SVG documents and as pieces of a page: which way of drawing serves which figure."""

import io
from typing import Any

from synib.experiments.charts import Bars, Chart, Figure, Panels, Triangles
from synib.report import bars, lines, ternary_html, ternary_svg

SETTINGS: Any = {
    "svg.hashsalt": "synib", "font.family": "DejaVu Sans", "font.size": 10, "svg.fonttype": "path",
    "text.parse_math": False,
}  # fmt: skip


def svg(figure: Figure) -> str:
    """The figure as an SVG document without a date: the same figure gives the same bytes."""
    import matplotlib

    text = io.StringIO()
    with matplotlib.rc_context(SETTINGS):
        _drawing(figure).savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return text.getvalue()


def html(figure: Figure, picture: str) -> str:
    """The figure as a piece of a page: what a reader can point at, where there is such a form, or else its picture."""
    return ternary_html.html(figure) if isinstance(figure, Triangles) else picture[picture.index("<svg") :]


def _drawing(figure: Figure) -> Any:
    match figure:
        case Chart():
            return lines.draw_chart(figure)
        case Panels():
            return lines.draw_panels(figure)
        case Triangles():
            return ternary_svg.draw_triangles(figure)
        case Bars():
            return bars.draw_bars(figure)
