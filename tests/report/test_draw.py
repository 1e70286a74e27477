"""Figures as SVG."""

import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import matplotlib
import numpy as np
import pytest

from synib.methods import METHODS
from synib.report.draw import svg
from synib.report.lines import draw_chart, draw_panels
from synib.report.styles import STYLES, style
from synib.studies.charts import Chart, Panel, Panels, Series, Triangle, Triangles

CHART = Chart(
    file="figure",
    title="Test accuracy",
    x="β",
    y="accuracy",
    series=[
        Series("vanilla", "vanilla fusion", [0.0, 1.0], [1.0, 0.5], [0.0, 0.1]),
        Series("somebody-else", "another", [0.0, 1.0], [0.9, 0.6], [0.0, 0.0], dashed=True),
    ],
    reading="",
    chance=0.5,
    limits=(0.4, 1.0),
    ticks=(0.0, 1.0),
)
EPOCHS = [float(e) for e in range(1, 21)]
RISING = [0.5 + 0.45 * e / 20 for e in EPOCHS]


def sources(mean: list[float]) -> list[Series]:
    """Three sources, training and validation of each."""
    return [
        Series(name, f"{name}, {part}", EPOCHS, mean, [0.01] * len(EPOCHS), dashed=part == "validation")
        for name in ("U1", "R", "S")
        for part in ("training", "validation")
    ]


def panels(n: int) -> Panels:
    parts = [Panel(f"method {k}", sources(RISING), f"remark {k}") for k in range(n)]
    return Panels("panels", "Sources", "epoch", "accuracy", parts, "", chance=0.5, limits=(0.4, 1.0))


TRIANGLES = Triangles(
    "triangles",
    "Mixtures",
    {"total": [Triangle("a", [{"p_u1": 1, "p_r": 0, "p_s": 0, "mean": 1, "se": 0, "n": 1}])]},
    "",
)


@pytest.mark.parametrize("figure", [CHART, panels(2), TRIANGLES], ids=["chart", "panels", "triangles"])
def test_the_same_figure_gives_the_same_bytes_and_they_are_xml(figure):
    first = svg(figure)
    assert svg(figure) == first
    assert ElementTree.fromstring(first).tag.endswith("svg")
    assert not [e for e in ElementTree.fromstring(first).iter() if e.tag.endswith("}date")]  # no clock in it


def test_every_style_has_a_colour_and_a_marker_of_its_own():
    assert len({looks["color"] for looks in STYLES.values()}) == len(STYLES)
    assert len({looks["marker"] for looks in STYLES.values()}) == len(STYLES)
    assert STYLES["vanilla"]["color"] in svg(CHART)


def test_every_method_has_a_style_and_a_name_without_one_gets_its_own_for_good():
    assert all(style(method)["color"] for method in METHODS)
    other = style("something else")
    assert other == style("something else")
    assert other["color"] not in {looks["color"] for looks in STYLES.values()}
    assert style("something else")["color"] != style("another")["color"]


@pytest.mark.parametrize("figure", [CHART, panels(1), TRIANGLES], ids=["chart", "panels", "triangles"])
def test_drawing_leaves_the_settings_of_matplotlib_as_they_were(figure):
    before = dict(matplotlib.rcParams)
    svg(figure)
    assert dict(matplotlib.rcParams) == before


def test_labels_are_plain_text_and_no_formulas():
    assert svg(replace(CHART, title=r"$\oops$"))  # a formula that matplotlib refuses
    assert svg(replace(panels(1), title=r"$\oops$"))


@pytest.mark.parametrize("figure", [CHART, panels(2)], ids=["chart", "panels"])
def test_a_long_name_leaves_room_for_the_lines(figure):
    long = Series("a", "a name that nobody would think of, and that goes on " * 3, [0.0, 1.0], [0.5, 0.6], [0.0, 0.0])
    parts = {"series": [long]} if figure is CHART else {"panels": [Panel("a", [long])]}
    assert svg(replace(figure, **parts))  # matplotlib warns of axes without room, and a warning is an error here


