"""Heat maps: cells in their colours, with readable numbers and outlines."""

from dataclasses import replace
from itertools import combinations

import pytest
from matplotlib import colormaps
from matplotlib.colors import to_hex

from synib.report import heat
from synib.report.contrast import contrast, dark_colours
from synib.report.draw import plot, svg
from synib.report.heat_svg import draw_heat_maps
from synib.report.scale import COLOUR_MAP
from synib.report.styles import MISSING, ON_TILES
from synib.studies.charts import HeatMap, HeatMaps


def cell(mean, se=0.02, n=3):
    return {"mean": mean, "se": se, "n": n}


MEANS = [[0.5, 0.62, 0.75], [0.87, 1.0, 0.93]]
CELLS = [[cell(mean) for mean in row] for row in MEANS]
MAPS = [HeatMap(name, ["π = 0.3", "π = 1"], ["1", "10", "100"], CELLS) for name in ("synergy", "total")]
FIGURE = HeatMaps("heat", "Weight and masking", "weight λ", MAPS, "Lighter is better.")
STRIP = HeatMap("", ["x1", "x2"], [str(j) for j in range(64)], [[cell(0.1)] * 64] * 2, [(0, j) for j in range(4, 10)])
PICTURE = HeatMap("image", [str(i) for i in range(28)], [str(j) for j in range(28)], [[cell(0.2)] * 28] * 28)
STRIPS = replace(FIGURE, maps=[STRIP], numbers=False, limits=(0.0, 1.0))
PICTURES = replace(
    FIGURE, maps=[PICTURE, replace(PICTURE, rows=PICTURE.rows[:20], cells=PICTURE.cells[:20])], numbers=False
)


def maps_of(drawing):
    """The axes of the maps, without that of the colour scale."""
    return drawing.axes[:-1]


def test_a_cell_has_the_colour_of_its_mean_and_the_mean_written_into_it():
    for axes in maps_of(draw_heat_maps(FIGURE)):
        (tiles,) = axes.collections
        expected = [to_hex(colormaps[COLOUR_MAP]((mean - 0.5) / 0.5)) for row in MEANS for mean in row]
        assert [to_hex(colour) for colour in tiles.get_facecolor()] == expected
        assert [text.get_text() for text in axes.texts] == ["0.50", "0.62", "0.75", "0.87", "1.00", "0.93"]
        assert [(text.get_position()) for text in axes.texts[:4]] == [(0, 0), (1, 0), (2, 0), (0, 1)]
        assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "10", "100"]
        assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the first row on top


def test_numbers_can_be_read_on_every_colour_of_the_scale_and_are_not_changed_on_dark_pages():
    for k in range(201):
        tile = heat.tile_colour(k / 200, 0.0, 1.0)
        assert contrast(heat.text_colour(tile), tile) >= 4.5
    assert all(dark_colours()[colour] == colour for colour in ON_TILES)


def test_values_beyond_the_scale_have_the_colour_of_its_end_which_says_so():
    assert heat.tile_colour(0.2, 0.5, 1.0) == heat.tile_colour(0.5, 0.5, 1.0)
    assert heat.tile_colour(1.2, 0.5, 1.0) == heat.tile_colour(1.0, 0.5, 1.0)
    assert heat.colour_ticks(FIGURE)[1] == ["0.5", "0.6", "0.7", "0.8", "0.9", "1"]
    assert heat.colour_ticks(replace(FIGURE, limits=(0.6, 0.9)))[1][::5] == ["≤ 0.6", "≥ 0.9"]


def test_a_cell_without_a_value_is_hollow_with_a_dash():
    missing = replace(FIGURE, maps=[replace(MAPS[0], cells=[[None, cell(None, None, 0), cell(0.7)], CELLS[1]])])
    (axes,) = maps_of(draw_heat_maps(missing))
    (tiles,) = axes.collections
    assert [colour[3] for colour in tiles.get_facecolor()] == [0, 0, 1, 1, 1, 1]
    assert to_hex(tiles.get_edgecolor()[0]) == MISSING
    assert [text.get_text() for text in axes.texts][:3] == ["–", "–", "0.70"]
    drawn = plot(missing)
    assert drawn.data[0]["z"][0] == [None, None, 0.7]
    assert drawn.data[0]["hovertext"][0][0] == "<b>synergy</b><br>π = 0.3 · 1<br>not trained"


