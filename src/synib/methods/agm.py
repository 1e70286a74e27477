"""AGM: modulates each modality's share of the output gradient by how far it lags or leads."""

import math
from collections.abc import Mapping
from itertools import combinations
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from synib import tokens
from synib.checks import check_number
from synib.masks.base import undisturbed
from synib.objective import Batch, MultimodalModel, Objective, Parts
from synib.tokens import Modality, values

MOST = 4  # modalities: the fusion runs on all 2ⁿ subsets of them
# Bounds that keep an exponential of an exponential finite, as public implementations have them.
WORST = -math.log(1e-8)  # of an example's score
LARGEST = 10.0  # of τ - r


class AGM(Objective):
    r"""Adaptive Gradient Modulation (Li et al., ICCV 2023): modulates the gradient of the output for each modality.

    With :math:`F(S)` the output of the fusion with inputs outside :math:`S` set to zero, the response of a modality is
    its Shapley value :math:`\phi_m`, so that :math:`F(M) = F(\emptyset) + \sum_m \phi_m`, and its score :math:`s_m` is
    the mean negative log-likelihood of the target under :math:`\phi_m` alone. The gradient through :math:`\phi_m` is
    multiplied by

    .. math:: \kappa_m = e^{-\alpha (r_m - \tau_m)}, \qquad
              r_m = \exp\Big(\tfrac{1}{n - 1} \sum_{j \ne m} (s_j - s_m)\Big)

    where :math:`\tau_m` is the same ratio for the mean scores over all previous steps: a modality that is further ahead
    than before is slowed down, one that is further behind is sped up. The value of the loss is that of plain fusion.

    Args:
        alpha: :math:`\alpha`, the strength of the modulation; 0 is plain fusion.
        settings: ``family`` (a discrete one), ``unimodal_weight``, ``check``, see :class:`Objective`. The losses of unimodal
            heads are not modulated.
    """

    with_classes = "scores modalities by class probabilities"
    scores: Tensor
    steps: Tensor

    def __init__(self, alpha: float = 1.0, **settings: Any) -> None:
        super().__init__(**settings)
        self.alpha = check_number("alpha", alpha, least=0)
        # Mean scores of the modalities in the order of their names, over the training steps so far.
        self.register_buffer("scores", torch.zeros(MOST))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def loss(self, model: MultimodalModel, batch: Batch, key: Tensor) -> tuple[Tensor, Parts]:
        names = sorted(batch.modalities)
        if not 2 <= len(names) <= MOST:
            raise ValueError(
                f"AGM runs the fusion on every subset of 2 to {MOST} modalities; got {len(names)} "
                f"({', '.join(names)}): combine some of them, or use another method."
            )
        latents, prediction = self.intact(model, batch.modalities)
        self.family.check_target(prediction, batch.target, values=batch.check_values)  # scores meet the target first
        responses = shapley(model, batch.modalities, latents, prediction)
        kappa = self._kappa(torch.stack([self._score(responses[name], batch.target) for name in names]))
        modulated = prediction
        for name, k in zip(names, kappa.unbind(), strict=True):
            phi = responses[name]
            modulated = modulated + (k - 1) * (phi - phi.detach())  # adds no value, only gradient
        total, parts, _ = self.supervised(model, latents, modulated, batch)
        return total, parts | {f"kappa/{name}": k for name, k in zip(names, kappa.unbind(), strict=True)}

    def _score(self, response: Tensor, target: Tensor) -> Tensor:
        return self.family.nll(response.detach(), target).clamp(max=WORST).mean()

    def _kappa(self, now: Tensor) -> Tensor:
        """κ of each modality; in training mode the scores are stored."""
        mean = self.scores[: len(now)].to(now)
        lead = ratio(now) - ratio(mean)
        if self.training:
            self.steps = self.steps + 1
            mean = mean + (now - mean) / self.steps.to(now)
            self.scores = F.pad(mean, (0, MOST - len(now)))
        return torch.exp(-self.alpha * lead.clamp(min=-LARGEST))


def ratio(scores: Tensor) -> Tensor:
    """How far each modality is ahead: the exponential of the mean score of the others minus its own score."""
    n = len(scores)
    return torch.exp((scores.mean() - scores) * n / (n - 1))


def shapley(
    model: MultimodalModel, modalities: Mapping[str, Modality], latents: Mapping[str, Any], prediction: Tensor
) -> dict[str, Tensor]:
    """The Shapley value of each modality for the output of the fusion; absent modalities have zero inputs.

    Args:
        model: The model with the fusion.
        modalities: The inputs.
        latents, prediction: Latents and output for all modalities.
    """
    n = len(modalities)
    output = {frozenset(modalities): prediction}
    # Passes beside the training pass leave dropout's draws and running statistics to it.
    with undisturbed([model] if isinstance(model, nn.Module) else []):
        present = {name: model.project(name, z) for name, z in latents.items()}
        absent = {}
        for name, x in modalities.items():
            nothing = tokens.with_values(x, torch.zeros_like(values(x)))
            absent[name] = model.project(name, model.encode(name, nothing))
        for subset in (frozenset(s) for size in range(n) for s in combinations(modalities, size)):
            output[subset] = model.combine({name: (present if name in subset else absent)[name] for name in modalities})
    return {
        name: torch.stack(
            [
                (output[without | {name}] - out) / (n * math.comb(n - 1, len(without)))
                for without, out in output.items()
                if name not in without
            ]
        ).sum(0)
        for name in modalities
    }
