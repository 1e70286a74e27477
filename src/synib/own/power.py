"""Statistical power: the smallest interaction of each of several kinds that the detectors would have found in these rows.

Targets are simulated from the additive network plus an interaction of known size. Everything else is as in the data: the
rows, the modalities, their unimodal effects, and whether all rows of a group share a label. The detectors are then tested
with the same rule as on the real target. Networks are not retrained for this; they could only add to the power.
"""

from collections.abc import Callable, Mapping
from itertools import combinations, cycle
from math import erf, sqrt

import numpy as np
from numpy.typing import NDArray

from synib.measure.detectors.features import clusters
from synib.measure.stats import Estimate
from synib.own.evidence import WORTH, Bench
from synib.own.metric import Metric

Numbers = NDArray[np.float64]
Rows = NDArray[np.int64]
KINDS = ("product", "lookup", "gate")
POWER = 0.8
NORMAL = 1.96  # half-width of a 95 % interval, in standard errors
FIRST, SMALLEST, LARGEST = 0.1, 0.0125, 0.4  # sizes in units of the metric; the search starts at FIRST
CLUSTERS = 4  # per modality, for a lookup table
LEAST = 20  # rows that have both modalities, at least


def detectable(bench: Bench, critical: float, *, tries: int = 6) -> dict[str, float | None]:
    """The smallest interaction of each kind that would be detected with 80 % power.

    - ``product``: a product of the signs of one direction in each of two modalities;
    - ``lookup``: a table over four clusters of each of two modalities, without row and column effects;
    - ``gate``: the sign of a direction in one modality flips the effect of a direction in the other.

    Args:
        bench: The rows, with detectors prepared.
        critical: Critical value in standard errors, as in the real test.
        tries: Simulated targets for each kind and size.

    Returns:
        Kind of interaction → its size in units of the metric. ``None`` if a kind is not detected up to a size of 0.4, or if
        no two modalities vary in the same rows.
    """
    result: dict[str, float | None] = {}
    for number, kind in enumerate(KINDS):
        random = np.random.default_rng([bench.seed, number])
        result[kind] = _smallest(lambda size: _power(bench, kind, size, tries, critical, random))  # noqa: B023
    return result


def _smallest(power: Callable[[float], float | None]) -> float | None:
    """The size with a power of 80 %, interpolated between two simulated sizes (linear in log size and probit)."""
    powers: dict[float, float] = {}
    size = FIRST
    while size not in powers:
        estimated = power(size)
        if estimated is None:
            return None
        powers[size] = estimated
        larger, smaller = size * 2, size / 2
        if estimated >= POWER and smaller > 0.99 * SMALLEST and powers.get(smaller, 1.0) >= POWER:
            size = smaller
        elif estimated < POWER and larger < 1.01 * LARGEST and powers.get(larger, 0.0) < POWER:
            size = larger
    sufficient = sorted(s for s, p in powers.items() if p >= POWER)
    if not sufficient:
        return None
    high = sufficient[0]
    low = high / 2
    if low not in powers:
        return high
    a, b, goal = (_probit(p) for p in (powers[low], powers[high], POWER))
    share = (goal - a) / max(b - a, 1e-9)
    return float(low * 2 ** min(max(share, 0.0), 1.0))


def _power(
    bench: Bench, kind: str, size: float, tries: int, critical: float, random: np.random.Generator
) -> float | None:
    """The estimated power, from the margins by which simulated interactions exceed the critical value."""
    targets = []
    for pair, _ in zip(cycle(_modality_pairs(bench)), range(tries), strict=False):
        signal = _signal(bench, kind, pair, random)
        if signal is not None:
            targets.append(simulate(bench, signal, size, random))
    margins = []
    for target, compared in zip(targets, bench.compare_each(targets) if targets else (), strict=True):
        margin = -np.inf
        for extension in compared.detectors.values():
            gain = bench.mean(extension.gain.cpu().numpy())
            extended, without = (
                bench.metric.scores(x.cpu().numpy(), target) for x in (extension.extended, extension.without)
            )
            lead = bench.lead(extended, without)
            error = _standard_error(lead)
            metric_margin = min(lead.value / error - NORMAL, (lead.value - WORTH) / error)
            margin = max(margin, min(gain.value / _standard_error(gain) - critical, metric_margin))
        margins.append(margin)
    if not margins:
        return None
    spread = max(
        float(np.std(margins)), 1.0
    )  # the statistic has a standard deviation of about 1, even if the simulated ones agree
    return 0.5 * (1 + erf(float(np.mean(margins)) / spread / sqrt(2)))


