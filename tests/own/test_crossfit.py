"""Choice and calibration on out-of-fold predictions: found where they are known, and never judged on their own rows."""

import numpy as np
import pytest
import torch

from synib.objective import Bernoulli, Categorical, Gaussian, MultiLabel
from synib.own.crossfit import Candidate, CrossFit, calibrate, frequencies


def test_a_known_temperature_is_found_and_a_prediction_that_tells_nothing_leaves_the_frequencies():
    torch.manual_seed(0)
    logits = 2 * torch.randn(4000, 1, dtype=torch.float64)
    y = torch.bernoulli(logits.sigmoid())[:, 0].long()
    found = calibrate(Bernoulli(), 3 * logits[None], y)
    assert float(found.weights) == pytest.approx(1 / 3, rel=0.1)
    assert float(found.bias) == pytest.approx(0, abs=0.1)
    rare = (torch.rand(4000) < 0.1).long()
    useless = calibrate(Bernoulli(), logits[None], rare)
    assert useless(logits[None]).sigmoid().mean() == pytest.approx(float(rare.double().mean()), abs=0.01)
    assert float(useless(logits[None]).std()) < 0.2
    assert float(calibrate(Bernoulli(), -logits[None], y).weights) > 0  # what is wrong is not turned round


def test_experts_are_weighed_by_what_they_tell():
    torch.manual_seed(0)
    logits = torch.randn(3000, 3, dtype=torch.float64)
    y = torch.multinomial((2 * logits).softmax(1), 1)[:, 0]
    found = calibrate(Categorical(), torch.stack([logits, torch.randn_like(logits)]), y)
    assert found.weights.tolist() == pytest.approx([2, 0], abs=0.25)


def test_an_expert_may_correct_another_but_never_counts_for_its_own_opposite():
    torch.manual_seed(0)
    logits = torch.randn(500, 1, dtype=torch.float64)
    y = torch.bernoulli(logits.sigmoid())[:, 0].long()
    alone, beside = calibrate(Bernoulli(), logits[None], y), calibrate(Bernoulli(), torch.stack([-logits, logits]), y)
    assert float(beside.weights[0]) == 0
    assert float(beside.weights[1]) == pytest.approx(float(alone.weights), rel=0.02)
    other = torch.randn_like(logits)  # what one expert says too much, the other takes out again
    corrected = calibrate(Bernoulli(), torch.stack([logits + other, other]), y)
    assert corrected.weights.tolist() == pytest.approx([1, -1], abs=0.3)
    wrong = calibrate(Bernoulli(), torch.stack([-logits, -logits.sign()]), y)
    assert wrong.weights.tolist() == [0, 0]
    assert torch.equal(wrong.bias, frequencies(Bernoulli(), y, 1))


def test_labels_and_numbers_are_calibrated_too():
    torch.manual_seed(0)
    logits = torch.randn(3000, 2, dtype=torch.float64)
    y = torch.bernoulli((logits + torch.tensor([0.0, -1.0])).sigmoid())
    found = calibrate(MultiLabel(), 2 * logits[None], y)
    assert float(found.weights) == pytest.approx(0.5, rel=0.15)
    assert (found.bias[0] - found.bias[1]).item() == pytest.approx(1, abs=0.2)
    mean = torch.zeros(3000, 2, dtype=torch.float64)  # says a standard deviation of 1
    assert float(calibrate(Gaussian(), mean[None], 2 * torch.randn(3000)).bias[1]) == pytest.approx(np.log(4), abs=0.1)


def test_frequencies_are_those_of_the_targets():
    y = torch.tensor([0, 0, 1, 2])
    assert frequencies(Categorical(), y, 3).exp().tolist() == pytest.approx([2.5 / 5.5, 1.5 / 5.5, 1.5 / 5.5])
    assert frequencies(Bernoulli(), y[:3], 1).sigmoid().item() == pytest.approx(1.5 / 4)
    weighted = frequencies(Bernoulli(), y[:3], 1, torch.tensor([1.0, 1.0, 2.0])).sigmoid().item()
    assert weighted == pytest.approx((1.5 + 0.5) / 4)
    assert frequencies(Gaussian(), torch.tensor([1.0, 3.0]), 2).tolist() == pytest.approx([2.0, 0.0])


def linear(x, y, rows):
    """Log-odds by a least-squares fit to these rows, nearly without a penalty: it overfits."""
    from_rows = x[rows]
    weights = np.linalg.solve(from_rows.T @ from_rows + 0.1 * np.eye(x.shape[1]), from_rows.T @ (2 * y[rows] - 1))
    return 3 * x @ weights


