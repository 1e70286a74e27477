"""What a fitted model does: how sure it is, and what changes in its predictions when a modality is withheld."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from synib.own.folds import Rows
from synib.own.predictor import Predictor
from synib.own.table import Table

ROWS = 2000  # that are looked at
UNSURE = 0.7  # probability of the answer below which a prediction counts as unsure
NEEDS = 0.1  # of Predictor.needs_both


def behaviour(model: Predictor, table: Table, rows: Rows) -> dict[str, Any]:
    """How sure a model is, and what each modality changes, on rows that it was trained on; plain values.

    This describes the model, and says nothing of how good it is. ``without`` has for each modality the mean total variation
    between predictions with and without it (of a number: the mean change in units of the spread of the predictions), the
    share of answers that change, and the mean probability of the answer without it.

    Args:
        model: The model.
        table: The data.
        rows: The rows it was trained on.
    """
    if len(rows) > ROWS:
        rows = np.sort(np.random.default_rng(0).choice(rows, ROWS, replace=False))
    x = {name: np.asarray(values[rows]) for name, values in table.modalities.items()}
    has = {name: np.asarray(present[rows]) for name, present in table.present.items()}
    whole = model.predict(x, has)
    result: dict[str, Any] = {"rows": len(rows), "without": {}}
    if model.kind != "regression":
        result |= {
            "confidence": float(_sure(model, whole).mean()),
            "unsure": float((_sure(model, whole) < UNSURE).mean()),
        }
    result["needs_both"] = float((model.needs_both(x, has) > NEEDS).mean())
    for name in x:
        lacking = model.predict(x, {**has, name: np.zeros(len(rows), bool)})
        result["without"][name] = _change(model, whole, lacking)
    return result


def _change(model: Predictor, whole: NDArray[np.float64], lacking: NDArray[np.float64]) -> dict[str, float]:
    if model.kind == "regression":
        change = np.abs(whole[:, 0] - lacking[:, 0]).mean() / max(float(whole[:, 0].std()), 1e-12)
        return {"change": float(change), "deviation": float(lacking[:, 1].mean())}
    if model.kind == "multilabel":
        answers = (whole > 0.5) != (lacking > 0.5)
        change = np.abs(whole - lacking).mean()
    else:
        answers = whole.argmax(1) != lacking.argmax(1)
        change = np.abs(whole - lacking).sum(1).mean() / 2
    return {
        "change": float(change),
        "answers_changed": float(answers.mean()),
        "confidence": float(_sure(model, lacking).mean()),
    }


def _sure(model: Predictor, said: NDArray[np.float64]) -> NDArray[np.float64]:
    """The probability of each answer."""
    return np.maximum(said, 1 - said).mean(1) if model.kind == "multilabel" else said.max(1)
