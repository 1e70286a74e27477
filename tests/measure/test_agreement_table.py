"""The agreement table."""

import numpy as np
import pytest

from synib.measure import agreement_table, synergy_subset

RNG = np.random.default_rng(0)
Y = RNG.integers(0, 2, 400)


def wrong(target, where):
    """Labels that are wrong exactly there."""
    return np.where(where, 1 - target, target)


@pytest.fixture
def models():
    """Three seeds of two modalities, wrong on a share of the examples."""
    return {m: wrong(Y, RNG.random((3, len(Y))) < rate) for m, rate in (("a", 0.8), ("b", 0.75))}


def test_the_table_counts_every_example_once(models):
    fusion = wrong(Y, RNG.random((3, len(Y))) < 0.3)
    table = agreement_table(models, fusion, Y)
    assert [row.right for row in table.rows] == [(), ("a",), ("b",), ("a", "b")]
    assert sum(row.examples for row in table.rows) == pytest.approx(400)
    assert sum(row.share.value for row in table.rows) == pytest.approx(1)
    cell = (models["a"] == Y) & (models["b"] != Y)
    row = table["a",]
    assert row.examples == pytest.approx(cell.sum() / 3)
    assert row.fusion_right == pytest.approx((cell & (fusion == Y)).sum() / 3)
    assert row.fusion_wrong == pytest.approx(row.examples - row.fusion_right)
    assert row.accuracy.value == pytest.approx(row.fusion_right / row.examples)
    assert row.share.value == pytest.approx(row.examples / 400)
    assert row.share.low < row.share.value < row.share.high


def test_the_row_of_none_is_the_synergy_subset(models):
    fusion = wrong(Y, RNG.random((3, len(Y))) < 0.3)
    none, subset = agreement_table(models, fusion, Y)[()], synergy_subset(models, Y)
    assert none.examples == pytest.approx(np.mean(subset.sizes))
    assert none.accuracy == subset.score(fusion).per_seed.on


def test_n_modalities_have_two_to_the_n_rows_and_an_empty_one_says_nan():
    table = agreement_table(dict.fromkeys("abc", Y), Y, Y)
    assert len(table.rows) == 8
    assert table["c", "a"].examples == 0
    assert np.isnan(table["c", "a"].accuracy.value)
    reach = 1.959964**2 / (400 + 1.959964**2)  # Wilson's limit for 0 of 400
    assert (table["c", "a"].share.low, table["c", "a"].share.high) == pytest.approx((0.0, reach), rel=1e-6)
    assert table["a", "b", "c"].share.low == pytest.approx(1 - reach)
    assert table["a", "b", "c"].fusion_right == 400
    assert str(table).count("\n") == 8
    assert "a + b + c         400" in str(table)
    with pytest.raises(KeyError):
        table["d",]
