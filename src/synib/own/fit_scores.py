"""Scores of a fitted model on held-out rows, with intervals, and sentences about them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from synib.measure.stats import Estimate, bootstrap, mean, proportion
from synib.own.crossfit import FREQUENCIES, CrossFit
from synib.own.folds import Rows, kind_of
from synib.own.predictor import Predictor
from synib.own.recipe import family_of
from synib.own.table import Table

Numbers = NDArray[np.float64]
Score = dict[str, float | None]
SEARCHED = ("lr", "dropout", "weight_decay", "weight", "ridge")  # settings that are searched
BIN = 30  # rows per confidence bin, at least
BINS = 15  # confidence bins, at most
BLOCKS = 400  # blocks of rows for the bootstrap, at most; resampling blocks of random rows saves time


def scores_of(table: Table, parameters: Numbers, rows: Rows, folds: int = 1) -> dict[str, Score]:
    r"""Scores of predictions, each with its 95 % interval: ``log_loss`` in nats, and others by the kind of target.

    Classes have ``accuracy`` and ``calibration_error`` (expected calibration error); labels have both, averaged over all
    labels. Numbers have ``error`` (root mean square), ``explained_variance`` and ``within_deviation`` (the share of rows
    within one predicted standard deviation of the mean, 0.68 for a calibrated Gaussian).

    Args:
        table: The data.
        parameters: The family's parameters for each of the rows.
        rows: The rows.
        folds: Number of cross-validation folds. Models trained on other rows would have other scores, so intervals are
            widened by the factor of Nadeau and Bengio (2003), :math:`\sqrt{1 + K / (K - 1)}`.
    """
    family, _ = family_of(table)
    predicted, y = torch.from_numpy(parameters), np.asarray(table.target)[rows]
    groups = None if table.group is None else np.asarray(table.group)[rows]
    weight = np.ones(len(rows)) if table.weight is None else np.asarray(table.weight, dtype=np.float64)[rows]
    weight = weight / weight.mean()

    def estimate(values: Any) -> Estimate:
        return _widened(mean(weight * np.asarray(values, dtype=np.float64), groups), folds)

    result = {"log_loss": estimate(family.nll(predicted, torch.as_tensor(y)))}
    kind = kind_of(table)
    if kind == "regression":
        squares, deviation = np.square(parameters[:, 0] - y), np.exp(parameters[:, 1] / 2)
        square, variance = (
            estimate(squares),
            float(np.average(np.square(y - np.average(y, weights=weight)), weights=weight)),
        )
        value, low, high = np.sqrt(np.maximum([square.value, square.low, square.high], 0)).tolist()
        result["error"] = Estimate(value, low, high, square.n)
        result["explained_variance"] = Estimate(
            1 - square.value / variance, 1 - square.high / variance, 1 - square.low / variance, square.n
        )
        result["within_deviation"] = estimate(np.sqrt(squares) <= deviation)
        return {name: as_plain(score) for name, score in result.items()}
    if kind == "multilabel":
        p = predicted.sigmoid().numpy()
        confidence, hits = np.maximum(p, 1 - p), ((p > 0.5) == y).astype(np.float64)
    else:
        p = (
            torch.cat([torch.zeros_like(predicted), predicted], 1).softmax(1).numpy()
            if predicted.shape[1] == 1
            else predicted.softmax(1).numpy()
        )
        confidence, hits = p.max(1)[:, None], (p.argmax(1) == y).astype(np.float64)[:, None]
    counts_alike = table.weight is None
    share = _widened(proportion(hits, groups=groups), folds) if counts_alike else estimate(hits.mean(1))
    result["accuracy"] = replace(share, low=float(np.maximum(share.low, 0.0)), high=float(np.minimum(share.high, 1.0)))
    result["calibration_error"] = calibration_error(confidence, hits, weight, groups)
    return {name: as_plain(score) for name, score in result.items()}


def _widened(score: Estimate, folds: int) -> Estimate:
    factor = np.sqrt(1 + folds / (folds - 1)) if folds > 1 else 1.0
    return replace(
        score,
        low=score.value - factor * (score.value - score.low),
        high=score.value + factor * (score.high - score.value),
    )


def calibration_error(confidence: Numbers, hits: Numbers, weight: Numbers, groups: NDArray[Any] | None) -> Estimate:
    """The expected calibration error over bins with equal numbers of predictions.

    Sampling noise biases it upwards, and resampling does so again. The lower end of the interval is therefore from the basic
    bootstrap, which corrects for the bias, and the upper end from the percentile bootstrap.

    Args:
        confidence: Probability of the prediction, ``(rows, labels)``; one column for classes.
        hits: Whether the prediction is correct.
        weight: Weight of each row.
        groups: Groups that are resampled together; single rows by default.
    """
    rows, labels = confidence.shape
    bins = int(np.clip(rows // BIN, 1, BINS))
    order = np.argsort(confidence, axis=None, kind="stable")
    bin_of = np.empty(confidence.size, dtype=np.int64)
    bin_of[order] = np.arange(confidence.size) * bins // confidence.size
    gaps = np.zeros((rows, bins))
    np.add.at(
        gaps, (np.repeat(np.arange(rows), labels), bin_of), ((hits - confidence) * weight[:, None]).ravel() / labels
    )
    if groups is None:  # any assignment of rows to blocks will do
        block = np.random.default_rng(0).permutation(rows) % min(rows, BLOCKS)
    else:
        block = np.unique(groups, return_inverse=True)[1]
    sums = np.zeros((block.max() + 1, bins + 1))
    np.add.at(sums, block, np.column_stack([gaps, weight]))
    low, high = (bootstrap(_error, *sums.T, method=method) for method in ("basic", "percentile"))
    return Estimate(low.value, float(np.maximum(low.low, 0.0)), high.high, rows)


def _error(*sums: Numbers, axis: int) -> Numbers:
    """The calibration error from sums over blocks: the gap of each bin, and last the weight."""
    *gaps, weight = (column.sum(axis) for column in sums)
    return np.asarray(sum(np.abs(gap) for gap in gaps) / weight)


def as_plain(score: Estimate) -> Score:
    """A score for a file; the ends of its interval are ``None`` if unknown, as with a single group."""
    ends = {"low": float(score.low), "high": float(score.high)}
    return {"value": float(score.value), **{name: end if np.isfinite(end) else None for name, end in ends.items()}}


def choice_in_words(chosen: str, is_choice: bool, cross: CrossFit, methods: Sequence[str], kind: str) -> str:
    """A sentence on why this method was chosen."""
    if not is_choice:
        return f"{chosen} was requested."
    losses = {method: cross.mean_loss(cross.best(method)) for method in methods}
    lowest = min(losses, key=lambda method: losses[method])
    best = (
        f"{len(methods)} models were compared by cross-validated log-loss; the lowest is that of {in_words(lowest, kind)}, "
        f"{losses[lowest]:.3f} nats."
    )
    if lowest == chosen:
        return best
    return (
        f"{best} Kept, because it is not clearly worse: {in_words(chosen, kind)}, {losses[chosen]:.3f} nats, within "
        f"{cross.errors:g} standard errors of the difference."
    )


def in_words(method: str, kind: str = "classification") -> str:
    """The name of a method in a sentence."""
    if method == FREQUENCIES:
        constant = {
            "regression": "the mean and the spread of the target",
            "multilabel": "the frequencies of the labels",
        }
        return constant.get(kind, "the class frequencies")
    if method.startswith("unimodal-"):
        return f"{method.removeprefix('unimodal-')} alone"
    return {
        "linear": "logistic regression",
        "additive": "the additive model",
        "vanilla": "plain fusion",
        "experts": "SynIB (experts)",
        "synib-marginal": "SynIB (synib-marginal)",
    }.get(method, method)


def range_of(score: Mapping[str, float | None], places: str = ".3f") -> str:
    """A score with its interval, in words."""
    if score["low"] is None or score["high"] is None:
        return f"{score['value']:{places}} (only one group, so no interval)"
    return f"{score['value']:{places}} (95 % CI {score['low']:{places}} to {score['high']:{places}})"


def test_scores(model: Predictor, table: Table) -> dict[str, Score]:
    """Scores of a model on the test rows of the split column; see :func:`scores_of`."""
    rows = np.flatnonzero(np.asarray(table.split) == "test")
    return scores_of(table, predicted_parameters(model, table, rows), rows)


def predicted_parameters(model: Predictor, table: Table, rows: Rows) -> Numbers:
    """The parameters of a model's predictions for some rows: logits, or mean and log-variance of a number."""
    predictions = model.predict(
        {name: x[rows] for name, x in table.modalities.items()},
        {name: has[rows] for name, has in table.present.items()},
    )
    if model.kind == "regression":
        return np.stack([predictions[:, 0], 2 * np.log(predictions[:, 1])], 1)
    p = np.clip(predictions, 1e-12, 1 - 1e-12)
    logits = np.log(p)
    if model.kind == "multilabel":
        return np.asarray(logits - np.log1p(-p))
    return np.asarray(logits[:, 1:] - logits[:, :1] if logits.shape[1] == 2 else logits)


