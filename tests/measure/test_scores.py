"""Ordinary scores, calibration, and both under corruption."""

import math
import sys

import numpy as np
import pytest
import torch
from torch import nn

from synib import Bernoulli, Categorical, FusionModel, Gaussian, StandardNoise, Tokens
from synib.measure.corruption import scores_under_corruption
from synib.measure.scores import calibration, scores

pytest.importorskip("torchmetrics")
N = 120


@pytest.fixture
def case():
    y = torch.randint(3, (N,))
    return torch.randn(N, 3) + 1.5 * torch.eye(3)[y], y


def test_scores_are_scikit_learns(case):
    metrics = pytest.importorskip("sklearn.metrics")
    logits, y = case
    told = scores(logits, y, resamples=20)
    labels, p = logits.argmax(1), logits.double().softmax(1)
    assert told.accuracy.value == pytest.approx(metrics.accuracy_score(y, labels))
    assert [one.value for one in told.f1] == pytest.approx(metrics.f1_score(y, labels, average=None).tolist())
    assert told.macro_f1.value == pytest.approx(metrics.f1_score(y, labels, average="macro"))
    assert told.auroc.value == pytest.approx(metrics.roc_auc_score(y, p, multi_class="ovr"))
    assert told.confidence.value == pytest.approx(p.max(1).values.mean().item())
    assert told.note == ""
    for one in (told.accuracy, told.macro_f1, told.auroc, told.ece, told.confidence, *told.f1):
        assert one.low < one.value + 0.05
        assert one.low < one.high
        assert one.n == N


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_scored(case, dtype):
    half = case[0].to(dtype)
    assert scores(half, case[1], resamples=5) == scores(half.float(), case[1], resamples=5)


def test_a_bernoulli_is_scored_as_one_of_two_classes(case):
    logit, y = case[0][:, 0], case[1] == 0
    two = scores(torch.stack([torch.zeros(N), logit], 1), y.long(), Categorical(), resamples=20)
    assert scores(logit, y.long(), Bernoulli(), resamples=20) == two
    assert scores(logit[:, None].numpy(), y.numpy().astype(float)[:, None], Bernoulli(), resamples=20) == two
    assert len(two.f1) == 2


def test_ece_is_that_of_the_calibration_bins_even_where_a_model_is_certain(case):
    logits, y = case
    for size in (1.0, 100.0):
        assert scores(size * logits, y, resamples=5).ece.value == pytest.approx(
            calibration(size * logits, y, resamples=5).error, abs=1e-6
        )


def test_certain_and_nearly_certain_predictions_share_the_last_bin():
    p = torch.tensor([100.0, math.log(97 / 3)] * 20)
    y = torch.tensor([0, 1] * 20)
    merged = (1 + 0.97) / 2 - 0.5  # in bins of their own: (1 + .03) / 2
    assert scores(p, y, Bernoulli(), resamples=5).ece.value == pytest.approx(merged, abs=1e-5)
    assert calibration(p, y, family=Bernoulli(), resamples=5).error == pytest.approx(merged)


def test_a_certain_model_that_is_half_right_has_an_ece_of_one_half():
    y = torch.arange(40) % 2
    told = scores(torch.full((40,), 50.0), y, Bernoulli(), resamples=20)
    assert told.ece.value == pytest.approx(0.5, abs=1e-5)
    assert told.confidence.value == pytest.approx(1.0)
    assert told.f1[0].value == 0.0
    assert told.macro_f1.value == pytest.approx(1 / 3)


def test_an_absent_class_gives_nan_with_a_reason(case):
    logits, _ = case
    y = torch.arange(N) % 2
    told = scores(logits, y, resamples=5)
    assert math.isnan(told.auroc.value)
    assert told.note == "AUROC is NaN: class 2 has no examples."
    assert told.note in str(told)
    assert told.f1[2].value == 0.0  # predicted where it never was
    never = logits.clone()
    never[:, 2] = -50.0
    told = scores(never, y, resamples=5)
    assert math.isnan(told.f1[2].value)
    assert told.macro_f1.value == pytest.approx((told.f1[0].value + told.f1[1].value) / 2)


def test_a_class_so_rare_that_resamples_lack_it_still_has_an_interval():
    y = torch.zeros(30, dtype=torch.long)
    y[0] = 1
    logits = torch.randn(30, 2)
    told = scores(logits, y, resamples=40)
    assert 0 <= told.auroc.low <= told.auroc.value <= told.auroc.high <= 1
    assert not math.isnan(told.f1[1].low)


# Calibration


def test_an_ece_lies_in_its_interval_which_often_reaches_zero_for_a_calibrated_model():
    """Percentiles of resamples, which add noise to noise, never reach it."""
    inside = []
    for s in range(40):
        rng = np.random.default_rng(s)
        p = torch.from_numpy(rng.uniform(0.05, 0.95, 200))
        y = torch.from_numpy((rng.random(200) < p.numpy()).astype(int))
        one = scores(torch.logit(p), y, Bernoulli(), resamples=40).ece
        assert 0 <= one.low <= one.value <= one.high <= 1
        inside.append(one.low == 0)
    assert np.mean(inside) > 0.4


