"""Features of interactions other than products of directions: kernels, and tables over clusters."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from synib.files.pages import return_freed

LANDMARKS, ALONE = 384, 128  # landmark rows for a pair of modalities, and for a single one
ROWS_EACH = 20  # rows per cell of a table of clusters
FEWEST, MOST = 3, 12  # range of the number of clusters of a modality
ROUNDS = 12  # rounds of k-means
BLOCK = 1024  # rows in double precision at a time


def gaussian_kernel(x: Tensor, landmarks: Tensor) -> Tensor:
    """exp(-d² / median d²) for each row and landmark."""
    square = torch.cdist(x, landmarks).square_()
    return square.div_(-square[:: max(1, len(x) // 1000)].median().clamp(min=1e-12)).exp_()


def nystrom(kernel: Callable[[Tensor], Tensor], rows: int, landmark_kernel: Tensor) -> Tensor:
    """Features whose inner products approximate a kernel, with mean 0 and mean squared norm equal to the number of landmarks.

    The kernel is computed for a block of rows at a time, twice, since sums over its features are in double precision.

    Args:
        kernel: Kernel between some rows, given by their numbers, and the landmarks.
        rows: Number of rows.
        among: Kernel between landmarks.
    """
    values, vectors = torch.linalg.eigh(landmark_kernel.double())
    kept = values > 1e-4 * values.max()
    rotation = vectors[:, kept] / values[kept].sqrt()
    blocks = torch.arange(rows, device=landmark_kernel.device).split(BLOCK)
    total, squares = rotation.new_zeros(rotation.shape[1]), rotation.new_zeros(())
    for block in blocks:
        z = kernel(block).double() @ rotation
        total += z.sum(0)
        squares += z.square_().sum()
    mean = total / rows
    size = (squares / rows - mean.square().sum()).clamp(min=0).sqrt().clamp(min=1e-12)
    features = torch.empty(rows, rotation.shape[1], device=landmark_kernel.device)
    for block in blocks:
        features[block] = (kernel(block).double() @ rotation).sub_(mean).div_(size).float()
    return features.mul_(len(landmark_kernel) ** 0.5)


def kernel_features(leading: dict[str, Tensor], seed: int) -> tuple[dict[str, Tensor], dict[tuple[str, str], Tensor]]:
    """Nyström features of each modality's Gaussian kernel, and of the product of two centred kernels."""
    first = next(iter(leading.values()))
    n = len(first)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed)).to(first.device)
    unimodal_landmarks, pair_landmarks = order[: min(n, ALONE)], order[: min(n, LANDMARKS)]
    centred = {}
    for name, near in leading.items():
        centred_kernel = gaussian_kernel(near, near[pair_landmarks])
        of_landmarks, of_rows = centred_kernel[pair_landmarks], centred_kernel.mean(1, keepdim=True)
        centred[name] = centred_kernel.sub_(of_landmarks.mean(0)).sub_(of_rows).add_(of_landmarks.mean())
    del centred_kernel
    names = list(leading)
    pairs = {}
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            product = partial(_product, centred[a], centred[b])
            landmark_kernel = product(pair_landmarks)
            pairs[a, b] = nystrom(product, n, (landmark_kernel + landmark_kernel.mT) / 2)
            del product
    centred.clear()  # the kernels of pairs take the most memory, so those of single modalities come after them
    return_freed()
    alone = {}
    for name, near in leading.items():
        kernel = gaussian_kernel(near, near[unimodal_landmarks])
        alone[name] = nystrom(kernel.__getitem__, n, kernel[unimodal_landmarks])
        del kernel
    return alone, pairs


def _product(a: Tensor, b: Tensor, rows: Tensor) -> Tensor:
    return a[rows] * b[rows]


def clusters(points: Tensor, count: int, seed: int) -> Tensor:
    """The k-means cluster of each row, with k-means++ initialisation."""
    draws = torch.rand(count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(points.device)
    pick = int(draws[0] * len(points))
    centres = points[pick : pick + 1]
    nearest = torch.cdist(points, centres).square()[:, 0]
    for draw in draws[1:]:
        total = nearest.double().cumsum(0)
        pick = int(torch.searchsorted(total, draw * total[-1]).clamp(max=len(points) - 1))
        centres = torch.cat([centres, points[pick : pick + 1]])
        nearest = torch.minimum(nearest, torch.cdist(points, centres[-1:]).square()[:, 0])
    label = torch.cdist(points, centres).argmin(1)
    for _ in range(ROUNDS):
        member = torch.nn.functional.one_hot(label, count).to(points)
        size = member.sum(0)
        centres = torch.where(size[:, None] > 0, (member.mT @ points) / size.clamp(min=1)[:, None], centres)
        label = torch.cdist(points, centres).argmin(1)
    return label


def table_features(leading: dict[str, Tensor], seed: int) -> tuple[dict[str, Tensor], dict[tuple[str, str], Tensor]]:
    """Indicators of each modality's (finer) clusters, and of the cells of a table over the clusters of two modalities.

    Cell indicators exclude row and column effects, which one modality explains alone.
    """
    n = len(next(iter(leading.values())))
    count = int(min(MOST, max(FEWEST, (n / ROWS_EACH) ** 0.5)))
    finer = min(count * count, max(FEWEST, n // ROWS_EACH), 64)
    alone = {name: _indicators(clusters(x, finer, seed), finer) for name, x in leading.items()}
    label = {name: clusters(x, count, seed + 1) for name, x in leading.items()}
    names = list(leading)
    pairs = {}
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            main_effects = torch.cat([_indicators(label[a], count), _indicators(label[b], count)], 1)
            cells = _indicators(label[a] * count + label[b], count * count)
            pairs[a, b] = cells - main_effects @ (torch.linalg.pinv(main_effects.double()).float() @ cells)
    return alone, pairs


def _indicators(label: Tensor, count: int) -> Tensor:
    """Cluster indicators minus the share of each cluster."""
    member = torch.nn.functional.one_hot(label, count).float()
    return member - member.mean(0)
