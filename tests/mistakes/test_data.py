"""Mistakes in asking for data: said at once, and never data of another seed or without numbers in silence."""

import numpy as np
import pytest
import torch

from synib.studies.pid_xor.data import pid_xor
from synib.studies.spurious_xor.data import parity, spurious_xor


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: spurious_xor(train=1e3), r"Every split needs a whole number of examples, .*; got train=1000\.0, val"),
        (lambda: spurious_xor(train="300"), "Every split needs a whole number of examples, .*; got train='300', val"),
        (lambda: pid_xor(test=None), "Every split needs a whole number of examples, .* test=None"),
        (lambda: spurious_xor(beta=[0.0, 1.0]), r"beta must be a finite number of at least 0; got \[0\.0, 1\.0\]"),
        (lambda: spurious_xor(beta="1"), "beta must be a finite number of at least 0; got '1'"),
        (lambda: spurious_xor(beta=None), "beta must be a finite number of at least 0; got None"),
        (lambda: parity(2.5), r"modalities must be a whole number of at least 2; got 2\.5"),
        (lambda: parity(["a", "b"]), r"modalities must be a whole number of at least 2; got \['a', 'b'\]"),
        (lambda: pid_xor([0.45, 0.0, 0.45, 0.1]), r"A mixture \(U1, U2, R, S\) .*: write pid_xor\(\*mixture\)\."),
        (lambda: pid_xor("0.5", 0, 0.4, 0.1), r"A mixture \(U1, U2, R, S\) .*; got \['0\.5', 0, 0\.4, 0\.1\]\."),
        (lambda: pid_xor(train=1), "needs at least 2 training examples; got train=1"),
        (lambda: spurious_xor(seed=None), "seed must be a whole number; got None"),
        (lambda: pid_xor(seed=0.5), r"seed must be a whole number; got 0\.5"),
        (lambda: pid_xor(projection_seed="0"), "seed must be a whole number; got '0'"),
    ],
)
def test_a_mistake_is_one_sentence(call, said):
    with pytest.raises(ValueError, match=said):
        call()


def test_numbers_of_numpy_are_numbers():
    mine = spurious_xor(np.float32(0.5), np.int64(3), train=np.int32(8), validation=4, test=4)
    same = spurious_xor(0.5, 3, train=8, validation=4, test=4)
    assert torch.equal(mine.train.modalities["x1"], same.train.modalities["x1"])


def test_two_training_examples_are_enough_to_standardise_by():
    data = pid_xor(train=2, validation=3, test=5)
    assert all(x.isfinite().all() for x in data.train.modalities.values())
