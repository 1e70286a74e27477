"""Line charts, one and several side by side."""

from dataclasses import replace

import numpy as np
import pytest

from synib.report.draw import plot, svg
from synib.report.lines_svg import draw_chart, draw_panels
from synib.report.styles import STYLES
from synib.studies.charts import Chart, Panel, Panels, Series

LINES = [
    Series("vanilla", "vanilla fusion", [0.0, 1.0], [1.0, 0.5], [0.0, 0.1]),
    Series("S", "synergy < all", [0.0, 1.0], [0.9, 0.625], [0.025, 0.0], dashed=True),
]
CHART = Chart("figure", "Accuracy", "β", "accuracy", LINES, "", chance=0.5, ticks=(0.0, 1.0))
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


OWN_Y = Panels(
    "panels", "Own", "epoch", "", [
        Panel("a", [Series("S", "S", [1, 2], [1.0, 1000.0], [2.0, 0.0])], y="λ", logarithmic=True),
        Panel("b", LINES, y="cosine", limits=(-1, 1), level=0.0),
    ], "",
)  # fmt: skip


@pytest.mark.parametrize("figure", [CHART, panels(2)], ids=["chart", "panels"])
def test_a_long_name_leaves_room_for_the_lines(figure):
    long = Series("a", "a name that nobody would think of, and that goes on " * 3, [0.0, 1.0], [0.5, 0.6], [0.0, 0.0])
    parts = {"series": [long]} if figure is CHART else {"panels": [Panel("a", [long])]}
    assert svg(replace(figure, **parts))  # matplotlib warns of axes without room, and a warning is an error here


def test_each_panel_has_its_title_lines_bands_and_remark_and_the_legend_names_each_line_once():
    figure = draw_panels(panels(2))
    for k, axes in enumerate(figure.axes):
        assert axes.get_title(loc="left") == f"method {k}"
        lines = [line for line in axes.get_lines() if line.get_label() in {s.label for s in sources(RISING)}]
        assert [line.get_color() for line in lines] == [STYLES[n]["color"] for n in ("U1", "U1", "R", "R", "S", "S")]
        assert [line.get_linestyle() for line in lines] == ["-", "--"] * 3
        assert len(axes.collections) == 6  # bands
        assert [text.get_text() for text in axes.texts] == [f"remark {k}"]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [*(s.label for s in sources(RISING)), "chance"]


@pytest.mark.parametrize("n", [1, 5])
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
    lowest = figure.axes[-min(n, 4) :]  # a column has its scale below its last panel, also if a row is short
    assert [axes.get_xlabel() for axes in lowest] == ["epoch"] * len(lowest)
    assert all(any(label.get_visible() for label in axes.get_xticklabels()) for axes in lowest)


@pytest.mark.parametrize("mean", [RISING, RISING[::-1], [0.42] * 20], ids=["rising", "falling", "low"])
def test_a_remark_is_written_where_no_line_is(mean):
    figure = draw_panels(replace(panels(1), panels=[Panel("a", sources(mean), "some words\nand more")], chance=None))
    figure.draw_without_rendering()
    (axes,) = figure.axes
    box = axes.texts[0].get_window_extent()
    line = axes.transData.transform(np.column_stack([EPOCHS, mean]))
    assert not any(box.contains(*point) for point in line)
    assert axes.bbox.contains(box.x0, box.y0)
    assert axes.bbox.contains(box.x1, box.y1)


def test_a_chart_names_its_lines_whatever_they_are_called():
    named = [replace(series, label=f"_{series.label}") for series in LINES]  # which matplotlib would leave out
    (legend,) = draw_chart(replace(CHART, series=named)).legends
    assert [text.get_text() for text in legend.get_texts()] == ["_vanilla fusion", "_synergy < all"]


