import numpy as np
import pytest
import torch

from synib import OracleMask
from synib.masks import Probe

WANTED = [True, False, True, False]


@pytest.mark.parametrize(
    "given",
    [[0, 2], (2, 0), range(0, 4, 2), torch.tensor([0, 2]), np.array([0, 2]), torch.tensor(WANTED), WANTED],
)
@pytest.mark.parametrize("shape", [(3, 4), (3, 2, 4)])
def test_the_named_coordinates_are_corrupted_and_no_others(given, shape, key, probe):
    mask = OracleMask({"a": given})(torch.zeros(shape), key, probe)
    assert mask.dtype == torch.bool
    assert mask.expand(shape).reshape(-1, 4).tolist() == [WANTED] * (torch.Size(shape).numel() // 4)


def test_each_modality_has_its_own_coordinates(key, probe):
    mask = OracleMask({"a": [0], "b": [1]})
    assert mask(torch.zeros(1, 2), key, probe).tolist() == [[True, False]]
    assert mask(torch.zeros(1, 2), key, Probe("b", *probe[1:])).tolist() == [[False, True]]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (torch.tensor(WANTED), "The oracle mask of 'a' is 4 wide, but the modality is 3 wide"),
        (range(4), "The oracle mask of 'a' names coordinate 3, but the modality is 3 wide"),
    ],
)
def test_a_mask_whose_width_differs_is_refused(given, message, key, probe):
    with pytest.raises(ValueError, match=message):
        OracleMask({"a": given})(torch.zeros(2, 3), key, probe)


def test_an_unknown_modality_is_refused(key, probe):
    with pytest.raises(ValueError, match="knows the coordinates of 'image', 'text'; asked for 'a'"):
        OracleMask({"image": [0], "text": [1]})(torch.zeros(2, 3), key, probe)


@pytest.mark.parametrize("given", [[], torch.zeros(4, dtype=torch.bool)])
def test_a_mask_that_corrupts_nothing_is_refused(given):
    with pytest.raises(ValueError, match="OracleMask corrupts nothing in 'a': its coordinates are empty"):
        OracleMask({"a": given})


def test_negative_coordinates_are_refused():
    with pytest.raises(ValueError, match="counts coordinates from 0; got -1 for 'a'"):
        OracleMask({"a": [0, -1]})


def test_coordinates_are_one_row():
    with pytest.raises(ValueError, match=r"'a' are one row of indices or booleans; got \(2, 3\)"):
        OracleMask({"a": torch.ones(2, 3, dtype=torch.bool)})
