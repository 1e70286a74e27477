"""Shared by experiments on real data: a network on vectors, predictions in batches, calibration."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from synib.data import Dataset
from synib.measure import calibration, temperature
from synib.models import FusionModel
from synib.objective import Family
from synib.tokens import Modality, take, values
from synib.training import Learner


def vector_model(widths: Mapping[str, int], settings: Mapping[str, Any], classes: int = 1) -> FusionModel:
    """A network with a two-layer encoder for each modality, linear unimodal heads and one hidden fusion layer.

    Args:
        widths: Modality → its number of features.
        settings: Settings of a cell, of which ``hidden``, ``latent``, ``dropout`` and ``detach_heads`` are used.
        classes: Number of outputs; 1 is one logit.
    """
    return FusionModel.mlp(
        widths,
        hidden=[settings["hidden"], settings["latent"]],
        classes=classes,
        head_hidden=[],
        fusion_hidden=[64],
        dropout=settings["dropout"],
        detach_heads=settings["detach_heads"],
    )


def predictions(learner: Learner, modalities: Mapping[str, Modality], batch_size: int) -> Tensor:
    """A trained model's predictions, computed in batches."""
    n = len(values(next(iter(modalities.values()))))
    batches = (slice(start, start + batch_size) for start in range(0, n, batch_size))
    with torch.no_grad():
        return torch.cat(
            [
                learner.method.predict(learner.model, {name: take(x, rows) for name, x in modalities.items()})
                for rows in batches
            ]
        )


def calibration_scores(on_validation: Tensor, on_test: Tensor, data: Dataset, family: Family) -> dict[str, float]:
    """Expected calibration error on the test set, before and after temperature scaling on validation data.

    Args:
        on_validation, on_test: Predicted parameters.
        data: The data set, including test examples.
        family: The predictive distribution.
    """
    assert data.test is not None
    t = temperature(on_validation, data.validation.target, family)
    before, after = (calibration(logits, data.test.target, family=family).error for logits in (on_test, on_test / t))
    return {"ece": before, "ece_calibrated": after, "temperature": t}
