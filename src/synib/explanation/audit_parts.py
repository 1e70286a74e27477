"""Parts of rows of an audit that carry synergy, by models that were not trained on these rows."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from synib.data.media import BrokenFile
from synib.explanation.answers import Readout
from synib.explanation.parts import PartScores, RowParts, part_scores
from synib.explanation.raw import RawParts, raw_parts
from synib.measure.encoded import CHUNK, Encoded, Model, evaluated
from synib.own.audit import Progress
from synib.own.fitting import Outcome
from synib.own.folds import Rows
from synib.own.raw.embed import RawOptions
from synib.own.scaling import Scaling
from synib.training import Learner

DRAWS = 4  # background rows for each row: few, because every mixture is encoded
BACKGROUND = 64  # test rows of a fold from which they are drawn, at most


class AuditParts(NamedTuple):
    """The result of :func:`audit_parts`.

    Args:
        scores: Row of the table → modality → the scores of its parts, under the row's number in the file.
        views: Modality → its parts, which draw the scores.
    """

    scores: Mapping[int, Mapping[str, PartScores]]
    views: Mapping[str, RawParts]


def audit_parts(
    outcome: Outcome,
    method: str,
    rows: Sequence[int],
    seed: int = 0,
    on_progress: Progress = lambda done, total, what: None,
) -> AuditParts:
    """Scores of the parts of raw modalities, with test rows of the same fold as background.

    A modality is left out in rows where it has a single part or a file that cannot be read. If one of its encoders is a
    network, rows are explained in order until as many mixtures have been encoded as the table has rows.

    Args:
        outcome: The trained models.
        method: The fusion method to explain.
        rows: Complete test rows of the table, the most important first.
        seed: Seed for the draws.
        on_progress: Called with the draws done, their total, and the current step.
    """
    table, raw = outcome.table, outcome.table.raw
    scores: dict[int, dict[str, PartScores]] = {row: {} for row in rows}
    if raw is None or not rows:
        return AuditParts(scores, {})
    numbers = np.arange(len(table.target)) if table.row_numbers is None else table.row_numbers
    fold_of = {row: next(i for i, fold in enumerate(outcome.parts) if row in fold.test) for row in rows}
    background = {i: _background(outcome, i, rows, seed) for i in set(fold_of.values())}
    others = np.concatenate(list(background.values()))
    options = RawOptions(allow_download=raw.files.allow_download, device=raw.device, on_progress=on_progress)
    views = raw_parts(raw, numbers[list(rows)].tolist(), numbers[others].tolist(), DRAWS, options)
    left = {n: len(table.target) if any(e.is_network for e in v.encoders) else np.inf for n, v in views.items()}
    for row, i in fold_of.items():
        learner, number = outcome.methods[method].learners[i][0], int(numbers[row])
        fills = np.flatnonzero(np.isin(others, background[i]))
        with evaluated(learner):
            inputs = outcome.recipe.inputs(i, np.concatenate([[row], others[fills]]))
            encoded = Encoded(prediction(learner), inputs, CHUNK)
            readout = Readout(outcome.family, encoded.own())
            for name, view in views.items():
                parts = _Scaled(view, outcome.recipe.scaling(i), number, fills)
                try:
                    if left[name] > 0 and parts.count(0) > 1:
                        found = part_scores(encoded, readout, parts, name, [0], first=1, draws=DRAWS, seed=seed + row)
                        scores[row][name] = replace(found, rows=(number,))
                except BrokenFile:  # it could be read when the table was encoded
                    pass
                left[name] -= parts.mixtures
    return AuditParts(scores, views)


def prediction(learner: Learner) -> Model:
    """The prediction function of a learner: its model, if it predicts by fusion, so that rows are encoded only once."""
    if learner.method.predicts_by_fusion:
        return learner.model
    return lambda x: learner.method.predict(learner.model, x)


class _Scaled(RowParts):
    """The raw parts of one row, whose mixtures are scaled for the model of a fold.

    Args:
        raw: The parts.
        scaling: The fold's scaling.
        number: The row of the file.
        fills: The numbers of the fold's background rows among those of all folds.
    """

    def __init__(self, raw: RawParts, scaling: Scaling, number: int, fills: Rows) -> None:
        self.raw, self.scaling, self.number, self.fills = raw, scaling, number, fills
        self.mixtures = 0

    def count(self, row: int) -> int:
        return self.raw.count(self.number)

    def swapped(self, row: int, fill: int, own: NDArray[np.bool_]) -> NDArray[Any]:
        self.mixtures += len(own)
        return self.scaling(self.raw.name, self.raw.swapped(self.number, int(self.fills[fill]), own)).numpy()


def _background(outcome: Outcome, fold: int, rows: Sequence[int], seed: int) -> Rows:
    """Complete test rows of a fold other than the explained ones, sampled at random."""
    test = outcome.parts[fold].test
    complete = np.logical_and.reduce([present[test] for present in outcome.table.present.values()])
    others = test[complete & ~np.isin(test, rows)]
    return np.sort(np.random.default_rng(seed).permutation(others)[:BACKGROUND])
