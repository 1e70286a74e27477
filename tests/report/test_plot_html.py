"""What plotly is told to draw."""

import csv
import io
import json
from dataclasses import dataclass, replace

import plotly.graph_objects
import pytest

from synib.report.draw import plot
from synib.report.plot_html import DAY, NIGHT, SYMBOLS, contrast, dark, finite, readable, short
from synib.report.styles import OTHERS, STYLES
from synib.studies.charts import Bars, Chart, Panel, Panels, Series, Triangle, Triangles, label

LINES = [
    Series("vanilla", "vanilla fusion", [0.0, 1.0], [1.0, 0.5], [0.0, 0.1]),
    Series("S", "synergy < all", [0.0, 1.0], [0.9, 0.625], [0.025, 0.0], dashed=True),
]
CHART = Chart("figure", "Accuracy", "β", "accuracy", LINES, "", chance=0.5, ticks=(0.0, 1.0))
PANELS = Panels(
    "panels", "Many", "epoch", "accuracy", [Panel("one", LINES), Panel("two", LINES[1:])], "", limits=(0.4, 1.0)
)
OWN = replace(
    PANELS,
    panels=[
        Panel("a", [Series("S", "S", [1, 2], [1.0, 1000.0], [2.0, 0.0])], y="λ", logarithmic=True),
        Panel("b", LINES, y="cosine", limits=(-1, 1), level=0.0),
    ],
)
WHO = ["unimodal-a", "vanilla", "synib-random"]


def bars(**more):
    rows = [
        {"method": m, "metric": metric, "mean": 0.5 + 0.1 * k, "se": 0.02, "n": 5, "paper": None}
        for k, m in enumerate(WHO)
        for metric in "ab"
    ]
    rows[-1] |= {"paper": 0.9}
    rows[0] |= {"se": None, "n": 1}
    return Bars.of("bars", "Who", {"synergy": "a", "total": "b"}, rows, WHO, {"synergy": 0.5}, reading="", **more)


TRIANGLES = Triangles(
    "t", "T", {"r": [Triangle("m", [{"p_u1": 1, "p_r": 0, "p_s": 0, "mean": None, "se": None, "n": 0}])]}, ""
)
FIGURES = {"chart": CHART, "panels": PANELS, "own": OWN, "bars": bars(), "triangles": TRIANGLES}
EMPTY = {
    "chart": replace(CHART, series=[], chance=None),
    "panels": replace(PANELS, panels=[Panel("nothing", [])]),
    "no panels": replace(PANELS, panels=[]),
    "bars": Bars("f", "t", [], [], ""),
    "triangles": replace(TRIANGLES, rows={}),
}


@pytest.mark.parametrize("figure", [*FIGURES.values(), *EMPTY.values()], ids=[*FIGURES, *(f"empty {e}" for e in EMPTY)])
def test_plotly_knows_every_word_of_it_and_so_does_json(figure):
    first, second = (json.dumps(plot(figure).plain("t", "f"), allow_nan=False) for _ in range(2))
    assert first == second
    made = plot(figure)
    plotly.graph_objects.Figure(data=made.data, layout=made.layout)  # raises on what it does not know


def colours(value, key=""):
    """Every colour in what plotly is told."""
    if isinstance(value, dict):
        return {c for k, v in value.items() for c in colours(v, k)}
    if isinstance(value, list | tuple):
        return {c for v in value for c in colours(v, key)}
    return {value} if key.endswith("color") and isinstance(value, str) else set()


@pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)
def test_every_colour_has_one_for_the_night(figure):
    made = plot(figure)
    used = colours([list(made.data), made.layout]) - {"rgba(0,0,0,0)"}
    assert used
    assert used <= dark().keys()
    assert {entry.colour for entry in made.legend} <= dark().keys()


def test_methods_can_be_read_and_told_apart_by_day_and_by_night():
    every = [*(looks["color"] for looks in STYLES.values()), *OTHERS]
    for ground in (DAY, NIGHT):
        shown = [readable(colour, ground) for colour in every]
        assert min(contrast(colour, ground) for colour in shown) >= 3
        assert len(set(shown)) == len(every)
        assert [s for s, c in zip(shown, every, strict=True) if contrast(c, ground) >= 3] == [
            c for c in every if contrast(c, ground) >= 3
        ]
    assert contrast(readable("#1b2a49", NIGHT), NIGHT) > 8  # the darkest by day is among the lightest by night
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast(dark()["#1c2430"], NIGHT) > 7  # words
    assert len({SYMBOLS[looks["marker"]] for looks in STYLES.values()}) == len(STYLES)


