"""Detectability: whether a classifier can distinguish counterfactuals from data, in which case a model can too."""

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from synib import keys
from synib.checks import check_kind, check_whole
from synib.keys.generators import seeded_generators
from synib.measure.auc import auc
from synib.measure.encoded import Modalities, as_target, as_tensors, evaluated
from synib.measure.stats import standardisation
from synib.methods import OnLatents
from synib.objective import MultimodalModel, SynIB
from synib.objective.checks import check_model
from synib.tokens import Tokens, mean_token, take, values

HIDDEN, STEPS, RATE, DECAY = 64, 200, 1e-2, 1e-3  # settings of the probe


def detectability(
    objective: SynIB | OnLatents,
    model: MultimodalModel,
    modalities: Modalities,
    target: ArrayLike | Tensor,
    *,
    seed: int = 0,
) -> dict[str, float]:
    """How well a probe distinguishes an objective's counterfactuals from data: 0.5 at chance level, 1 if perfectly.

    The probe is a small network with the inputs of the fusion: all encoded modalities, one of them corrupted or none.
    It is trained on one half of the examples and evaluated on the other half, which is corrupted separately: no
    training value of the probe replaces a value of an evaluated example. The result is the AUC of "corrupted". A
    swapped modality comes from the data distribution, but a swapped *pair* can still be detected if the modalities
    agree in the data.

    Args:
        objective: The objective that generates the counterfactuals.
        model: A trained model in parts, such as :class:`~synib.FusionModel`.
        modalities: Name → tensor, array or :class:`~synib.Tokens`, batch first: held-out examples.
        target: Their labels, used by masks that search.
        seed: Seed for the counterfactuals, the halves and the probe.

    Returns:
        Counterfactual (the corrupted modality's name) → AUC.
    """
    form = objective.objective if isinstance(objective, OnLatents) else objective
    check_kind("objective", form, SynIB, "SynIB()")
    check_whole("seed", seed, least=0)
    if form.sample is not None:
        raise ValueError(f"The probe needs every counterfactual of each example: use sample=None; got {form.sample}.")
    check_model(model, {}, {})
    inputs = as_tensors(model, modalities, model.names if isinstance(model, MultimodalModel) else None)
    first_modality = values(next(iter(inputs.values())))
    y = as_target(target, len(first_modality), first_modality.device)
    if len(y) < 4:
        raise ValueError(f"The probe needs at least 4 examples, two for training and two for evaluation; got {len(y)}.")
    key = keys.fold(keys.key(seed), "detect")
    halves = keys.permutation(keys.fold(key, "halves"), len(y)).to(y.device).tensor_split(2)
    probe_inputs: list[tuple[Tensor, dict[str, Tensor]]] = []
    with torch.no_grad(), evaluated(model), evaluated(objective):
        for i, rows in enumerate(halves):
            half = {name: take(x, rows) for name, x in inputs.items()}
            intact, corrupted = objective.counterfactuals(model, half, y[rows], keys.fold(key, i))
            first_draw = {
                label: _vectors(corrupted_inputs)[: len(rows)] for label, corrupted_inputs in corrupted.items()
            }
            probe_inputs.append((_vectors(intact), first_draw))
    (train, train_corrupted), (test, test_corrupted) = probe_inputs
    mean, factor = (torch.from_numpy(x).to(train) for x in standardisation(train.cpu()))
    result = {}
    for label in train_corrupted:
        fitted, held_out = torch.cat([train, train_corrupted[label]]), torch.cat([test, test_corrupted[label]])
        score = _probe((fitted - mean) * factor, (held_out - mean) * factor, seed)
        result[label] = auc(score, np.arange(len(score)) >= len(test))
    return result


def _vectors(inputs: Mapping[str, Any]) -> Tensor:
    """One row per example: all modalities concatenated; the mean over tokens for token modalities."""
    return torch.cat([(mean_token(x) if isinstance(x, Tokens) else x).flatten(1).float() for x in inputs.values()], 1)


def _probe(train: Tensor, test: Tensor, seed: int) -> NDArray[np.float64]:
    """The predicted score of "corrupted" for each row of the second half, after training on as many intact as
    corrupted rows.
    """
    with seeded_generators(seed):
        network = nn.Sequential(nn.Linear(train.shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1)).to(train.device)
    with torch.enable_grad():
        is_corrupted = (torch.arange(len(train), device=train.device) >= len(train) // 2).float()
        optimiser = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=DECAY)
        for _ in range(STEPS):
            loss = nn.functional.binary_cross_entropy_with_logits(network(train).squeeze(1), is_corrupted)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        with torch.no_grad():
            return cast(NDArray[np.float64], network(test).squeeze(1).double().cpu().numpy())