def _standard_error(estimate: Estimate) -> float:
    """The standard error that corresponds to a 95 % interval."""
    return max((estimate.high - estimate.low) / 2 / NORMAL, 1e-12)


def _modality_pairs(bench: Bench) -> list[tuple[str, str]]:
    present = bench.outcome.table.present
    pairs = combinations(bench.outcome.table.modalities, 2)
    return [(a, b) for a, b in pairs if (present[a][bench.rows] & present[b][bench.rows]).sum() >= LEAST]


def _signal(bench: Bench, kind: str, pair: tuple[str, str], random: np.random.Generator) -> Numbers | None:
    """The interaction of two modalities for each unit, with variance 1; 0 if a modality is missing."""
    unit = units(bench)
    a, b = (_unit_means(_direction(bench, name, random), unit) for name in pair)
    if kind == "product":
        signal = np.sign(a - np.median(a)) * np.sign(b - np.median(b))
    elif kind == "gate":
        signal = np.sign(a - np.median(a)) * b
    else:
        first, second = (_unit_cluster(bench, name, unit, random) for name in pair)
        table = random.choice([-1.0, 1.0], (CLUSTERS, CLUSTERS))
        cells = np.zeros((CLUSTERS, CLUSTERS))
        np.add.at(cells, (first, second), 1.0)
        rows, columns = cells.sum(1, keepdims=True), cells.sum(0, keepdims=True)
        for _ in range(10):  # remove row and column means, weighted by the number of units in each cell
            table = table - (table * cells).sum(1, keepdims=True) / np.maximum(rows, 1)
            table = table - (table * cells).sum(0, keepdims=True) / np.maximum(columns, 1)
        signal = table[first, second]
    has_both_rows = np.ones(len(bench.rows), dtype=bool)
    for name in pair:
        has_both_rows &= np.asarray(bench.outcome.table.present[name])[bench.rows]
    has_both = _unit_means(has_both_rows.astype(np.float64), unit) > 0.5
    signal = np.where(has_both, signal, 0.0)
    size = float(np.sqrt(np.square(signal[has_both]).mean())) if has_both.any() else 0.0
    return signal / size if size > 1e-9 else None


def _direction(bench: Bench, name: str, random: np.random.Generator) -> Numbers:
    """Projections on a random direction of a modality's standardised features; 0 for rows without the modality."""
    weights, along = random.normal(size=bench.outcome.table.modalities[name].shape[1]), np.zeros(len(bench.rows))
    for block, features in bench.standardised(name):
        along[block] = features @ weights
    return along


def _unit_cluster(bench: Bench, name: str, unit: Rows, random: np.random.Generator) -> Rows:
    """The cluster of the first row of each unit."""
    label = clusters(bench.detectors.components[name].leading, CLUSTERS, int(random.integers(2**31))).cpu().numpy()
    return label[np.unique(unit, return_index=True)[1]]


def units(bench: Bench) -> Rows:
    """The unit of each row, which shares one target: its group, if all rows of every group agree; otherwise the row itself."""
    if bench.group is None:
        return np.arange(len(bench.rows))
    _, first, unit = np.unique(bench.group, return_index=True, return_inverse=True)
    target = bench.target
    return unit if (target == target[first][unit]).all() else np.arange(len(bench.rows))


