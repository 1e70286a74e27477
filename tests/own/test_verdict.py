"""The verdict in sentences and as plain values."""

import json

import numpy as np
import pytest

from synib.measure import Estimate
from synib.own import sentences
from synib.own.claims import ABOVE_CHANCE, GAIN, LEARNS, LEARNS_LITTLE, NO_POOLING, POOLING, Claims
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


SURE = Claims(dict.fromkeys((POOLING, NO_POOLING, GAIN, LEARNS, LEARNS_LITTLE, ABOVE_CHANCE), 1e-6))
NOTHING = Claims(dict.fromkeys((POOLING, NO_POOLING, GAIN, LEARNS, LEARNS_LITTLE, ABOVE_CHANCE), 0.5))
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
    ("gain", "curve", "claims", "words"),
    [
        (e(0.1, 0.01), GOOD, SURE, "SynIB is better than the same estimator with weight 0: +10.0 points"),
        (e(-0.1, 0.01), GOOD, SURE, "SynIB is worse than the same estimator with weight 0"),
        (e(0.0, 0.05), GOOD, NOTHING, "do not show that SynIB is better than the same estimator with weight 0"),
        (
            e(0.1, 0.01),
            SHORT,
            NOTHING,
            "not trained to convergence: twice the epochs lowers its validation log-loss by 0.050",
        ),
        (e(0.1, 0.01), None, NOTHING, "too few models to evaluate plain fusion or SynIB; run without --quick"),
    ],
)
def test_methods_are_judged_where_they_were_trained_well_enough(gain, curve, claims, words):
    plain = e(0.05, 0.01)
    text = " ".join(sentences.on_methods("present", plain, gain, e(0.2, 0.01), curve, claims, "accuracy", "stacked"))
    assert words in text
    assert ("Its gain over one plain fusion network is +20.0 points" in text) == (curve is GOOD)
    assert ("Plain fusion learns at least part of it" in text) == (curve is GOOD and claims is SURE)


@pytest.mark.parametrize(
    ("plain", "claims", "words"),
    [
        (e(0.05, 0.01), SURE, "Plain fusion learns at least part of it"),
        (e(0.0, 0.01), SURE, "Plain fusion learns little or nothing of it"),
        (e(0.01, 0.06), NOTHING, "These rows do not show whether plain fusion learns it"),
        (e(0.05, 0.06), NOTHING, "These rows do not show whether plain fusion learns it"),
    ],
)
def test_that_plain_fusion_learns_nothing_is_claimed_only_where_that_is_shown(plain, claims, words):
    gain = e(0.0, 0.05)
    assert words in sentences.on_methods("present", plain, gain, gain, GOOD, claims, "accuracy", "stacked")[0]


def test_sentences_on_pooling_and_chance_follow_their_claims():
    assert "is better than a alone by +3.0 points" in sentences.on_pooling(e(0.03, 0.01), "a", SURE, "accuracy")
    small = Claims({POOLING: 0.9, NO_POOLING: 1e-6})
    assert "has no relevant gain over a alone" in sentences.on_pooling(e(0.0, 0.01), "a", small, "accuracy")
    assert "do not show whether" in sentences.on_pooling(e(0.0, 0.1), "a", NOTHING, "accuracy")
    assert sentences.on_chance(e(0.8, 0.1), e(0.5, 0.1), SURE, "accuracy") == []
    (warning,) = sentences.on_chance(e(0.52, 0.1), e(0.55, 0.1), NOTHING, "accuracy")
    assert "the best model has accuracy 0.520, a constant prediction 0.550" in warning


def test_a_claim_that_does_not_survive_the_correction_is_not_made_and_the_sentence_says_why():
    claims = Claims({POOLING: 0.03, NO_POOLING: 0.9, ABOVE_CHANCE: 1e-6})
    text = sentences.on_pooling(e(0.03, 0.02), "a", claims, "accuracy")
    assert "do not show whether" in text
    assert "adjusted p = 0.06 for 3 claims (Holm)" in text
    assert Claims({POOLING: 0.03}).hold(POOLING)
    assert not Claims({}).hold(POOLING)


PRESENT = Claims({GAIN: 1e-6, LEARNS: 0.5, POOLING: 0.5})


@pytest.mark.parametrize(
    ("synergy", "gain", "plain", "claims", "method"),
    [
        ("present", e(0.1, 0.01), e(0.0, 0.01), PRESENT, "synib"),
        ("present", e(0.0, 0.01), e(0.1, 0.01), Claims({GAIN: 0.9, LEARNS: 1e-6}), "vanilla"),
        ("present", e(0.1, 0.01), e(0.0, 0.01), Claims({POOLING: 0.5}), "auto"),
        ("absent", e(0.0, 0.01), e(0.0, 0.01), Claims({POOLING: 1e-6, NO_POOLING: 0.9}), "additive"),
        ("absent", e(0.0, 0.01), e(0.0, 0.01), Claims({POOLING: 0.8, NO_POOLING: 1e-6}), "unimodal-a"),
        ("unclear", e(0.0, 0.1), e(0.0, 0.1), NOTHING, "auto"),
        ("unclear", Estimate(np.nan, np.nan, np.nan, 9), e(0.0, 0.1), NOTHING, "auto"),
    ],
)
def test_the_recommendation_follows_the_verdict(synergy, gain, plain, claims, method):
    assert sentences.recommend(synergy, gain, plain, claims, "a").method == method


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
        claims=SURE,
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
    assert plain["claims"][POOLING] == pytest.approx(6e-6)
    assert plain["learning_curve"]["adequate"] is False
    assert plain["recommendation"] == {"method": "additive", "why": "Because."}
    assert plain["modalities"]["a"]["vanilla"]["score"]["mean"] == 0.1
    assert plain["modalities"]["b"]["vanilla"]["confidence"]["mean"] is None
    assert plain["shortcuts"] == []
