"""The second model of a predictor, which answers for rows that lack modalities."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from synib.own.answers import Answers
from synib.tokens import optional

MOST = 4  # modalities up to which every combination of them has weights of its own; of more, every number of them


@dataclass(frozen=True)
class SecondModel:
    r"""A model that was trained with modality dropout, and what it counts beside the chosen model.

    A row that lacks modalities is predicted by :math:`w_1 \ell_1 + w_2 \ell_2 + b`. Here :math:`\ell_1` are the log-odds of
    the chosen model, averaged over values of what the row lacks, and :math:`\ell_2` those of this model.

    Args:
        answers: The model in parts. It was trained on rows of which any modalities were missing.
        settings: How it was trained.
        weights: For each group of rows (:func:`group_of`) what both models count, ``(groups, 2)``.
        bias: What is added, ``(groups, outputs)``.
    """

    answers: Answers
    settings: Mapping[str, Any]
    weights: Tensor
    bias: Tensor

    def encode(self, scaled: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """What each modality brings to the fusion where a row has it, and, one row longer, where it has not.

        Args:
            scaled: Modality → ``(rows, width)`` in the model's units.
        """
        result = {}
        for name, x in scaled.items():
            present = torch.arange(len(x) + 1) < len(x)
            result[name] = self.answers.encode(name, optional(torch.cat([x, x.new_zeros(1, x.shape[1])]), present))
        return result

    def parameters(self, encoded: Mapping[str, Tensor], has: Mapping[str, Tensor]) -> Tensor:
        """What this model says, ``(rows, outputs)``.

        Args:
            encoded: Of :meth:`encode`.
            has: Modality → which rows have it.
        """
        return self.answers.combine({n: torch.where(has[n][:, None], z[:-1], z[-1]) for n, z in encoded.items()})

    def combine(self, averaged: Tensor, own: Tensor, has: Mapping[str, Tensor]) -> Tensor:
        """The combined prediction of both models for rows that lack some modality."""
        group = group_of(list(has.values()))
        weights = self.weights[group]
        return weights[:, :1] * averaged + weights[:, 1:] * own + self.bias[group]


def groups(modalities: int) -> int:
    """How many groups of rows there are with so many modalities."""
    return 2**modalities if modalities <= MOST else modalities + 1


def group_of(has: Sequence[Tensor]) -> Tensor:
    """The group of each row by the modalities that it has: 0 for none, the last for all, ``(rows,)``."""
    present = torch.stack(list(has), 1).long()
    if present.shape[1] > MOST:
        return present.sum(1)
    return (present * 2 ** torch.arange(present.shape[1])).sum(1)
