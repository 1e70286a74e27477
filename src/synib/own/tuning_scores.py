"""Comparison of a model with tuned encoders and one with frozen encoders, on held-out rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from synib.measure import Estimate
from synib.measure.stats import mean
from synib.own.fit_scores import as_plain, in_words, predicted_parameters, scores_of
from synib.own.folds import Fold, Rows
from synib.own.predictor import Predictor
from synib.own.raw.spec import RawModality
from synib.own.table import Table


@dataclass(frozen=True)
class Comparison:
    """Scores of both models on held-out rows, and the log-loss of the tuned one minus that of the frozen one."""

    frozen: dict[str, Any]
    tuned: dict[str, Any]
    loss_difference: Estimate


def compare(table: Table, frozen: Predictor, tuned: Predictor, tuned_table: Table, rows: Rows) -> Comparison:
    """Compare both models on the same held-out rows; the tuned one uses the vectors of the tuned encoders."""
    family = frozen.family
    target = torch.as_tensor(table.target[rows])
    weight = np.ones(len(rows)) if table.weight is None else np.asarray(table.weight, dtype=np.float64)[rows]
    predictions = {
        "frozen": predicted_parameters(frozen, table, rows),
        "tuned": predicted_parameters(tuned, tuned_table, rows),
    }
    losses = {name: family.nll(torch.from_numpy(p), target).numpy() for name, p in predictions.items()}
    gap = weight / weight.mean() * (losses["tuned"] - losses["frozen"])
    groups = None if table.group is None else np.asarray(table.group)[rows]
    scores = {name: scores_of(table, p, rows) for name, p in predictions.items()}
    return Comparison(scores["frozen"], scores["tuned"], mean(gap, groups))


def in_plain_values(
    compared: Comparison, kind: str, raw: Mapping[str, RawModality], frozen_method: str, method: str, parts: Fold
) -> dict[str, Any]:
    """The comparison as plain values to store with the model, with a sentence."""
    difference = as_plain(compared.loss_difference)
    is_better = compared.loss_difference.value < 0
    names = list(raw)
    loss = {name: scores["log_loss"]["value"] for name, scores in (("f", compared.frozen), ("t", compared.tuned))}
    interval = "" if difference["low"] is None else f" (95 % CI {difference['low']:+.3f} to {difference['high']:+.3f})"
    words = (
        f"Tuning {' and '.join(names)} together with {in_words(method, kind)}: log-loss {loss['t']:.3f} nats on "
        f"{len(parts.test):,} held-out rows, against {loss['f']:.3f} of {in_words(frozen_method, kind)} with frozen encoders; "
        f"difference {difference['value']:+.3f}{interval}. "
        + ("The tuned model is kept." if is_better else "The model with frozen encoders is kept.")
    )
    return {
        "modalities": {name: raw[name].encoders[0].name for name in names},
        "method": method,
        "rows": {"train": len(parts.train), "calibration": len(parts.validation), "held_out": len(parts.test)},
        "frozen": compared.frozen,
        "tuned": compared.tuned,
        "difference": difference,
        "kept": is_better,
        "words": words,
    }
