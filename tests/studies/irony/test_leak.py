"""How well one modality alone predicts irony."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synib.studies.irony.crema_d import CONTRADICTIONS as CREMA_D
from synib.studies.irony.donors import make_ironic
from synib.studies.irony.leak import expected_leak, mismatch_leak, unimodal_leak
from synib.studies.irony.ravdess import CONTRADICTIONS as RAVDESS

MAPS = pytest.mark.parametrize("contradictions", [CREMA_D, RAVDESS], ids=["crema-d", "ravdess"])
DONORS = pytest.mark.parametrize("donors", ["paper", "balanced"])


def labels(contradictions, each=60):
    return np.tile(np.arange(len(contradictions)), each)


def mutated(y, alpha, contradictions, **options):
    rows = np.arange(len(y))
    return make_ironic(rows, rows, y, alpha, contradictions, **options)


@pytest.mark.parametrize(("alpha", "f1"), [(0.1, 0.12), (0.5, 0.40), (1.0, 0.55), (2.0, 0.69)])
def test_the_voice_alone_tells_irony_in_the_papers_construction_and_not_in_the_balanced_one(alpha, f1):
    leak = expected_leak(alpha, CREMA_D)
    assert leak["audio"].f1 == pytest.approx(f1, abs=0.005)
    assert leak["audio"].flagged == ("HAP",)
    assert leak["video"].f1 == pytest.approx(leak["video"].always)
    for balanced in expected_leak(alpha, CREMA_D, donors="balanced").values():
        assert balanced.f1 == pytest.approx(balanced.always) == pytest.approx(2 * alpha / (6 + alpha))
        assert balanced.auc == pytest.approx(0.5)


@MAPS
@DONORS
def test_the_leak_of_a_drawn_assignment_is_the_one_expected(contradictions, donors):
    y = labels(contradictions, 1000)
    out = mutated(y, 1.0, contradictions, donors=donors)
    found = unimodal_leak(y, y[out.audio], out.label == len(contradictions), contradictions)
    for modality, expected in expected_leak(1.0, contradictions, donors=donors).items():
        assert found[modality].f1 == pytest.approx(expected.f1, abs=0.02)
        assert found[modality].auc == pytest.approx(expected.auc, abs=0.04)


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=40))
def test_no_rule_on_one_label_beats_the_leaks_f1(examples):
    y, ironic = np.array([e[0] for e in examples]), np.array([e[1] for e in examples])
    best = 0.0
    for rule in range(16):
        flagged = (rule >> y) & 1 == 1
        hits = (flagged & ironic).sum()
        best = max(best, 2 * hits / max(flagged.sum() + ironic.sum(), 1))
    leak = unimodal_leak(y, y, ironic, "abcd")["audio"]
    assert leak.f1 == pytest.approx(best)
    assert leak.always <= leak.f1 + 1e-12
    assert 0.5 <= leak.auc <= 1


def test_a_mismatch_tells_irony_only_where_ironic_examples_have_it_more_often():
    ironic = np.array([True, True, False, False])
    assert mismatch_leak([1, 1, 1, 1], [1, 1, 1, 1], ironic) == 0.5
    assert mismatch_leak(["a"] * 4, ["b"] * 4, ironic) == 0.5
    assert mismatch_leak([1, 1, 1, 1], [2, 2, 1, 1], ironic) == 1.0
    assert mismatch_leak([1, 1, 1, 1], [2, 1, 1, 1], ironic) == 0.75
    assert mismatch_leak([1, 1], [2, 1], [False, False]) == 0.5


def test_donors_of_any_actor_are_told_by_their_person_and_matched_ones_are_not():
    y, actors = np.tile(np.repeat(np.arange(8), 2), 24), np.repeat(np.arange(24), 16)
    balanced = mutated(y, 1.0, RAVDESS, donors="balanced")
    matched = mutated(y, 1.0, RAVDESS, donors="matched", within=actors.tolist())
    leaks = [mismatch_leak(actors[t.video], actors[t.audio], t.label == 8) for t in (balanced, matched)]
    assert leaks[0] > 0.9
    assert leaks[1] == 0.5