def test_panels_with_y_axes_of_their_own_have_their_range_scale_and_level():
    first, second = draw_panels(OWN_Y).axes
    assert (first.get_ylabel(), second.get_ylabel()) == ("λ", "cosine")
    assert (first.get_yscale(), second.get_yscale()) == ("log", "linear")
    assert second.get_ylim() == (-1, 1)
    assert first.get_ylim()[1] > 900
    assert any(set(artist.get_ydata()) == {0.0} for artist in second.lines)

    drawn = plot(OWN_Y)
    first, second = drawn.layout["yaxis"], drawn.layout["yaxis2"]
    assert first["type"] == "log"
    assert first["range"][0] < 0 < 3 < first["range"][1] < 3.5
    assert min(bands(drawn)[0]["y"]) > 0  # a band on a logarithmic axis stays above 0
    assert second["range"] == [-1, 1]
    assert [(s["y0"], s["y1"], s["yref"]) for s in drawn.layout["shapes"]] == [(0.0, 0.0, "y2")]
    assert drawn.grid["ownY"]
    assert drawn.grid["y"] == ["λ", "cosine"]


def lines(drawn):
    return [trace for trace in drawn.data if "name" in trace]


def bands(drawn):
    return [trace for trace in drawn.data if trace.get("fill") == "toself"]


def test_a_plotted_line_is_at_its_means_with_a_band_of_one_error_to_both_sides():
    drawn = plot(CHART)
    assert [trace["y"] for trace in lines(drawn)] == [[1.0, 0.5], [0.9, 0.625]]
    assert bands(drawn)[0]["x"] == [0.0, 1.0, 1.0, 0.0]
    assert bands(drawn)[0]["y"] == [1.0, 0.4, 0.6, 1.0]
    assert [trace["line"]["dash"] for trace in lines(drawn)] == ["solid", "dash"]
    assert drawn.layout["xaxis"]["tickvals"] == [0.0, 1.0]
    low, high = drawn.layout["yaxis"]["range"]
    assert 0.35 < low < 0.4 < 1.0 < high < 1.05
    assert drawn.notes == {"chance": "dotted"}


def test_a_hover_text_has_method_position_mean_error_and_n():
    counted = Series("S", "a <b>", [0.5, 1.0], [0.9, 0.5], [0.025, 0.0], n=(7, 8))
    drawn = plot(Panels("f", "t", "epoch", "y", [Panel("one & two", [counted])], ""))
    assert lines(drawn)[0]["hovertext"] == [
        "<b>a &lt;b&gt;</b><br>one &amp; two<br>epoch 0.5<br>0.900 ± 0.025 (n = 7)",
        "<b>a &lt;b&gt;</b><br>one &amp; two<br>epoch 1<br>0.500 (n = 8)",
    ]
    assert [row["n"] for row in drawn.table] == [7, 8]
    assert lines(plot(CHART))[0]["hovertext"][1] == "<b>vanilla fusion</b><br>β 1<br>0.500 ± 0.100"


def test_a_method_is_one_group_in_all_panels_and_is_named_once():
    drawn = plot(Panels("f", "t", "x", "y", [Panel("one", LINES), Panel("two", LINES[1:])], "", chance=0.1))
    assert [(entry.group, entry.label, entry.dashed) for entry in drawn.legend] == [
        ("method-0", "vanilla fusion", False),
        ("method-1", "synergy < all", True),
    ]
    groups = [("method-0", "y"), ("method-1", "y"), ("method-1", "y2")]
    assert [(t["legendgroup"], t["yaxis"]) for t in lines(drawn)] == groups
    assert [(t["legendgroup"], t["yaxis"]) for t in bands(drawn)] == groups
    assert [t["showlegend"] for t in lines(drawn)] == [True, True, False]
    assert not any(t["showlegend"] for t in bands(drawn))
    first, second = (drawn.layout[f"yaxis{k}"]["range"] for k in ("", "2"))
    assert first == second
    assert 0.0 < first[0] < 0.1 < 1.0 < first[1] < 1.1  # holds chance and every band
