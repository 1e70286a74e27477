"""The control's data."""

import numpy as np
import torch

from synib import Tokens
from synib.measure import shuffle_within_class

RNG = np.random.default_rng(0)
Y = RNG.integers(0, 2, 400)


def test_shuffling_within_class_keeps_each_modality_given_the_class():
    x = {"a": torch.randn(400, 3), "b": torch.randn(400, 2)}
    out = shuffle_within_class(x, Y)
    for name in x:
        for c in (0, 1):
            assert torch.equal(out[name][c == Y].sort(0).values, x[name][c == Y].sort(0).values)
        assert (out[name] != x[name]).any(1).float().mean() > 0.95


def test_shuffling_within_class_breaks_what_modalities_say_only_together():
    a = torch.from_numpy(RNG.integers(0, 2, 400))
    b = a ^ torch.from_numpy(Y)
    out = shuffle_within_class({"a": a, "b": b}, Y)
    parity = (out["a"] ^ out["b"]).numpy()
    assert abs(np.mean(parity == Y) - 0.5) < 0.1
    rows = shuffle_within_class({"a": torch.arange(400), "b": torch.arange(400)}, Y)
    assert (rows["a"] == rows["b"]).float().mean() < 0.05  # each modality has its own order


def test_shuffling_takes_tokens_arrays_and_tensors_and_keeps_padding_with_its_tokens():
    t = torch.arange(400.0)
    given = Tokens(t[:, None, None].expand(400, 2, 1), (t % 2 == 0)[:, None].expand(400, 2))
    out = shuffle_within_class({"t": given, "n": np.arange(400), "l": list(range(400))}, torch.from_numpy(Y))
    assert torch.equal(out["t"].padding[:, 0], out["t"].values[:, 0, 0] % 2 == 0)
    assert isinstance(out["n"], np.ndarray)
    assert (np.sort(out["n"]) == np.arange(400)).all()
    assert (Y[out["n"]] == Y).all()


def test_the_seed_decides_the_shuffle_and_nothing_else():
    x = {"a": torch.arange(400)}
    state = torch.get_rng_state()
    one, same, other = (shuffle_within_class(x, Y, seed)["a"] for seed in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(shuffle_within_class({"b": torch.zeros(400), **x}, Y)["a"], one)  # nor who else is there
    assert torch.equal(x["a"], torch.arange(400))
