"""Interaction: what a fusion, or products, have over the best additive combination of what each modality tells."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from synib.measure import Estimate, InteractionGain, interaction_gain, product_gain
from synib.measure.product_gain import principal_components, product_scores
from synib.measure.stats import deal
from synib.own.fitting import Outcome
from synib.own.table import Table
from synib.own.verdict import over

Numbers = NDArray[np.float64]
FOLDS = 5  # over which additive combinations are fitted
LEAST_GROUPS = 4  # fewer cannot be resampled
ROWS = 20_000  # whose products are looked at


class Interaction(NamedTuple):
    """What a fusion has over the additive combination.

    Args:
        evidence: In log-likelihood for each example, in nats.
        lead: In accuracy, or in the share of variance explained.
        additive: How good the additive combination is at each row, as :func:`goodness` counts; NaN for rows not tested.
        score: How good the fusion is, calibrated on these rows.
    """

    evidence: Estimate
    lead: Estimate
    additive: Numbers
    score: Estimate


def goodness(outcome: Outcome, method: str) -> Numbers:
    """How good a method's predictions are, ``(seeds, rows)``: 1 or 0 for a class.

    For numbers it is 1 minus the squared error in units of their variance: its mean is the share of variance explained.
    """
    said, table = outcome.methods[method].predictions, outcome.recipe.table
    asked = ~np.isnan(said[0, :, 0])
    found = np.full(said.shape[:2], np.nan)
    if table.classes:
        for i, one in enumerate(said):
            answer = outcome.family.predict(torch.from_numpy(one[asked]))
            found[i, asked] = answer.numpy().reshape(-1) == table.target[asked]
    else:
        spread = float(np.var(table.target[asked])) or 1.0
        found[:, asked] = 1 - np.square(said[:, asked, 0] - table.target[asked]) / spread
    return found


def interaction(outcome: Outcome, fusion: str, seed: int = 0) -> Interaction:
    """What one fusion method has over the best additive combination of what single modalities tell.

    What is combined: the unimodal models, and an additive model, which learnt its parts together.
    """
    table, said, joint = outcome.recipe.table, _alone(outcome), averaged(outcome, fusion)
    asked = ~np.isnan(joint[:, 0])
    group = groups(table, asked)
    if not table.classes:
        return _of_numbers({name: x[asked] for name, x in said.items()}, joint[asked], table.target, asked, group, seed)
    found = interaction_gain(
        {name: x[asked] for name, x in said.items()},
        joint[asked],
        table.target[asked],
        groups=group,
        folds=FOLDS,
        seed=seed,
    )
    return _of_classes(found, asked)


def looked_at(outcome: Outcome, seed: int = 0) -> NDArray[np.bool_]:
    """The rows whose products are looked at: all that were tested; of many, some."""
    asked = ~np.isnan(outcome.methods[f"unimodal-{next(iter(outcome.recipe.table.modalities))}"].predictions[0, :, 0])
    if asked.sum() > ROWS:
        some = np.random.default_rng(seed).choice(np.flatnonzero(asked), ROWS, replace=False)
        asked = np.isin(np.arange(len(asked)), some)
    return asked


def products(outcome: Outcome, seed: int = 0, target: NDArray[Any] | None = None) -> Interaction:
    """What products of two modalities' numbers have over the combination with squares within each.

    Args:
        outcome: What was trained.
        seed: Of rows, folds and resampling.
        target: For each row, instead of the table's own.
    """
    table, said, asked = outcome.recipe.table, _alone(outcome), looked_at(outcome, seed)
    target = table.target if target is None else target
    (rows,) = np.nonzero(asked)
    group, modalities = groups(table, asked), {}
    for name, x in table.modalities.items():
        there = np.asarray(table.present[name])[rows]
        seen = np.asarray(x[rows], dtype=np.float64)
        modalities[name] = (
            np.where(there[:, None], seen - seen[there].mean(0), 0.0) if there.any() else np.zeros_like(seen)
        )
    own = {name: x[rows] for name, x in said.items()}
    if not table.classes:
        return _products_of_numbers(own, modalities, target, asked, group, seed)
    found = product_gain(own, modalities, target[rows], groups=group, folds=FOLDS, seed=seed)
    return _of_classes(found, asked)


def _of_classes(found: InteractionGain, asked: NDArray[np.bool_]) -> Interaction:
    right = np.full(len(asked), np.nan)
    right[asked] = found.additive_right
    return Interaction(found.log_loss, found.accuracy, right, found.fusion_accuracy)


def _alone(outcome: Outcome) -> dict[str, Numbers]:
    """What is added up: predictions of the unimodal models, and of an additive one."""
    additive = ["additive"] if "additive" in outcome.methods else []
    names = [f"unimodal-{name}" for name in outcome.recipe.table.modalities]
    return {method: averaged(outcome, method) for method in (*names, *additive)}


def averaged(outcome: Outcome, method: str) -> Numbers:
    """One prediction for each row: log-probabilities of the mean over seeds; of numbers the mean's mean and log-variance."""
    said = outcome.calibrated(method)
    if outcome.family.discrete:
        logits = np.concatenate([np.zeros_like(said), said], -1) if said.shape[-1] == 1 else said
        from scipy.special import log_softmax, logsumexp

        result: Numbers = logsumexp(log_softmax(logits, -1), 0) - np.log(len(logits))
        return result
    mean = said[..., 0].mean(0)
    variance = (np.exp(said[..., 1]) + np.square(said[..., 0])).mean(0) - np.square(mean)
    return np.stack([mean, np.log(np.maximum(variance, 1e-12))], -1)


