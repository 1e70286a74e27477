"""How well each patch of an image predicts the written digit by itself, for ``explain.py``: a truth from the data alone."""

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from synib.explanation import patches
from synib.measure.stats import holm
from synib.studies.digits import data as digits_data

LEVEL = 0.05  # of the tests of all patches together
FOLDS, TREES, LEAF = 5, 100, 10


class Predictable(NamedTuple):
    """How well something can be predicted from each patch alone.

    Args:
        accuracy: Held-out accuracy, ``(patches,)``.
        chance: Share of the most frequent class.
        p: One-sided p-value of each patch.
        significant: Whether the accuracy is above chance, with Holm's correction over the patches.
    """

    accuracy: NDArray[np.float64]
    chance: float
    p: NDArray[np.float64]
    significant: NDArray[np.bool_]


@cache
def predictable() -> dict[str, Predictable]:
    """The written digit and its parity, from the pixels of each patch of 4 x 4, on held-out images without bars."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    images, digits = images_and_digits()
    patch = patches((28, 28), 4).ravel()
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    right: dict[str, list[float]] = {"parity": [], "digit": []}
    for k in range(patch.max() + 1):
        forest = RandomForestClassifier(TREES, min_samples_leaf=LEAF, random_state=0)
        p = cross_val_predict(forest, images[:, patch == k], digits, cv=folds, method="predict_proba")
        right["digit"].append(float((p.argmax(1) == digits).mean()))
        right["parity"].append(float(((p[:, 1::2].sum(1) > 0.5) == digits % 2).mean()))
    return {
        "parity": _tested(np.array(right["parity"]), digits % 2),
        "digit": _tested(np.array(right["digit"]), digits),
    }


def images_and_digits() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Written digits of the training and validation part; the maps explain images of the test part."""
    images, digits = digits_data._images(digits_data.DIGITS.find(None) / "mnist-valid.npz")
    return images.numpy(), digits.numpy()


def table() -> Iterator[dict[str, Any]]:
    """A row for each patch."""
    images, _ = images_and_digits()
    patch = patches((28, 28), 4).ravel()
    found = predictable()
    for k in range(patch.max() + 1):
        row: dict[str, Any] = {"patch": k, "row": k // 7, "column": k % 7}
        row["brightness"] = round(float(images[:, patch == k].mean()), 4)
        for name, of in found.items():
            row |= {
                f"{name}_accuracy": round(of.accuracy[k], 4), f"{name}_chance": round(of.chance, 4),
                f"{name}_p": f"{of.p[k]:.2g}", f"{name}_predictable": bool(of.significant[k]),
            }  # fmt: skip
        yield row


def _tested(accuracy: NDArray[np.float64], y: NDArray[np.int64]) -> Predictable:
    from scipy.stats import binom

    chance = float(np.bincount(y).max() / len(y))
    p = np.asarray(binom.sf(np.round(accuracy * len(y)) - 1, len(y), chance))
    return Predictable(accuracy, chance, p, np.asarray(holm(list(p)) <= LEVEL))
