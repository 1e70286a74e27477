"""Integrated gradients, Shapley values (captum) and Shapley interactions (shapiq) of parts, for ``explain.py``."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from synib.explanation.partition import partition

Scores = NDArray[np.float64]
CALLS = 4096  # of the model for each row for Shapley values; for interactions twice as many
FEW = 6  # rows that Shapley interactions explain, of which each takes seconds


class Peer:
    """A peer's view of a model: the evidence for the answer as a function of all modalities in one tensor.

    Args:
        model: The model.
        modalities: Its rows; their mean is the baseline.
        rows: Those to explain.
        parts: Modality → its parts.
        of: The modality whose parts are scored.
    """

    def __init__(
        self, model: nn.Module, modalities: Mapping[str, Tensor], rows: Sequence[int], parts: Mapping[str, Any], of: str
    ) -> None:
        self.rows, self.names, self.model = rows, list(modalities), model.eval()
        self.widths = [x.shape[1] for x in modalities.values()]
        whole = torch.cat(list(modalities.values()), 1)
        self.x, self.baseline = whole[list(rows)], whole.mean(0, keepdim=True)
        with torch.no_grad():
            self.sign = torch.sign(self._logit(self.x))
        labels, start = [], 0
        for name in self.names:
            label = partition(parts[name], modalities[name], name).label.flatten()
            if name == of:
                self.first, self.count = start, int(label.max()) + 1
            labels.append(label + start)
            start += int(label.max()) + 1
        self.label, self.players = torch.cat(labels), start

    def _logit(self, x: Tensor) -> Tensor:
        return self.model(dict(zip(self.names, x.split(self.widths, 1), strict=True))).reshape(-1)

    def evidence(self, row: int) -> Callable[[Tensor], Tensor]:
        return lambda x: self.sign[row] * self._logit(x)

    def of_parts(self, scores: Tensor) -> Scores:
        """From scores of coordinates to those of the parts in question, by adding up."""
        total = torch.zeros(self.players, dtype=torch.float64).index_add_(0, self.label, scores.double())
        return total[self.first : self.first + self.count].numpy()

    def mixed(self, row: int, own: Tensor) -> Tensor:
        return torch.where(own[:, self.label], self.x[row], self.baseline)


def integrated_gradients(peer: Peer) -> Scores:
    from captum.attr import IntegratedGradients

    scores = []
    for row in range(len(peer.rows)):
        found = IntegratedGradients(peer.evidence(row)).attribute(peer.x[row : row + 1], peer.baseline, n_steps=64)
        scores.append(peer.of_parts(found.detach()[0]))
    return np.stack(scores)


def shapley(peer: Peer) -> Scores:
    from captum.attr import ShapleyValueSampling

    samples = max(1, CALLS // (peer.players + 1))
    scores = []
    for row in range(len(peer.rows)):
        torch.manual_seed(row)
        with torch.no_grad():
            found = ShapleyValueSampling(peer.evidence(row)).attribute(
                peer.x[row : row + 1], peer.baseline, feature_mask=peer.label[None], n_samples=samples,
                perturbations_per_eval=64,
            )  # fmt: skip
        # captum gives each coordinate the value of its part
        first = [int((peer.label == peer.first + k).nonzero()[0]) for k in range(peer.count)]
        scores.append(found[0, first].double().numpy())
    return np.stack(scores)


def shapley_interactions(peer: Peer) -> Scores:
    import shapiq

    sides = np.searchsorted(np.cumsum(peer.widths), np.arange(len(peer.label)), side="right")
    side = np.array([sides[int((peer.label == k).nonzero()[0])] for k in range(peer.players)])
    scores = []
    for row in range(min(FEW, len(peer.rows))):

        def game(coalitions: NDArray[np.bool_], row: int = row) -> NDArray[np.float64]:
            own = torch.from_numpy(np.atleast_2d(coalitions))
            with torch.no_grad():
                return peer.evidence(row)(peer.mixed(row, own)).double().numpy()

        # SVARM-IQ, KernelSHAP-IQ and SHAP-IQ take minutes for a row of 128 players.
        approximator = shapiq.PermutationSamplingSII(n=peer.players, max_order=2, index="SII", random_state=row)
        found = approximator.approximate(budget=2 * CALLS, game=game)
        total = np.zeros(peer.players)
        for players, value in found.dict_values.items():
            if len(players) == 2 and side[players[0]] != side[players[1]]:
                total[list(players)] += value
        scores.append(total[peer.first : peer.first + peer.count])
    return np.stack(scores)


PEERS: Mapping[str, Callable[[Peer], Scores]] = {
    "integrated gradients": integrated_gradients,
    "Shapley values": shapley,
    "Shapley interactions": shapley_interactions,
}