def test_each_panel_has_its_title_its_lines_and_its_remark():
    drawn = draw_panels(panels(3)).axes
    assert [axes.get_title(loc="left") for axes in drawn] == ["method 0", "method 1", "method 2"]
    for k, axes in enumerate(drawn):
        lines = [line for line in axes.get_lines() if line.get_label() in {s.label for s in sources(RISING)}]
        assert [line.get_color() for line in lines] == [STYLES[n]["color"] for n in ("U1", "U1", "R", "R", "S", "S")]
        assert [line.get_linestyle() for line in lines] == ["-", "--"] * 3
        assert len(axes.collections) == 6  # bands
        assert [text.get_text() for text in axes.texts] == [f"remark {k}"]


def test_panels_have_one_legend_that_names_each_line_once():
    (legend,) = draw_panels(panels(2)).legends
    assert [text.get_text() for text in legend.get_texts()] == [*(s.label for s in sources(RISING)), "chance"]
    (legend,) = draw_panels(replace(panels(2), chance=None)).legends
    assert [text.get_text() for text in legend.get_texts()] == [s.label for s in sources(RISING)]


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_any_number_of_panels_fits_without_overlap(n):
    figure = draw_panels(panels(n))
    figure.draw_without_rendering()
    assert len(figure.axes) == n
    assert {axes.get_ylim() for axes in figure.axes} == {(0.4, 1.0)}
    boxes = [*(axes.get_tightbbox() for axes in figure.axes), figure.legends[0].get_window_extent()]
    for i, box in enumerate(boxes):
        assert figure.bbox.fully_containsx(box.x0)
        assert figure.bbox.fully_containsx(box.x1)
        assert figure.bbox.fully_containsy(box.y0)
        assert not any(box.fully_overlaps(other) for other in boxes[:i])
    lowest = figure.axes[-min(n, 4) :]  # the scale of a column is below its last panel, also where a row is short
    assert [axes.get_xlabel() for axes in lowest] == ["epoch"] * len(lowest)
    assert all(any(label.get_visible() for label in axes.get_xticklabels()) for axes in lowest)


@pytest.mark.parametrize(
    "mean", [RISING, RISING[::-1], [0.42] * 20, [0.98] * 20], ids=["rising", "falling", "low", "high"]
)
def test_a_remark_is_written_where_no_line_is(mean):
    figure = draw_panels(replace(panels(1), panels=[Panel("a", sources(mean), "some words\nand more")], chance=None))
    figure.draw_without_rendering()
    (axes,) = figure.axes
    box = axes.texts[0].get_window_extent()
    line = axes.transData.transform(np.column_stack([EPOCHS, mean]))
    assert not any(box.contains(*point) for point in line)
    assert axes.bbox.contains(box.x0, box.y0)
    assert axes.bbox.contains(box.x1, box.y1)


def test_panels_with_y_axes_of_their_own_do_not_share_one():
    line = [Series("S", "S", [1, 2], [1.0, 1000.0], [0.0, 0.0])]
    panels = [Panel("a", line, y="λ", logarithmic=True), Panel("b", line, y="cosine", limits=(-1, 1), level=0.0)]
    first, second = draw_panels(Panels("f", "t", "x", "", panels, "r")).axes
    assert (first.get_ylabel(), second.get_ylabel()) == ("λ", "cosine")
    assert (first.get_yscale(), second.get_yscale()) == ("log", "linear")
    assert second.get_ylim() == (-1, 1)
    assert first.get_ylim()[1] > 900
    assert any(set(artist.get_ydata()) == {0.0} for artist in second.lines)


def test_a_chart_names_its_lines_whatever_they_are_called():
    named = [replace(series, label=f"_{series.label}") for series in CHART.series]  # which matplotlib would leave out
    (legend,) = draw_chart(replace(CHART, series=named)).legends
    assert [text.get_text() for text in legend.get_texts()] == ["_vanilla fusion", "_another"]
    assert svg(replace(CHART, series=[]))


def test_a_panel_without_lines_is_an_empty_panel():
    figure = draw_panels(replace(panels(1), panels=[Panel("nothing", [], "not run")]))
    assert figure.axes[0].get_title(loc="left") == "nothing"
