"""Base class of raw modalities: rows are decoded on demand, and mixed inputs are encoded by the model's encoders."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from synib.explanation.parts import Numbers, PartScores, RowParts
from synib.explanation.views import View
from synib.own.columns import Array
from synib.own.raw.encoders.base import Encoder
from synib.own.raw.show import Shown

Mask = NDArray[np.bool_]
Progress = Callable[[float, float, str], None]


class RawContent:
    """The raw cells of some rows of a file, decoded on first use.

    Args:
        items: Row of the file → its cell: a text, a path or bytes, or the cells of a table.
        decode: Decodes a cell to the content whose parts are exchanged.
        background: The rows of the file that form the background, in order.
    """

    def __init__(self, items: Mapping[int, Any], decode: Callable[[Any], Any], background: Sequence[int]) -> None:
        self._items, self._decode, self._background = items, decode, background
        self._decoded: dict[int, Any] = {}

    def row(self, row: int) -> Any:
        """The decoded content of a row of the file."""
        if row not in self._decoded:
            self._decoded[row] = self._decode(self._items[row])
        return self._decoded[row]

    def fill(self, number: int) -> Any:
        """The decoded content of a background row."""
        return self.row(self._background[number])


class RawParts(RowParts, View):
    """The parts of a raw modality. Subclasses divide rows into parts, mix two rows, and draw the scores.

    A part is removed by replacing it with the corresponding part of another row, so that a row with all parts replaced *is*
    the other row. Mixed content is encoded like the rows themselves.

    Args:
        name: The modality.
        columns: Its columns in the file.
        content: The rows.
        encoders: The model's encoders of the modality.
        shown: Row → its content, for rows whose parts are not explained.
        on_progress: Called with the mixtures done, their total, and the current step.
        swaps: Expected number of mixtures, for the progress.

    Attributes:
        part_name: What a part is, in the plural.
    """

    part_name: ClassVar[str]

    def __init__(
        self,
        name: str,
        columns: Sequence[str],
        content: RawContent,
        encoders: Sequence[Encoder],
        shown: Mapping[int, Shown],
        on_progress: Progress = lambda done, total, what: None,
        swaps: int = 1,
    ) -> None:
        self.name, self.columns, self.content, self.encoders, self.shown = name, columns, content, encoders, shown
        self._on_progress, self._swaps, self._done = on_progress, swaps, 0

    @staticmethod
    def decoded(item: Any) -> Any:
        """Prepare a text, a decoded image or sound, or the cells of a table for mixing."""
        return item

    @abstractmethod
    def mixed(self, row: Any, fill: Any, own: Mask) -> list[Any]:
        """Mix two rows, once for each row of ``own``.

        Args:
            row, fill: The content of the row and of the other row.
            own: Which parts come from the row in each mixture, ``(inputs, parts)``.
        """

    @abstractmethod
    def drawn(self, row: int, parts: PartScores, at: int) -> str:
        """The parts of a row as HTML."""

    @abstractmethod
    def highlighted(self, row: int, scores: Numbers) -> str:
        """A row as HTML, coloured by one score for each part."""

    def swapped(self, row: int, fill: int, own: Mask) -> Array:
        items = self.mixed(self.content.row(row), self.content.fill(fill), own)
        self._done += 1
        self._on_progress(min(self._done, self._swaps), self._swaps, f"explaining {self.name}")
        return np.concatenate([_encoded(encoder, items) for encoder in self.encoders], 1)

    def draw(self, values: Any, parts: PartScores, at: int) -> str:
        return self.drawn(parts.rows[at], parts, at)

    def plain(self, row: int) -> str:
        """The content of a row, without scores."""
        return "" if row not in self.shown else shown_html(self.shown[row], f"{self.name} of row {row}")


def shown_html(shown: Shown, label: str) -> str:
    """A cell as HTML: escaped text, a small picture, or the waveform of a sound."""
    words = f'<p class="raw">{escape(shown.words)}</p>' if shown.words else ""
    if shown.picture:
        return f'<img src="{escape(shown.picture, quote=True)}" alt="{escape(label, quote=True)}"/>{words}'
    if shown.outline:
        return (
            f'<svg class="outline" viewBox="0 0 120 32" role="img" aria-label="{escape(label, quote=True)}">'
            f'<path d="{escape(shown.outline, quote=True)}"/></svg>{words}'
        )
    return words


def _encoded(encoder: Encoder, items: Sequence[Any]) -> Array:
    prepared = [encoder.prepare(item) for item in items]
    batches = [prepared[at : at + encoder.batch] for at in range(0, len(prepared), encoder.batch)]
    return np.concatenate([encoder.encode(batch) for batch in batches])