def _unit_means(x: Numbers, unit: Rows) -> Numbers:
    total = np.zeros((unit.max() + 1, *x.shape[1:]))
    np.add.at(total, unit, x)
    return np.asarray(total / np.bincount(unit).reshape(-1, *[1] * (x.ndim - 1)))


def simulate(bench: Bench, signal: Numbers, size: float, random: np.random.Generator) -> NDArray[np.generic]:
    """Draw a target for each row from the additive network plus an interaction of this size.

    Args:
        bench: The rows.
        signal: The interaction for each unit.
        size: The gain in the metric, among rows with both modalities, of a model that knows the interaction.
        random: The random generator.
    """
    unit, table = units(bench), bench.outcome.table
    additive = _unit_means(bench.offset.numpy(), unit)
    if table.kind == "regression":
        target = np.asarray(bench.target, dtype=np.float64)[np.unique(unit, return_index=True)[1]]
        without = additive[:, 0] + random.permutation(target - additive[:, 0])
        return np.asarray(without + signal * np.sqrt(size / (1 - size)) * without.std())[unit]
    columns = additive.shape[1]
    direction = random.choice([-1.0, 1.0], columns)
    if columns > 1 and table.kind != "multilabel":
        direction = random.permutation([-1.0, 1.0, *[0.0] * (columns - 2)])
    uniform = random.random((len(additive), columns if table.kind == "multilabel" else 1))
    has_both = signal != 0
    signal_values = np.quantile(signal[has_both], (np.arange(8) + 0.5) / 8)

    def draw(shift: float) -> tuple[NDArray[np.generic], float]:
        eta = additive + shift * signal[:, None] * direction
        labels = _drawn(eta, uniform, table.kind == "multilabel")
        return labels, _metric_gain(bench.metric, additive, eta, shift, direction, signal_values, labels, has_both)

    low, high = 0.0, 30.0
    for _ in range(18):
        middle = (low + high) / 2
        low, high = (low, middle) if draw(middle)[1] >= size else (middle, high)
    return draw(high)[0][unit]


def _drawn(eta: Numbers, uniform: Numbers, labels: bool) -> NDArray[np.generic]:
    if labels or eta.shape[1] == 1:
        drawn = (uniform < _sigmoid(eta)).astype(np.int64)
        return drawn if labels else drawn[:, 0]
    share = np.cumsum(_softmax(eta), 1)
    return np.minimum((share < uniform).sum(1), eta.shape[1] - 1)


def _metric_gain(
    metric: Metric,
    additive: Numbers,
    eta: Numbers,
    shift: float,
    direction: Numbers,
    signal_values: Numbers,
    target: NDArray[np.generic],
    has_both: NDArray[np.bool_],
) -> float:
    """The gain of the interaction in the metric, over predictions averaged over its values."""
    if metric.kind == "multilabel" or eta.shape[1] == 1:
        p = np.mean([_sigmoid(additive + shift * s * direction) for s in signal_values], 0).clip(1e-9, 1 - 1e-9)
        without = np.log(p / (1 - p))
    else:
        shifted = [additive + shift * s * direction for s in signal_values]
        without = np.log(np.mean([_softmax(e) for e in shifted], 0).clip(1e-12))
    return float((metric.scores(eta, target) - metric.scores(without, target))[has_both].mean())


def _sigmoid(eta: Numbers) -> Numbers:
    return np.asarray((1 + np.tanh(eta / 2)) / 2)  # without overflow


def _softmax(eta: Numbers) -> Numbers:
    odds = np.exp(eta - eta.max(1, keepdims=True))
    return np.asarray(odds / odds.sum(1, keepdims=True))


def _probit(p: float) -> float:
    from scipy.stats import norm  # slow to import

    return float(norm.ppf(min(max(p, 1e-4), 1 - 1e-4)))


def in_points(sizes: Mapping[str, float | None]) -> dict[str, float | None]:
    """Sizes in points (hundredths), rounded for reading."""
    return {kind: None if size is None else round(100 * size, 1) for kind, size in sizes.items()}
