"""Tables of features: reading, folds of groups, scaling."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synib.studies.charts import band
from synib.studies.tables import grouped_folds, read_table, standardised


@given(st.lists(st.integers(0, 12), min_size=20, max_size=80), st.integers(2, 4))
def test_folds_keep_groups_whole_and_are_even_up_to_the_largest_group(groups, folds):
    if len(set(groups)) < folds:
        return
    found = grouped_folds(groups, folds)
    assert set(found) == set(range(folds))
    assert all(len({f for f, g in zip(found, groups, strict=True) if g == group}) == 1 for group in groups)
    sizes = np.bincount(found)
    assert sizes.max() - sizes.min() <= max(map(groups.count, groups))


def test_folds_do_not_depend_on_the_order_of_the_examples():
    groups = ["b", "a", "c", "a", "d", "d", "e"]
    one, other = grouped_folds(groups, 2), grouped_folds(groups[::-1], 2)
    assert one.tolist() == other[::-1].tolist()


def test_fewer_groups_than_folds_are_refused():
    with pytest.raises(ValueError, match="3 folds need at least 3 groups; got 2"):
        grouped_folds(["a", "b", "a"], 3)


def test_standardising_uses_the_training_rows_alone_and_all_frames():
    draw = np.random.default_rng(0)
    x = draw.normal(5, 3, (40, 8, 3)).astype(np.float32)
    x[:, :, 2] = 7
    x[35:, :, 2] = 9
    train = np.arange(30)
    scaled = standardised({"x": x}, train)["x"]
    assert scaled.dtype == np.float32
    np.testing.assert_allclose(scaled[train][..., :2].mean((0, 1)), 0, atol=1e-5)
    np.testing.assert_allclose(scaled[train][..., :2].std((0, 1)), 1, atol=1e-5)
    assert not scaled[..., 2].any()  # constant in training, though not later
    x[30:] = 100
    np.testing.assert_array_equal(standardised({"x": x}, train)["x"][train], scaled[train])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"label": np.array([0, 1, 2])}, "labels must be 0 to 1; got 2"),
        ({"label": np.array([0.0, 1.0, 1.0])}, "label must be whole numbers, one for each example; got float64"),
        ({"x": np.zeros((2, 2))}, r"x must have one row for each of 3 labels; it has shape \(2, 2\)"),
        ({"x": np.zeros(3)}, r"x must be numbers in 2 dimensions; got float64 \(3,\)"),
        ({"x": np.array([[0.0], [np.nan], [np.inf]])}, "x contains NaN or Inf in 2 rows, first in row 1"),
        ({"id": np.array([["a"]] * 3)}, r"id must be one value for each example; got <U1 \(3, 1\)"),
    ],
)
def test_invalid_columns_are_named(tmp_path, changed, message):
    whole = {"label": np.array([0, 1, 1]), "x": np.zeros((3, 2)), "id": np.array(["a", "b", "c"])}
    np.savez(tmp_path / "t.npz", **whole)
    assert read_table(tmp_path / "t.npz", {"x": 2}, ["id"], 2).keys() == whole.keys()
    np.savez(tmp_path / "t.npz", **(whole | changed))
    with pytest.raises(ValueError, match=message):
        read_table(tmp_path / "t.npz", {"x": 2}, ["id"], 2)


def test_a_band_is_named_only_where_there_are_several_seeds():
    assert band(3) == "The band is ± one standard error over 3 seeds."
    assert "no standard errors" in band(1)
