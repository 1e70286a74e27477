"""Locate synergy: in which rows, in which parts of a row, and between which clusters and directions."""

from synib.explanation.explain import Explanation, explain
from synib.explanation.file import FileExplanation, explain_file
from synib.explanation.gain import PartGain, part_gain
from synib.explanation.kinds import Cell, Direction, Kinds, kinds
from synib.explanation.masks import kept_by_mask
from synib.explanation.partition import patches
from synib.explanation.parts import PartScores, RowParts
from synib.explanation.rows import RowEvidence, Scores
from synib.explanation.views import Columns, Picture, Spectrogram, View, Words

__all__ = [
    "Cell",
    "Columns",
    "Direction",
    "Explanation",
    "FileExplanation",
    "Kinds",
    "PartGain",
    "PartScores",
    "Picture",
    "RowEvidence",
    "RowParts",
    "Scores",
    "Spectrogram",
    "View",
    "Words",
    "explain",
    "explain_file",
    "kept_by_mask",
    "kinds",
    "part_gain",
    "patches",
]
