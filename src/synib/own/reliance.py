"""How much a model relies on each modality: the loss when the modality is taken from another row."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synib import keys
from synib.measure.stats import Estimate
from synib.own.evidence import Bench
from synib.own.fitting import predict
from synib.own.metric import probabilities
from synib.tokens import Modality, present
from synib.training.lazy_rows import LazyRows, in_order

Numbers = NDArray[np.float64]
DRAWS = 4  # permutations of each modality
INTACT = ""  # key of the unchanged rows


@dataclass(frozen=True)
class Reliance:
    """How much a model relies on a modality: the loss when the modality is taken from another row.

    Args:
        score: Loss in the audit's metric.
        confidence: Loss in the mean probability of the predicted class; 0 for numbers.
    """

    score: Estimate
    confidence: Estimate


def reliance(bench: Bench, method: str, seed: int = 0) -> dict[str, Reliance]:
    """The loss of a method's models without each modality, on test rows."""
    outcome, recipe = bench.outcome, bench.outcome.recipe
    names = (INTACT, *outcome.table.modalities)
    eta = {name: np.full((outcome.seeds, DRAWS, len(outcome.table.target), recipe.outputs), np.nan) for name in names}
    for i, fold in enumerate(outcome.parts):
        rows = fold.test[np.isin(fold.test, bench.probed)]
        split = recipe.view(i, rows)
        for s, learner in enumerate(outcome.methods[method].learners[i]):
            without = predictions_without(
                lambda x, learner=learner, like=split: predict(learner, replace(like, modalities=x)),  # type: ignore[misc]
                split.modalities,
                seed,
            )
            for name, shuffled in without.items():
                eta[name][s][:, rows] = recipe.scaling(i).undo(recipe.family, shuffled)
    score, confidence = _scores(bench, eta.pop(INTACT))
    result = {}
    for name, predictions in eta.items():
        lower, less_confident = _scores(bench, predictions)
        result[name] = Reliance(bench.lead(score, lower), bench.mean(confidence - less_confident))
    return result


def _scores(bench: Bench, predictions: Numbers) -> tuple[Numbers, Numbers]:
    """The metric's score and the confidence of each row, averaged over seeds and draws."""
    rows, kind = predictions[:, :, bench.rows].reshape(-1, len(bench.rows), predictions.shape[-1]), bench.metric.kind
    if kind == "regression":
        scores = np.mean([bench.metric.scores(eta[:, :1], bench.target) for eta in rows], 0)
        return scores, np.zeros(len(scores))
    scores = np.mean([bench.metric.scores(eta, bench.target) for eta in rows], 0)
    if kind == "multilabel":
        return scores, np.mean([1 / (1 + np.exp(-np.abs(eta))) for eta in rows], (0, 2))
    return scores, np.mean([probabilities(eta).max(1) for eta in rows], 0)


def predictions_without(
    model: Callable[[Mapping[str, Modality]], Tensor], modalities: Mapping[str, Modality], seed: int = 0
) -> dict[str, Numbers]:
    """Predictions with each modality permuted among the rows that have it.

    Rows that lack a modality are not changed.

    Returns:
        Modality → ``(draws, rows, outputs)``; ``""`` for unchanged rows.
    """
    with torch.no_grad():
        intact = _parameters(model(modalities))
        result = {INTACT: np.repeat(intact[None], DRAWS, 0)}
        for name, x in modalities.items():
            has = x.present if isinstance(x, LazyRows) else present(x)
            rows = torch.arange(len(intact)) if has is None else has.nonzero().squeeze(1)
            draws = []
            for draw in range(DRAWS):
                order = keys.permutation(keys.fold(keys.key(seed), name, draw), len(rows))
                source = torch.arange(len(intact))
                source[rows[order]] = rows[order.roll(1)]  # a cyclic shift: no row keeps its own
                draws.append(_parameters(model({**modalities, name: in_order(x, source)})))
            result[name] = np.stack(draws)
    return result


def _parameters(prediction: Tensor) -> Numbers:
    return prediction.reshape(len(prediction), -1).double().cpu().numpy()
