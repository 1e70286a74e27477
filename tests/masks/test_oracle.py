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
