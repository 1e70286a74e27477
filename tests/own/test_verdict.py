"""The verdict in words and as plain values."""

import json
import re

import numpy as np
import pytest

from synib.measure import Estimate
from synib.own.planted import Planted
from synib.own.reliance import Reliance
from synib.own.verdict import Verdict, sentences


def e(value, half, n=1000):
    return Estimate(value, value - half, value + half, n)


@pytest.mark.parametrize(
    ("synergy", "best", "gain", "found", "words"),
    [
        ("present", "products", e(0.1, 0.01), e(0.0, 0.01), ["There is synergy", "does not show it", "SynIB is better"]),
        ("present", "experts", e(0.0, 0.01), e(0.1, 0.01), ["There is synergy", "Plain fusion finds it", "gains nothing"]),
        ("absent", "products", e(-0.1, 0.01), e(0.0, 0.01), ["No synergy was found", "keep plain fusion"]),
        ("unclear", "vanilla", e(0.0, 0.1), e(0.0, 0.01), ["Inconclusive", "n = 300", "do not show whether SynIB"]),
    ],
)  # fmt: skip
def test_sentences_say_what_intervals_say(synergy, best, gain, found, words):
    text = " ".join(sentences(synergy, e(0.05, 0.01), best, None, e(0.03, 0.01), gain, found, "accuracy", 300))
    assert all(word in text for word in words)
    assert ("products" in text) == (synergy == "present" and best == "products")
    assert "beats the best single modality (accuracy +0.030 [+0.020, +0.040])" in text
    assert "artificial" not in text


@pytest.mark.parametrize(
    ("planted", "measure", "words"),
    [
        (Planted(8, 9), "accuracy", "This test was sensitive enough: .* of two modalities worth 20 points .* 8 of 9 tries"),
        (Planted(7, 10, ("a", "c")), "accuracy", "This test was not sensitive enough: .* of a and c worth 20 points"),
        (Planted(0, 0), "accuracy", "interactions cannot be tested"),
        (Planted(0, 3, ("a", "b")), "explained variance", "not sensitive enough: .* worth 20% of the variance"),
    ],
)  # fmt: skip
def test_sentences_say_whether_an_interaction_would_have_been_detected(planted, measure, words):
    synergy, none = "absent" if planted.seen else "unclear", e(0.0, 0.01)
    text = " ".join(sentences(synergy, none, "vanilla", planted, none, none, none, measure, 300))
    assert re.search(words, text)


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
