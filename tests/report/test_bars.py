"""Means with their spread, side by side."""

from dataclasses import replace
from itertools import pairwise

import pytest
from matplotlib.colors import same_color
from scipy.stats import t as student

from synib.methods import METHODS
from synib.report.bars import style_name
from synib.report.bars_svg import draw_bars
from synib.report.draw import plot
from synib.report.styles import style
from synib.studies.charts import LABELS, Bars, Ranks, label

WHO = ["unimodal-audio", *(m for m in METHODS if m != "unimodal")]
METRICS = {"synergy": "synergy_accuracy", "total": "test_accuracy"}


def row(method, metric, mean, se=0.02, n=5, paper=None):
    return {"method": method, "metric": metric, "mean": mean, "se": se, "n": n, "paper": paper}


SUMMARY = [row(m, metric, 0.5 + 0.02 * k) for metric in METRICS.values() for k, m in enumerate(WHO)]


def bars(summary=SUMMARY, who=WHO, columns=METRICS, **more) -> Bars:
    return Bars.of("bars", "Who learns it", columns, summary, who, **{"reading": "", **more})


def spreads(axes):
    """The ends of each spread, from the top."""
    segments = [segment for drawn in axes.collections for segment in drawn.get_segments()]
    return [(low, high) for (low, _), (high, _) in sorted(map(tuple, segments), key=lambda ends: ends[0][1])]


def dots(axes, marker="o"):
    """Row → the dot of a panel in it."""
    return {int(line.get_ydata()[0]): line for line in axes.get_lines() if line.get_marker() == marker}


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_each_metric_has_a_panel_and_each_method_a_row_in_its_colour_at_its_mean():
    figure = draw_bars(bars())
    assert [axes.get_title(loc="left") for axes in figure.axes] == list(METRICS)
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == [LABELS.get(m, m) for m in WHO]
    assert figure.axes[0].get_ylim()[0] > figure.axes[0].get_ylim()[1]  # the first on top
    for axes in figure.axes:
        drawn = dots(axes)
        for k, method in enumerate(WHO):
            assert drawn[k].get_xdata() == pytest.approx([0.5 + 0.02 * k])
            colour = style("unimodal" if method == "unimodal-audio" else method)["color"]
            assert same_color(drawn[k].get_color(), colour)


def test_the_spread_is_students_interval_or_the_standard_error_and_the_legend_says_which():
    figure = draw_bars(bars())
    half = student.ppf(0.975, 4) * 0.02
    for k, ends in enumerate(spreads(figure.axes[1])):
        assert ends == pytest.approx((0.5 + 0.02 * k - half, 0.5 + 0.02 * k + half))
    assert legend(figure)[0] == "mean over seeds with 95 % confidence interval"
    figure = draw_bars(bars(spread="error", over="speakers"))
    for k, ends in enumerate(spreads(figure.axes[0])):
        assert ends == pytest.approx((0.48 + 0.02 * k, 0.52 + 0.02 * k))
    assert legend(figure)[0] == "mean over speakers ± standard error"


def test_the_reference_and_chance_are_lines_where_they_are_known():
    figure = draw_bars(bars(chance={"synergy": 0.5}))
    vanilla = 0.5 + 0.02 * WHO.index("vanilla")
    rules = [[line.get_xdata()[0] for line in axes.get_lines() if len(line.get_xdata()) == 2] for axes in figure.axes]
    assert rules == [pytest.approx([vanilla, 0.5]), pytest.approx([vanilla])]
    assert legend(figure)[1:] == ["vanilla fusion", "chance"]
    assert len(legend(draw_bars(bars(who=["confidence", "experts"])))) == 1
    assert legend(draw_bars(bars(reference="confidence")))[1] == "confidence penalty"


def test_a_method_without_a_mean_is_left_out():
    summary = [
        row("vanilla", "test_accuracy", 0.7, se=None, n=1),
        row("vanilla", "synergy_accuracy", None, se=None, n=0),
        row("mcr", "synergy_accuracy", 0.6),
        row("ogm", "synergy_accuracy", None, se=None, n=0),
    ]
    figure = bars(summary, who=["ogm", "mcr", "vanilla", "agm"])
    assert list(figure.methods) == ["mcr", "vanilla"]
    synergy, total = draw_bars(figure).axes
    assert list(dots(synergy)) == [0]
    assert list(dots(total)) == [1]
    assert not spreads(total)  # a single number has no spread
    assert draw_bars(replace(figure, methods=["vanilla"], panels=[Ranks("a", {"vanilla": summary[1]})])).axes


