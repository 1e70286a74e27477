"""The unimodal parts of fusion models: their predictions, averaged over the values of the other modalities."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from synib import keys
from synib.own.cell_training import ROWS as PREDICTED
from synib.own.fitting import Outcome
from synib.tokens import Modality, take, values
from synib.training import Learner
from synib.training.lazy_rows import in_order

Numbers = NDArray[np.float64]
Rows = NDArray[np.int64]
DRAWS = 16  # background rows over which a network's prediction is averaged


def additive_parts(outcome: Outcome, method: str, seed: int = 0, rows: Rows | None = None) -> Numbers:
    """The unimodal parts of a fusion model: its mean prediction over the values of the other modalities.

    They are computed for those of ``rows`` that are tested, by the models that were not trained on them. All rows of a fold
    use the same values of the other modalities, so that a part is a function of one modality only, without noise from the
    draws. Noise would hide some of the unimodal effect, which would then look like an interaction.

    Returns:
        ``(modalities, rows, columns)`` with mean 0 over each fold; NaN for rows that are not tested.
    """
    recipe, names = outcome.recipe, list(outcome.table.modalities)
    columns = 1 if outcome.table.kind == "regression" else recipe.outputs
    parts = np.full((len(names), len(outcome.table.target), columns), np.nan)
    for i, fold in enumerate(outcome.parts):
        split = recipe.view(i, fold.test)
        positions = np.arange(len(fold.test)) if rows is None else np.flatnonzero(np.isin(fold.test, rows))
        at = torch.from_numpy(positions)
        inputs = {name: in_order(x, at) if len(at) < len(split) else x for name, x in split.modalities.items()}
        learners = outcome.methods[method].learners[i]
        background = keys.permutation(keys.fold(keys.key(seed), "others"), len(split))[:DRAWS]
        others = {name: take(x, background) for name, x in split.modalities.items()}
        for m, name in enumerate(names):
            total = np.zeros((len(at), columns))
            for start in range(0, len(at), PREDICTED):
                block = slice(start, start + PREDICTED)
                for eta in _with_others(learners, name, take(inputs[name], block), others, len(at[block])):
                    total[block] += recipe.scaling(i).undo(outcome.family, eta)[:, :columns]
            parts[m, fold.test[positions]] = (total - total.mean(0)) / (len(background) * len(learners))
    return parts


def _with_others(
    learners: Sequence[Learner], name: str, inputs: Modality, others: Mapping[str, Modality], rows: int
) -> Iterator[Numbers]:
    """Predictions for some rows of one modality, combined with each background row of the others.

    If the method predicts with the model's fusion, each modality is encoded once and only the fusion is repeated.
    """
    count = len(values(next(iter(others.values()))))
    encoded: list[dict[str, Any]] = []
    with torch.no_grad():
        for learner in learners:
            learner.eval()
            model, x = learner.model, {**others, name: inputs}
            if learner.method.predicts_by_fusion:
                x = {n: model.project(n, model.encode(n, part)) for n, part in x.items()}
            encoded.append(x)
        for number in range(count):
            row = torch.full((rows,), number)
            for learner, x in zip(learners, encoded, strict=True):
                mixed = {n: part if n == name else take(part, row) for n, part in x.items()}
                fused = learner.method.predicts_by_fusion
                eta = learner.model.combine(mixed) if fused else learner.method.predict(learner.model, mixed)
                yield eta.reshape(rows, -1).double().numpy()