def test_only_the_first_map_of_a_line_labels_rows_that_all_share():
    first, second = maps_of(draw_heat_maps(FIGURE))
    assert first.yaxis.get_tick_params()["labelleft"]
    assert not second.yaxis.get_tick_params()["labelleft"]
    assert all(axes.yaxis.get_tick_params().get("labelleft", True) for axes in maps_of(draw_heat_maps(PICTURES)))


def test_an_axis_with_many_cells_has_some_labels():
    assert heat.labelled(["a"] * 14) == list(range(14))
    assert heat.labelled(["a"] * 28) == list(range(0, 28, 2))
    assert len(heat.labelled(["a"] * 64)) <= heat.MAX_LABELS
    assert not maps_of(draw_heat_maps(STRIPS))[0].texts


def test_an_outline_runs_around_cells_and_not_between_them():
    assert len(heat.outline(replace(STRIP, outlined=[(0, 4)]))) == 4
    edges = heat.outline(STRIP)
    assert len(edges) == 2 * 6 + 2
    assert ((3.5, -0.5), (3.5, 0.5)) in edges
    assert ((4.5, -0.5), (4.5, 0.5)) not in edges
    below, above = maps_of(draw_heat_maps(STRIPS))[0].collections[1:]
    assert [to_hex(lines.get_color()[0]) for lines in (below, above)] == list(ON_TILES)
    assert below.get_linewidth()[0] > above.get_linewidth()[0]
    shapes = plot(STRIPS).layout["shapes"]
    assert len(shapes) == 2 * len(edges)
    assert [shape["line"]["color"] for shape in shapes] == [ON_TILES[0]] * 14 + [ON_TILES[1]] * 14


@pytest.mark.parametrize("figure", [FIGURE, STRIPS, PICTURES], ids=["numbers", "strips", "pictures"])
def test_maps_titles_and_scale_fit_without_overlap(figure):
    drawing = draw_heat_maps(replace(figure, title="A title that goes on, and on, to the edge and beyond it " * 2))
    drawing.draw_without_rendering()
    boxes = [*(axes.get_tightbbox() for axes in drawing.axes), drawing._suptitle.get_window_extent()]
    for box in boxes:
        assert drawing.bbox.x0 - 1 <= box.x0 <= box.x1 <= drawing.bbox.x1 + 1
        assert drawing.bbox.y0 - 1 <= box.y0 <= box.y1 <= drawing.bbox.y1 + 1
    assert not any(a.fully_overlaps(b) for a, b in combinations(boxes, 2))


def test_plotted_numbers_are_those_of_the_cells_and_a_cell_says_mean_spread_and_n():
    drawn = plot(FIGURE)
    tiles = [trace for trace in drawn.data if trace["type"] == "heatmap"]
    assert [trace["z"] for trace in tiles] == [MEANS, MEANS]
    assert tiles[0]["hovertext"][1][0] == "<b>synergy</b><br>π = 1 · 1<br>0.870 ± 0.020 (n = 3)"
    texts = [trace for trace in drawn.data if trace["type"] == "scatter" and trace["xaxis"] == "x"]
    placed = {(x, y): text for trace in texts for x, y, text in zip(trace["x"], trace["y"], trace["text"], strict=True)}
    assert placed == {(j, i): f"{mean:.2f}" for i, row in enumerate(MEANS) for j, mean in enumerate(row)}
    assert {trace["textfont"]["color"] for trace in texts} == set(ON_TILES)
    assert [row["label"] for row in drawn.grid["rows"]] == ["π = 0.3", "π = 1"]
    assert drawn.layout["yaxis"]["range"] == [1.5, -0.5]
    assert not any(trace["type"] == "scatter" for trace in plot(STRIPS).data)
    assert plot(PICTURES).grid["ownY"]


def test_labels_are_text_and_neither_markup_nor_formulas():
    bad = "</script><img src=x> & $x$"
    figure = replace(FIGURE, maps=[HeatMap(bad, [bad], [bad], [[cell(0.7)]])], x=bad)
    assert svg(figure)
    drawn = plot(figure)
    assert drawn.layout["xaxis"]["ticktext"] == ["&lt;/script&gt;&lt;img src=x&gt; &amp; $x$"]
    assert "<img" not in drawn.data[0]["hovertext"][0][0]
