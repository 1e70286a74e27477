"""Data whose truth is known, for timing audits.

Kinds of data, all but one with a label that a logistic link makes noisy:
    synergy     the product of two signs, one in each modality (an XOR), beside numbers that mean nothing
    mixed       half of the evidence is the product, a quarter in each modality alone
    redundant   both modalities are noisy views of one cause: pooling helps, and nothing else
    unique      the first modality alone tells, by a curve that is no line; the second is noise
    both        each modality tells its own part, and the parts add up
    sum         the sign of a sum of two numbers, one in each modality, without noise: additive, and hard to see alone
    noise       nothing tells
    copied      one number is in both modalities, and its square tells: a product of both is no more than a square of one
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

TRUTH = {
    "synergy": True,
    "mixed": True,
    "redundant": False,
    "unique": False,
    "both": False,
    "sum": False,
    "noise": False,
    "copied": False,
}


def made(kind: str, rows: int, width: int, seed: int) -> dict[str, NDArray[Any]]:
    """Two modalities of so many numbers each, and a label."""
    rng = np.random.default_rng([seed, list(TRUTH).index(kind)])
    a, b = rng.normal(size=(rows, width)), rng.normal(size=(rows, width))
    evidence = np.zeros(rows)
    if kind in ("synergy", "mixed"):
        evidence = 3.0 * np.sign(a[:, 0]) * np.sign(b[:, 0])
    if kind == "mixed":
        evidence = 0.5 * evidence + 1.0 * a[:, 1] + 1.0 * b[:, 1]
    if kind == "redundant":
        cause = rng.choice([-1.0, 1.0], rows)
        a[:, 0], b[:, 0] = cause + rng.normal(size=rows), cause + rng.normal(size=rows)
        evidence = 3.0 * cause
    if kind == "unique":
        evidence = 2.0 * np.sin(2.0 * a[:, 0]) + 1.5 * a[:, 1]
    if kind == "both":
        evidence = 1.5 * a[:, 0] + 1.5 * np.abs(b[:, 0]) - 1.2
    if kind == "copied":
        b[:, 0] = a[:, 0]
        evidence = 1.5 * (np.square(a[:, 0]) - 1)
    if kind == "sum":
        evidence = 1000.0 * (a[:, 0] + b[:, 0])
    label = (rng.uniform(size=rows) < 1 / (1 + np.exp(-evidence.clip(-500, 500)))).astype(np.int64)
    turn = [np.linalg.qr(rng.normal(size=(width, width)))[0] for _ in range(2)]
    return {"first": (a @ turn[0]).astype(np.float32), "second": (b @ turn[1]).astype(np.float32), "label": label}
