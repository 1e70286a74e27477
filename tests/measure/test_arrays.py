"""What callers pass as arrays."""

import numpy as np
import pytest
import torch

from synib.measure import agreement_table, bootstrap, synergy_subset
from synib.measure.arrays import as_array

Y = np.random.default_rng(0).integers(0, 2, 400)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_becomes_single(dtype):
    x = torch.tensor([0.5, 1.5], dtype=dtype, requires_grad=True)
    assert as_array(x).dtype == np.float32
    assert as_array(x).tolist() == [0.5, 1.5]
    assert bootstrap(np.mean, x).value == 1.0
    assert as_array(x.double()).dtype == np.float64
    assert as_array(torch.tensor([True])).dtype == bool


@pytest.mark.parametrize(
    ("unimodal", "target", "says"),
    [
        ({}, Y, "at least one modality; got none"),
        ([Y, Y], Y, "unimodal must be a dict of modality → predictions.*; got a list"),
        ({"a": Y[:-1]}, Y, r"a must be predicted labels of shape \(400,\) or \(seeds, 400\).*got \(399,\)"),
        ({"a": Y[None, None]}, Y, r"got \(1, 1, 400\)"),
        ({"a": np.empty((0, 400))}, Y, r"got \(0, 400\)"),
        ({"a": Y * 0.3}, Y, r"labels \(integers\), but has other values: pass family.predict"),
        ({"a": np.full(400, np.nan)}, Y, r"labels \(integers\)"),
        ({"a": np.stack([Y] * 2), "b": np.stack([Y] * 3)}, Y, "same number of seeds, or a single one; got a 2, b 3"),
        ({"a": Y}, np.zeros(400, dtype=int), "at least 2 classes; got 1 in 400"),
        ({"a": Y}, Y + 0.5, r"one integer class for each example; got shape \(400,\) of float64"),
        ({"a": Y}, np.stack([Y, Y]), r"got shape \(2, 400\)"),
    ],
)
def test_a_mistake_in_labels_gets_one_sentence(unimodal, target, says):
    with pytest.raises(ValueError, match=says):
        synergy_subset(unimodal, target)
    with pytest.raises(ValueError, match=says):
        agreement_table(unimodal, target, target)