def lines(made):
    return [trace for trace in made.data if "name" in trace]


def bands(made):
    return [trace for trace in made.data if trace.get("fill") == "toself"]


def test_a_line_is_at_its_means_with_a_band_of_one_error_to_both_sides():
    made = plot(CHART)
    assert [trace["y"] for trace in lines(made)] == [[1.0, 0.5], [0.9, 0.625]]
    assert bands(made)[0]["x"] == [0.0, 1.0, 1.0, 0.0]
    assert bands(made)[0]["y"] == [1.0, 0.4, 0.6, 1.0]
    assert [trace["line"]["dash"] for trace in lines(made)] == ["solid", "dash"]
    assert made.layout["xaxis"]["tickvals"] == [0.0, 1.0]
    low, high = made.layout["yaxis"]["range"]
    assert 0.35 < low < 0.4 < 1.0 < high < 1.05
    assert made.notes == {"chance": "dotted"}


def test_a_point_tells_who_where_how_much_how_sure_and_of_how_many():
    @dataclass(frozen=True)
    class Counted(Series):
        n: tuple[int, ...] = ()

    first = Counted("S", "a <b>", [0.5, 1.0], [0.9, 0.5], [0.025, 0.0], n=(7, 8))
    made = plot(replace(PANELS, panels=[Panel("one & two", [first])]))
    assert lines(made)[0]["hovertext"] == [
        "<b>a &lt;b&gt;</b><br>one &amp; two<br>epoch 0.5<br>0.900 ± 0.025 (n = 7)",
        "<b>a &lt;b&gt;</b><br>one &amp; two<br>epoch 1<br>0.500 (n = 8)",
    ]
    assert [row["n"] for row in made.table] == [7, 8]
    assert lines(plot(CHART))[0]["hovertext"][1] == "<b>vanilla fusion</b><br>β 1<br>0.500 ± 0.100"


def test_a_method_is_one_group_in_all_panels_band_and_line_and_is_named_once():
    made = plot(PANELS)
    assert [(entry.group, entry.label, entry.dashed) for entry in made.legend] == [
        ("method-0", "vanilla fusion", False),
        ("method-1", "synergy < all", True),
    ]
    assert [(t["legendgroup"], t["yaxis"]) for t in lines(made)] == [
        ("method-0", "y"),
        ("method-1", "y"),
        ("method-1", "y2"),
    ]
    assert [t["legendgroup"] for t in bands(made)] == [t["legendgroup"] for t in lines(made)]
    assert [t["showlegend"] for t in lines(made)] == [True, True, False]
    assert not any(t["showlegend"] for t in bands(made))
    assert {tuple(made.layout[f"yaxis{k}"]["range"]) for k in ("", "2")} == {(0.4, 1.0)}


def test_panels_without_limits_share_a_range_that_holds_everything():
    made = plot(replace(PANELS, limits=None, chance=0.1))
    first, second = (made.layout[f"yaxis{k}"]["range"] for k in ("", "2"))
    assert first == second
    assert 0.0 < first[0] < 0.1
    assert 1.0 < first[1] < 1.1


def test_a_panel_with_a_y_axis_of_its_own_has_its_range_scale_and_level():
    made = plot(OWN)
    first, second = made.layout["yaxis"], made.layout["yaxis2"]
    assert first["type"] == "log"
    assert first["range"][0] < 0 < 3 < first["range"][1] < 3.5
    assert min(bands(made)[0]["y"]) > 0  # there is no logarithm of less
    assert second["range"] == [-1, 1]
    assert [(s["y0"], s["y1"], s["yref"]) for s in made.layout["shapes"]] == [(0.0, 0.0, "y2")]
    assert made.grid["own"]
    assert made.grid["y"] == ["λ", "cosine"]


def test_many_points_are_a_line_without_marks():
    many = Series("S", "S", list(range(13)), [0.5] * 13, [0.0] * 13)
    assert lines(plot(replace(CHART, series=[many])))[0]["mode"] == "lines"
    assert lines(plot(CHART))[0]["mode"] == "lines+markers"


