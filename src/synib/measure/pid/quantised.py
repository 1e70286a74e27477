"""PID of continuous features by clustering and counts."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from synib.checks import check_whole
from synib.measure.arrays import Array
from synib.measure.pid.broja import solve
from synib.measure.pid.decomposition import PIDEstimate, decompose
from synib.measure.pid.estimate import Pointwise, checked, estimate, in_halves
from synib.measure.stats import check_resampling


def pid_quantised(
    x1: ArrayLike | Tensor,
    x2: ArrayLike | Tensor,
    y: ArrayLike | Tensor,
    clusters: int = 8,
    *,
    nulls: int = 20,
    level: float = 0.95,
    groups: ArrayLike | None = None,
    seed: int = 0,
) -> PIDEstimate:
    r"""BROJA of the cluster of each source, in bits, with its bias shown by permuted labels.

    The examples are split into two stratified halves. k-means centres from one half assign the examples of the other to
    clusters, whose counts with the label are decomposed by :func:`broja`; then the halves are swapped and the two
    results averaged. The null does the same with labels permuted within each half.

    Information within clusters is lost: a fine or weak signal among strong coordinates is not detected. Counting adds
    bias: about :math:`(k^2 - 1)(c - 1)/(n \ln 2)` bits for k clusters, c classes and n examples, nearly all of it as
    synergy. Compare every component with its null. k-means follows the largest coordinates: standardise first if their
    units differ.

    The interval is over the held-out examples, given clusters and labels: it is that of the mean of each example's
    contribution, where the contributions to :math:`I_q` are BROJA's Lagrange multipliers. That is exact to first order
    in the counts and needs no further solving. It describes the spread, not the bias; near 0 the null is more
    informative.

    Args:
        x1, x2: Features, one row per example.
        y: Class of each example; at least 4 examples per class.
        clusters: Number of clusters for each source; fewer if there are fewer distinct rows.
        nulls: Number of permutations of the labels; p cannot be below 1 / (nulls + 1).
        level: Confidence level.
        groups: The group of each example (a speaker, a video) if examples of one group are dependent: halves keep
            groups together, the null permutes by group (:func:`~synib.measure.stats.permutations`), and intervals are
            over groups.
        seed: Seed for halves, clusters and permutations.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> a, b = rng.integers(0, 2, (2, 2000))
        >>> x1, x2 = (bit[:, None] + 0.1 * rng.normal(size=(2000, 3)) for bit in (a, b))
        >>> estimate = pid_quantised(x1, x2, a ^ b, clusters=2, nulls=3)
        >>> round(estimate.synergy.value, 1), round(estimate.redundant.value, 1)
        (1.0, 0.0)
    """
    check_resampling(seed, level)
    check_whole("clusters", clusters, least=2)
    x1, x2, y, classes = checked(x1, x2, y, nulls, least=4 * clusters, each=4)
    parts, group = in_halves(y, seed, groups)
    # Clusters do not use labels, so they are the same for all permutations.
    sorted_in = [
        (rows, _clusters(x1, other, rows, clusters, seed), _clusters(x2, other, rows, clusters, seed))
        for rows, other in zip(parts, reversed(parts), strict=True)
    ]

    def measured(labels: Array, number: int) -> Pointwise:
        shares = []
        for rows, c1, c2 in sorted_in:
            at = c1, c2, labels[rows]
            counts = np.zeros((clusters, clusters, classes))
            np.add.at(counts, at, 1.0)
            shares.append(decompose(*(cell[at] for cell in solve(counts / len(rows)).cells)))
        return {name: np.concatenate([of_half[name] for of_half in shares]) for name in shares[0]}

    return estimate(measured, y, parts, np.concatenate(parts), nulls, seed, level, group)


def _clusters(x: Array, fitted: Array, rows: Array, k: int, seed: int) -> Array:
    """The cluster of some rows, by centres fitted on others."""
    model = _kmeans()(min(k, len(np.unique(x[fitted], axis=0))), n_init=4, random_state=seed)
    return np.asarray(model.fit(x[fitted]).predict(x[rows]))


def _kmeans() -> Any:
    try:
        from sklearn.cluster import KMeans  # type: ignore[import-untyped,unused-ignore]
    except ImportError as e:
        raise ImportError("pid_quantised needs scikit-learn: pip install 'synib[audit]'") from e
    return KMeans
