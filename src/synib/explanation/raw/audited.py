"""Parts of raw rows of an audit, explained by models that were not trained on these rows."""

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from synib.data.media import BrokenFile
from synib.explanation.answers import Readout
from synib.explanation.parts import PartScores, RowParts, part_scores
from synib.explanation.raw.base import RawParts
from synib.explanation.raw.build import raw_parts
from synib.measure.encoded import CHUNK, Encoded, Model, evaluated
from synib.own.audit import Progress
from synib.own.fitting import Outcome
from synib.own.folds import Rows
from synib.own.raw.embed import RawOptions
from synib.own.raw.survey import MEDIA
from synib.own.scaling import Scaling
from synib.training import Learner

DRAWS = 16  # background rows for each row
FEW = 4  # the same for images, sounds and encoders that are networks, where a mixture takes longer
SECONDS = 10.0  # CPU time of a modality after which no further row is explained
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

    Rows are explained in order; a modality's rows after the first 10 seconds of CPU time are left out, as are those in which
    it has a single part or a file that cannot be read.

    Args:
        outcome: The trained models.
        method: The fusion method to explain.
        rows: Complete test rows of the table, the most important first.
        seed: Seed for the draws.
        on_progress: Called with the rows done, their total, and the current step.
    """
    table, raw = outcome.table, outcome.table.raw
    scores: dict[int, dict[str, PartScores]] = {row: {} for row in rows}
    if raw is None or not rows:
        return AuditParts(scores, {})
    numbers = np.arange(len(table.target)) if table.row_numbers is None else table.row_numbers
    fold_of = {row: next(i for i, fold in enumerate(outcome.parts) if row in fold.test) for row in rows}
    background = {i: _background(outcome, i, rows, seed) for i in set(fold_of.values())}
    others = np.concatenate(list(background.values()))
    options = RawOptions(device=raw.device)  # encoders have been downloaded by now
    views = raw_parts(raw, numbers[list(rows)].tolist(), numbers[others].tolist(), DRAWS, options)
    is_slow = {n: v.encoders[0].kind in MEDIA or any(e.is_network for e in v.encoders) for n, v in views.items()}
    spent = dict.fromkeys(views, 0.0)
    for at, (row, i) in enumerate(fold_of.items()):
        on_progress(at, len(rows), "explaining rows")
        learner, number = outcome.methods[method].learners[i][0], int(numbers[row])
        fills = np.flatnonzero(np.isin(others, background[i]))
        with evaluated(learner):
            inputs = outcome.recipe.inputs(i, np.concatenate([[row], others[fills]]))
            encoded = Encoded(prediction(learner), inputs, CHUNK)
            readout = Readout(outcome.family, encoded.own())
            for name, view in views.items():
                parts, draws = _Scaled(view, outcome.recipe.scaling(i), number, fills), FEW if is_slow[name] else DRAWS
                start = time.process_time()
                with contextlib.suppress(BrokenFile):  # a file may have changed since it was encoded
                    if spent[name] < SECONDS and parts.count(0) > 1:
                        of_row = part_scores(encoded, readout, parts, name, [0], first=1, draws=draws, seed=seed + row)
                        scores[row][name] = replace(of_row, rows=(number,))
                spent[name] += time.process_time() - start
    on_progress(len(rows), len(rows), "explaining rows")
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

    def count(self, row: int) -> int:
        return self.raw.count(self.number)

    def swapped(self, row: int, fill: int, own: NDArray[np.bool_]) -> NDArray[Any]:
        return self.scaling(self.raw.name, self.raw.swapped(self.number, int(self.fills[fill]), own)).numpy()


def _background(outcome: Outcome, fold: int, rows: Sequence[int], seed: int) -> Rows:
    """Complete test rows of a fold other than the explained ones, sampled at random."""
    test = outcome.parts[fold].test
    complete = np.logical_and.reduce([present[test] for present in outcome.table.present.values()])
    others = test[complete & ~np.isin(test, rows)]
    return np.sort(np.random.default_rng(seed).permutation(others)[:BACKGROUND])
