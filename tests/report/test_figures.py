"""Properties of every kind of figure, as SVG and as plotly draws it."""

import csv
import io
import json
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import matplotlib
import plotly.graph_objects
import pytest

from synib.methods import METHODS
from synib.report.contrast import DARK, LIGHT, contrast, dark_colours, readable
from synib.report.draw import plot, svg
from synib.report.plot import SYMBOLS, finite, short
from synib.report.styles import OTHERS, STYLES, style
from synib.studies.charts import Bars, Chart, HeatMap, HeatMaps, Panel, Panels, Series, Triangle, Triangles

LINES = [
    Series("vanilla", "vanilla fusion", [0.0, 1.0], [1.0, 0.5], [0.0, 0.1]),
    Series("S", "synergy < all", [0.0, 1.0], [0.9, 0.625], [0.025, 0.0], dashed=True),
]
CHART = Chart("figure", "Accuracy", "β", "accuracy", LINES, "", chance=0.5)
PANELS = Panels("panels", "Many", "epoch", "accuracy", [Panel("a", LINES, "remark"), Panel("b", LINES[1:])], "")
OWN_Y = [
    Panel("a", [Series("S", "S", [1, 2], [1.0, 1000.0], [2.0, 0.0])], y="λ", logarithmic=True),
    Panel("b", LINES, y="cosine", limits=(-1, 1), level=0.0),
]
ROW = {"method": "vanilla", "metric": "a", "mean": 0.5, "se": None, "n": 1, "paper": 0.6}
BARS = Bars.of("bars", "Methods", {"total": "a"}, [ROW], ["vanilla"], {"total": 0.5}, reading="")
TILE = {"p_u1": 1, "p_r": 0, "p_s": 0, "mean": None, "se": None, "n": 0}
TRIANGLES = Triangles("t", "T", {"r": [Triangle("m", [TILE])]}, "")
CELLS = [
    [{"mean": 0.75, "se": 0.1, "n": 2}, None],
    [{"mean": 0.25, "se": None, "n": 1}, {"mean": None, "se": None, "n": 0}],
]
HEAT = HeatMaps("heat", "Settings", "λ", [HeatMap("synergy", ["a", "b"], ["1", "3"], CELLS, [(0, 1)])], "")
FIGURES = {
    "chart": CHART,
    "panels": PANELS,
    "own y axes": replace(PANELS, panels=OWN_Y),
    "bars": BARS,
    "triangles": TRIANGLES,
    "heat maps": HEAT,
}
EMPTY = {
    "chart": replace(CHART, series=[], chance=None),
    "panel": replace(PANELS, panels=[Panel("nothing", [], "not run")]),
    "no panels": replace(PANELS, panels=[]),
    "bars": Bars("f", "t", [], [], ""),
    "no rows": Bars.of("f", "t", {"total": "a"}, [], ["vanilla"], reading=""),
    "triangles": replace(TRIANGLES, rows={}),
    "no heat maps": replace(HEAT, maps=[]),
}
every_figure = pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)


@every_figure
def test_an_svg_is_reproducible_xml_without_a_date_and_matplotlib_keeps_its_settings(figure):
    before = dict(matplotlib.rcParams)
    text = svg(figure)
    assert dict(matplotlib.rcParams) == before
    assert svg(figure) == text
    root = ElementTree.fromstring(text)
    assert root.tag.endswith("svg")
    assert not [element for element in root.iter() if element.tag.endswith("}date")]


@every_figure
def test_titles_are_text_and_never_formulas(figure):
    assert svg(replace(figure, title=r"$\oops$"))  # a formula that matplotlib refuses


@pytest.mark.parametrize("figure", EMPTY.values(), ids=EMPTY)
def test_an_empty_figure_can_be_drawn(figure):
    if figure.file != "t":  # a figure of triangles has at least one
        assert svg(figure)
    drawn = plot(figure)
    plotly.graph_objects.Figure(data=drawn.data, layout=drawn.layout)