def test_the_ece_of_a_model_that_is_far_off_is_known_well():
    y = torch.arange(400) % 2
    one = scores(torch.full((400,), 50.0), y, Bernoulli(), resamples=100).ece
    assert one.high - one.low == pytest.approx(2 * 1.96 * (0.25 / 400) ** 0.5, rel=0.3)
    assert one.low < 0.5 < one.high


def test_all_right_is_no_certainty_of_accuracy():
    y = torch.arange(40) % 2
    told = scores(2.0 * y - 1, y, Bernoulli(), resamples=5)
    assert (told.accuracy.low, told.accuracy.high) == pytest.approx((0.025 ** (1 / 40), 1.0))
    filled = [one for one in calibration(2.0 * y - 1, y, family=Bernoulli(), resamples=5).accuracy if one.n]
    assert filled == [told.accuracy]


def test_bins_hold_what_lies_in_them():
    p = torch.tensor([0.50, 0.60, 0.61, 0.69, 0.95], dtype=torch.float64)  # a half belongs to the bin it begins
    p[1] -= 1e-9
    told = calibration(torch.logit(p), torch.tensor([0, 0, 1, 1, 1]), bins=10, family=Bernoulli())
    assert told.count.tolist() == [0, 0, 0, 0, 0, 2, 2, 0, 0, 1]
    assert told.confidence[[5, 6, 9]] == pytest.approx([0.55, 0.65, 0.95], abs=1e-6)
    assert [told.accuracy[b].value for b in (5, 6, 9)] == [0.5, 1.0, 1.0]
    assert math.isnan(told.confidence[0])
    assert math.isnan(told.accuracy[0].value)
    assert told.error == pytest.approx((2 * 0.05 + 2 * 0.35 + 0.05) / 5, abs=1e-6)
    assert told.edges.tolist() == pytest.approx(np.linspace(0, 1, 11).tolist())
    assert str(told).count("\n") == 3


def test_a_calibrated_model_has_a_small_error_and_bins_on_the_diagonal():
    p = torch.rand(4000)
    told = calibration(torch.logit(p), (torch.rand(4000) < p).long(), family=Bernoulli(), resamples=200)
    assert told.error < 0.04
    inside = [
        a.low - 0.02 <= c <= a.high + 0.02
        for a, c, n in zip(told.accuracy, told.confidence, told.count, strict=True)
        if n
    ]
    assert all(inside)


# Under corruption


def product(x):
    """A model that is nothing but interaction."""
    return 4 * x["a"][:, 0] * x["b"][:, 0]


def signs(n=400):
    x = {m: torch.randint(2, (n, 1)) * 2.0 - 1 for m in "ab"}
    return x, (x["a"] * x["b"] > 0)[:, 0].long()


def test_each_draw_is_scored_by_itself_and_not_an_average():
    """A pure interaction is wrong half of the time with a swapped modality, and as sure as ever."""
    x, y = signs()
    told = scores_under_corruption(product, x, y, family=Bernoulli(), draws=3, resamples=20)
    assert told.intact.accuracy.value == 1.0
    for name in "ab":
        one = told.corrupted[name]
        assert one.accuracy.value == pytest.approx(0.5, abs=0.1)
        assert one.confidence.value == pytest.approx(torch.sigmoid(torch.tensor(4.0)).item())
        assert one.ece.value > 0.35
        assert one.accuracy.n == 400
        assert told.calibration[name].count.sum() == 3 * 400
    assert told.calibration[""].count.sum() == 400


def test_noise_that_does_not_look_like_data_tells_a_model_that_notices():
    """The same model: unsure of what it never saw, as sure as ever of a swapped pair."""
    x, y = signs()

    def careful(x):
        seen = (x["a"].abs() == 1) & (x["b"].abs() == 1)
        return product(x) * seen[:, 0]

    swapped, gone = (
        scores_under_corruption(careful, x, y, noise, family=Bernoulli(), draws=2, resamples=5).corrupted["a"]
        for noise in (None, StandardNoise())
    )
    assert swapped.accuracy.value == pytest.approx(gone.accuracy.value, abs=0.1) == pytest.approx(0.5, abs=0.1)
    assert swapped.confidence.value > 0.95
    assert gone.confidence.value == pytest.approx(0.5)


def test_a_modality_that_a_model_does_not_use_can_be_corrupted_without_effect():
    x, _ = signs()
    y = (x["a"][:, 0] > 0).long()
    told = scores_under_corruption(lambda x: 3 * x["a"], x, y, family=Bernoulli(), draws=2, resamples=20)
    without = told.corrupted["b"]
    assert (without.accuracy, without.auroc, without.f1) == (told.intact.accuracy, told.intact.auroc, told.intact.f1)
    assert without.ece.value == pytest.approx(told.intact.ece.value, abs=1e-5)
    assert told.corrupted["a"].accuracy.value < 0.65


