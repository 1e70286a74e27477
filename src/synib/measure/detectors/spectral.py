r"""Products of one direction in each of two modalities, from the leading singular pair of a matrix of moments.

For a residual r and whitened components a, b the mean of :math:`r\,a\,b^\top` has a large singular value if a product
of directions :math:`(u \cdot a)(v \cdot b)` explains r. Moments of disjoint parts of the rows add up, and the moments
of the leading k components are a corner of those of all: one pass over the rows is enough for all folds and all numbers
of components.
"""

from itertools import combinations_with_replacement
from typing import NamedTuple

import torch
from torch import Tensor

POWER = 20  # iterations
BLOCK = 2048  # rows at a time
SHRINK = 0.05  # penalty of linear predictions between modalities, relative to the number of rows
LEVELS = (16, 64, 256)  # numbers of leading components, in addition to all


def levels(*widths: int) -> list[int]:
    """The numbers of components to try, given the number of components of each modality."""
    most = max(widths)
    return [*(level for level in LEVELS if level < most), most]


def moments(a: Tensor, b: Tensor, residual: Tensor, part: Tensor, parts: int) -> Tensor:
    """The sum of residual · a bᵀ over each part, ``(parts, columns, components of a, components of b)``."""
    sums = a.new_zeros(parts, residual.shape[1], a.shape[1], b.shape[1])
    for p in range(parts):
        for block in (part == p).nonzero()[:, 0].split(BLOCK):
            left, right = a[block], b[block]
            for column, r in enumerate(residual[block].T.to(a)):
                sums[p, column].addmm_((left * r[:, None]).mT, right)
    return sums


class Pair(NamedTuple):
    """Whitened components of two modalities, and how each predicts the other linearly.

    Args:
        a, b: Components, ``(rows, components)``.
        b_to_a, a_to_b: For each part, the coefficients of a prediction from the other modality that was fitted on the other
            parts, ``(parts, components, predicted components)``; ``None`` for a modality with itself. The predictions are 0
            where the modalities are independent.
    """

    a: Tensor
    b: Tensor
    b_to_a: Tensor | None = None
    a_to_b: Tensor | None = None

    @classmethod
    def of(cls, a: Tensor, b: Tensor, part: Tensor, parts: int) -> "Pair":
        """The pair with its predictions."""
        return cls(a, b, coefficients(b, a, part, parts), coefficients(a, b, part, parts))


def coefficients(x: Tensor, y: Tensor, part: Tensor, parts: int) -> Tensor:
    """Coefficients of a linear prediction of ``y`` from ``x`` for each part, by ridge regression on the other parts."""
    gram, cross = x.new_zeros(parts, x.shape[1], x.shape[1]), x.new_zeros(parts, x.shape[1], y.shape[1])
    for p in range(parts):
        for block in (part == p).nonzero()[:, 0].split(BLOCK):
            of_block = x[block]
            gram[p].addmm_(of_block.mT, of_block)
            cross[p].addmm_(of_block.mT, y[block])
    all_gram, all_cross = gram.sum(0), cross.sum(0)
    penalty = SHRINK * len(x) * torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
    for p in range(parts):
        cross[p] = torch.linalg.solve(all_gram - gram[p] + penalty, all_cross - cross[p])
    return cross


class Directions:
    """Leading directions of a pair of modalities for every two left-out parts, among the first ``level`` components.

    Args:
        pair: Components of two modalities.
        sums: Moments of each part.
        part: The part of each row.
        level: Number of leading components.
        together: Whether to iterate the directions of all left-out parts together, with fewer operations and more memory.
    """

    def __init__(self, pair: Pair, sums: Tensor, part: Tensor, level: int, together: bool = False) -> None:
        corner = sums[..., :level, :level]
        parts = len(corner)
        pairs, total = list(combinations_with_replacement(range(parts), 2)), corner.sum(0)
        place = {pair: i for i, pair in enumerate(pairs)}
        if together:
            left, right = leading_pair(
                torch.stack([total - corner[p] if p == q else total - corner[p] - corner[q] for p, q in pairs])
            )
        else:  # one matrix at a time, since all of them together would take the most memory
            directions = []
            for p, q in pairs:
                without = total - corner[p]
                directions.append(leading_pair(without if p == q else without.sub_(corner[q])))
            left, right = (torch.stack(side) for side in zip(*directions, strict=True))
        # Projections of every row on the directions found without its own part and each other part, (parts, rows, columns):
        # of a, of b and, if there are predictions, of a predicted from b and of b predicted from a.
        count = 2 if pair.b_to_a is None else 4
        self._along = [pair.a.new_empty(parts, len(part), left.shape[1]) for _ in range(count)]
        for p in range(parts):
            index = [place[min(p, test), max(p, test)] for test in range(parts)]
            of_a, of_b = left[index].mT, right[index].mT
            predicted = []
            if pair.b_to_a is not None and pair.a_to_b is not None:
                predicted = [pair.b_to_a[p][:, :level] @ of_a, pair.a_to_b[p][:, :level] @ of_b]
            for rows in (part == p).nonzero()[:, 0].split(BLOCK):
                a, b = pair.a[rows], pair.b[rows]
                projected = [a[:, :level] @ of_a, b[:, :level] @ of_b]
                projected += [x @ axes for x, axes in zip((b, a), predicted, strict=False)]
                for along, of_block in zip(self._along, projected, strict=True):
                    along[:, rows] = of_block

    def scores(self, test: int) -> tuple[Tensor, list[Tensor]]:
        """The product for every row, and the products that each modality can form alone, ``(rows, columns)`` each.

        A modality alone has its own factor and a linear prediction of the other one, and can form their product and both
        squares. Directions are fitted without the row's own part and without part ``test``. For a modality paired with
        itself, only the product is returned.
        """
        a, b, *predicted = (along[test].double() for along in self._along)
        if not predicted:
            return a * b, []
        a_from_b, b_from_a = predicted
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