@every_figure
def test_plotly_and_json_accept_a_plot(figure):
    drawn = plot(figure)
    plotly.graph_objects.Figure(data=drawn.data, layout=drawn.layout)  # raises on unknown properties
    first, second = (json.dumps(plot(figure).script_input("t", "f"), allow_nan=False) for _ in range(2))
    assert first == second


def colours(value, key=""):
    if isinstance(value, dict):
        return {c for k, v in value.items() for c in colours(v, k)}
    if isinstance(value, list | tuple):
        return {c for v in value for c in colours(v, key)}
    return {value} if key.endswith("color") and isinstance(value, str) else set()


@every_figure
def test_every_colour_of_a_plot_has_one_for_dark_pages(figure):
    drawn = plot(figure)
    used = colours([list(drawn.data), drawn.layout]) - {"rgba(0,0,0,0)"}
    assert used
    assert used | {entry.colour for entry in drawn.legend} <= dark_colours().keys()


@pytest.mark.parametrize(
    ("figure", "n", "first"),
    [
        (CHART, 4, {"panel": "", "name": "vanilla fusion", "x": "0.0", "mean": "1.0", "se": "", "n": ""}),
        (PANELS, 6, {"panel": "a", "name": "vanilla fusion", "x": "0.0", "mean": "1.0", "se": "", "n": ""}),
        (BARS, 1, {"panel": "total", "method": "vanilla", "mean": "0.5", "se": "", "n": "1", "low": "", "high": "",
                   "paper": "0.6"}),
        (TRIANGLES, 1, {"row": "r", "method": "m", "p_u1": "1", "p_r": "0", "p_s": "0", "mean": "", "se": "", "n": "0"}),
        (HEAT, 4, {"map": "synergy", "row": "a", "column": "1", "mean": "0.75", "se": "0.1", "n": "2"}),
    ],
    ids=["chart", "panels", "bars", "triangles", "heat maps"],
)  # fmt: skip
def test_the_csv_of_a_figure_holds_its_numbers(figure, n, first):
    rows = list(csv.DictReader(io.StringIO(plot(figure).csv())))
    assert rows[0] == first
    assert len(rows) == n


def test_methods_differ_in_colour_and_marker_and_can_be_read_on_light_and_dark_pages():
    every_colour = [*(looks["color"] for looks in STYLES.values()), *OTHERS]
    assert len({looks["marker"] for looks in STYLES.values()}) == len(STYLES)
    assert len({SYMBOLS[looks["marker"]] for looks in STYLES.values()}) == len(STYLES)
    for background in (LIGHT, DARK):
        shown = [readable(colour, background) for colour in every_colour]
        assert min(contrast(colour, background) for colour in shown) >= 3
        assert len(set(shown)) == len(every_colour)
        unchanged = [colour for colour in every_colour if contrast(colour, background) >= 3]
        assert set(unchanged) <= set(shown)
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast(dark_colours()["#1c2430"], DARK) > 7  # text


def test_every_method_has_a_style_and_another_name_gets_its_own_for_good():
    assert all(style(method)["color"] for method in METHODS)
    other = style("something else")
    assert other == style("something else")
    assert other["color"] in OTHERS
    assert other["color"] != style("another")["color"]


def test_numbers_in_hover_texts_are_short_and_numbers_in_json_finite():
    values = (0.0, 0.5, -12.3456, 1234.5, 0.000123)
    assert [short(value) for value in values] == ["0.000", "0.500", "-12.346", "1.23e+03", "0.000123"]
    assert [finite(value) for value in (0.1234567, float("nan"), float("inf"), None)] == [0.123457, None, None, None]


def test_the_name_of_a_downloaded_file_has_no_special_characters():
    assert plot(CHART).script_input("t", "../a b/<c>")["file"] == "-a-b-c-"
