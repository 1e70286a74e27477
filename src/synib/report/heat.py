"""Heat maps: the part shared by both renderers."""

from collections.abc import Sequence
from functools import cache

from synib.report.contrast import contrast
from synib.report.numbers import number
from synib.report.scale import COLOUR_MAP, scale_ticks
from synib.report.styles import ON_TILES
from synib.studies.charts import HeatMap, HeatMaps, Row

MAX_LABELS = 14  # labels of an axis; beyond that only some are written
MAX_BESIDE = 20  # columns of maps that are drawn side by side, at most
Edge = tuple[tuple[float, float], tuple[float, float]]


def mean_of(row: Row | None) -> float | None:
    """The mean of a cell; ``None`` if it has none."""
    return None if row is None else row["mean"]


def written(row: Row | None) -> str:
    """The text of a cell."""
    mean = mean_of(row)
    return "–" if mean is None else number(mean, 2)


def share_rows(figure: HeatMaps) -> bool:
    """Whether all maps have the same rows, each with a label."""
    rows = [list(drawn.rows) for drawn in figure.maps]
    return all(len(labels) <= MAX_LABELS and labels == rows[0] for labels in rows)


def labelled(labels: Sequence[str]) -> list[int]:
    """Positions of the labels that fit on an axis."""
    return list(range(0, len(labels), -(-len(labels) // MAX_LABELS)))


def in_one_column(figure: HeatMaps) -> bool:
    """Whether the maps are too wide to be drawn side by side."""
    return share_rows(figure) and any(len(drawn.columns) > MAX_BESIDE for drawn in figure.maps)


@cache
def tile_colour(mean: float, low: float, high: float) -> str:
    """The colour of a mean, clipped to the scale."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return to_hex(colormaps[COLOUR_MAP](min(1.0, max(0.0, (mean - low) / (high - low)))))


def text_colour(tile: str) -> str:
    """Black or white, whichever has the higher contrast to a tile: always at least the 4.5 to 1 of WCAG for text."""
    return max(ON_TILES, key=lambda colour: contrast(colour, tile))


def colour_ticks(figure: HeatMaps) -> tuple[list[float], list[str]]:
    """Ticks of the colour scale and their labels."""
    return scale_ticks(figure.limits, (mean_of(cell) for drawn in figure.maps for row in drawn.cells for cell in row))


def outline(drawn: HeatMap) -> list[Edge]:
    """The edges between outlined cells and all others: start and end as (x, y), where the first cell is centred at 0."""
    inside = set(drawn.outlined)
    edges: list[Edge] = []
    for i, j in sorted(inside):
        left, right, top, bottom = j - 0.5, j + 0.5, i - 0.5, i + 0.5
        sides: dict[tuple[int, int], Edge] = {
            (i - 1, j): ((left, top), (right, top)),
            (i + 1, j): ((left, bottom), (right, bottom)),
            (i, j - 1): ((left, top), (left, bottom)),
            (i, j + 1): ((right, top), (right, bottom)),
        }
        edges += [edge for neighbour, edge in sides.items() if neighbour not in inside]
    return edges
