"""How good a method is at each row, and the mean lead of one score over another."""

import numpy as np
import torch
from numpy.typing import NDArray

from synib.measure.stats import Estimate, difference, mean
from synib.own.fitting import Outcome
from synib.own.table import Table

Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]
Groups = NDArray[np.str_]


def row_scores(outcome: Outcome, method: str) -> Numbers:
    """The score of a method's prediction for each row, ``(seeds, rows)``; NaN for rows that are never tested.

    1 for a right class and 0 for a wrong one. For numbers 1 minus the squared error in units of their variance: its mean is the
    share of variance explained.
    """
    predictions, table = outcome.methods[method].predictions, outcome.table
    tested = ~np.isnan(predictions[0, :, 0])
    scores = np.full(predictions.shape[:2], np.nan)
    if table.classes:
        for i, parameters in enumerate(predictions):
            label = outcome.family.predict(torch.from_numpy(parameters[tested]))
            scores[i, tested] = label.numpy().reshape(-1) == table.target[tested]
    else:
        variance = float(np.var(table.target[tested])) or 1.0
        scores[:, tested] = 1 - np.square(predictions[:, tested, 0] - table.target[tested]) / variance
    return scores


def seed_average(outcome: Outcome, method: str) -> Numbers:
    """One prediction for each row: log-probabilities of the mean over seeds; of numbers the mean's mean and log-variance."""
    parameters = outcome.calibrated(method)
    if outcome.family.discrete:
        from scipy.special import log_softmax, logsumexp  # slow to import

        one_logit = parameters.shape[-1] == 1
        logits = np.concatenate([np.zeros_like(parameters), parameters], -1) if one_logit else parameters
        result: Numbers = logsumexp(log_softmax(logits, -1), 0) - np.log(len(logits))
        return result
    average = parameters[..., 0].mean(0)
    variance = (np.exp(parameters[..., 1]) + np.square(parameters[..., 0])).mean(0) - np.square(average)
    return np.stack([average, np.log(np.maximum(variance, 1e-12))], -1)


def resampling_groups(table: Table, tested: Mask) -> Groups | None:
    """The groups of the tested rows, where there are any."""
    return None if table.group is None else table.group[tested]


def lead(ours: Numbers, theirs: Numbers, group: Groups | None, seed: int = 0) -> Estimate:
    """The mean difference of two scores of each row, ``(rows,)`` or ``(seeds, rows)``; rows that are NaN are left out."""
    gap = np.atleast_2d(ours - theirs).mean(0)
    tested = ~np.isnan(gap)
    groups = None if group is None else group[tested]
    ours, theirs = np.atleast_2d(ours).mean(0)[tested], np.atleast_2d(theirs).mean(0)[tested]
    are_shares = min(ours.min(), theirs.min()) >= 0 and max(ours.max(), theirs.max()) <= 1
    return difference(ours, theirs, groups=groups) if are_shares else mean(gap[tested], groups)
