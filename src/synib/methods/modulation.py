"""Gradient modulation: modalities that are ahead learn more slowly (OGM-GE), or as fast as they lag or lead (AGM)."""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from synib import keys, tokens
from synib.checks import check_flag, is_number, is_whole, shown
from synib.masks.base import undisturbed
from synib.objective import Batch, Fusible, Objective, Parts
from synib.tokens import Modality, values

ENCODERS = "model.encoders."


class OGM(Objective):
    r"""On-the-fly gradient modulation with generalisation enhancement (Peng et al., CVPR 2022).

    In each batch, with :math:`s_i` the sum over examples of :math:`q(y \mid x_i)`, the gradient of encoder *i* becomes

    .. math:: k_i\,g_i + \varepsilon_i, \quad k_i = \begin{cases} 1 - \tanh(\alpha\,\rho_i) & \rho_i > 1 \\
              1 & \text{else} \end{cases}, \quad \rho_i = \frac{s_i}{\mathrm{mean}_{j \ne i}\,s_j}, \quad
              \varepsilon_i \sim \mathcal N\big(0, \mathrm{std}(g_i)^2\big)

    where the noise enters weights only (tensors of two or more dimensions), each with the spread of its own gradient
    before it was modulated. The paper reads :math:`q(y \mid x_i)` off a linear fusion head; ours need not be linear, so
    the unimodal heads say it. All that reaches an encoder is modulated, the head's own loss included; heads and fusion
    get their plain gradients. With ``detach_heads=True`` heads only watch, which is closest to the paper.

    Args:
        alpha: How strongly an encoder that is ahead is held back; 0 for not at all.
        noise: Whether to add the noise (GE).
        start, stop: Modulate in epochs ``start`` to ``stop - 1``; by default in all.
        settings: ``family`` (a discrete one), ``unimodal_weight`` (above 0), ``check``, see :class:`Objective`.
    """

    cost = 1.5  # noise for every weight
    with_classes = "compares probabilities of the true class"
    with_heads = "compares the modalities' own predictions by unimodal heads"

    def __init__(
        self, alpha: float = 0.3, noise: bool = True, start: int = 0, stop: int | None = None, **settings: Any
    ) -> None:
        super().__init__(**settings)
        if not (is_number(alpha) and alpha >= 0):
            raise ValueError(f"alpha is at least 0; got {shown(alpha)}.")
        if not (is_whole(start) and (stop is None or is_whole(stop))):
            raise ValueError(f"start and stop are whole numbers of epochs; got start={start!r}, stop={stop!r}.")
        if start < 0 or (stop is not None and stop <= start):
            raise ValueError(f"start is at least 0 and before stop; got start={start}, stop={stop}.")
        if self.unimodal_weight == 0:
            raise ValueError("OGM compares the heads' predictions, so heads must learn; set unimodal_weight above 0.")
        self.alpha, self.noise, self.start, self.stop = alpha, check_flag("noise", noise), start, stop
        self.epoch = 0

    @property
    def modulates(self) -> bool:
        """Whether gradients are modulated in this epoch."""
        return self.start <= self.epoch and (self.stop is None or self.epoch < self.stop)

    def begin(self, epoch: int) -> None:
        self.epoch = epoch

    def loss(self, model: Fusible, batch: Batch, key: Tensor) -> tuple[Tensor, Parts]:
        latents, prediction = self.intact(model, batch.modalities)
        total, parts, alone = self.supervised(model, latents, prediction, batch)
        self.require_heads(model, batch.modalities)
        if self.modulates:
            parts |= {f"coefficient/{name}": k for name, k in self.coefficients(alone, batch.target).items()}
        return total, parts

    def coefficients(self, alone: Mapping[str, Tensor], target: Tensor) -> dict[str, Tensor]:
        """What each encoder's gradient is multiplied by, from the unimodal predictions."""
        scores = torch.stack([torch.exp(-self.family.nll(own.detach(), target)).sum() for own in alone.values()])
        others = (scores.sum() - scores) / (len(scores) - 1)
        ratio = scores / others.clamp(min=1e-12)
        return dict(zip(alone, torch.where(ratio > 1, 1 - torch.tanh(self.alpha * ratio), 1.0).unbind(), strict=True))

    def direction(
        self, gradients: Mapping[str, Tensor], losses: Sequence[str], parts: Parts, key: Tensor
    ) -> dict[str, Tensor]:
        steps = super().direction(gradients, losses, parts, key)
        if not self.modulates:
            return steps
        for name in [n for n in steps if n.startswith(ENCODERS)]:
            g = steps[name]
            steps[name] = g * parts[f"coefficient/{name.split('.')[2]}"]
            if self.noise and g.ndim >= 2:
                drawn = keys.normal(keys.fold(key, name), g.shape, g.device).to(g.dtype)
                steps[name] = steps[name] + g.std(correction=0) * drawn
        return steps

    def extra_repr(self) -> str:
        own = f"alpha={self.alpha}, noise={self.noise}, start={self.start}, stop={self.stop}"
        return f"{own}, {super().extra_repr()}"


