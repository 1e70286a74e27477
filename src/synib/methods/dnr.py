"""Diagnosing & Re-learning: encoders that overfit are moved part of the way back to their initial weights."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.func import vmap

from synib import keys, tokens
from synib.checks import check_number, check_whole
from synib.methods.hooks import RevisesWeights
from synib.methods.vanilla import Vanilla
from synib.objective import Batch, Bernoulli


class DnR(Vanilla, RevisesWeights):
    r"""Vanilla training in which every encoder is pulled towards its initial weights by how much it overfits.

    .. math:: g_i = \lvert P_i^\mathrm{train} - P_i^\mathrm{val} \rvert, \quad w_i = \tanh(\lambda g_i), \quad
        \theta_i \leftarrow w_i\,\theta_i^\mathrm{init} + (1 - w_i)\,\theta_i

    :math:`P_i` is the :func:`purity` of the latents of modality i, clustered separately on training and validation data
    (Wei et al., "Diagnosing and Re-learning for Balanced Multimodal Learning", ECCV 2024; App. "Baselines"). Heads,
    fusion, running statistics and optimiser state do not change.

    It acts after epochs ``every``, 2·``every``, …, counted from 0 as in the authors' code, but never after the last
    epoch, so that training does not end on weights that were just pulled back.

    Args:
        strength: λ.
        every: Epochs between two revisions.
        times: Maximum number of revisions.
        threshold: Gaps below the threshold change nothing (the appendix's "when imbalance exceeds a threshold").
        settings: ``family``, ``unimodal_weight``, ``check``, see :class:`Objective`.
    """

    with_classes = "clusters latents into classes"

    def __init__(
        self, strength: float = 3.0, every: int = 20, times: int = 3, threshold: float = 0.0, **settings: Any
    ) -> None:
        super().__init__(**settings)
        self.strength = check_number("strength", strength, least=0)
        self.every, self.times = check_whole("every", every), check_whole("times", times, least=0)
        self.threshold = check_number("threshold", threshold, least=0)

    def revises(self, epoch: int) -> bool:
        return epoch % self.every == 0 and 0 < epoch <= self.every * self.times

    def revise(
        self, model: Any, train: Batch, validation: Batch, initial: Mapping[str, Tensor], key: Tensor
    ) -> dict[str, Tensor]:
        first_row = {name: tokens.take(x, slice(0, 1)) for name, x in validation.modalities.items()}
        classes = 2 if isinstance(self.family, Bernoulli) else self.intact(model, first_row)[1].shape[-1]
        changed: dict[str, Tensor] = {}
        for name in model.names:
            # One key for both: equal latents have equal purities.
            learnt, general = (
                purity(model.encode(name, b.modalities[name]), b.target, classes, keys.fold(key, name))
                for b in (train, validation)
            )
            gap = (learnt - general).abs()
            w = torch.tanh(self.strength * gap) * (gap >= self.threshold)
            for parameter, now in model.encoders[name].named_parameters(prefix=f"encoders.{name}"):
                changed[parameter] = w * initial[parameter] + (1 - w) * now
        return changed


def purity(latent: Any, target: Tensor, classes: int, key: Tensor) -> Tensor:
    """Cluster purity: the fraction of examples that belong to the majority class of their cluster.

    All coordinates are first scaled to one range, as in the authors' code, so that no single one determines the
    clusters.

    Args:
        latent: ``(examples, ...)``.
        target: Class of each example.
        classes: Number of classes, and of clusters.
        key: Key of the cluster initialisation.
    """
    x = tokens.values(latent).flatten(1)
    span = x.amax(0) - x.amin(0)
    x = (x - x.amin(0)) / torch.where(span > 0, span, 1)
    members = _one_hot(kmeans(x, classes, key), classes, x)
    return (members.mT @ _one_hot(target.reshape(len(x)), classes, x)).amax(1).sum() / len(x)


def kmeans(x: Tensor, k: int, key: Tensor, starts: int = 8, steps: int = 30) -> Tensor:
    """K-means clusters: Lloyd's iterations from k-means++ centres, the best of several starts.

    Args:
        x: ``(rows, width)``.
        k: Number of clusters; an empty cluster keeps its centre.
        key: Key of the starts.
        starts, steps: Number of starts, and of iterations from each.
    """
    lengths = x.square().sum(1, keepdim=True)

    def distances(centres: Tensor) -> Tensor:
        return (lengths - 2 * x @ centres.mT + centres.square().sum(1)).clamp(min=0)  # rounding may go below

    def begin(key: Tensor) -> Tensor:
        far, centres = x.new_ones(len(x)), x[:0]
        for i in range(k):
            # The smallest of exponential draws with these rates is a draw in proportion to them.
            draws = -keys.uniform(keys.fold(key, i), (len(x),)).log()
            centres = torch.cat([centres, x[(draws / far).argmin(0, keepdim=True)]])
            far = distances(centres).amin(1)
        return centres

    def run(key: Tensor) -> tuple[Tensor, Tensor]:
        centres = begin(key)
        for _ in range(steps):
            members = _one_hot(distances(centres).argmin(1), k, x)
            counts = members.sum(0)[:, None]
            centres = torch.where(counts > 0, members.mT @ x / counts.clamp(min=1), centres)
        nearest, cluster = distances(centres).min(1)
        return nearest.sum(), cluster

    inertia, clusters = vmap(run)(keys.split(key.to(x.device), starts))
    return clusters[inertia.argmin(0, keepdim=True)].squeeze(0)


def _one_hot(index: Tensor, size: int, like: Tensor) -> Tensor:
    return (index[:, None] == torch.arange(size, device=like.device)).to(like.dtype)
