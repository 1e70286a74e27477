r"""Products of one direction in each of two modalities, found as the leading singular pair of a matrix of moments.

For a residual r and whitened components a, b the mean of :math:`r\,a\,b^\top` has a large singular value where a product of
directions :math:`(u \cdot a)(v \cdot b)` explains r. Moments of disjoint parts of the rows add up, and the moments of
the leading k components are a corner of those of all: one pass over the rows serves all folds and all numbers of components.
"""

import torch
from torch import Tensor

POWER = 20  # iterations
LEVELS = (16, 64, 256)  # numbers of leading components, beside all


def levels(*widths: int) -> list[int]:
    """The numbers of components to look at, given how many each modality has."""
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


class Directions:
    """Leading directions of a pair of modalities for every two parts left out, among the leading ``level`` components.

    Args:
        a, b: Whitened components of two modalities.
        sums: Moments of each part.
        part: The part of each row.
        level: How many leading components to use.
    """

    def __init__(self, a: Tensor, b: Tensor, sums: Tensor, part: Tensor, level: int) -> None:
        self.a, self.b, self.part = a[:, :level], b[:, :level], part
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

    def scores(self, test: int) -> Tensor:
        """The product for every row, ``(rows, columns)``, fitted without the row's own part and without part ``test``."""
        result = self.a.new_empty(len(self.a), self._left.shape[1])
        for p in range(int(self.part.max()) + 1):
            rows, i = self.part == p, self._place[min(p, test), max(p, test)]
            result[rows] = (self.a[rows] @ self._left[i].mT) * (self.b[rows] @ self._right[i].mT)
        return result.double()


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
