"""What each detector adds to an additive model of the modalities, on held-out rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor

from synib.measure.detectors import spectral
from synib.measure.detectors.components import Components, components
from synib.measure.detectors.features import kernel_features, table_features
from synib.measure.detectors.responses import Response
from synib.measure.detectors.ridge import RidgeFolds

WITHIN = 64  # components whose products within a modality the additive model has
COLUMNS = 8  # of a residual at most: that of more classes is projected


@dataclass(frozen=True)
class Comparison:
    """Held-out predictions of an additive model, and of that model extended by each detector.

    Args:
        additive: Linear predictor of the additive model, ``(rows, columns)``.
        extended: Detector → the extended linear predictor.
        additive_loss: Log-loss of each row, in nats.
        losses: Detector → log-loss of each row.
    """

    additive: Tensor
    extended: Mapping[str, Tensor]
    additive_loss: Tensor
    losses: Mapping[str, Tensor]


class Detectors:
    r"""Detectors of interactions between modalities, prepared for some rows and usable with any target.

    - ``products-k``: the product of one direction in each of two modalities, among k leading principal components;
    - ``kernel``: ridge regression with the product of two centred Gaussian kernels, one of each modality;
    - ``table``: a table of means over the clusters of two modalities, shrunk to 0.

    Each is compared with the same additive model, a regression on unimodal predictions and on what the same three
    detectors find *within* each modality: where two modalities hold the same thing, a product of both is a square of one.

    Everything that uses the target is fitted on the other parts of the rows. Principal components, kernels and clusters use all
    rows, without their targets.

    Args:
        modalities: Name → ``(rows, width)``; two or more.
        present: Name → which rows have it.
        part: The part of each row, from 0; rows that depend on each other are in one part.
        seed: Seed of landmarks and clusters.
    """

    def __init__(
        self, modalities: Mapping[str, Tensor], present: Mapping[str, Tensor], part: Tensor, seed: int = 0
    ) -> None:
        self.part, self.parts = part, int(part.max()) + 1
        self.components: dict[str, Components] = {n: components(x, present[n]) for n, x in modalities.items()}
        self.pairs = list(combinations(modalities, 2))
        self.levels = spectral.levels(*(c.white.shape[1] for c in self.components.values()))
        self.names = [*(f"products-{level}" for level in self.levels), "kernel", "table"]
        scaled = {name: c.scaled for name, c in self.components.items()}
        self._alone: dict[str, list[RidgeFolds]] = {name: [] for name in modalities}
        self._together: dict[str, dict[tuple[str, str], RidgeFolds]] = {}
        for detector, features in (("kernel", kernel_features), ("table", table_features)):
            alone, pairs = features(scaled, seed)
            for name, x in alone.items():
                self._alone[name].append(RidgeFolds(x, part, self.parts))
            self._together[detector] = {pair: RidgeFolds(x, part, self.parts) for pair, x in pairs.items()}

    def compare(self, response: Response, base: Tensor, offset: Tensor) -> Comparison:
        """The additive model and its extensions, each row predicted from fits on the other parts.

        Args:
            response: The target.
            base: Linear predictors of unimodal and additive models that were not trained on these rows,
                ``(models, rows, columns)``.
            offset: The linear predictor of one of them, whose residual products are looked for in.
        """
        base, offset = base.double(), offset.double()
        projection = _projection(response.columns, offset)
        residual = response.residual(offset) @ projection
        within = {name: self._directions(name, name, residual, [WITHIN])[0] for name in self.components}
        across = {pair: self._directions(*pair, residual, self.levels) for pair in self.pairs}
        n = len(offset)
        additive, loss = offset.new_empty(n, response.columns), offset.new_empty(n)
        extended = {name: torch.empty_like(additive) for name in self.names}
        losses = {name: torch.empty_like(loss) for name in self.names}
        for fold in range(self.parts):
            test, train = (self.part == fold).nonzero()[:, 0], (self.part != fold).nonzero()[:, 0]
            own = [directions.scores(fold) for directions in within.values()]
            own += [ridge.scores(residual, fold) for ridges in self._alone.values() for ridge in ridges]
            features = torch.cat([base, torch.stack(own) @ projection.mT])
            eta = response.combine(features, train)(features)
            additive[test] = eta[test]
            loss[test] = response.log_loss(eta[test], eta[train], train, test)
            left = response.residual(eta) @ projection
            for name, found in self._found(across, left, fold):
                more = found @ projection.mT
                longer = response.extend(eta, more, train)(torch.cat([eta[None], more]))
                extended[name][test] = longer[test]
                losses[name][test] = response.log_loss(longer[test], longer[train], train, test)
        return Comparison(additive, extended, loss, losses)

    def _found(
        self, across: Mapping[tuple[str, str], list[spectral.Directions]], residual: Tensor, fold: int
    ) -> list[tuple[str, Tensor]]:
        """Each detector's scores of every pair of modalities, ``(pairs, rows, columns)``."""
        found = [
            (f"products-{level}", torch.stack([across[pair][i].scores(fold) for pair in self.pairs]))
            for i, level in enumerate(self.levels)
        ]
        for detector, ridges in self._together.items():
            found.append((detector, torch.stack([ridges[pair].scores(residual, fold) for pair in self.pairs])))
        return found

    def _directions(self, a: str, b: str, residual: Tensor, levels: Sequence[int]) -> list[spectral.Directions]:
        most = max(levels)
        first, second = self.components[a].white[:, :most], self.components[b].white[:, :most]
        sums = spectral.moments(first, second, residual, self.part, self.parts)
        return [spectral.Directions(first, second, sums, self.part, level) for level in levels]


def _projection(columns: int, like: Tensor) -> Tensor:
    """From columns of a residual to a few: themselves, or of many classes some random orthogonal contrasts."""
    if columns <= COLUMNS:
        return torch.eye(columns).to(like)
    generator = torch.Generator().manual_seed(0)
    return torch.linalg.qr(torch.randn(columns, COLUMNS, generator=generator))[0].to(like)
