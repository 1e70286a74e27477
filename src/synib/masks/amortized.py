"""Learned masking by a network that proposes, in one pass, the coordinates on which a modality's prediction relies."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from synib import keys
from synib.checks import check_whole, check_widths
from synib.masks.base import Over, Probe
from synib.masks.learned import SearchingMask
from synib.masks.slope import value_and_slope
from synib.tokens import Modality, values


class AmortizedMask(SearchingMask):
    r"""A mask network :math:`M_{\psi_i}` per modality (App. "Learned masking"), trained together with the model.

    A small MLP maps a modality to logits; binary gates are drawn from them by the Gumbel-softmax relaxation,
    straight-through, and the network minimises Eq. mask-loss. Its loss is added to the objective's total but reaches
    only the mask network, so one optimiser over ``[*model.parameters(), *objective.parameters()]`` trains both. The
    objective corrupts the complement of the thresholded mask.

    Args:
        widths: Modality → size of its last dimension.
        hidden: Width of the hidden layer.
        sparsity: :math:`\lambda_M`, the weight of the sum over gates.
        temperature: Temperature of the Gumbel-softmax relaxation.
        threshold: Gates with a probability above the threshold mark a coordinate as relied on.
        over: ``"coordinates"`` (one logit for each entry of the last dimension) or ``"tokens"`` (one logit for each
            token).
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
            raise ValueError(f"over must be 'coordinates' or 'tokens' for AmortizedMask; got {over!r}.")
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
                f"AmortizedMask has networks for {', '.join(map(repr, self.widths))}; got modality {probe.modality!r}."
            )
        width = self.widths[probe.modality]
        if v.shape[-1] != width:
            raise ValueError(
                f"The mask network of {probe.modality!r} expects width {width}, but the modality has width "
                f"{v.shape[-1]}."
            )
        return self.networks[probe.modality](v).float()
