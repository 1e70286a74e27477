"""Unimodal baselines without a network: logistic regressions on one modality, and the synergy subset they define."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from synib.data import Dataset
from synib.studies.tables import scaling
from synib.tokens import Modality, Tokens

STRENGTHS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)  # of the penalty on squared weights; chosen by validation log-loss
ROWS = 64  # averaged at a time: tokens may be memory-mapped, and larger than memory


def unimodal_labels(data: Dataset) -> dict[str, Tensor]:
    """Modality → test labels predicted by a logistic regression on it; of tokens, on their mean."""
    assert data.test is not None
    parts = (data.train, data.validation, data.test)
    y = [data.train.target, data.validation.target]
    return {name: regress([as_vectors(part.modalities[name]) for part in parts], y) for name in data.test.modalities}


def regress(x: Sequence[Tensor], y: Sequence[Tensor]) -> Tensor:
    """Labels of test rows by a logistic regression on training rows, its penalty chosen by validation log-loss.

    Args:
        x: Training, validation and test rows.
        y: Training and validation labels, 0 and 1.
    """
    mean, scale = map(torch.from_numpy, scaling(x[0].numpy()))
    train, validation, test = ((part.double() - mean) * scale for part in x)
    fits = [_fit(train, y[0], strength) for strength in STRENGTHS]
    losses = [float(_loss(validation @ w + b, y[1])) for w, b in fits]
    w, b = fits[int(np.argmin(losses))]
    return (test @ w + b > 0).long()


def as_vectors(x: Modality) -> Tensor:
    """One vector for each example: of tokens their mean, without padding."""
    if not isinstance(x, Tokens):
        return x
    pieces = []
    for tokens, padding in zip(*(part.split(ROWS) for part in x), strict=True):
        present = (~padding)[..., None]
        pieces.append((tokens.float() * present).sum(1) / present.sum(1).clamp(min=1))
    return torch.cat(pieces)


def _fit(x: Tensor, y: Tensor, strength: float) -> tuple[Tensor, Tensor]:
    w, b = x.new_zeros(x.shape[1], requires_grad=True), x.new_zeros((), requires_grad=True)
    optimiser = torch.optim.LBFGS([w, b], max_iter=100, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimiser.zero_grad()
        loss = _loss(x @ w + b, y) + 0.5 * strength * w.square().sum()
        torch.autograd.backward([loss])
        return loss

    optimiser.step(closure)
    return w.detach(), b.detach()


def _loss(logits: Tensor, y: Tensor) -> Tensor:
    return torch.nn.functional.binary_cross_entropy_with_logits(logits, y.double())