@pytest.mark.parametrize(("n", "who"), [(1, WHO[:1]), (4, WHO)], ids=["small", "large"])
def test_any_number_of_panels_and_rows_fits_without_overlap(n, who):
    columns = {f"accuracy on the {k}. of several groups of examples": f"metric_{k}" for k in range(n)}
    summary = [row(m, metric, 0.5 + 0.02 * k, paper=0.7) for metric in columns.values() for k, m in enumerate(who)]
    title = "A title that is so long that nobody would think of it, and that goes on, and on, to the edge and beyond it"
    long = bars(summary, who, columns, chance=dict.fromkeys(columns, 0.5), over="every fold of every seed there is")
    figure = draw_bars(replace(long, title=title))
    figure.draw_without_rendering()
    title_box = figure._suptitle.get_window_extent()
    boxes = [*(a.get_tightbbox() for a in figure.axes), figure.legends[0].get_window_extent(), title_box]
    for i, box in enumerate(boxes):
        assert figure.bbox.x0 - 1 <= box.x0 <= box.x1 <= figure.bbox.x1 + 1
        assert figure.bbox.y0 - 1 <= box.y0 <= box.y1 <= figure.bbox.y1 + 1
        assert not any(box.fully_overlaps(other) for other in boxes[:i])
    labels = [text.get_window_extent() for text in figure.axes[0].get_yticklabels()]
    assert not any(a.fully_overlaps(b) for a, b in pairwise(labels))
    assert all(a.bbox.height > 0.15 * figure.dpi * len(who) for a in figure.axes)


def test_a_row_with_its_own_interval_is_drawn_with_that():
    own = {**row("vanilla", "test_accuracy", 0.5, se=None, n=40), "low": 0.25, "high": 0.625}
    figure = bars([own], columns={"total": "test_accuracy"})
    assert spreads(draw_bars(figure).axes[0]) == [pytest.approx((0.25, 0.625))]
    assert not spreads(draw_bars(replace(figure, spread="error")).axes[0])
    (dot,) = plot(figure).data
    assert (dot["error_x"]["arrayminus"], dot["error_x"]["array"]) == ([0.25], [0.125])
    assert dot["hovertext"] == [
        "<b>vanilla fusion</b><br>total<br>0.500 (n = 40)<br>95 % confidence interval [0.250, 0.625]"
    ]


def test_plotted_bars_are_dots_with_their_spread_and_a_hover_text():
    who = ["unimodal-a", "vanilla", "synib-random"]
    summary = [row(m, metric, 0.5 + 0.1 * k) for k, m in enumerate(who) for metric in METRICS.values()]
    summary[0] |= {"se": None, "n": 1}
    summary[-1] |= {"paper": 0.9}
    figure = bars(summary, who, chance={"synergy": 0.5})
    drawn = plot(figure)
    points = [t for t in drawn.data if t["marker"]["symbol"] != "diamond-open"]
    assert [(t["xaxis"], t["y"]) for t in points] == [(x, [k]) for x in ("x", "x2") for k in range(3)]
    assert [t["x"][0] for t in points] == pytest.approx([0.5, 0.6, 0.7] * 2)
    assert "error_x" not in points[0]
    assert points[1]["error_x"]["array"] == pytest.approx([2.776445 * 0.02], rel=1e-4)
    assert points[1]["error_x"]["arrayminus"] == points[1]["error_x"]["array"]
    assert plot(replace(figure, spread="error")).data[1]["error_x"]["array"] == [0.02]
    assert points[0]["hovertext"] == ["<b>unimodal-a</b><br>synergy<br>0.500 (n = 1)"]
    assert points[5]["hovertext"] == [
        "<b>SynIB, random masks</b><br>total<br>0.700 ± 0.020 (n = 5)<br>95 % confidence interval [0.644, 0.756]<br>paper 0.9"
    ]
    (paper,) = [t for t in drawn.data if t["marker"]["symbol"] == "diamond-open"]
    assert (paper["x"], paper["legendgroup"]) == ([0.9], points[5]["legendgroup"])
    assert [entry.label for entry in drawn.legend] == [label(m) for m in who]
    assert list(drawn.notes.values()) == ["", "diamond", "line", "dotted"]
    rules = [(s["xref"], s["x0"]) for s in drawn.layout["shapes"] if s["type"] == "line"]
    assert rules == [("x", pytest.approx(0.6)), ("x", 0.5), ("x2", pytest.approx(0.6))]
    assert [r["bold"] for r in drawn.grid["rows"]] == [False, False, True]


def test_regressions_on_products_share_a_colour_that_no_additive_model_has():
    names = {style_name(f"products-{n}", bars()) for n in (16, 64, 68, 256)}
    assert names == {"products"}
    assert style("products")["color"] != style("additive")["color"]