@pytest.mark.parametrize("noise", [None, StandardNoise()])
@pytest.mark.parametrize("chunk", [7, 1000])
def test_a_fusion_model_gives_what_a_plain_callable_gives(noise, chunk):
    model = FusionModel.mlp({"a": 3, "b": 2}, hidden=[8], classes=3, dropout=0.5)
    x = {"a": torch.randn(60, 3), "b": torch.randn(60, 2)}
    y = torch.arange(60) % 3
    model.eval()
    plain = scores_under_corruption(lambda m: model(m), x, y, noise, draws=2, resamples=5)
    model.train()
    model.heads.eval()
    told = scores_under_corruption(model, x, y, noise, draws=2, resamples=5, chunk=chunk)
    assert model.training
    assert model.encoders.training
    assert not model.heads.training
    for name in "ab":
        assert told.corrupted[name].auroc.value == pytest.approx(plain.corrupted[name].auroc.value)
        assert told.corrupted[name].ece.value == pytest.approx(plain.corrupted[name].ece.value, abs=1e-5)
    assert told.intact.confidence.value == pytest.approx(plain.intact.confidence.value)


def test_encoders_run_once_where_rows_are_swapped():
    calls = []

    class Counting(nn.Linear):
        def forward(self, x):
            calls.append(len(x))
            return super().forward(x)

    model = FusionModel.mlp({"a": 3, "b": 3}, hidden=[4], classes=2)
    model.encoders["a"] = nn.Sequential(Counting(3, 4), nn.ReLU())
    x = {m: torch.randn(50, 3) for m in "ab"}
    scores_under_corruption(model, x, torch.arange(50) % 2, draws=4, resamples=2)
    assert calls == [50]


def test_swapped_tokens_bring_their_padding():
    """A model that counts tokens sees another example's count, not its own."""
    count = torch.arange(40) % 2
    padding = torch.stack([torch.zeros(40, dtype=torch.bool), count == 0], 1)
    x = {"t": Tokens(torch.ones(40, 2, 1), padding), "v": torch.zeros(40, 1)}
    told = scores_under_corruption(
        lambda m: 4.0 * (~m["t"].padding).sum(1) - 6.0, x, count, family=Bernoulli(), draws=3, resamples=5
    )
    assert told.intact.accuracy.value == 1.0
    assert told.corrupted["t"].accuracy.value < 0.8


def test_the_seed_decides_the_draws_and_torchs_own_generator_is_left_alone():
    x, y = signs(60)
    state = torch.get_rng_state()
    one, same, other = (
        scores_under_corruption(product, x, y, family=Bernoulli(), resamples=5, seed=s).corrupted["a"].accuracy.value
        for s in (0, 0, 1)
    )
    assert torch.equal(torch.get_rng_state(), state)
    assert one == same != other
    single = scores_under_corruption(product, x, y, family=Bernoulli(), resamples=5, draws=1)
    assert single.corrupted["a"].accuracy.value != one  # four draws are not four times the same


def test_it_reads_as_a_table():
    x, y = signs(60)
    lines = str(scores_under_corruption(product, x, y, family=Bernoulli(), resamples=5)).splitlines()
    assert [line.split("  ")[0] for line in lines[1:]] == ["intact     ", "a corrupted", "b corrupted"] or len(
        lines
    ) == 4
    assert lines[1].startswith("intact")
    assert lines[3].startswith("b corrupted")
    assert "accuracy    1.000" in str(scores(product(x), y, Bernoulli(), resamples=5))


# Mistakes


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((torch.zeros(4, 3), torch.zeros(5, dtype=torch.long)), "expects 4 whole class numbers"),
        ((torch.zeros(4), torch.zeros(4, dtype=torch.long)), "For a single logit use Bernoulli"),
        ((torch.zeros(4, 2), torch.full((4,), 2)), "classes 0 to 1; got 2"),
        ((torch.zeros(4, 2), torch.zeros(4, 1), Gaussian()), r"Bernoulli\(\) or Categorical\(\); got Gaussian"),
        ((torch.zeros(0, 2), torch.zeros(0, dtype=torch.long)), "at least one example; got none"),
        ((torch.full((4, 2), math.inf), torch.zeros(4, dtype=torch.long)), "finite; 8 numbers are not"),
    ],
)
def test_a_mistake_gets_one_sentence(arguments, says):
    with pytest.raises(ValueError, match=says):
        scores(*arguments)


def test_mistakes_elsewhere_get_one_sentence_too():
    x, y = signs(10)
    with pytest.raises(ValueError, match="bins is at least 1; got 0"):
        calibration(product(x), y, 0, Bernoulli())
    with pytest.raises(ValueError, match="draws is at least 1; got 0"):
        scores_under_corruption(product, x, y, draws=0)
    with pytest.raises(ValueError, match="one target for each of 10 examples"):
        scores_under_corruption(product, x, y[:5], family=Bernoulli())


def test_without_torchmetrics_a_sentence_says_what_to_install(monkeypatch, case):
    monkeypatch.setitem(sys.modules, "torchmetrics.functional", None)
    with pytest.raises(ImportError, match=r"Scores need torchmetrics: pip install synib\[audit\]"):
        scores(*case)
