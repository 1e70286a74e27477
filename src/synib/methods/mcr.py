"""MCR: encoders compete for influence on the prediction and align the latents of one class."""

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from synib import keys, tokens
from synib.checks import check_number
from synib.masks.base import undisturbed
from synib.objective import Batch, Family, MultimodalModel, Objective, Parts
from synib.objective.model import BlackBoxModel
from synib.tokens import values


class MCR(Objective):
    r"""The Multimodal Competition Regularizer (Kontras et al. 2024; App. "Baselines"), defined by its gradient:

    .. math:: \nabla \mathcal L_\mathrm{CE} + \gamma\, \nabla \mathcal L_\mathrm{Con} + \lambda \sum_i
              \Big(\sum_{j \ne i} \nabla_{\theta_j} - \nabla_{\theta_i}\Big)\, \mathrm{JSD}\big(p,\, p_{\tilde\imath}\big)

    where :math:`p_{\tilde\imath}` is the prediction with the latents of modality *i* permuted in the batch. Encoder *i*
    increases its own influence and the others decrease it; fusion and heads do not take part, and the value of the loss
    does not contain the game. :math:`\mathcal L_\mathrm{Con}`, summed over pairs of modalities, is the supervised
    contrastive loss between their latents: positives are examples of the same class, compared with all examples of the
    other modality, in both directions.

    Args:
        game: :math:`\lambda`.
        contrast: :math:`\gamma`; if 0, latents may have different widths.
        temperature: Temperature of the contrastive similarities.
        settings: ``family`` (a discrete one), ``unimodal_weight``, ``check``, see :class:`Objective`.
    """

    with_classes = "compares class probabilities"

    def __init__(self, game: float = 1.0, contrast: float = 1.0, temperature: float = 0.5, **settings: Any) -> None:
        super().__init__(**settings)
        self.game, self.contrast = check_number("game", game, least=0), check_number("contrast", contrast, least=0)
        self.temperature = check_number("temperature", temperature, above=0)

    def loss(self, model: MultimodalModel, batch: Batch, key: Tensor) -> tuple[Tensor, Parts]:
        if isinstance(model, BlackBoxModel):
            raise ValueError("MCR is a game between encoders, but a plain callable has none: use a FusionModel.")
        latents, prediction = self.intact(model, batch.modalities)
        total, parts, _ = self.supervised(model, latents, prediction, batch)
        if self.contrast:
            shared = contrastive(latents, batch.target, self.temperature)
            total = total + self.contrast * shared
            parts["contrast"] = shared.detach()
        if self.game:
            slopes, played = self._play(model, latents, key)
            reached = torch.stack([(values(z) * slopes[name]).sum() for name, z in latents.items()]).sum()
            total = total + self.game * (reached - reached.detach())  # moves the encoders, leaves the value alone
            parts |= {f"game/{name}": divergence.detach() for name, divergence in played.items()}
        return total, parts

    def _play(
        self, model: MultimodalModel, latents: Mapping[str, Any], key: Tensor
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The gradient of all games with respect to each latent, and the JSD of each game."""

        def games(at: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
            played = {}
            for name, z in at.items():
                # Modality i climbs what the others descend: it enters its own game with the slope reversed.
                player = at | {name: 2 * z.detach() - z}
                brought = {n: model.project(n, tokens.with_values(latents[n], v)) for n, v in player.items()}
                order = keys.permutation(keys.fold(key, "mcr", name), z.shape[0], z.device)
                swapped = brought | {name: tokens.take(brought[name], order)}
                played[name] = jensen_shannon(self.family, model.combine(brought), model.combine(swapped)).mean()
            return torch.stack(list(played.values())).sum(), played

        # Parameters are constants to torch.func.grad, and predictions are compared without dropout's own differences.
        with torch.no_grad(), undisturbed([model] if isinstance(model, nn.Module) else []):
            return torch.func.grad(games, has_aux=True)({name: values(z).detach() for name, z in latents.items()})


def jensen_shannon(family: Family, p: Tensor, q: Tensor) -> Tensor:
    """JSD(p, q) for each example, ``(batch,)``, in nats."""
    middle = family.average(torch.stack([p, q]))
    return 0.5 * (family.kl(p, middle) + family.kl(q, middle))


def contrastive(latents: Mapping[str, Any], target: Tensor, temperature: float) -> Tensor:
    """The supervised contrastive loss of every pair of modalities, summed."""
    flat = {name: F.normalize(values(z).flatten(1), dim=1) for name, z in latents.items()}
    widths = {name: z.shape[1] for name, z in flat.items()}
    if len(set(widths.values())) > 1:
        got = ", ".join(f"{name} {width}" for name, width in widths.items())
        raise ValueError(
            f"MCR's contrastive term needs latents of equal width; got {got}: make them equal, or set contrast=0."
        )
    label = target.flatten()
    same = label[:, None] == label
    losses = []
    for a, b in combinations(flat.values(), 2):
        similarity = a @ b.T / temperature
        both_ways = similarity.log_softmax(1) + similarity.log_softmax(0)
        losses.append(-0.5 * ((both_ways * same).sum(1) / same.sum(1)).mean())
    return torch.stack(losses).sum()
