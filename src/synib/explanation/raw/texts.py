"""The words of a text, exchanged with the words at the corresponding position of another text."""

import itertools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from synib.explanation import pictures
from synib.explanation.parts import Numbers, PartScores
from synib.explanation.raw.base import Mask, RawParts
from synib.explanation.views import numbers_table, on_both
from synib.own.columns import printable

PARTS = 32  # parts of a text, at most; a longer one is divided into this number of passages
PASSAGE = 240  # characters of a passage that are shown
# A word with the space after it; text in scripts without spaces is divided into characters.
CHARACTERS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
WORD = re.compile(rf"[{CHARACTERS}]\s*|[^\s{CHARACTERS}]+\s*")


class TextWords(RawParts):
    """Words, or passages of a text with more than 32 words."""

    part_name = "words or passages"

    @staticmethod
    def decoded(item: Any) -> list[str]:
        return words_of(str(item))

    def count(self, row: int) -> int:
        return min(PARTS, len(self.content.row(row)))

    def mixed(self, row: list[str], fill: list[str], own: Mask) -> list[str]:
        own_words, other_words = (passages(words, own.shape[1]) for words in (row, fill))
        return ["".join(np.where(mask, own_words, other_words)).strip() for mask in own]

    def drawn(self, row: int, parts: PartScores, at: int) -> str:
        count = self.count(row)
        text = self._passages(row)
        scores_by_title, largest = on_both(parts, at, count)
        highlighted = [
            f'<p class="soft">{title}</p>{pictures.words(text, scores, largest)}'
            for title, scores in scores_by_title.items()
        ]
        long = len(self.content.row(row)) > count
        note = f'<p class="soft">The text is divided into {count} passages.</p>' if long else ""
        return "".join(highlighted) + note + numbers_table(text, parts, at)

    def highlighted(self, row: int, scores: Numbers) -> str:
        return pictures.words(self._passages(row), scores)

    def _passages(self, row: int) -> list[str]:
        return [_excerpt(passage) for passage in passages(self.content.row(row), self.count(row))]


def words_of(text: str) -> list[str]:
    """The words of a text, each with the space after it; joined they are the text again."""
    words = WORD.findall(text.strip())
    if words and not re.fullmatch(rf"[{CHARACTERS}]\s*", words[-1]):
        words[-1] = words[-1].rstrip() + " "
    return words or [text]


def passages(words: Sequence[str], count: int) -> list[str]:
    """Divide words into ``count`` passages of equal length; some are empty if there are fewer words."""
    ends = np.linspace(0, len(words), count + 1).round().astype(int)
    return ["".join(words[a:b]) for a, b in itertools.pairwise(ends)]


def _excerpt(passage: str) -> str:
    text = " ".join(printable(word) for word in passage.split())
    return text if len(text) <= PASSAGE else f"{text[: PASSAGE - 1]}…"
