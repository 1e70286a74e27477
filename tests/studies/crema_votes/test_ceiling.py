"""Ceilings from the joint votes: raters who agree, raters who do not, and levels with known noise."""

import numpy as np
import pytest

from synib.studies.crema_votes.ceiling import explainable_variance, halves_agree, redrawn_agree
from synib.studies.crema_votes.data import Votes


def test_unanimous_raters_predict_each_other():
    counts = np.eye(6, dtype=np.int64) * 10
    assert halves_agree(counts) == redrawn_agree(counts) == 1.0


def test_raters_who_choose_at_random_hardly_predict_each_other_although_redrawn_ones_seem_to():
    rng = np.random.default_rng(1)
    counts = rng.multinomial(10, [1 / 6] * 6, size=1000)
    unique = (counts == counts.max(1, keepdims=True)).sum(1) == 1
    low, high = halves_agree(counts), redrawn_agree(counts[unique])
    assert low == pytest.approx(1 / 6, abs=0.03)
    assert low < high < 0.8


def test_the_true_winner_lies_between_both_ceilings():
    rng = np.random.default_rng(2)
    true = rng.dirichlet([0.4] * 6, size=2000)
    counts = rng.multinomial(10, true)
    unique = (counts == counts.max(1, keepdims=True)).sum(1) == 1
    best = (counts.argmax(1) == true.argmax(1))[unique].mean()
    assert halves_agree(counts) < best < redrawn_agree(counts[unique])


@pytest.mark.parametrize("gap", [0.0, 15.0])
def test_explainable_variance_is_known_where_raters_have_known_noise(gap):
    """Also if the raters of the winner give higher levels."""
    rng, clips, raters = np.random.default_rng(3), 4000, 10
    true = rng.normal(60, 8, clips)
    counts = np.zeros((clips, 6))
    each = np.full((clips, 6), np.nan)
    for i in range(clips):
        chosen = rng.choice(6, size=raters, p=[0.5, 0.1, 0.1, 0.1, 0.1, 0.1])
        counts[i] = np.bincount(chosen, minlength=6)
        levels = true[i] + rng.normal(0, 20, raters) + gap * (chosen == counts[i].argmax())
        for emotion in set(chosen.tolist()):
            each[i, emotion] = levels[chosen == emotion].mean()
    mean = np.nansum(counts * each, 1) / raters
    votes = Votes([0] * clips, {"both": counts}, {"both": mean}, {"both": each})
    found = explainable_variance(votes, np.arange(clips))
    assert found == pytest.approx(1 - 40 / mean.var(), abs=0.05)
