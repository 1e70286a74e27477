"""When synergy is claimed, when it is denied, and when one cannot tell."""

import json

import numpy as np
import pytest

from synib.measure import Estimate
from synib.own.verdict import Planted, Reliance, Verdict, answer, over, sentences


def e(value, half, n=1000):
    return Estimate(value, value - half, value + half, n)


@pytest.mark.parametrize(
    ("evidence", "lead", "tried", "told"),
    [
        (e(0.2, 0.05), e(0.1, 0.02), 4, "present"),
        (e(0.2, 0.19), e(0.1, 0.02), 1, "present"),
        (e(0.2, 0.19), e(0.1, 0.02), 4, "unclear"),  # the best of four must be surer
        (e(0.2, 0.05), e(-0.1, 0.02), 4, "absent"),  # likelihood alone, and accuracy objects
        (e(0.2, 0.05), e(0.005, 0.01), 4, "absent"),  # surer, and not more often right
        (e(0.2, 0.05), e(0.015, 0.02), 4, "unclear"),
        (e(0.0, 0.01), e(0.0, 0.01), 4, "absent"),
        (e(0.0, 0.05), e(0.0, 0.05), 4, "unclear"),
        (e(-0.1, 0.05), e(-0.05, 0.02), 4, "absent"),
    ],
)
def test_the_answer(evidence, lead, tried, told):
    assert answer(evidence, lead, tried) == told


def test_a_lead_is_the_mean_difference_and_leaves_out_rows_that_were_not_asked():
    rng = np.random.default_rng(0)
    ours, theirs = (rng.random((2, 500)) < p for p in (0.8, 0.6))
    ours, theirs = ours.astype(float), theirs.astype(float)
    ours[:, :100] = np.nan
    found = over(ours, theirs, None)
    assert found.value == pytest.approx((ours - theirs)[:, 100:].mean())
    assert found.n == 400
    assert found.low < 0.2 < found.high


def test_groups_that_share_their_luck_widen_the_interval():
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(20), 30).astype(str)
    luck = rng.random(20)[np.arange(600) // 30]
    ours = (rng.random(600) < luck).astype(float)
    alone, together = over(ours, np.zeros(600), None), over(ours, np.zeros(600), group)
    assert together.value == pytest.approx(alone.value)
    assert together.n == 600
    assert together.high - together.low > 2 * (alone.high - alone.low)


def test_what_is_no_share_may_be_below_zero():
    found = over(np.full(50, -3.0) + np.arange(50) / 50, np.zeros(50), None)
    assert found.high < -2


@pytest.mark.parametrize(
    ("told", "best", "gain", "found", "words"),
    [
        (
            "present",
            "products",
            e(0.1, 0.01),
            e(0.0, 0.01),
            [
                "There is synergy",
                "Plain fusion does not show it",
                "products of two modalities' numbers",
                "SynIB is better",
            ],
        ),
        (
            "present",
            "experts",
            e(0.0, 0.01),
            e(0.1, 0.01),
            ["There is synergy", "Plain fusion finds it", "gains nothing worth having"],
        ),
        ("absent", "products", e(-0.1, 0.01), e(0.0, 0.01), ["No synergy was found", "keep plain fusion"]),
        ("unclear", "vanilla", e(0.0, 0.1), e(0.0, 0.01), ["From 300 rows one cannot tell", "cannot be told"]),
    ],
)
def test_sentences_say_what_intervals_say(told, best, gain, found, words):
    said = " ".join(sentences(told, e(0.05, 0.01), best, None, e(0.03, 0.01), gain, found, "accuracy", 300))
    assert "planted" not in said
    assert all(word in said for word in words)
    assert ("products" in said) == (told == "present" and best == "products")
    assert "Pooling helps" in said
    assert "[" in said


@pytest.mark.parametrize(
    ("planted", "measure", "words"),
    [
        (
            Planted(8, 9),
            "accuracy",
            "It would show: an interaction of two modalities worth 20 points, planted into the rows that have both, was found",
        ),
        (Planted(7, 10, ("a", "c")), "accuracy", "It would hardly show: an interaction of a and c worth 20 points"),
        (Planted(0, 0), "accuracy", "No two modalities vary in the same rows"),
        (
            Planted(0, 3, ("a", "b")),
            "explained variance",
            "It would hardly show: an interaction of a and b worth 20% of the variance",
        ),
    ],
)
def test_sentences_say_whether_it_would_have_been_found(planted, measure, words):
    told = "absent" if planted.seen else "unclear"
    said = sentences(told, e(0.0, 0.01), "vanilla", planted, e(0.0, 0.01), e(0.0, 0.01), e(0.0, 0.01), measure, 300)
    assert said[1].startswith(words)


def test_for_scripts_there_are_plain_values():
    lost = {"a": Reliance(e(0.1, 0.01), e(0.2, 0.01)), "b": Reliance(e(0.0, 0.01), Estimate(np.nan, np.nan, np.nan, 0))}
    one = Verdict(
        "absent", e(0.0, 0.01), Planted(8, 9), e(0.0, 0.01), e(0.01, 0.02), e(0.0, 0.1), {"vanilla": lost}, [], ["No."]
    )
    plain = json.loads(json.dumps(one.plain(), allow_nan=False))
    assert plain["synergy"] == "absent"
    assert plain["planted"] == {"found": 8, "of": 9, "unseen": None, "worth": 0.2}
    assert plain["gain"] == {"mean": 0.01, "low": -0.01, "high": 0.03, "n": 1000}
    assert plain["modalities"]["a"]["vanilla"]["accuracy"]["mean"] == 0.1
    assert plain["modalities"]["b"]["vanilla"]["confidence"]["mean"] is None
    assert plain["shortcuts"] == []
