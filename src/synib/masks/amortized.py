"""Learned masking by a network: the coordinates without which a modality predicts nothing, proposed in one pass."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from synib import keys
from synib.checks import check_whole, check_widths
from synib.masks.base import Over, Probe
from synib.masks.learned import SearchingMask, value_and_slope
from synib.tokens import Modality, values


class AmortizedMask(SearchingMask):
    r"""A mask network :math:`M_{\psi_i}` per modality (App. "Learned masking"), trained beside the model.

    A small MLP maps a modality to logits; binary gates are drawn from them by the Gumbel-softmax relaxation, straight
    through, and the network descends Eq. mask-loss. Its loss is added to the objective's total but reaches only the
    mask network, so one optimiser over ``[*model.parameters(), *objective.parameters()]`` trains both. The objective
    corrupts the complement of the thresholded mask.

    Args:
        widths: For each modality the size of its last dimension.
        hidden: Width of the network's hidden layer.
        sparsity: :math:`\lambda_M`, on the sum over gates.
        temperature: Of the Gumbel-softmax relaxation.
        threshold: Above it, on the gate's probability, a coordinate counts as found.
        over: ``"coordinates"`` (a logit for each entry of the last dimension) or ``"tokens"`` (a logit for each token).
    """

    def __init__(
        self,
        widths: Mapping[str, int],
        hidden: int = 64,
        sparsity: float = 1e-3,
        temperature: float = 1.0,
        threshold: float = 0.5,
        over: Over = "coordinates",
    ) -> None:
        super().__init__(sparsity, temperature, threshold, over)
        if over == "modality":
            raise ValueError(f"AmortizedMask works over 'coordinates' or 'tokens'; got over={over!r}.")
        self.widths = check_widths("widths", widths, module=True)
        check_whole("hidden", hidden)
        self.networks = nn.ModuleDict(
            {
                name: nn.Sequential(
                    nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, width if over == "coordinates" else 1)
                )
                for name, width in self.widths.items()
            }
        )

    def forward(self, x: Modality, key: Tensor, probe: Probe, draws: int = 1) -> Tensor:
        with torch.no_grad():
            relied_on = torch.sigmoid(self._logits(x, probe)) > self.threshold
        return ~relied_on

    def loss(self, x: Modality, key: Tensor, probe: Probe) -> Tensor:
        v = values(x).detach()
        unimodal_loss = self.unimodal_loss(probe, v)
        logits = self._logits(x, probe)
        noise = probe.fill(keys.fold(key, "fill"))
        u = keys.uniform(keys.fold(key, "gumbel"), logits.shape, logits.device).clamp(1e-6, 1 - 1e-6)
        # The difference of two Gumbel variables is logistic: a binary Gumbel-softmax needs a single draw.
        soft = torch.sigmoid((logits + torch.log(u) - torch.log1p(-u)) / self.temperature)
        hard = (soft > 0.5).to(soft.dtype)

        def objective(gate: Tensor) -> Tensor:
            corrupted = torch.lerp(v, noise, gate.expand_as(v).to(v.dtype))
            return (self.sparsity.to(v.device) * gate.sum() - unimodal_loss(corrupted).sum()) / max(v.shape[0], 1)

        # The gradient at the gates is all the network needs; the model's parameters are never differentiated.
        with torch.no_grad():
            value, gradient = value_and_slope(objective, hard)
        reached = (soft * gradient).sum()
        return value + reached - reached.detach()

    def _logits(self, x: Modality, probe: Probe) -> Tensor:
        v = values(x).detach()
        if probe.modality not in self.networks:
            raise ValueError(
                f"AmortizedMask has networks for {', '.join(map(repr, self.widths))}; asked for {probe.modality!r}."
            )
        width = self.widths[probe.modality]
        if v.shape[-1] != width:
            raise ValueError(
                f"The mask network of {probe.modality!r} is {width} wide, but the modality is {v.shape[-1]} wide."
            )
        return self.networks[probe.modality](v).float()
