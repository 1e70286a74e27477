"""The joint distribution over pairs of examples with the least information that the marginals allow."""

import math

import torch
from torch import Tensor, nn

from synib.models.mlp import mlp

SIZE = 16  # dimensions of the embeddings


class Alignment(nn.Module):
    r"""Similarity of every x1 to every x2 for each class: a kernel that Sinkhorn scales to a joint distribution.

    .. math:: K(i, j, y) = \exp\big(r \tanh(f_1(x_{1,i}, y) \cdot f_2(x_{2,j}, y) / r)\big)

    The range r keeps the scaling well conditioned.

    Args:
        widths: Widths of the two sources.
        classes: Number of classes.
        hidden: Width of the hidden layer.
        reach: r.
    """

    def __init__(self, widths: tuple[int, int], classes: int, hidden: int, reach: float = 8.0) -> None:
        super().__init__()
        self.classes, self.reach, self.scale = classes, reach, 1 / math.sqrt(SIZE)
        self.first, self.second = (mlp([width, hidden, classes * SIZE]) for width in widths)

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        f1, f2 = (
            net(x).unflatten(1, (self.classes, -1)).movedim(1, 0)
            for net, x in ((self.first, x1), (self.second, x2))
        )  # fmt: skip
        return (self.reach * torch.tanh(self.scale * f1 @ f2.mT / self.reach)).exp()


def sinkhorn(kernel: Tensor, rows: Tensor, columns: Tensor, steps: int) -> Tensor:
    """The kernel with rows and columns scaled to the given sums.

    Columns are scaled last and are exact; rows converge with the number of steps.

    Args:
        kernel: Positive, ``(classes, n, m)``.
        rows, columns: Positive sums, ``(classes, n)`` and ``(classes, m)``, with equal totals for each class.
        steps: Number of iterations.
    """
    v = torch.ones_like(columns)
    for _ in range(steps):
        u = rows / (kernel @ v[..., None])[..., 0]
        v = columns / (u[:, None] @ kernel)[:, 0]
    return u[..., None] * kernel * v[:, None]


def aligned_information(kernel: Tensor, p1: Tensor, p2: Tensor, prior: Tensor, steps: int) -> Tensor:
    r"""The contribution of each pair to :math:`I_q(X_1, X_2; Y)`, in nats, where q is the kernel scaled to the marginals.

    Args:
        kernel: ``(classes, n, n)``.
        p1, p2: p(y | x1) and p(y | x2) of the n examples, ``(n, classes)``.
        prior: p(y).
        steps: Number of Sinkhorn iterations.

    Returns:
        ``(n, n)``, whose sum is the information.
    """
    rows, columns = p1.mT / len(p1), p2.mT / len(p2)
    # In a batch the two marginals do not quite agree on the class frequencies.
    mass = (rows.sum(1, keepdim=True) + columns.sum(1, keepdim=True)) / 2
    rows, columns = (m * mass / m.sum(1, keepdim=True) for m in (rows, columns))
    q = sinkhorn(kernel, rows, columns, steps)
    return (q * ((q / q.sum(0)).clamp(min=1e-30).log() - prior.log()[:, None, None])).sum(0)
