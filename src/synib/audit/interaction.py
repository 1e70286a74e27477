"""Interaction: what a fusion has over the best additive combination of what each modality tells."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from synib.audit.fitting import Outcome
from synib.audit.verdict import over
from synib.data.own import Table
from synib.measure import Estimate, interaction_gain

Numbers = NDArray[np.float64]
FOLDS = 5  # over which additive combinations are fitted
LEAST_GROUPS = 4  # fewer cannot be resampled


class Interaction(NamedTuple):
    """What a fusion has over the additive combination.

    Args:
        evidence: In log-likelihood for each example, in nats.
        lead: In accuracy, or in the share of variance explained.
        additive: How good the additive combination is at each row, as :func:`goodness` counts; NaN for rows not tested.
    """

    evidence: Estimate
    lead: Estimate
    additive: Numbers


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
    table = outcome.recipe.table
    additive = ["additive"] if "additive" in outcome.methods else []
    said = {method: averaged(outcome, method) for method in (*(f"unimodal-{n}" for n in table.modalities), *additive)}
    joint = averaged(outcome, fusion)
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
    right = np.full(len(table.target), np.nan)
    right[asked] = found.additive_right
    return Interaction(found.log_loss, found.accuracy, right)


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
    rivals = {"additive": np.stack([x[:, 0] for x in own.values()], 1), "fusion": joint[:, :1]}
    errors, losses = {}, {}
    for who, x in rivals.items():
        error, loss = np.empty(len(y)), np.empty(len(y))
        for fold in np.unique(part):
            here = part == fold
            known = np.column_stack([x[~here], np.ones((~here).sum())])
            slopes = np.linalg.lstsq(known, y[~here], rcond=None)[0]
            spread = np.square(known @ slopes - y[~here]).mean()
            error[here] = np.square(np.column_stack([x[here], np.ones(here.sum())]) @ slopes - y[here])
            loss[here] = 0.5 * np.log(spread) + 0.5 * error[here] / spread
        errors[who], losses[who] = error / (np.var(y) or 1.0), loss
    additive = np.full(len(target), np.nan)
    additive[asked] = 1 - errors["additive"]
    evidence = over(losses["additive"], losses["fusion"], group, seed)
    return Interaction(evidence, over(errors["additive"], errors["fusion"], group, seed), additive)


def _dealt(rows: int, group: NDArray[np.str_] | None, seed: int) -> NDArray[np.int64]:
    random = np.random.default_rng(seed)
    if group is None:
        return random.permutation(rows) % FOLDS
    _, which = np.unique(group, return_inverse=True)
    return (random.permutation(which.max() + 1) % FOLDS)[which]
