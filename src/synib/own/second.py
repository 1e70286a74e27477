"""The second model of a predictor, for rows that lack modalities."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from synib.own.answers import Answers
from synib.tokens import optional

MOST = 4  # up to this number of modalities, weights are per combination; with more, per number of modalities


@dataclass(frozen=True)
class SecondModel:
    r"""A model trained with modality dropout, and the weights to combine it with the chosen model.

    A row that lacks modalities is predicted by :math:`w_1 \ell_1 + w_2 \ell_2 + b`. Here :math:`\ell_1` are the log-odds of
    the chosen model, averaged over values of what the row lacks, and :math:`\ell_2` those of this model.

    Args:
        answers: The model in parts, trained on rows with any modalities missing.
        settings: Its training settings.
        weights: For each group of rows (:func:`group_of`) the weights of both models, ``(groups, 2)``.
        bias: The bias of each group, ``(groups, outputs)``.
    """

    answers: Answers
    settings: Mapping[str, Any]
    weights: Tensor
    bias: Tensor

    def encode(self, scaled: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The latents of each modality, followed by one row with the latent of a missing modality.

        Args:
            scaled: Modality → ``(rows, width)`` in the model's units.
        """
        result = {}
        for name, x in scaled.items():
            present = torch.arange(len(x) + 1) < len(x)
            result[name] = self.answers.encode(name, optional(torch.cat([x, x.new_zeros(1, x.shape[1])]), present))
        return result

    def parameters(self, encoded: Mapping[str, Tensor], has: Mapping[str, Tensor]) -> Tensor:
        """The predictions of this model, ``(rows, outputs)``.

        Args:
            encoded: The result of :meth:`encode`.
            has: Modality → which rows have it.
        """
        return self.answers.combine({n: torch.where(has[n][:, None], z[:-1], z[-1]) for n, z in encoded.items()})

    def combine(self, averaged: Tensor, second: Tensor, has: Mapping[str, Tensor]) -> Tensor:
        """The combined prediction of both models for rows that lack some modality."""
        group = group_of(list(has.values()))
        weights = self.weights[group]
        return weights[:, :1] * averaged + weights[:, 1:] * second + self.bias[group]


def groups(modalities: int) -> int:
    """The number of groups of rows for this number of modalities."""
    return 2**modalities if modalities <= MOST else modalities + 1


def group_of(has: Sequence[Tensor]) -> Tensor:
    """The group of each row by the modalities that it has: 0 for none, the last for all, ``(rows,)``."""
    present = torch.stack(list(has), 1).long()
    if present.shape[1] > MOST:
        return present.sum(1)
    return (present * 2 ** torch.arange(present.shape[1])).sum(1)
