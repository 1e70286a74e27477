"""What predictions lose when a modality is another row's."""

import numpy as np
import torch

from synib.own.reliance import predictions_without
from synib.tokens import optional

N = 200


def data(seed=0):
    g = torch.Generator().manual_seed(seed)
    return {"a": torch.randn(N, 3, generator=g), "b": torch.randn(N, 2, generator=g)}


def test_a_model_that_uses_one_modality_changes_without_it_and_not_without_the_other():
    x = data()
    found = predictions_without(lambda m: m["a"][:, :1], x)
    assert np.array_equal(found[""], np.repeat(x["a"][None, :, :1].double().numpy(), 4, 0))
    assert abs(np.corrcoef(found["a"][0, :, 0], found[""][0, :, 0])[0, 1]) < 0.25
    assert np.array_equal(found["b"], found[""])


def test_no_row_gets_its_own_and_every_row_is_used():
    x = data() | {"a": torch.arange(N).float()[:, None]}
    swapped = predictions_without(lambda m: m["a"], x)["a"][..., 0]
    assert len(swapped) == 4
    for draw in swapped:
        assert not (draw == np.arange(N)).any()
        assert np.array_equal(np.sort(draw), np.arange(N))
    assert not np.array_equal(swapped[0], swapped[1])


def test_rows_that_lack_it_keep_lacking_it():
    present = torch.arange(N) % 4 != 0
    x = data() | {"a": optional(torch.arange(N).float()[:, None] + 1, present)}
    padding = []

    def predict(m):
        padding.append(m["a"].padding.clone())
        return m["a"].values[:, 0]

    found = predictions_without(predict, x)
    assert all(torch.equal(p, ~present[:, None]) for p in padding)
    absent = ~present.numpy()
    assert np.array_equal(found["a"][:, absent], found[""][:, absent])
    assert not np.array_equal(found["a"][:, ~absent], found[""][:, ~absent])
