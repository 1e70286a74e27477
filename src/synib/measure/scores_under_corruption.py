"""Standard scores of a model on intact data, and with each modality corrupted."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from synib import keys
from synib.checks import check_kind
from synib.masks import Noise, ShuffledNoise
from synib.masks.base import mask_shape
from synib.measure.arrays import class_family, class_probabilities
from synib.measure.calibration import BINS, Calibration, calibrate
from synib.measure.encoded import CHUNK, Encoded, Modalities, Model, evaluated
from synib.measure.scores import Scores, score
from synib.measure.stats import check_resampling
from synib.objective import Family


@dataclass(frozen=True)
class CorruptionScores:
    """The result of :func:`scores_under_corruption`.

    Attributes:
        intact: Scores on intact data.
        corrupted: Modality → scores with this modality replaced.
        calibration: Modality, or ``""`` for intact data → data of a calibration plot.
    """

    intact: Scores
    corrupted: Mapping[str, Scores]
    calibration: Mapping[str, Calibration]

    def __str__(self) -> str:
        rows = {"intact": self.intact, **{f"{name} corrupted": s for name, s in self.corrupted.items()}}
        width = max(map(len, rows))
        lines = [f"{'':{width}}  {'accuracy':20}  {'macro F1':20}  {'AUROC':20}  {'ECE':20}  confidence"]
        for name, s in rows.items():
            cells = "  ".join(f"{estimate!s:20}" for estimate in (s.accuracy, s.macro_f1, s.auroc, s.ece, s.confidence))
            lines.append(f"{name:{width}}  {cells.rstrip()}")
        return "\n".join(lines + sorted({s.note for s in rows.values() if s.note}))


def scores_under_corruption(
    predict: Model,
    modalities: Modalities,
    target: ArrayLike | Tensor,
    noise: Noise | None = None,
    *,
    draws: int = 4,
    family: Family | None = None,
    chunk: int = CHUNK,
    resamples: int = 200,
    seed: int = 0,
) -> CorruptionScores:
    """:func:`scores` on intact data, and with each modality corrupted completely.

    The interpretation depends on the noise. With :class:`~synib.ShuffledNoise`, the default, a swapped pair looks like
    a real one and no model can notice: the accuracy shows whether the model uses the modality, but its confidence has
    no meaning. To test whether a model is uncertain when a modality is missing, pass noise that does not look like
    data, ``StandardNoise()`` or the noise of its training: a model that uses the interaction of its modalities should
    then lose confidence along with accuracy. A model that relies on a shortcut in modality i stays confident when
    another one is corrupted.

    Every draw is scored separately, since a deployed model receives one corrupted input and not an average over many;
    an average would look uncertain even if each prediction is confident. Intervals resample examples together with all
    their draws.

    Args:
        predict: A :class:`~synib.FusionModel`, whose latents are computed once, or any callable from modalities to the
            family's parameters. A module is put into evaluation mode, and its mode is restored afterwards.
        modalities: Name → tensor, array or :class:`~synib.Tokens`, batch first.
        target: The true labels.
        noise: What replaces a modality; by default another example's values (:class:`~synib.ShuffledNoise`), which
            shows what the model uses and not whether it notices the corruption.
        draws: Number of corrupted copies of each example.
        family: ``Bernoulli()`` or ``Categorical()`` (default).
        chunk: Number of examples per call of the model.
        resamples: Number of bootstrap resamples.
        seed: Seed for the counterfactuals and the bootstrap.
    """
    family = class_family(family)
    noise = ShuffledNoise() if noise is None else check_kind("noise", noise, Noise, "ShuffledNoise()")
    check_resampling(seed, draws=draws, resamples=resamples)
    key = keys.fold(keys.key(seed), "corruption")
    predictions: dict[str, list[Tensor]] = {}
    with evaluated(predict), evaluated(noise):
        model = Encoded(predict, modalities, chunk)
        rows = torch.arange(model.size, device=model.device)
        predictions[""] = [model.mixed({}, rows)]
        for name in model.names:
            x = model.modalities[name]
            everything = torch.ones(mask_shape(x, "modality"), dtype=torch.bool, device=model.device)
            predictions[name] = []
            for draw in range(draws):
                draw_key = keys.fold(key, name, draw)
                if noise.shuffles:  # the other example's values are already encoded
                    source = noise.rows(draw_key, model.size, device=model.device)
                    predictions[name].append(model.mixed({name: source}, rows))
                else:
                    corrupted = noise.corrupt(x, everything, draw_key, name)
                    predictions[name].append(model.mixed({}, rows, {name: corrupted}))
    scored, calibrated = {}, {}
    for name, modality_predictions in predictions.items():
        p, y = zip(
            *(class_probabilities(prediction, target, family) for prediction in modality_predictions), strict=True
        )
        stacked = np.stack(p, 1)
        scored[name] = score(stacked, y[0], resamples, seed)
        calibrated[name] = calibrate(stacked, y[0], BINS)
    return CorruptionScores(scored.pop(""), scored, calibrated)