def test_bars_are_dots_with_their_spread_and_say_all_of_it():
    made = plot(bars())
    dots = [t for t in made.data if t["marker"]["symbol"] != "diamond-open"]
    assert [(t["xaxis"], t["y"]) for t in dots] == [(x, [k]) for x in ("x", "x2") for k in range(3)]
    assert [t["x"][0] for t in dots] == pytest.approx([0.5, 0.6, 0.7] * 2)
    assert "error_x" not in dots[0]
    assert dots[1]["error_x"]["array"] == pytest.approx([2.776445 * 0.02], rel=1e-4)
    assert dots[1]["error_x"]["arrayminus"] == dots[1]["error_x"]["array"]
    assert dots[0]["hovertext"] == ["<b>unimodal-a</b><br>synergy<br>0.500 (n = 1)"]
    told = "<b>SynIB, random masks</b><br>total<br>0.700 ± 0.020 (n = 5)<br>95 % interval [0.644, 0.756]<br>the paper's 0.9"
    assert dots[5]["hovertext"] == [told]
    (paper,) = [t for t in made.data if t["marker"]["symbol"] == "diamond-open"]
    assert (paper["x"], paper["legendgroup"]) == ([0.9], dots[5]["legendgroup"])
    assert [entry.label for entry in made.legend] == [label(m) for m in WHO]
    assert list(made.notes) == ["mean over seeds with 95 % interval", "vanilla fusion", "chance", "the paper's"]
    lines = [(s["xref"], s["x0"]) for s in made.layout["shapes"] if s["type"] == "line"]
    assert lines == [("x", pytest.approx(0.6)), ("x", 0.5), ("x2", pytest.approx(0.6))]
    assert [row["bold"] for row in made.grid["rows"]] == [False, False, True]


def test_bars_of_errors_say_no_interval_and_rows_that_bring_theirs_keep_it():
    told = plot(bars(spread="error")).data[1]
    assert told["error_x"]["array"] == [0.02]
    assert told["hovertext"][0].endswith("0.600 ± 0.020 (n = 5)")
    brought = {"method": "vanilla", "metric": "a", "mean": 0.5, "low": 0.25, "high": 0.625, "n": 40}
    (dot,) = plot(Bars.of("f", "t", {"gain": "a"}, [brought], ["vanilla"], reading="")).data
    assert (dot["error_x"]["arrayminus"], dot["error_x"]["array"]) == ([0.25], [0.125])
    assert dot["hovertext"] == ["<b>vanilla fusion</b><br>gain<br>0.500 (n = 40)<br>95 % interval [0.250, 0.625]"]


@pytest.mark.parametrize(
    ("figure", "first"),
    [
        (CHART, {"panel": "", "name": "vanilla fusion", "x": "0.0", "mean": "1.0", "se": "", "n": ""}),
        (PANELS, {"panel": "one", "name": "vanilla fusion", "x": "0.0", "mean": "1.0", "se": "", "n": ""}),
        (
            bars(),
            {"panel": "synergy", "method": "unimodal-a", "mean": "0.5", "se": "", "n": "1"}
            | dict.fromkeys(("low", "high", "paper"), ""),
        ),
        (TRIANGLES, {"row": "r", "method": "m", "p_u1": "1", "p_r": "0", "p_s": "0", "mean": "", "se": "", "n": "0"}),
    ],
    ids=["chart", "panels", "bars", "triangles"],
)
def test_the_numbers_behind_a_figure_are_those_it_was_made_from(figure, first):
    rows = list(csv.DictReader(io.StringIO(plot(figure).csv())))
    assert rows[0] == first
    assert len(rows) == {"figure": 4, "panels": 6, "bars": 6, "t": 1}[figure.file]


def test_numbers_of_any_size_are_short_and_those_that_are_none_are_none():
    assert [short(v) for v in (0.0, 0.5, -12.3456, 1234.5, 0.000123)] == [
        "0.000",
        "0.500",
        "-12.346",
        "1.23e+03",
        "0.000123",
    ]
    assert [finite(v) for v in (0.1234567, float("nan"), float("inf"), None)] == [0.123457, None, None, None]


def test_a_files_name_is_tame():
    assert plot(CHART).plain("t", "../a b/<c>")["file"] == "-a-b-c-"
