"""The gain of each detector over an additive model of the modalities, on held-out rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor

from synib.files.pages import return_freed
from synib.measure.detectors import spectral
from synib.measure.detectors.components import Components, Rows, components
from synib.measure.detectors.features import kernel_features, table_features
from synib.measure.detectors.responses import Response
from synib.measure.detectors.ridge import RidgeFolds

WITHIN = 64  # components whose products within a modality are in the additive model
TRUST = 0.3  # prior scale of effects within modalities, relative to the predictions of trained models
TOGETHER = 1 << 30  # bytes for targets that are compared together
COLUMNS = 8  # columns of a residual, at most; that of more classes is projected


@dataclass(frozen=True)
class Extension:
    """Held-out predictions of the additive model with and without the interaction of a detector.

    Args:
        without: Linear predictor with the detector's unimodal features, ``(rows, columns)``.
        extended: The same with the interaction.
        without_loss, loss: Log-loss of each row, in nats.
    """

    without: Tensor
    extended: Tensor
    without_loss: Tensor
    loss: Tensor

    @property
    def gain(self) -> Tensor:
        """The gain in log-likelihood of each row through the interaction, in nats."""
        return self.without_loss - self.loss


@dataclass(frozen=True)
class Comparison:
    """Held-out predictions of an additive model, and of that model extended by each detector.

    Args:
        additive: Linear predictor of the additive model, ``(rows, columns)``.
        loss: Log-loss of each row under the additive model, in nats.
        detectors: Detector → the additive model extended by it.
    """

    additive: Tensor
    loss: Tensor
    detectors: Mapping[str, Extension]


class Detectors:
    r"""Detectors of interactions between modalities, prepared for a set of rows and usable with any target.

    - ``products-k``: the product of one direction in each of two modalities, among k leading principal components;
    - ``kernel``: ridge regression with the product of two centred Gaussian kernels, one of each modality;
    - ``table``: a table of means over the clusters of two modalities, shrunk to 0.

    Each detector extends the same additive model, a regression on unimodal predictions and on the effects that the same
    three detectors find *within* each modality. If two modalities contain the same variable, a product of both is a square of
    one: a product is therefore compared with the products that each modality can form alone, from its own factor and
    its prediction of the other.

    Everything that uses the target is fitted on the other parts of the rows. Principal components, kernels and clusters use all
    rows, without their targets.

    Args:
        modalities: Name → ``(rows, width)``, a tensor or an object that reads rows on demand; two or more.
        present: Name → which rows have the modality.
        part: The part (fold) of each row, from 0; dependent rows are in one part.
        seed: Seed of landmarks and clusters.
        only_products: Use only product detectors, with this number of leading components; by default all detectors.
    """

    def __init__(
        self,
        modalities: Mapping[str, Rows],
        present: Mapping[str, Tensor],
        part: Tensor,
        seed: int = 0,
        only_products: int | None = None,
    ) -> None:
        self.part, self.parts = part, int(part.max()) + 1
        self.components: dict[str, Components] = {}
        for name, x in modalities.items():
            self.components[name] = components(x, present[name])
            return_freed()
        self.pairs = list(combinations(modalities, 2))
        white = {name: c.white for name, c in self.components.items()}
        self._pairs = {(a, b): spectral.Pair.of(white[a], white[b], part, self.parts) for a, b in self.pairs}
        for name, x in white.items():  # a modality with itself: products within it
            few = x[:, :WITHIN]
            self._pairs[name, name] = spectral.Pair(few, few)
        return_freed()
        widths = [c.white.shape[1] for c in self.components.values()]
        self.levels = spectral.levels(*widths) if only_products is None else [min(only_products, max(widths))]
        others = {"kernel": kernel_features, "table": table_features} if only_products is None else {}
        self.names = [*(f"products-{level}" for level in self.levels), *others]
        leading = {name: c.leading for name, c in self.components.items()}
        self._alone: dict[str, list[RidgeFolds]] = {name: [] for name in modalities}
        self._together: dict[str, dict[tuple[str, str], RidgeFolds]] = {}
        for detector, features in others.items():
            alone, pairs = features(leading, seed)
            return_freed()
            for name, x in alone.items():
                self._alone[name].append(RidgeFolds(x, part, self.parts))
            self._together[detector] = {pair: RidgeFolds(x, part, self.parts) for pair, x in pairs.items()}
            del alone, pairs
            return_freed()

    def release(self) -> None:
        """Free everything but the names; the detectors cannot be used afterwards."""
        self.components.clear()
        for cache in (self._pairs, self._alone, self._together):
            cache.clear()

    def compare(self, response: Response, base: Tensor, offset: Tensor) -> Comparison:
        """The additive model and its extensions; each row is predicted from fits on the other parts.

        Args:
            response: The target.
            base: Linear predictors of unimodal and additive models that were not trained on these rows,
                ``(models, rows, columns)``.
            offset: The linear predictor of one of these models; products are searched in its residual.
        """
        base, offset = base.double(), offset.double()
        projection = _projection(response.columns, offset)
        residual = response.residual(offset) @ projection
        within = {name: self._directions(name, name, residual, [WITHIN])[0] for name in self.components}
        return_freed()
        across = {pair: self._directions(*pair, residual, self.levels) for pair in self.pairs}
        return_freed()
        n = len(offset)
        additive, loss = offset.new_empty(n, response.columns), offset.new_empty(n)
        extensions = {
            name: Extension(
                torch.empty_like(additive), torch.empty_like(additive), torch.empty_like(loss), torch.empty_like(loss)
            )
            for name in self.names
        }
        for fold in range(self.parts):
            test, train = (self.part == fold).nonzero()[:, 0], (self.part != fold).nonzero()[:, 0]
            unimodal_scores = [directions.scores(fold)[0] for directions in within.values()]
            unimodal_scores += [ridge.scores(residual, fold) for ridges in self._alone.values() for ridge in ridges]
            features = torch.cat([base, torch.stack(unimodal_scores) @ projection.mT])
            trust = torch.cat([torch.ones(len(base)), torch.full((len(unimodal_scores),), TRUST)])
            eta = response.combine(features, train, trust)(features)
            additive[test] = eta[test]
            loss[test] = response.log_loss(eta[test], eta[train], train, test)
            remaining = response.residual(eta) @ projection
            for name, interaction, alone in self._found(across, remaining, fold):
                extend(response, eta, alone @ projection.mT, interaction @ projection.mT, train, test, extensions[name])
        return Comparison(additive, loss, extensions)

    def compare_each(self, responses: Sequence[Response], base: Tensor, offset: Tensor) -> list[Comparison]:
        """:meth:`compare` for several targets together; equal up to rounding, and faster on a GPU, which launches less.

        Args:
            responses: Targets of one kind.
            base, offset: As for :meth:`compare`; they are the same for all targets.
        """
        at_once = max(1, min(len(responses), TOGETHER // self._bytes_of_target(responses[0].columns)))
        return [
            comparison
            for at in range(0, len(responses), at_once)
            for comparison in self._together_compared(responses[at : at + at_once], base.double(), offset.double())
        ]

    def _bytes_of_target(self, columns: int) -> int:
        """An upper bound of the memory for a further target."""
        widest = max(len(c.white[0]) for c in self.components.values())
        moments = self.parts * (self.parts + 3) * min(columns, COLUMNS) * widest**2 * 4
        return moments + 64 * len(self.pairs) * (self.parts + 4) * len(self.part) * columns * 8

    def _together_compared(self, responses: Sequence[Response], base: Tensor, offset: Tensor) -> list[Comparison]:
        count, columns, n = len(responses), responses[0].columns, len(offset)
        projection = _projection(columns, offset)
        kind = type(responses[0])

        def apart(x: Tensor) -> Tensor:  # (rows, targets · columns) → (targets, rows, columns)
            return x.reshape(n, count, -1).transpose(0, 1)

        residual = torch.cat([response.residual(offset) @ projection for response in responses], 1)
        within = {name: self._directions(name, name, residual, [WITHIN], True)[0] for name in self.components}
        across = {pair: self._directions(*pair, residual, self.levels, True) for pair in self.pairs}
        return_freed()
        additive, loss = offset.new_empty(count, n, columns), offset.new_empty(count, n)
        results = {
            name: (
                torch.empty_like(additive),
                torch.empty_like(additive),
                torch.empty_like(loss),
                torch.empty_like(loss),
            )
            for name in self.names
        }
        for fold in range(self.parts):
            test, train = (self.part == fold).nonzero()[:, 0], (self.part != fold).nonzero()[:, 0]
            unimodal = [apart(directions.scores(fold)[0]) for directions in within.values()]
            ridges = [ridge for of_modality in self._alone.values() for ridge in of_modality]
            unimodal += [ridge.scores_of(residual, fold, count) for ridge in ridges]
            scores = torch.stack(unimodal, 1) @ projection.mT
            trust = torch.cat([torch.ones(len(base)), torch.full((len(unimodal),), TRUST)])
            features = torch.cat([base.expand(count, *base.shape), scores], 1)
            eta = kind.combine_each(responses, features, train, trust)
            additive[:, test] = eta[:, test]
            loss[:, test] = kind.log_loss_each(responses, eta[:, test], eta[:, train], train, test)
            each = zip(responses, eta, strict=True)
            remaining = torch.cat([response.residual(e) @ projection for response, e in each], 1)
            for name, interaction, alone in self._found_each(across, remaining, fold, apart, count):
                interaction, alone = interaction @ projection.mT, alone @ projection.mT
                without, extended, without_loss, extended_loss = results[name]
                for more, predictor, losses in (
                    (alone, without, without_loss),
                    (torch.cat([alone, interaction], 1), extended, extended_loss),
                ):
                    longer = kind.extend_each(responses, eta, more, train)
                    predictor[:, test] = longer[:, test]
                    losses[:, test] = kind.log_loss_each(responses, longer[:, test], longer[:, train], train, test)
        return [
            Comparison(
                additive[i], loss[i], {name: Extension(*(x[i] for x in result)) for name, result in results.items()}
            )
            for i in range(count)
        ]

    def _found_each(
        self,
        across: Mapping[tuple[str, str], list[spectral.Directions]],
        residual: Tensor,
        fold: int,
        apart: Callable[[Tensor], Tensor],
        count: int,
    ) -> Iterator[tuple[str, Tensor, Tensor]]:
        """:meth:`_found` for several targets, both as ``(targets, features, rows, columns)``."""
        for i, level in enumerate(self.levels):
            scores = [across[pair][i].scores(fold) for pair in self.pairs]
            alone = [apart(product) for _, products_alone in scores for product in products_alone]
            yield f"products-{level}", torch.stack([apart(product) for product, _ in scores], 1), torch.stack(alone, 1)
        for detector, ridges in self._together.items():
            scores_of_pairs = torch.stack([ridges[pair].scores_of(residual, fold, count) for pair in self.pairs], 1)
            yield detector, scores_of_pairs, scores_of_pairs[:, :0]

    def _found(
        self, across: Mapping[tuple[str, str], list[spectral.Directions]], residual: Tensor, fold: int
    ) -> Iterator[tuple[str, Tensor, Tensor]]:
        """Each detector with its interaction features of every pair of modalities, and the matching unimodal features.

        Both as ``(features, rows, columns)``.
        """
        for i, level in enumerate(self.levels):
            scores = [across[pair][i].scores(fold) for pair in self.pairs]
            alone = [product for _, products_alone in scores for product in products_alone]
            yield f"products-{level}", torch.stack([product for product, _ in scores]), torch.stack(alone)
        for detector, ridges in self._together.items():
            scores_of_pairs = torch.stack([ridges[pair].scores(residual, fold) for pair in self.pairs])
            yield detector, scores_of_pairs, scores_of_pairs[:0]

    def _directions(
        self, a: str, b: str, residual: Tensor, levels: Sequence[int], together: bool = False
    ) -> list[spectral.Directions]:
        pair = self._pairs[a, b]
        sums = spectral.moments(pair.a, pair.b, residual, self.part, self.parts)
        return [spectral.Directions(pair, sums, self.part, level, together) for level in levels]


def extend(
    response: Response, eta: Tensor, alone: Tensor, interaction: Tensor, train: Tensor, test: Tensor, into: Extension
) -> None:
    """Extend an additive model by an interaction, fitted on training rows, and store the predictions for test rows.

    Args:
        response: The target.
        eta: The additive model's linear predictor.
        alone: The unimodal features of the detector, ``(features, rows, columns)``; possibly empty.
        interaction: Its interaction features, in the same shape.
        train, test: Indices of the rows.
        into: Storage for the predictions and losses of the test rows.
    """
    for more, predictor, losses in (
        (alone, into.without, into.without_loss),
        (torch.cat([alone, interaction]), into.extended, into.loss),
    ):
        longer = response.extend(eta, more, train)(torch.cat([eta[None], more]))
        predictor[test] = longer[test]
        losses[test] = response.log_loss(longer[test], longer[train], train, test)


def _projection(columns: int, like: Tensor) -> Tensor:
    """A few columns of a residual: the residual itself, or random orthogonal contrasts if there are many classes."""
    if columns <= COLUMNS:
        return torch.eye(columns).to(like)
    generator = torch.Generator().manual_seed(0)
    return torch.linalg.qr(torch.randn(columns, COLUMNS, generator=generator))[0].to(like)
