"""When synergy is claimed, when it is denied, and when the evidence is inconclusive."""

import pytest

from synib.measure import Estimate
from synib.own.decision import decide


def e(value, half):
    return Estimate(value, value - half, value + half, 1000)


@pytest.mark.parametrize(
    ("evidence", "lead", "tried", "answer"),
    [
        (e(0.2, 0.05), e(0.1, 0.02), 4, "present"),
        (e(0.2, 0.19), e(0.1, 0.02), 1, "present"),
        (e(0.2, 0.19), e(0.1, 0.02), 4, "unclear"),  # the best of four needs stronger evidence
        (e(0.2, 0.05), e(-0.1, 0.02), 4, "absent"),  # likelihood alone, and accuracy objects
        (e(0.2, 0.05), e(0.015, 0.02), 4, "unclear"),
        (e(0.0, 0.01), e(0.0, 0.01), 4, "absent"),
        (e(0.0, 0.05), e(0.0, 0.05), 4, "unclear"),
    ],
)
def test_the_answer(evidence, lead, tried, answer):
    assert decide(evidence, lead, tried) == answer
