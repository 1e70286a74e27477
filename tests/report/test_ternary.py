"""Triangles as SVG and as HTML."""

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from matplotlib import colormaps
from matplotlib.collections import PolyCollection

from synib.report import ternary, ternary_html
from synib.report.draw import svg
from synib.report.scale import COLOUR_MAP
from synib.report.styles import MISSING
from synib.report.ternary import grid_step
from synib.report.ternary_html import plot_triangles
from synib.report.ternary_svg import draw_triangles
from synib.studies.charts import Triangle, Triangles

ROWS = ("total accuracy", "synergy accuracy")


def triangle(label: str, n: int, synergy: bool = False) -> Triangle:
    """A grid with n steps to a side; without synergistic examples there is no accuracy on them."""
    rows = []
    for i in range(n + 1):
        for j in range(n + 1 - i):
            p = (i / n, j / n, (n - i - j) / n)
            missing = synergy and p[2] == 0
            value = {"mean": None, "se": None, "n": 0} if missing else {"mean": 0.5 + 0.4 * p[2], "se": 0.01, "n": 5}
            rows.append({"p_u1": p[0], "p_r": p[1], "p_s": p[2], **value})
    return Triangle(label, rows)


def triangles(columns: int, n: int, rows: int = 2) -> Triangles:
    parts = {row: [triangle(f"method {c}", n, row == ROWS[1]) for c in range(columns)] for row in ROWS[:rows]}
    return Triangles("mixtures", "Accuracy over mixtures", parts, "")


SMALL = triangles(2, 4)


def tiles(axes) -> list[PolyCollection]:
    return [c for c in axes.collections if isinstance(c, PolyCollection)]


def plots(figure: Triangles) -> list:
    """The axes of the triangles, row by row; the last axes are those of the colour scale."""
    return draw_triangles(figure).axes[:-1]


def tile_boxes(axes) -> list[tuple[float, float, float, float]]:
    """Left, bottom, right and top of each tile, in pixels."""
    boxes = []
    for collection in tiles(axes):
        shape = axes.transData.transform(collection.get_paths()[0].vertices) - axes.transData.transform((0, 0))
        centres = axes.transData.transform(collection.get_offsets())
        boxes += [(*(c + shape.min(0)), *(c + shape.max(0))) for c in centres]
    return boxes


@pytest.mark.parametrize(("n", "expected"), [(20, 0.05), (4, 0.25), (3, 1 / 3), (2, 0.5)])
def test_the_step_is_read_off_the_points(n, expected):
    assert grid_step(triangles(1, n, 1)) == pytest.approx(expected)


def test_a_grid_of_one_point_has_a_step_all_the_same():
    point = Triangle("a", [{"p_u1": 0, "p_r": 0, "p_s": 1, "mean": 0.7, "se": None, "n": 1}])
    alone = Triangles("one", "One", {"total": [point]}, "")
    assert grid_step(alone) == 0.5
    assert svg(alone)


def test_every_point_is_a_tile_and_the_picture_stays_small():
    picture = svg(triangles(2, 20))
    assert len(picture) < 400_000
    uses = [e for e in ElementTree.fromstring(picture).iter() if e.tag.endswith("}use")]
    filled = [e for e in uses if re.search(r"fill: #\w+; stroke: #", e.get("style", ""))]
    hollow = [e for e in uses if f"stroke: {MISSING}" in e.get("style", "")]
    assert len(filled) == 2 * (231 + 210)
    assert len(hollow) == 2 * 21
    assert all("fill: none" in e.get("style", "") for e in hollow)


def test_tiles_are_coloured_by_their_mean_on_the_scale_of_all():
    figure = replace(SMALL, limits=(0.4, 1.4))
    for axes in plots(figure):
        filled = tiles(axes)[-1]
        filled.update_scalarmappable()
        expected = colormaps[COLOUR_MAP]((np.asarray(filled.get_array()) - 0.4) / 1.0)
        assert np.allclose(filled.get_facecolor(), expected)


def test_synergy_is_at_the_top_with_the_unique_left_and_the_redundant_right():
    part = SMALL.rows[ROWS[0]][0]
    (filled,) = tiles(plots(SMALL)[0])
    place = {
        corner: filled.get_offsets()[[row[p] == 1 for row in part.rows].index(True)]
        for corner, p in (("U1", "p_u1"), ("R", "p_r"), ("S", "p_s"))
    }
    assert place["S"][1] > place["U1"][1] == pytest.approx(place["R"][1])
    assert place["U1"][0] < place["S"][0] < place["R"][0]


