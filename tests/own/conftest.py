"""Small tables whose truth is known, and one audit that several files look at."""

import numpy as np
import pytest

from synib.own.audit import audit
from synib.own.table import Table


def make_table(n=160, classes=2, kind="xor", lacks=0.0, seed=0, **changes):
    """Two signs, one in each modality; the target is their product (xor) or the first of them (unique).

    As a number the target is seven plus three times it; a third class is where it is positive and the second sign, too.
    With ``kind="labels"`` there are three labels: the product, the first sign, and one that seldom is there.
    """
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1.0, 1.0], (2, n))
    a, b = 5 + 0.2 * rng.normal(size=(n, 3)), 0.2 * rng.normal(size=(n, 2))
    a[:, 0] += signs[0]
    b[:, 0] += signs[1]
    truth = signs[0] * signs[1] if kind == "xor" else signs[0]
    present = {"a": rng.random(n) >= lacks, "b": np.ones(n, bool)}
    values = {
        "modalities": {"a": a.astype(np.float32) * present["a"][:, None], "b": b.astype(np.float32)},
        "present": present,
        "target": 7 + 3 * truth if not classes else (truth > 0).astype(np.int64) + (classes > 2) * (signs[1] > 0),
        "classes": ("no", "yes", "maybe")[:classes],
        "source": "mine.npz",
    }
    if kind == "labels":
        labels = np.stack([signs[0] * signs[1] > 0, signs[0] > 0, rng.random(n) < 0.2], 1)
        values |= {"target": labels.astype(np.int64), "classes": ("agree", "first", "rare")}
    return Table(**(values | changes))


@pytest.fixture(scope="session")
def table():
    return make_table


@pytest.fixture(scope="session")
def audited():
    """The audit of an XOR, with a nuisance that does not matter."""
    pytest.importorskip("sklearn", reason="scikit-learn is part of synib[audit]")
    camera = np.array(["x", "y"])[np.arange(160) % 2]
    return audit(make_table(nuisance={"camera": camera}), k=3, budget=1, epochs=25, device="cpu")
