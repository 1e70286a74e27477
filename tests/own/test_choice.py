"""What fit keeps and shows, simulated with linear models whose truth is known: coverage, and how far behind the best it is."""

import numpy as np
import pytest
import torch

from synib.measure.stats import mean
from synib.objective import Bernoulli
from synib.own.crossfit import FREQUENCIES, Candidate, CrossFit, frequencies

WIDTH, FOLDS, FRESH = 8, 5, 4000
METHODS = [FREQUENCIES, "unimodal-a", "unimodal-b", "additive", "experts"]
PREFERRED = ["additive", "unimodal-a", "unimodal-b", "experts"]
PARTS = {
    "unimodal-a": [slice(0, WIDTH)],
    "unimodal-b": [slice(WIDTH, 2 * WIDTH)],
    "additive": [slice(0, 2 * WIDTH)],
    "experts": [slice(2 * WIDTH, None), slice(0, WIDTH), slice(WIDTH, 2 * WIDTH)],
}


def drawn(rng, rows, strength):
    """Features of two modalities and products of both; the log-odds are a sum of one number of each modality."""
    a, b = rng.normal(size=(2, rows, WIDTH))
    y = rng.uniform(size=rows) < 1 / (1 + np.exp(-strength * (a[:, 0] + b[:, 0])))
    return np.hstack([a, b, a * b]), y.astype(np.int64)


def linear(x, y, part):
    """Log-odds by a ridge regression of these rows."""
    x, signs = x[:, part], 2.0 * y - 1
    return 4 * np.linalg.solve(x.T @ x + len(x) ** 0.5 * np.eye(x.shape[1]), x.T @ (signs - signs.mean()))


def said(method, x, y, new):
    """What a method that is trained on rows says of others, ``(experts, rows, 1)``."""
    if method == FREQUENCIES:
        return np.full((1, len(new), 1), float(frequencies(Bernoulli(), torch.from_numpy(y), 1)))
    return np.stack([new[:, part] @ linear(x, y, part) for part in PARTS[method]])[..., None]


def simulated(seed, rows, strength, preferred=PREFERRED, nested=True):
    """Shown log-loss with its interval, the truth of what is kept, and the truth of every method."""
    rng = np.random.default_rng(seed)
    (x, y), (new, truth) = drawn(rng, rows, strength), drawn(rng, FRESH, strength)
    fold = np.empty(rows, dtype=np.int64)
    fold[np.argsort(y, kind="stable")] = np.arange(rows) % FOLDS
    candidates, finals = [], []
    for method in METHODS:
        experts = len(PARTS.get(method, "1"))
        answers, paired = np.empty((experts, rows, 1)), np.full((FOLDS, experts, rows, 1), np.nan)
        for k in range(FOLDS):
            answers[:, fold == k] = said(method, x[fold != k], y[fold != k], x[fold == k])
            for j in set(range(FOLDS)) - {k} if nested else ():
                rest = (fold != k) & (fold != j)
                paired[k][:, fold == j] = said(method, x[rest], y[rest], x[fold == j])
        known = torch.from_numpy(paired) if nested else None
        candidates.append(
            Candidate(method, {}, 0, torch.from_numpy(answers), calibrated=method != FREQUENCIES, paired=known)
        )
        finals.append(torch.from_numpy(said(method, x, y, new)))
    cross = CrossFit(Bernoulli(), candidates, y, fold, preferred)
    family, target = Bernoulli(), torch.from_numpy(truth)
    true = [float(family.nll(cross.calibration(i)(final), target).mean()) for i, final in enumerate(finals)]
    shown = mean(family.nll(torch.from_numpy(cross.honest(METHODS)), torch.from_numpy(y)).numpy())
    kept, wider = cross.choose(METHODS), np.sqrt(1 + FOLDS / (FOLDS - 1))  # as in fit_scores
    low = shown.value - wider * (shown.value - shown.low) - cross.more_rows(kept)
    high = shown.value + wider * (shown.high - shown.value)
    return METHODS[kept], (low, shown.value, high), true[kept], dict(zip(METHODS, true, strict=True))


@pytest.fixture(scope="module")
def few_rows():
    return [simulated(seed, 80, 2**0.5) for seed in range(12)]


@pytest.fixture(scope="module")
def coins():
    return [simulated(seed, 400, 0.0, nested=False) for seed in range(16)]


def test_with_few_rows_and_additive_truth_what_is_kept_is_hardly_behind_the_additive_model(few_rows):
    behind = [true - of["additive"] for _, _, true, of in few_rows]
    assert np.mean(behind) < 0.02


def test_the_order_of_preference_is_what_keeps_it_there(few_rows):
    """From the simplest on, as the rule of one standard error has it, a single modality is kept too often."""
    simplest = [simulated(seed, 80, 2**0.5, ["unimodal-a", "unimodal-b", "additive", "experts"]) for seed in range(4)]
    behind = [true - of["additive"] for _, _, true, of in simplest]
    assert np.mean(behind) > 0.02 + np.mean([true - of["additive"] for _, _, true, of in few_rows[:4]])


def test_the_true_log_loss_lies_in_the_shown_interval(few_rows, coins):
    for sets in (few_rows, coins):
        inside = [low <= true <= high for _, (low, _, high), true, _ in sets]
        assert sum(inside) >= len(sets) - 2


def test_random_labels_leave_nearly_the_loss_of_a_coin_and_it_is_not_shown_as_better(coins):
    assert np.mean([true for _, _, true, _ in coins]) < np.log(2) + 0.004
    assert np.mean([shown for _, (_, shown, _), _, _ in coins]) > np.log(2) - 0.002
    assert sum(kept in (FREQUENCIES, "additive") for kept, *_ in coins) >= 13