def groups(table: Table, asked: NDArray[np.bool_]) -> NDArray[np.str_] | None:
    """The groups of the tested rows, where there are enough to resample them."""
    if table.group is None or len(np.unique(table.group[asked])) < LEAST_GROUPS:
        return None
    return table.group[asked]


def _of_numbers(
    own: Mapping[str, Numbers],
    joint: Numbers,
    target: Numbers,
    asked: NDArray[np.bool_],
    group: NDArray[np.str_] | None,
    seed: int,
) -> Interaction:
    """The same for numbers: a linear combination of the means, and the fusion's mean recalibrated on the same rows."""
    y = target[asked]
    part = _dealt(len(y), group, seed)
    features = {"additive": np.stack([x[:, 0] for x in own.values()], 1), "fusion": joint[:, :1]}
    fitted = {who: [(x[part != fold], x[part == fold]) for fold in np.unique(part)] for who, x in features.items()}
    return _regressed(fitted, target, asked, part, group, seed)


def _products_of_numbers(
    own: Mapping[str, Numbers],
    modalities: Mapping[str, Numbers],
    target: Numbers,
    asked: NDArray[np.bool_],
    group: NDArray[np.str_] | None,
    seed: int,
) -> Interaction:
    """Products, of what a linear combination of the means leaves of numbers."""
    y = target[asked]
    part, blocks = _dealt(len(y), group, seed), principal_components(modalities, len(y))
    means = np.stack([x[:, 0] for x in own.values()], 1)
    fitted: dict[str, list[tuple[Numbers, Numbers]]] = {"additive": [], "fusion": []}
    for fold in np.unique(part):
        others = part != fold
        rest = y[others] - _line(means[others], y[others])(means[others])
        told, new = (found[..., 0].T for found in product_scores(blocks, rest[:, None], part, fold))
        known, asked_for = np.column_stack([means[others], told]), np.column_stack([means[~others], new])
        squares = means.shape[1] + len(blocks)
        fitted["additive"].append((known[:, :squares], asked_for[:, :squares]))
        fitted["fusion"].append((known, asked_for))
    return _regressed(fitted, target, asked, part, group, seed)


def _regressed(
    fitted: Mapping[str, Sequence[tuple[Numbers, Numbers]]],
    target: Numbers,
    asked: NDArray[np.bool_],
    part: NDArray[np.int64],
    group: NDArray[np.str_] | None,
    seed: int,
) -> Interaction:
    """How much better a regression is than an additive one, from each fold's features of the other rows and of its own."""
    y = target[asked]
    errors, losses = {}, {}
    for who, features in fitted.items():
        error, loss = np.empty(len(y)), np.empty(len(y))
        for fold, (known, new) in zip(np.unique(part), features, strict=True):
            here = part == fold
            line = _line(known, y[~here])
            spread = np.square(line(known) - y[~here]).mean()
            error[here] = np.square(line(new) - y[here])
            loss[here] = 0.5 * np.log(spread) + 0.5 * error[here] / spread
        errors[who], losses[who] = error / (np.var(y) or 1.0), loss
    additive = np.full(len(target), np.nan)
    additive[asked] = 1 - errors["additive"]
    evidence = over(losses["additive"], losses["fusion"], group, seed)
    score = over(1 - errors["fusion"], np.zeros(len(y)), group, seed)
    return Interaction(evidence, over(errors["additive"], errors["fusion"], group, seed), additive, score)


def _line(x: Numbers, y: Numbers) -> Callable[[Numbers], Numbers]:
    """A linear regression."""
    slopes = np.linalg.lstsq(np.column_stack([x, np.ones(len(x))]), y, rcond=None)[0]
    return lambda new: np.column_stack([new, np.ones(len(new))]) @ slopes


def _dealt(rows: int, group: NDArray[np.str_] | None, seed: int) -> NDArray[np.int64]:
    """The fold of each row, drawn without regard to the target; groups stay together."""
    random = np.random.default_rng(seed)
    if group is None:
        return deal(np.argsort(random.permutation(rows)), FOLDS)
    names, which = np.unique(group, return_inverse=True)
    return deal(np.argsort(random.permutation(len(names))), FOLDS)[which]
