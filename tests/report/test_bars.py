"""Means with their spread, side by side."""

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from itertools import pairwise

import matplotlib
import pytest
from matplotlib.colors import same_color
from scipy.stats import t as student

from synib.methods import METHODS
from synib.report.bars import draw_bars
from synib.report.draw import svg
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
    lines = [segment for drawn in axes.collections for segment in drawn.get_segments()]
    return [(low, high) for (low, _), (high, _) in sorted(map(tuple, lines), key=lambda ends: ends[0][1])]


def dots(axes, marker="o"):
    """Where the dots of a panel are, by row."""
    found = [line for line in axes.get_lines() if line.get_marker() == marker]
    return {int(line.get_ydata()[0]): line for line in found}


def words(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_the_same_figure_gives_the_same_bytes_without_a_clock_and_leaves_matplotlib_as_it_was():
    before = dict(matplotlib.rcParams)
    first = svg(bars())
    assert dict(matplotlib.rcParams) == before
    assert svg(bars()) == first
    assert not [e for e in ElementTree.fromstring(first).iter() if e.tag.endswith("}date")]
    assert svg(replace(bars(), title=r"$\oops$"))  # a formula that matplotlib refuses


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


def test_the_spread_is_the_interval_of_student_or_the_standard_error_and_the_legend_says_which():
    figure = draw_bars(bars())
    reach = student.ppf(0.975, 4) * 0.02
    for k, (low, high) in enumerate(spreads(figure.axes[1])):
        assert (low, high) == pytest.approx((0.5 + 0.02 * k - reach, 0.5 + 0.02 * k + reach))
    assert words(figure)[0] == "mean over seeds with 95 % interval"
    figure = draw_bars(bars(spread="error", over="speakers"))
    for k, (low, high) in enumerate(spreads(figure.axes[0])):
        assert (low, high) == pytest.approx((0.48 + 0.02 * k, 0.52 + 0.02 * k))
    assert words(figure)[0] == "mean over speakers ± standard error"


def test_synibs_rows_stand_out_and_no_others():
    figure = draw_bars(bars())
    ours = {m for m in WHO if m == "experts" or m.startswith("synib")}
    bold = {t.get_text() for t in figure.axes[0].get_yticklabels() if t.get_fontweight() == "bold"}
    assert bold == {label(m) for m in ours}
    for axes in figure.axes:
        bands = [patch.get_y() + patch.get_height() / 2 for patch in axes.patches]
        assert bands == [WHO.index(m) for m in WHO if m in ours]
        sizes = {m: dots(axes)[k].get_markersize() for k, m in enumerate(WHO)}
        assert min(sizes[m] for m in ours) > max(size for m, size in sizes.items() if m not in ours)


def test_vanilla_and_chance_are_lines_where_they_are_known():
    figure = draw_bars(bars(chance={"synergy": 0.5}))
    vanilla = 0.5 + 0.02 * WHO.index("vanilla")
    across = [[line.get_xdata()[0] for line in axes.get_lines() if len(line.get_xdata()) == 2] for axes in figure.axes]
    assert across == [pytest.approx([vanilla, 0.5]), pytest.approx([vanilla])]
    assert words(figure)[1:] == ["vanilla fusion", "chance"]
    figure = draw_bars(bars(who=["confidence", "experts"]))
    assert not [line for axes in figure.axes for line in axes.get_lines() if len(line.get_xdata()) == 2]
    assert len(words(figure)) == 1
    figure = draw_bars(bars(reference="confidence"))
    assert words(figure)[1] == "confidence penalty"
    assert figure.axes[0].get_lines()[-1].get_xdata()[0] == pytest.approx(0.5 + 0.02 * WHO.index("confidence"))


def test_the_papers_value_is_a_hollow_mark_beside_ours():
    figure = draw_bars(bars([row("vanilla", "test_accuracy", 0.7, paper=0.8), row("mcr", "test_accuracy", 0.6)]))
    synergy, total = figure.axes
    assert not dots(synergy, "D")
    (mark,) = dots(total, "D").values()
    assert (mark.get_xdata(), mark.get_ydata()) == ([0.8], [0])
    assert mark.get_markerfacecolor() == "none"
    assert words(figure)[1] == "the paper's"
    assert "the paper's" not in words(draw_bars(bars()))


def test_what_was_not_measured_is_left_out():
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
    assert not spreads(total)  # one number has no spread
    assert draw_bars(replace(figure, methods=["vanilla"], panels=[Ranks("a", {"vanilla": summary[1]})])).axes


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("who", [WHO[:1], WHO], ids=["one", "all"])
def test_any_number_of_panels_and_rows_fits_without_overlap(n, who):
    columns = {f"accuracy on the {k}. of several groups of examples": f"metric_{k}" for k in range(n)}
    summary = [row(m, metric, 0.5 + 0.02 * k, paper=0.7) for metric in columns.values() for k, m in enumerate(who)]
    title = "A title that is so long that nobody would think of it, and that goes on, and on, to the edge and beyond it"
    made = Bars.of(
        "f",
        title,
        columns,
        summary,
        who,
        dict.fromkeys(columns, 0.5),
        reading="",
        over="every fold of every seed there is",
    )
    figure = draw_bars(made)
    figure.draw_without_rendering()
    title_box = figure._suptitle.get_window_extent()
    boxes = [*(a.get_tightbbox() for a in figure.axes), figure.legends[0].get_window_extent(), title_box]
    for i, box in enumerate(boxes):
        assert figure.bbox.x0 - 1 <= box.x0 <= box.x1 <= figure.bbox.x1 + 1
        assert figure.bbox.y0 - 1 <= box.y0 <= box.y1 <= figure.bbox.y1 + 1
        assert not any(box.fully_overlaps(other) for other in boxes[:i])
    texts = [text.get_window_extent() for text in figure.axes[0].get_yticklabels()]
    assert not any(a.fully_overlaps(b) for a, b in pairwise(texts))
    assert all(a.bbox.height > 0.15 * figure.dpi * len(who) for a in figure.axes)


def test_a_row_that_brings_its_interval_is_drawn_with_that():
    mine = {**row("vanilla", "test_accuracy", 0.7, se=None), "low": 0.4, "high": 0.75}
    drawn = draw_bars(bars([mine], columns={"total": "test_accuracy"}))
    assert spreads(drawn.axes[0]) == [pytest.approx((0.4, 0.75))]
    assert not spreads(draw_bars(bars([mine], columns={"total": "test_accuracy"}, spread="error")).axes[0])


def test_a_figure_without_rows_is_an_empty_figure():
    assert svg(bars([]))
    assert svg(bars(columns={}))