@pytest.mark.parametrize(("columns", "rows", "n"), [(1, 1, 20), (4, 1, 4), (8, 2, 4)])
def test_tiles_touch_without_overlap_and_triangles_stay_apart(columns, rows, n):
    figure = draw_triangles(triangles(columns, n, rows))
    figure.draw_without_rendering()
    axes = figure.axes[:-1]
    assert len(axes) == columns * rows
    filled = tiles(axes[0])[-1]
    centres = axes[0].transData.transform(filled.get_offsets())
    left, bottom, right, top = tile_boxes(axes[0])[0]
    nearest = min(np.linalg.norm(a - b) for a, b in combinations(centres[: 3 * n], 2))
    assert right - left == pytest.approx(nearest, rel=1e-4)
    assert top - bottom == pytest.approx(nearest * 2 / np.sqrt(3), rel=1e-4)  # regular hexagons
    outer = []
    for each in axes:
        boxes = np.array(tile_boxes(each))
        outer.append((*boxes[:, :2].min(0), *boxes[:, 2:].max(0)))
    outer.append(tuple(figure.axes[-1].bbox.extents))
    for a, b in combinations(outer, 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
    assert min(a[0] for a in outer) >= 0
    assert min(a[1] for a in outer) >= 0
    assert max(a[2] for a in outer) <= figure.bbox.x1
    assert max(a[3] for a in outer) <= figure.bbox.y1


def test_the_scale_says_where_values_lie_beyond_it():
    assert ternary.colour_ticks(SMALL)[1] == ["0.5", "0.6", "0.7", "0.8", "0.9", "1"]
    assert ternary.colour_ticks(replace(SMALL, limits=(0.6, 0.8)))[1][::5] == ["≤ 0.6", "≥ 0.8"]
    bar = draw_triangles(replace(SMALL, limits=(0.6, 0.8))).axes[-1]
    assert [label.get_text() for label in bar.get_yticklabels()][::5] == ["≤ 0.6", "≥ 0.8"]


def traces(figure: Triangles, subplot: str) -> list[dict]:
    return [t for t in plot_triangles(figure).data if t["subplot"] == subplot]


def test_the_html_has_a_tile_for_every_point_and_colours_none_without_a_value():
    shown, corners = traces(SMALL, "ternary")
    assert len(shown["a"]) == 15
    assert corners["text"] == ["S", "U1", "R"]
    shown, hollow, _ = traces(SMALL, "ternary3")
    assert len(shown["a"]) == 10
    assert shown["marker"]["color"] == [round(0.5 + 0.4 * s, 4) for s in shown["a"]]
    assert set(hollow["a"]) == {0.0}
    assert hollow["marker"]["symbol"] == "hexagon-open"
    assert "coloraxis" not in hollow["marker"]


def test_a_tile_tells_mixture_both_accuracies_and_how_many():
    for subplot in ("ternary", "ternary3"):
        said = [
            (t["meta"], told, t["hovertemplate"], (t["b"][k], t["c"][k], t["a"][k]))
            for t in traces(SMALL, subplot)
            for k, told in enumerate(t.get("customdata", ()))
        ]
        assert len(said) == 15
        told = {mixture: values for _, values, _, mixture in said}
        assert told[0.25, 0.25, 0.5] == ["0.700 ± 0.010 (n = 5)", "0.700 ± 0.010 (n = 5)"]
        assert told[0.75, 0.25, 0.0] == ["0.500 ± 0.010 (n = 5)", "no such examples"]
        meta, _, template, _ = said[0]
        assert meta == ["method 0", *ROWS]
        for part in ("U1 %{b", "R %{c", "S %{a", "%{meta[1]}: %{customdata[0]}", "%{meta[2]}: %{customdata[1]}"):
            assert part in template


def test_rows_of_other_methods_tell_only_their_own():
    odd = replace(SMALL, rows={ROWS[0]: SMALL.rows[ROWS[0]], ROWS[1]: SMALL.rows[ROWS[1]][:1]})
    shown = traces(odd, "ternary")[0]
    assert shown["meta"] == ["method 0", ROWS[0]]
    assert {len(told) for told in shown["customdata"]} == {1}
    assert svg(odd)


@pytest.mark.parametrize(("columns", "n"), [(1, 20), (8, 4)])
def test_at_most_four_triangles_share_a_line_and_a_method_has_its_rows_below_each_other(columns, n):
    plot = plot_triangles(triangles(columns, n))
    places = [plot.layout["ternary" if k == 0 else f"ternary{k + 1}"]["domain"] for k in range(2 * columns)]
    upper, lower = places[:columns], places[columns:]
    for k in range(columns):
        assert upper[k]["x"] == lower[k]["x"]
        assert upper[k]["y"][0] > lower[k]["y"][1]
        assert upper[k]["x"] == upper[k % 4]["x"]
        if k >= 4:
            assert upper[k]["y"][1] < lower[k - 4]["y"][0]
    for a, b in combinations(places, 2):
        assert a["x"][1] <= b["x"][0] or b["x"][1] <= a["x"][0] or a["y"][1] <= b["y"][0] or b["y"][1] <= a["y"][0]
    assert all(0 <= p["x"][0] < p["x"][1] <= 1 and 0 <= p["y"][0] < p["y"][1] <= 1 for p in places)
    margin = plot.layout["margin"]
    side = (places[0]["x"][1] - places[0]["x"][0]) * (ternary_html.PAGE_WIDTH - margin["l"] - margin["r"])
    assert plot.data[0]["marker"]["size"] * np.sqrt(3) / 2 == pytest.approx(side / n, rel=1e-6)  # neighbours touch


def test_labels_are_text_and_neither_markup_nor_variables():
    bad = "</script><img src=x> %{a} & $x$"
    rows = {bad: [replace(SMALL.rows[ROWS[0]][0], label=bad)]}
    figure = Triangles('a"/><b>', bad, rows, "")
    plot = plot_triangles(figure)
    escaped = "&lt;/script&gt;&lt;img src=x&gt; %{a} &amp; $x$"
    assert [note["text"].replace("<br>", " ") for note in plot.layout["annotations"]] == [escaped, escaped]
    assert plot.data[0]["meta"] == [escaped, escaped]
    assert "img" not in plot.data[0]["hovertemplate"]
    assert ElementTree.fromstring(svg(figure)).tag.endswith("svg")