def sentences(model: Predictor) -> list[str]:
    """The description of a fitted model, one sentence per item."""
    about, scores = model.about, model.about["scores"]
    rows = about["rows"]
    chosen = ", ".join(f"{name} {model.settings[name]:g}" for name in SEARCHED if name in model.settings)
    model_name = _capitalised(in_words(model.method, model.kind))
    trained = f"{model_name}, trained on {rows['train']:,} rows{f' ({chosen})' if chosen else ''}."
    result = [about["choice"], trained]
    result.append(f"Scores by {about['judged']}: {_in_full(scores, model.kind)}.")
    others = {m: s for m, s in about["of_methods"].items() if m != model.method}
    if others:
        compared = "; ".join(f"{in_words(m, model.kind)}: {_in_short(s, model.kind)}" for m, s in others.items())
        result.append(f"The other models by the same evaluation: {compared}.")
    if "tuned" in about and not about["tuned"]["kept"]:
        result.append(about["tuned"]["words"])
    if "test_scores" in about:
        result.append(f"On {rows['test']:,} test rows: {_in_full(about['test_scores'], model.kind)}.")
    return result


def _in_full(scores: Mapping[str, Score], kind: str) -> str:
    loss = f"log-loss {range_of(scores['log_loss'])} nats"
    if kind == "regression":
        return (
            f"root mean square error {range_of(scores['error'], '.3g')}, explained variance "
            f"{range_of(scores['explained_variance'])}, {loss}"
        )
    of_labels = " of labels" if kind == "multilabel" else ""
    return (
        f"accuracy{of_labels} {range_of(scores['accuracy'])}, {loss}, expected calibration error "
        f"{range_of(scores['calibration_error'])}"
    )


def _in_short(scores: Mapping[str, Score], kind: str) -> str:
    loss = f"log-loss {scores['log_loss']['value']:.3f}"
    if kind == "regression":
        return f"root mean square error {scores['error']['value']:.3g}, {loss}"
    return f"accuracy {scores['accuracy']['value']:.3f}, {loss}"


def _capitalised(words: str) -> str:
    return words[:1].upper() + words[1:]