def shown_and_true(seed, n=60, width=20):
    """The log-loss that is shown of a model of random labels, and that of a coin that it should not be below."""
    rng = np.random.default_rng(seed)
    x, y, fold = rng.normal(size=(n, width)), rng.integers(0, 2, n), np.arange(n) % 5
    answers, paired = np.empty((1, n, 1)), np.full((5, 1, n, 1), np.nan)
    constant, constants = np.empty((1, n, 1)), np.full((5, 1, n, 1), np.nan)
    for k in range(5):
        answers[0, fold == k, 0] = linear(x, y, fold != k)[fold == k]
        constant[0, fold == k] = frequencies(Bernoulli(), torch.tensor(y[fold != k]), 1)
        for j in set(range(5)) - {k}:
            rest = (fold != k) & (fold != j)
            paired[k, 0, fold == j, 0] = linear(x, y, rest)[fold == j]
            constants[k, 0, fold == j] = frequencies(Bernoulli(), torch.tensor(y[rest]), 1)
    tensors = [torch.from_numpy(a) for a in (constant, constants, answers, paired)]
    candidates = [
        Candidate("frequencies", {}, 0, tensors[0], calibrated=False, paired=tensors[1]),
        Candidate("vanilla", {}, 0, tensors[2], paired=tensors[3]),
    ]
    cross = CrossFit(Bernoulli(), candidates, y, fold, ["frequencies", "vanilla"])
    loss = torch.nn.functional.binary_cross_entropy_with_logits
    said = torch.from_numpy(cross.honest(["frequencies", "vanilla"]))[:, 0]
    return float(loss(said, torch.tensor(y).double())), cross


def test_random_labels_are_not_shown_as_better_than_a_coin_in_the_mean():
    shown = [shown_and_true(seed)[0] for seed in range(12)]
    assert np.mean(shown) > np.log(2) - 0.005


def test_frequencies_are_chosen_where_nothing_was_learned_and_the_better_where_it_is_clear():
    _, cross = shown_and_true(0)
    assert cross.candidates[cross.choose(["vanilla", "frequencies"])].method == "frequencies"
    y = cross.target
    clear = Candidate("vanilla", {}, 0, (2.0 * y - 1)[None, :, None] * 3)
    better = CrossFit(Bernoulli(), [cross.candidates[0], clear], y.numpy(), cross.fold, ["frequencies", "vanilla"])
    assert better.choose(["frequencies", "vanilla"]) == 1


@pytest.mark.parametrize(("errors", "kept"), [(0.0, "vanilla"), (1.0, "additive"), (1e9, "additive")])
def test_the_first_in_the_order_of_preference_is_kept_unless_another_is_better_by_so_many_errors(errors, kept):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    signs = torch.from_numpy(2.0 * y - 1)
    noise = torch.from_numpy(rng.normal(size=(3, 200)))
    level = [signs + 2 * noise[0], signs + 2 * noise[1], signs + 10 * noise[2]]
    candidates = [
        Candidate(method, {}, 0, answers[None, :, None])
        for method, answers in zip(["additive", "vanilla", "unimodal-a"], level, strict=True)
    ]
    fold, order = np.arange(200) % 5, ["additive", "vanilla", "unimodal-a"]
    cross = CrossFit(Bernoulli(), candidates, y, fold, order, errors=errors)
    assert cross.mean_loss(1) < cross.mean_loss(0) < cross.mean_loss(2)  # so that the lowest is not the preferred
    assert candidates[cross.choose(order)].method == kept
    last = CrossFit(Bernoulli(), candidates, y, fold, order[::-1], errors=1.0)
    assert candidates[last.choose(order)].method != "unimodal-a"  # which is clearly worse


def test_what_a_fold_says_does_not_reach_its_own_choice_and_calibration():
    _, cross = shown_and_true(1)
    other = cross.target.clone()
    other[cross.fold == 2] = 1 - other[cross.fold == 2]
    changed = CrossFit(Bernoulli(), cross.candidates, other.numpy(), cross.fold, cross.preferred)
    methods = ["frequencies", "vanilla"]
    assert cross.choose(methods, 2) == changed.choose(methods, 2)
    assert torch.equal(cross.calibration(1, 2).weights, changed.calibration(1, 2).weights)
    assert np.array_equal(cross.honest(methods)[cross.fold == 2], changed.honest(methods)[cross.fold == 2])


def test_what_more_rows_would_bring_is_extrapolated_and_never_negative():
    _, cross = shown_and_true(0)
    y = cross.target
    sure = (2.0 * y - 1)[None, :, None]
    noisy = sure + 2 * torch.randn(5, 1, 60, 1, dtype=torch.float64)
    for answers, paired, gains in ((sure, noisy, True), (noisy[0], sure.expand(5, -1, -1, -1), False)):
        learns = CrossFit(
            Bernoulli(), [Candidate("vanilla", {}, 0, answers, paired=paired)], y.numpy(), cross.fold, ["vanilla"]
        )
        assert (learns.more_rows(0) > 0.01) == gains
        assert learns.more_rows(0) >= 0
    assert (
        CrossFit(Bernoulli(), [Candidate("vanilla", {}, 0, sure)], y.numpy(), cross.fold, ["vanilla"]).more_rows(0) == 0
    )


def test_groups_and_weights_decide_how_far_a_loss_is_known():
    _, cross = shown_and_true(2)
    gap = np.random.default_rng(0).normal(size=60)
    alone = cross._standard_error(gap)
    assert alone == pytest.approx(gap.std(ddof=1) / np.sqrt(60))
    grouped = CrossFit(
        Bernoulli(), cross.candidates, cross.target.numpy(), cross.fold, cross.preferred, np.arange(60) // 2
    )
    assert grouped._standard_error(np.repeat(gap[:30], 2)) > 1.3 * cross._standard_error(np.repeat(gap[:30], 2))