MOST = 4  # modalities: the fusion runs on all 2ⁿ subsets of them
# Bounds that keep an exponential of an exponential finite, as public implementations have them.
WORST = -math.log(1e-8)  # of an example's score
LARGEST = 10.0  # of τ - r


class AGM(Objective):
    r"""Adaptive Gradient Modulation (Li et al., ICCV 2023): the output's gradient, modality by modality.

    With :math:`F(S)` the fusion's output where inputs outside :math:`S` are zero, a modality's response is its Shapley
    value :math:`\phi_m`, so that :math:`F(M) = F(\emptyset) + \sum_m \phi_m`, and its score :math:`s_m` the mean negative
    log-likelihood of the target under :math:`\phi_m` alone. The gradient through :math:`\phi_m` is multiplied by

    .. math:: \kappa_m = e^{-\alpha (r_m - \tau_m)}, \qquad
              r_m = \exp\Big(\tfrac{1}{n - 1} \sum_{j \ne m} (s_j - s_m)\Big)

    and :math:`\tau_m` is the same ratio of the scores' means over all steps before: a modality further ahead than it used
    to be is slowed down, one further behind sped up. The loss's value is that of plain fusion.

    Args:
        alpha: :math:`\alpha`, how strongly; 0 is plain fusion.
        settings: ``family`` (a discrete one), ``unimodal_weight``, ``check``, see :class:`Objective`. The losses of unimodal
            heads are not modulated.
    """

    cost = 2.2
    with_classes = "scores modalities by probabilities of classes"
    scores: Tensor
    steps: Tensor

    def __init__(self, alpha: float = 1.0, **settings: Any) -> None:
        super().__init__(**settings)
        if not (is_number(alpha) and alpha >= 0):
            raise ValueError(f"alpha is at least 0; got {shown(alpha)}.")
        self.alpha = alpha
        # Mean scores of the modalities in the order of their names, over the training steps so far.
        self.register_buffer("scores", torch.zeros(MOST))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def loss(self, model: Fusible, batch: Batch, key: Tensor) -> tuple[Tensor, Parts]:
        names = sorted(batch.modalities)
        if not 2 <= len(names) <= MOST:
            raise ValueError(
                f"AGM runs the fusion on every subset of 2 to {MOST} modalities; got {len(names)} ({', '.join(names)}): "
                "join some of them, or use another method."
            )
        latents, prediction = self.intact(model, batch.modalities)
        self.family.check_target(prediction, batch.target, values=batch.look)  # scores meet the target first
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
        """κ of each modality; in training mode the scores are remembered."""
        mean = self.scores[: len(now)].to(now)
        lead = ratio(now) - ratio(mean)
        if self.training:
            self.steps = self.steps + 1
            mean = mean + (now - mean) / self.steps.to(now)
            self.scores = F.pad(mean, (0, MOST - len(now)))
        return torch.exp(-self.alpha * lead.clamp(min=-LARGEST))

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, alpha={self.alpha}"


def ratio(scores: Tensor) -> Tensor:
    """How far each modality is ahead: the exponential of the others' mean score minus its own."""
    n = len(scores)
    return torch.exp((scores.mean() - scores) * n / (n - 1))


def shapley(
    model: Fusible, modalities: Mapping[str, Modality], latents: Mapping[str, Any], prediction: Tensor
) -> dict[str, Tensor]:
    """The Shapley value of each modality for the fusion's output; absent modalities have zero inputs.

    Args:
        model: Whose fusion it is.
        modalities: What it sees.
        latents, prediction: Its latents and its output on all of them.
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
