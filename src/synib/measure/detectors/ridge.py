"""Ridge regression on fixed features, factorised once for each fold and solved for any residual."""

import torch
from torch import Tensor

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
        self.part = part
        gram = [features[part == p].mT @ features[part == p] for p in range(parts)]
        total = torch.stack(gram).sum(0)
        self.values, self.turned = [], []
        for p in range(parts):
            values, vectors = torch.linalg.eigh((total - gram[p]).double())
            self.values.append(values.clamp(min=0))
            self.turned.append(features @ vectors.to(features))

    def scores(self, residual: Tensor, test: int) -> Tensor:
        """Predictions of the residual, ``(rows, columns)``: leave-one-out for training rows, from all others for test rows.

        The penalty with the smallest leave-one-out error on the training rows is chosen.
        """
        values, z = self.values[test], self.turned[test]
        train = self.part != test
        fitted, r = z[train], residual[train].to(z)
        slopes, squares = fitted.mT @ r, fitted.square()
        best: tuple[float, Tensor] | None = None
        for penalty in PENALTIES:
            shrunk = (1 / (values + penalty)).to(z)
            leverage = (squares @ shrunk).clamp(max=0.999)[:, None]
            weights = shrunk[:, None] * slopes
            left_out = (fitted @ weights - leverage * r) / (1 - leverage)
            error = float((r - left_out).square().mean())
            if best is None or error < best[0]:
                predicted = z @ weights
                predicted[train] = left_out
                best = error, predicted
        assert best is not None
        return best[1].double()
