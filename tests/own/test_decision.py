"""Present, absent or unclear: what the evidence has to be."""

import numpy as np
import pytest

from synib.measure import Estimate
from synib.own.decision import decide, stated_size
from synib.own.evidence import Candidate, Evidence

ALL = {"product": 0.05, "lookup": 0.12, "gate": 0.06}


def e(value, half, n=1000):
    return Estimate(value, value - half, value + half, n)


def evidence(*candidates):
    named = {f"model {i}": candidate for i, candidate in enumerate(candidates)}
    return Evidence(np.arange(3), named, e(0.7, 0.01), np.ones(3), {}, 2.5)


def candidate(p=0.5, lead=0.0, half=0.01, bound=0.02):
    return Candidate(e(0.0, 0.1), p, e(lead, half), e(lead, bound), e(0.7, 0.01))


def test_synergy_needs_both_log_likelihood_and_the_metric():
    assert decide(evidence(candidate(), candidate(p=0.01, lead=0.05)), {}) == "present"
    assert decide(evidence(candidate(p=0.01, lead=0.0)), {}) == "unclear"
    assert decide(evidence(candidate(p=0.04, lead=0.05)), {}) == "unclear"
    assert decide(evidence(candidate(p=0.0, lead=0.008, half=0.001)), {}) == "unclear"  # too small to be told apart


@pytest.mark.parametrize(
    ("sizes", "bound", "answer"),
    [
        (ALL, 0.02, "absent"),
        (ALL, 0.11, "absent"),
        (ALL, 0.13, "unclear"),  # a lead of the stated size is not ruled out
        (ALL | {"gate": None}, 0.02, "unclear"),  # one kind would not have been found
        (ALL | {"lookup": 0.3}, 0.02, "unclear"),  # or only if it were very large
        ({}, 0.02, "unclear"),
    ],
)
def test_no_synergy_is_an_answer_only_for_a_size_that_would_have_been_found(sizes, bound, answer):
    assert decide(evidence(candidate(), candidate(bound=bound)), sizes) == answer


def test_the_stated_size_is_that_of_the_kind_that_is_hardest_to_find():
    assert stated_size(ALL) == 0.12
    assert stated_size({"product": 0.001}) == 0.02
    assert stated_size({"product": None}) is None


def test_the_best_candidate_is_one_that_is_sure_and_has_the_smallest_p():
    found = evidence(candidate(p=0.001, lead=-0.1), candidate(p=0.01, lead=0.1), candidate(p=0.02, lead=0.3))
    assert found.best == "model 1"
