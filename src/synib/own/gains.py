"""What a fusion, or a regression on products, gains over the best additive combination of the single modalities."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from synib.measure import Estimate, InteractionGain, interaction_gain, product_gain
from synib.own.fitting import Outcome
from synib.own.regression_gain import regression_gain, regression_product_gain
from synib.own.row_scores import Mask, Numbers, resampling_groups, seed_average

FOLDS = 5  # over which additive combinations are fitted
ROWS = 20_000  # whose products are looked at


class Gain(NamedTuple):
    """What a fusion has over the additive combination.

    Args:
        evidence: In log-likelihood for each example, in nats.
        lead: In accuracy, or in the share of variance explained.
        additive: The additive combination's score of each row, as in :func:`~synib.own.row_scores.row_scores`.
        score: The mean score of the fusion, calibrated on these rows.
    """

    evidence: Estimate
    lead: Estimate
    additive: Numbers
    score: Estimate


def fusion_gain(outcome: Outcome, fusion: str, seed: int = 0) -> Gain:
    """What one fusion method has over the best additive combination of unimodal models and an additive network."""
    table, single, joint = outcome.table, _single(outcome), seed_average(outcome, fusion)
    tested = ~np.isnan(joint[:, 0])
    group, y = resampling_groups(table, tested), table.target[tested]
    unimodal = {name: x[tested] for name, x in single.items()}
    if not table.classes:
        return Gain(*_spread(regression_gain(unimodal, joint[tested], y, group, FOLDS, seed), tested))
    return _of_classes(interaction_gain(unimodal, joint[tested], y, groups=group, folds=FOLDS, seed=seed), tested)


def products_gain(outcome: Outcome, seed: int = 0, target: NDArray[Any] | None = None) -> Gain:
    """What products of two modalities' features have over the combination with squares within each.

    Args:
        outcome: The trained models.
        seed: Seed for the choice of rows, the folds and the bootstrap.
        target: For each row, instead of the table's own.
    """
    table, single, used = outcome.table, _single(outcome), product_rows(outcome, seed)
    (rows,) = np.nonzero(used)
    y = (table.target if target is None else target)[rows]
    group, modalities = resampling_groups(table, used), {}
    for name, x in table.modalities.items():
        present, values = table.present[name][rows], np.asarray(x[rows], dtype=np.float64)
        centre = values[present].mean(0) if present.any() else 0.0
        modalities[name] = np.where(present[:, None], values - centre, 0.0)
    unimodal = {name: x[rows] for name, x in single.items()}
    if not table.classes:
        return Gain(*_spread(regression_product_gain(unimodal, modalities, y, group, FOLDS, seed), used))
    return _of_classes(product_gain(unimodal, modalities, y, groups=group, folds=FOLDS, seed=seed), used)


def product_rows(outcome: Outcome, seed: int = 0) -> Mask:
    """The rows whose products are looked at: all that were tested, or a random choice of many."""
    first = next(iter(outcome.table.modalities))
    tested = ~np.isnan(outcome.methods[f"unimodal-{first}"].predictions[0, :, 0])
    if tested.sum() > ROWS:
        some = np.random.default_rng(seed).choice(np.flatnonzero(tested), ROWS, replace=False)
        tested = np.isin(np.arange(len(tested)), some)
    return tested


def _single(outcome: Outcome) -> dict[str, Numbers]:
    """What is added up: predictions of the unimodal models, and of an additive network."""
    additive = ["additive"] if "additive" in outcome.methods else []
    names = [f"unimodal-{name}" for name in outcome.table.modalities]
    return {method: seed_average(outcome, method) for method in (*names, *additive)}


def _of_classes(gain: InteractionGain, tested: Mask) -> Gain:
    return Gain(*_spread((gain.log_loss, gain.accuracy, gain.additive_right, gain.fusion_accuracy), tested))


def _spread(
    gain: tuple[Estimate, Estimate, Numbers, Estimate], tested: Mask
) -> tuple[Estimate, Estimate, Numbers, Estimate]:
    """The same with the additive scores of tested rows in their places among all rows."""
    evidence, lead, additive, score = gain
    every = np.full(len(tested), np.nan)
    every[tested] = additive
    return evidence, lead, every, score
