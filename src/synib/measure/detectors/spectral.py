r"""Products of one direction in each of two modalities, from the leading singular pair of a matrix of moments.

For a residual r and whitened components a, b the mean of :math:`r\,a\,b^\top` has a large singular value if a product
of directions :math:`(u \cdot a)(v \cdot b)` explains r. Moments of disjoint parts of the rows add up, and the moments
of the leading k components are a corner of those of all: one pass over the rows is enough for all folds and all numbers
of components.
"""

from typing import NamedTuple

import torch
from torch import Tensor

POWER = 20  # iterations
SHRINK = 0.05  # penalty of linear predictions between modalities, against the number of rows
LEVELS = (16, 64, 256)  # numbers of leading components, beside all


def levels(*widths: int) -> list[int]:
    """The numbers of components to try, given the number of components of each modality."""
    most = max(widths)
    return [*(level for level in LEVELS if level < most), most]


def moments(a: Tensor, b: Tensor, residual: Tensor, part: Tensor, parts: int) -> Tensor:
    """The sum of residual · a bᵀ over each part, ``(parts, columns, components of a, components of b)``."""
    sums = a.new_zeros(parts, residual.shape[1], a.shape[1], b.shape[1])
    for p in range(parts):
        rows = part == p
        left, right = a[rows], b[rows]
        for column, r in enumerate(residual[rows].T.to(a)):
            sums[p, column] = (left * r[:, None]).mT @ right
    return sums


class Pair(NamedTuple):
    """Whitened components of two modalities, and their linear predictions from each other.

    Args:
        a, b: Components, ``(rows, components)``.
        a_from_b, b_from_a: Linear predictions from the other modality, fitted on other parts of the rows; 0 if the
            modalities are independent.
    """

    a: Tensor
    b: Tensor
    a_from_b: Tensor
    b_from_a: Tensor

    @classmethod
    def of(cls, a: Tensor, b: Tensor, part: Tensor, parts: int) -> "Pair":
        """The pair with these predictions."""
        return cls(a, b, predicted(b, a, part, parts), predicted(a, b, part, parts))

    def leading(self, level: int) -> "Pair":
        """The same pair with only its leading components."""
        return Pair(*(x[:, :level] for x in self))


def predicted(x: Tensor, y: Tensor, part: Tensor, parts: int) -> Tensor:
    """Linear predictions of each row of ``y`` from ``x``, by ridge regression on the other parts of the rows."""
    rows = [part == p for p in range(parts)]
    gram = torch.stack([x[r].mT @ x[r] for r in rows])
    cross = torch.stack([x[r].mT @ y[r] for r in rows])
    result = torch.empty_like(y)
    for p, r in enumerate(rows):
        left = gram.sum(0) - gram[p]
        penalty = SHRINK * len(x) * torch.eye(len(left), dtype=left.dtype, device=left.device)
        result[r] = x[r] @ torch.linalg.solve(left + penalty, cross.sum(0) - cross[p])
    return result


class Directions:
    """Leading directions of a pair of modalities for every two left-out parts, among the first ``level`` components.

    Args:
        pair: Components of two modalities.
        sums: Moments of each part.
        part: The part of each row.
        level: Number of leading components.
    """

    def __init__(self, pair: Pair, sums: Tensor, part: Tensor, level: int) -> None:
        self.pair, self.part = pair.leading(level), part
        corner = sums[..., :level, :level]
        parts = len(corner)
        first, second = torch.triu_indices(parts, parts, device=sums.device)
        without = corner.sum(0) - corner[first] - corner[second]
        same = (first == second).nonzero()[:, 0]
        without[same] += corner[first[same]]  # a part is left out once
        self._place = {
            (int(p), int(q)): i for i, (p, q) in enumerate(zip(first.tolist(), second.tolist(), strict=True))
        }
        self._left, self._right = leading_pair(without)

    def scores(self, test: int) -> tuple[Tensor, list[Tensor]]:
        """The product for every row, and the products that each modality can form alone, ``(rows, columns)`` each.

        A modality alone has its own factor and a linear prediction of the other one, and can form their product and
        both squares. Directions are fitted without the row's own part and without part ``test``.
        """
        columns = [x.new_empty(len(x), self._left.shape[1]) for x in self.pair]
        for p in range(int(self.part.max()) + 1):
            rows, i = self.part == p, self._place[min(p, test), max(p, test)]
            along = (self._left[i], self._right[i], self._left[i], self._right[i])
            for column, x, direction in zip(columns, self.pair, along, strict=True):
                column[rows] = x[rows] @ direction.mT
        a, b, a_from_b, b_from_a = (column.double() for column in columns)
        alone = [z - z.mean(0) for z in (a * a, a * b_from_a, b_from_a**2, b * b, b * a_from_b, a_from_b**2)]
        return a * b, alone


def leading_pair(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """The leading singular vectors of each matrix ``(..., m, n)``, by power iteration: ``(..., m)`` and ``(..., n)``."""
    # The row of largest norm has, but for accidents, a part along the leading vector, and needs no random number.
    largest = matrices.square().sum(-1).argmax(-1)
    index = largest[..., None, None].expand(*largest.shape, 1, matrices.shape[-1])
    right = matrices.gather(-2, index).squeeze(-2)
    left = right
    for _ in range(POWER):
        left = torch.nn.functional.normalize((matrices @ right[..., None]).squeeze(-1), dim=-1)
        right = torch.nn.functional.normalize((matrices.mT @ left[..., None]).squeeze(-1), dim=-1)
    return left, right
