"""Unimodal baselines without a network: logistic regressions on one modality, and the synergy subset that they define."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from synib.data import Dataset
from synib.logistic import minimise
from synib.measure.stats import standardisation
from synib.tokens import Modality, Tokens, mean_token

STRENGTHS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)  # of the penalty on squared weights; chosen by validation log-loss
ROWS = 64  # averaged at a time: tokens may be memory-mapped, and larger than memory


def unimodal_labels(data: Dataset) -> dict[str, Tensor]:
    """Modality → test labels predicted by a logistic regression on it (on the mean of tokens)."""
    assert data.test is not None
    parts = (data.train, data.validation, data.test)
    y = [data.train.target, data.validation.target]
    return {name: regress([as_vectors(part.modalities[name]) for part in parts], y) for name in data.test.modalities}


def regress(x: Sequence[Tensor], y: Sequence[Tensor]) -> Tensor:
    """Predicted labels of test rows, by a logistic regression on training rows with the penalty chosen by validation log-loss.

    Args:
        x: Training, validation and test rows.
        y: Training and validation labels, 0 and 1.
    """
    scale = standardisation(x[0].numpy())
    train, validation, test = (torch.from_numpy(scale(part.numpy())) for part in x)
    fits = [_fit(train, y[0], strength) for strength in STRENGTHS]
    losses = [float(_loss(validation @ w + b, y[1])) for w, b in fits]
    w, b = fits[int(np.argmin(losses))]
    return (test @ w + b > 0).long()


def as_vectors(x: Modality) -> Tensor:
    """One vector per example: for tokens their mean, without padding."""
    if not isinstance(x, Tokens):
        return x
    pieces = []
    for tokens, padding in zip(*(part.split(ROWS) for part in x), strict=True):
        pieces.append(mean_token(Tokens(tokens.float(), padding)))
    return torch.cat(pieces)


def _fit(x: Tensor, y: Tensor, strength: float) -> tuple[Tensor, Tensor]:
    """Weights and an unpenalised intercept."""

    def objective(theta: Tensor) -> Tensor:
        return _loss(x @ theta[:-1] + theta[-1], y) + 0.5 * strength * theta[:-1].square().sum()

    theta = minimise(objective, x.new_zeros(x.shape[1] + 1))
    return theta[:-1], theta[-1]


def _loss(logits: Tensor, y: Tensor) -> Tensor:
    return torch.nn.functional.binary_cross_entropy_with_logits(logits, y.double())
