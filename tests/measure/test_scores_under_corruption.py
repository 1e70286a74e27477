"""Scores and calibration with a modality corrupted."""

import pytest
import torch

from synib import Bernoulli, StandardNoise, Tokens
from synib.measure import scores_under_corruption

pytest.importorskip("torchmetrics")


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


@pytest.mark.parametrize("chunk", [7, 1000])
def test_tokens_can_be_replaced_by_noise_and_keep_their_own_padding(chunk):
    padding = torch.rand(40, 2) > 0.5
    x = {"t": Tokens(torch.ones(40, 2, 1), padding), "v": torch.zeros(40, 1)}
    count = (~padding).sum(1) == 2
    told = scores_under_corruption(
        lambda m: 4.0 * (~m["t"].padding).sum(1) - 6.0, x, count, StandardNoise(), family=Bernoulli(), resamples=5,
        chunk=chunk,
    )  # fmt: skip
    assert told.corrupted["t"].accuracy.value == told.intact.accuracy.value == 1.0


class Remembers(StandardNoise):
    """Notes the mode in which it draws."""

    def forward(self, *arguments, **settings):
        self.mode = self.training
        return super().forward(*arguments, **settings)


def test_noise_draws_in_evaluation_mode_and_has_its_mode_back():
    noise = Remembers()
    x = {"a": torch.randn(10, 2), "b": torch.randn(10, 2)}
    scores_under_corruption(lambda x: x["a"] + x["b"], x, torch.arange(10) % 2, noise, draws=1, resamples=2)
    assert (noise.mode, noise.training) == (False, True)
