"""Rows of two modalities whose target is known to have, or not to have, an interaction of some kind."""

import numpy as np
import pytest
import torch

from synib.measure.detectors import Detectors, Labels, Number, OneOf
from synib.measure.stats import assign


def make_rows(kind, n=1500, width=8, seed=0, strength=2.0):
    """Two modalities, the evidence for a positive answer, and what additive models say of it."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(n, width)), rng.normal(size=(n, width))
    additive = np.zeros((2, n))
    evidence = np.zeros(n)
    if kind == "product":
        evidence = strength * np.sign(a[:, 0] * b[:, 0])
    if kind == "gate":
        evidence = strength * np.sign(a[:, 0]) * b[:, 0]
    if kind == "lookup":
        first, second = rng.integers(4, size=(2, n))
        a[np.arange(n), first] += 4
        b[np.arange(n), second] += 4
        table = np.array([[1, -1, 1, -1], [-1, 1, -1, 1], [1, -1, -1, 1], [-1, 1, 1, -1]])
        evidence = strength * table[first, second]
    if kind == "additive":
        additive = np.stack([strength * a[:, 0], strength * b[:, 0]])
        evidence = additive.sum(0)
    if kind == "copied":  # a square of what both modalities hold
        b[:, 0] = a[:, 0]
        evidence = strength * (np.square(a[:, 0]) - 1)
    return a, b, evidence, additive + 0.05 * rng.normal(size=(2, n))


def compare(a, b, target, additive, response="classes", seed=0, parts=5):
    n = len(target)
    part = torch.from_numpy(assign(n, parts, seed))
    modalities = {"a": torch.from_numpy(a).float(), "b": torch.from_numpy(b).float()}
    present = {name: torch.ones(n, dtype=torch.bool) for name in modalities}
    detectors = Detectors(modalities, present, part, seed)
    y = torch.from_numpy(target)
    made = {
        "classes": lambda: OneOf(y, int(target.max()) + 1),
        "labels": lambda: Labels(y),
        "number": lambda: Number(y),
    }
    base = torch.from_numpy(additive)
    base = base[..., None] if base.ndim == 2 else base
    return detectors.compare(made[response](), base, base.sum(0))


def standard_errors(compared):
    """How many standard errors each detector gains over the additive model."""
    result = {}
    for name, extension in compared.detectors.items():
        gain = extension.gain.numpy()
        result[name] = float(gain.mean() / (gain.std() / np.sqrt(len(gain))))
    return result


@pytest.fixture(scope="session")
def rows():
    return make_rows


@pytest.fixture(scope="session")
def compared():
    return compare


@pytest.fixture(scope="session")
def errors():
    return standard_errors
