"""Views that draw the parts of a modality: as words, as pixels over a picture or a spectrogram, or as bars."""

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synib.explanation import pictures
from synib.explanation.parts import Numbers, PartScores

MOST = 12  # bars, at most; the other scores are in the table


class View:
    """Draws the parts of a modality. A custom view overrides :meth:`draw`."""

    def draw(self, values: Any, parts: PartScores, at: int) -> str:
        """The parts of one row as HTML.

        Args:
            values: The row's values.
            parts: Contributions of its parts.
            at: Index of the row among the explained rows.
        """
        raise NotImplementedError(f"{type(self).__name__} must define draw(values, parts, at).")

    def plain(self, row: int) -> str:
        """A row whose parts were not explained, as HTML. By default empty."""
        return ""


class Columns(View):
    """Bars, for columns of a table or a vector.

    Args:
        names: A name for each part; by default the names of the partition.
    """

    def __init__(self, names: Sequence[str] | None = None) -> None:
        self.names = names

    def draw(self, values: Any, parts: PartScores, at: int) -> str:
        return bars_of(_names(self.names, parts), parts, at)


class Words(View):
    """Words, coloured by their scores.

    Args:
        words: A list of words for each row, in the order of the rows. The parts must be tokens.
    """

    def __init__(self, words: Sequence[Sequence[str]]) -> None:
        self.words = words

    def draw(self, values: Any, parts: PartScores, at: int) -> str:
        text = list(self.words[parts.rows[at]])
        scores_by_title, largest = on_both(parts, at, len(text))
        drawn = [
            f'<p class="soft">{title}</p>{pictures.words(text, s, largest)}' for title, s in scores_by_title.items()
        ]
        return "".join(drawn) + numbers_table([*text, *parts.names[len(text) :]], parts, at)


class Picture(View):
    """Pixels: scores laid over the picture.

    Args:
        shape: Height and width, if the modality is flat; (height, width, 3) for colours.
        label: Name of the picture in its text alternative.
    """

    label = "picture"

    def __init__(self, shape: tuple[int, ...] | None = None, label: str | None = None) -> None:
        self.shape, self.label = shape, label or self.label

    def draw(self, values: Any, parts: PartScores, at: int) -> str:
        picture = self._arranged(np.asarray(values, dtype=float))
        over = {title: self._arranged(parts.on_coordinates(scores)) for title, scores in on_both(parts, at)[0].items()}
        over = {title: scores.sum(2) if scores.ndim == 3 else scores for title, scores in over.items()}
        largest = max(float(np.abs(scores).max()) for scores in over.values())
        drawn = {
            title: pictures.pixels(picture, scores, f"{self.label}, {title}", largest) for title, scores in over.items()
        }
        return pictures.figures(drawn) + numbers_table(list(parts.names), parts, at)

    def _arranged(self, values: Numbers) -> Numbers:
        """Height first, colours last."""
        array = values if self.shape is None else values.reshape(self.shape)
        if array.ndim == 3 and array.shape[0] in (1, 3) and array.shape[2] not in (1, 3):
            array = np.moveaxis(array, 0, 2)
        return array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else array


class Spectrogram(Picture):
    """Scores laid over a spectrogram, ``(bands, frames)``, with low bands at the bottom and time to the right."""

    label = "spectrogram"

    def _arranged(self, values: Numbers) -> Numbers:
        return super()._arranged(values)[::-1]


def bars_of(names: Sequence[str], parts: PartScores, at: int) -> str:
    """Bars of the largest scores of a row on one scale, and all scores as a table."""
    rows = {
        "with the other modalities": (parts.together, parts.together_low, parts.together_high),
        "alone": (parts.alone, parts.alone_low, parts.alone_high),
    }
    charts = {}
    for title, scores in rows.items():
        value, low, high = (x[at][: len(names)] for x in scores)
        shown = largest(value)
        charts[title] = [names[i] for i in shown], value[shown], low[shown], high[shown]
    reach = np.concatenate([x for _, *numbers in charts.values() for x in numbers])
    bars = [
        f'<p class="soft">{title}</p>{pictures.bars(labels, value, low, high, reach)}'
        for title, (labels, value, low, high) in charts.items()
    ]
    note = f'<p class="soft">The {MOST} largest of {len(names)} parts.</p>' if len(names) > MOST else ""
    return "".join(bars) + note + numbers_table(names, parts, at)


def largest(scores: Numbers) -> NDArray[np.int64]:
    """The numbers of the largest absolute scores, the largest first."""
    return np.argsort(-np.abs(scores), kind="stable")[:MOST]


def overlays(
    base: str,
    size: tuple[int, int],
    grid: tuple[int, int],
    label: str,
    names: Sequence[str],
    parts: PartScores,
    at: int,
    caption: str = "",
) -> str:
    """A picture, and the scores of the cells of a grid laid over it.

    Args:
        base: The picture's data URI.
        size: Its width and height.
        grid: Rows and columns of cells, numbered line by line.
        label: Name of the picture in its text alternative.
        names: Names of the cells.
        parts, at: The scores, and the index of the row among the explained rows.
        caption: A sentence on how to read it.
    """
    scores_by_title, largest = on_both(parts, at, len(names))
    drawn = {"as it is": pictures.overlay(base, size, None, label)} | {
        title: pictures.overlay(base, size, scores.reshape(grid), f"{label}, {title}", largest)
        for title, scores in scores_by_title.items()
    }
    note = f'<p class="soft">{escape(caption)}</p>' if caption else ""
    return pictures.figures(drawn) + note + numbers_table(names, parts, at)


def on_both(parts: PartScores, at: int, count: int | None = None) -> tuple[dict[str, Numbers], float]:
    """Title → scores of the first parts of a row, and the largest absolute score."""
    scores = {"with the other modalities": parts.together[at][:count], "alone": parts.alone[at][:count]}
    return scores, float(max(np.abs(s).max() for s in scores.values()))


def numbers_table(names: Sequence[str], parts: PartScores, at: int) -> str:
    """The scores of a row with their intervals, as a collapsed table."""
    return pictures.numbers(
        names,
        {
            "with the others": parts.together[at], "from": parts.together_low[at], "to": parts.together_high[at],
            "alone": parts.alone[at], "from ": parts.alone_low[at], "to ": parts.alone_high[at],
        },
    )  # fmt: skip


def _names(names: Sequence[str] | None, parts: PartScores) -> list[str]:
    if names is not None and len(names) != len(parts.names):
        raise ValueError(f"{parts.modality!r} has {len(parts.names)} parts; got {len(names)} names.")
    return list(names or parts.names)
