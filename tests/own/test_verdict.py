"""The verdict in sentences and as plain values."""

import json

import numpy as np
import pytest

from synib.measure import Estimate
from synib.own import sentences
from synib.own.evidence import Candidate, Evidence
from synib.own.learning_curve import LearningCurve
from synib.own.reliance import Reliance
from synib.own.verdict import Recommendation, Verdict

SIZES = {"product": 0.05, "lookup": 0.12, "gate": 0.061}


def e(value, half, n=1000):
    return Estimate(value, value - half, value + half, n)


def evidence(lead=0.05, name="products-16"):
    one = Candidate(e(0.1, 0.05), 0.001, e(lead, 0.01), e(lead, 0.02), e(0.8, 0.01))
    return Evidence(np.arange(3), {name: one}, e(0.7, 0.01), np.ones(3), {}, 2.5)


GOOD = LearningCurve(e(0.0, 0.01), e(0.0, 0.01), e(0.05, 0.01))
SHORT = LearningCurve(e(-0.05, 0.01), e(0.0, 0.01), e(0.05, 0.01))


def test_sentences_on_synergy_have_size_interval_and_number_of_rows():
    (present,) = sentences.on_synergy("present", evidence(), {}, "accuracy")
    assert (
        "a regression on products of two modalities' features exceeds the best additive model by +5.0 points" in present
    )
    assert "(95 % CI +4.0 to +6.0, n = 1,000)" in present
    absent = sentences.on_synergy("absent", evidence(0.0, "vanilla"), SIZES, "accuracy")
    assert "No synergy of 12.0 points or more in accuracy" in absent[0]
    assert "gains less than 2.0 points" in absent[0]
    assert (
        "a product of two directions of 5.0 points, a lookup table over clusters of 12.0 points or a gate of 6.1"
        in absent[1]
    )
    assert "another kind, a larger model or more data" in absent[2]
    unclear = sentences.on_synergy("unclear", evidence(0.0, "experts"), SIZES | {"gate": None}, "accuracy")
    assert "Inconclusive: the strongest candidate is SynIB, with +0.0 points" in unclear[0]
    assert "a gate would not have been detected reliably" in unclear[1]
    nothing = sentences.on_synergy("unclear", evidence(0.0), dict.fromkeys(SIZES), "accuracy")
    assert "more rows are needed" in nothing[1]
    number = sentences.on_synergy("absent", evidence(0.0), SIZES, "explained variance")
    assert "12 % of the variance" in number[0]


@pytest.mark.parametrize(
    ("gain", "curve", "words"),
    [
        (e(0.1, 0.01), GOOD, "SynIB is better than the same estimator with weight 0: +10.0 points"),
        (e(-0.1, 0.01), GOOD, "SynIB is worse than the same estimator with weight 0"),
        (e(0.0, 0.05), GOOD, "do not show that SynIB is better than the same estimator with weight 0"),
        (e(0.1, 0.01), SHORT, "not trained to convergence: twice the epochs lowers its validation log-loss by 0.050"),
        (e(0.1, 0.01), None, "too few models to judge plain fusion or SynIB; run without --quick"),
    ],
)
def test_methods_are_judged_where_they_were_trained_well_enough(gain, curve, words):
    text = " ".join(sentences.on_methods("present", e(0.05, 0.01), gain, e(0.2, 0.01), curve, "accuracy", "stacked"))
    assert words in text
    assert ("Its gain over one plain fusion network is +20.0 points" in text) == (curve is GOOD)
    assert ("Plain fusion learns at least part of it" in text) == (curve is GOOD)


def test_sentences_on_pooling_and_chance_follow_their_intervals():
    assert "is better than a alone by +3.0 points" in sentences.on_pooling(e(0.03, 0.01), "a", "accuracy")
    assert "has no relevant gain over a alone" in sentences.on_pooling(e(0.0, 0.01), "a", "accuracy")
    assert "do not show whether" in sentences.on_pooling(e(0.0, 0.1), "a", "accuracy")
    assert sentences.on_chance(e(0.8, 0.1), e(0.5, 0.1), e(0.3, 0.1), "accuracy") == []
    (warning,) = sentences.on_chance(e(0.52, 0.1), e(0.55, 0.1), e(-0.03, 0.1), "accuracy")
    assert "the best has accuracy 0.520, a constant one 0.550" in warning


@pytest.mark.parametrize(
    ("synergy", "gain", "pooling", "plain", "curve", "method"),
    [
        ("present", e(0.1, 0.01), e(0.0, 0.01), e(0.0, 0.01), GOOD, "synib"),
        ("present", e(0.0, 0.01), e(0.0, 0.01), e(0.1, 0.01), GOOD, "vanilla"),
        ("present", e(0.1, 0.01), e(0.0, 0.01), e(0.0, 0.01), SHORT, "auto"),
        ("absent", e(0.0, 0.01), e(0.1, 0.01), e(0.0, 0.01), GOOD, "additive"),
        ("absent", e(0.0, 0.01), e(0.0, 0.01), e(0.0, 0.01), GOOD, "unimodal-a"),
        ("unclear", e(0.0, 0.1), e(0.0, 0.1), e(0.0, 0.1), GOOD, "auto"),
        ("unclear", Estimate(np.nan, np.nan, np.nan, 9), e(0.0, 0.1), e(0.0, 0.1), None, "auto"),
    ],
)
def test_the_recommendation_follows_the_verdict(synergy, gain, pooling, plain, curve, method):
    assert sentences.recommend(synergy, gain, pooling, plain, curve, "a").method == method


def test_for_scripts_there_are_plain_values():
    lost = {"a": Reliance(e(0.1, 0.01), e(0.2, 0.01)), "b": Reliance(e(0.0, 0.01), Estimate(np.nan, np.nan, np.nan, 0))}
    verdict = Verdict(
        synergy="absent",
        metric="accuracy",
        best="vanilla",
        interaction=e(0.0, 0.01),
        candidates=evidence().candidates,
        detectable=SIZES | {"gate": None},
        pooling=e(0.0, 0.01),
        plain_fusion=e(0.0, 0.1),
        gain=e(0.01, 0.02),
        gain_over_vanilla=e(0.02, 0.02),
        chance=e(0.5, 0.1),
        curve=SHORT,
        recommendation=Recommendation("additive", "Because."),
        reliance={"vanilla": lost},
        shortcuts=[],
        sentences=["No."],
    )
    plain = json.loads(json.dumps(verdict.plain(), allow_nan=False))
    assert plain["synergy"] == "absent"
    assert plain["detectable"] == {"product": 5.0, "lookup": 12.0, "gate": None}
    assert plain["gain"] == {"mean": 0.01, "low": -0.01, "high": 0.03, "n": 1000}
    assert plain["learning_curve"]["adequate"] is False
    assert plain["recommendation"] == {"method": "additive", "why": "Because."}
    assert plain["modalities"]["a"]["vanilla"]["score"]["mean"] == 0.1
    assert plain["modalities"]["b"]["vanilla"]["confidence"]["mean"] is None
    assert plain["shortcuts"] == []
