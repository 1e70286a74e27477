"""Ridge regression on fixed features, factorised once for each fold and solved for any residual."""

import torch
from torch import Tensor

BLOCK = 4096  # rows whose leverages are computed at a time
PENALTIES = (1.0, 10.0, 100.0, 1e3, 1e4)  # against features of variance about 1


class RidgeFolds:
    """Ridge regressions that each leave out one part.

    The factorisation does not depend on the target, so a test can be repeated with other targets at little cost.

    Args:
        features: ``(rows, features)``, of mean about 0.
        part: The part of each row.
        parts: Number of parts.
    """

    def __init__(self, features: Tensor, part: Tensor, parts: int) -> None:
        self.features, self.part = features, part
        gram = []
        for p in range(parts):
            of_part = features[part == p]
            gram.append(of_part.mT @ of_part)
        total = torch.stack(gram).sum(0)
        self.vectors: list[Tensor] = []
        self.shrunk: list[Tensor] = []  # (penalties, directions)
        self.leverage: list[Tensor] = []  # (penalties, rows)
        for p in range(parts):
            values, vectors = torch.linalg.eigh((total - gram[p]).double())
            penalties = torch.tensor(PENALTIES, dtype=values.dtype, device=values.device)
            self.vectors.append(vectors.to(features))
            self.shrunk.append((1 / (values.clamp(min=0) + penalties[:, None])).to(features))
            blocks = [(x @ self.vectors[p]).square_() @ self.shrunk[p].mT for x in features.split(BLOCK)]
            self.leverage.append(torch.cat(blocks).clamp(max=0.999).mT.contiguous())

    def scores(self, residual: Tensor, test: int) -> Tensor:
        """Predictions of the residual, ``(rows, columns)``: leave-one-out for training rows, from all others for test rows.

        The penalty with the smallest leave-one-out error on the training rows is chosen.
        """
        left_out, predicted, errors = self._each_penalty(residual, test)
        best = int(errors.mean((1, 2)).argmin())
        return torch.where((self.part != test)[:, None], left_out[best], predicted[best]).double()

    def scores_of(self, residuals: Tensor, test: int, targets: int) -> Tensor:
        """The same for the residuals of several targets side by side: ``(targets, rows, columns)``."""
        by_target = (len(PENALTIES), -1, targets, residuals.shape[1] // targets)
        left_out, predicted, errors = (x.reshape(by_target) for x in self._each_penalty(residuals, test))
        best, target = errors.mean((1, 3)).argmin(0), torch.arange(targets, device=residuals.device)
        train = (self.part != test)[:, None]
        return torch.where(train, left_out[best, :, target], predicted[best, :, target]).double()

    def _each_penalty(self, residual: Tensor, test: int) -> tuple[Tensor, Tensor, Tensor]:
        """For each penalty the leave-one-out predictions, those from all training rows, and squared leave-one-out errors."""
        x, vectors, train = self.features, self.vectors[test], self.part != test
        r = residual.to(x)
        slopes = vectors.mT @ (x.mT @ torch.where(train[:, None], r, 0.0))
        # All penalties at once: the features are read twice for each residual.
        weights = vectors @ (self.shrunk[test][..., None] * slopes)  # (penalties, features, columns)
        predicted = torch.einsum("nf,pfc->pnc", x, weights)
        leverage = self.leverage[test][..., None]
        left_out = (predicted - leverage * r) / (1 - leverage)
        return left_out, predicted, (r - left_out).square()[:, train]
