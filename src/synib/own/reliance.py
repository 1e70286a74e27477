"""How far a model relies on each modality: what its predictions lose when the modality is another row's."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from synib import keys
from synib.measure.stats import Estimate
from synib.objective import Family, Gaussian
from synib.own.fitting import Outcome
from synib.own.row_scores import Groups, Mask, Numbers, lead
from synib.tokens import Modality, present, take

DRAWS = 4  # other rows that take a modality's place, one after the other
INTACT = ""  # the name of rows as they are


@dataclass(frozen=True)
class Reliance:
    """How far a model relies on a modality: what it loses when the modality is another example's.

    Args:
        accuracy: Accuracy (or explained variance) lost.
        confidence: Mean probability of the predicted class, lost likewise; 0 for numbers.
    """

    accuracy: Estimate
    confidence: Estimate


def reliance(outcome: Outcome, method: str, group: Groups | None, tested: Mask, seed: int) -> dict[str, Reliance]:
    """What a method's models lose without each modality, at the rows that each was not trained on."""
    table = outcome.table
    shape = (2, outcome.seeds, len(table.target))
    scores = {name: np.full(shape, np.nan) for name in (INTACT, *table.modalities)}
    for i, fold in enumerate(outcome.parts):
        split = outcome.recipe.split(i, fold.test)
        for s, learner in enumerate(outcome.methods[method].learners[i]):
            of_fold = scores_without(
                lambda x, learner=learner: learner.method.predict(learner.model, x),  # type: ignore[misc]
                split.modalities,
                split.target,
                outcome.family,
                seed,
            )
            for name, each in of_fold.items():
                scores[name][:, s, fold.test] = each
    intact = scores.pop(INTACT)[..., tested]
    lost = {
        name: [lead(*pair, group, seed) for pair in zip(intact, x[..., tested], strict=True)]
        for name, x in scores.items()
    }
    return {name: Reliance(*estimates) for name, estimates in lost.items()}


def scores_without(
    predict: Callable[[Mapping[str, Modality]], Tensor],
    modalities: Mapping[str, Modality],
    target: Tensor,
    family: Family,
    seed: int = 0,
) -> dict[str, Numbers]:
    """For each modality the scores of each row when it is another row's, averaged over a few; ``""`` for rows as they are.

    Rows that lack a modality keep lacking it, and count as they are.

    Returns:
        Modality → ``(2, rows)``: 1 for a right class and 0 for a wrong one, or for numbers minus the squared error; and the
        probability of the predicted class, 0 for numbers.
    """
    with torch.no_grad():
        result = {INTACT: _scores(predict(modalities), target, family)}
        for name, x in modalities.items():
            has = present(x)
            rows = torch.arange(len(target)) if has is None else has.nonzero().squeeze(1)
            draws = []
            for draw in range(DRAWS if len(rows) > 1 else 0):
                order = keys.permutation(keys.fold(keys.key(seed), name, draw), len(rows))
                source = torch.arange(len(target))
                source[rows[order]] = rows[order.roll(1)]  # a circle: no row gets its own
                draws.append(_scores(predict({**modalities, name: take(x, source)}), target, family))
            result[name] = np.mean(draws, 0) if draws else result[INTACT]
    return result


def _scores(parameters: Tensor, target: Tensor, family: Family) -> Numbers:
    predicted = family.predict(parameters)
    if isinstance(family, Gaussian):
        error = (predicted - target).double().square().reshape(len(target), -1).sum(1)
        return np.stack([-error.numpy(), np.zeros(len(target))])
    right = (predicted == target).double()
    logits = parameters.double().reshape(len(parameters), -1)
    scores = torch.cat([torch.zeros_like(logits), logits], 1) if logits.shape[1] == 1 else logits
    return np.stack([right.numpy(), scores.softmax(1).max(1).values.numpy()])
