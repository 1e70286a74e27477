"""How a fitted model behaves: its confidence, and how its predictions change when a modality is withheld."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from synib.own.folds import Rows
from synib.own.predictor import Predictor
from synib.own.table import Table

ROWS = 2000  # rows that are examined
UNSURE = 0.7  # a prediction with a lower probability counts as unsure
NEEDS = 0.1  # of Predictor.needs_both


def behaviour(model: Predictor, table: Table, rows: Rows) -> dict[str, Any]:
    """The confidence of a model and the effect of each modality, on rows that it was trained on.

    This describes the model; it does not measure its quality.

    Args:
        model: The model.
        table: The data.
        rows: The rows it was trained on.

    Returns:
        Plain values for a file. ``without`` has for each modality the mean total variation between predictions with and
        without it (for a number: the mean change in units of the standard deviation of the predictions), the share of
        answers that change, and the mean probability of the answer without it.
    """
    if len(rows) > ROWS:
        rows = np.sort(np.random.default_rng(0).choice(rows, ROWS, replace=False))
    x = {name: np.asarray(values[rows]) for name, values in table.modalities.items()}
    has = {name: np.asarray(present[rows]) for name, present in table.present.items()}
    complete = model.predict(x, has)
    result: dict[str, Any] = {"rows": len(rows), "without": {}}
    if model.kind != "regression":
        result |= {
            "confidence": float(_confidence(model, complete).mean()),
            "unsure": float((_confidence(model, complete) < UNSURE).mean()),
        }
    result["needs_both"] = float((model.needs_both(x, has) > NEEDS).mean())
    for name in x:
        withheld = model.predict(x, {**has, name: np.zeros(len(rows), bool)})
        result["without"][name] = _change(model, complete, withheld)
    return result


def _change(model: Predictor, complete: NDArray[np.float64], withheld: NDArray[np.float64]) -> dict[str, float]:
    if model.kind == "regression":
        change = np.abs(complete[:, 0] - withheld[:, 0]).mean() / max(float(complete[:, 0].std()), 1e-12)
        return {"change": float(change), "deviation": float(withheld[:, 1].mean())}
    if model.kind == "multilabel":
        answer_changes = (complete > 0.5) != (withheld > 0.5)
        change = np.abs(complete - withheld).mean()
    else:
        answer_changes = complete.argmax(1) != withheld.argmax(1)
        change = np.abs(complete - withheld).sum(1).mean() / 2
    return {
        "change": float(change),
        "answers_changed": float(answer_changes.mean()),
        "confidence": float(_confidence(model, withheld).mean()),
    }


def _confidence(model: Predictor, predictions: NDArray[np.float64]) -> NDArray[np.float64]:
    """The probability of each predicted answer."""
    return np.maximum(predictions, 1 - predictions).mean(1) if model.kind == "multilabel" else predictions.max(1)
