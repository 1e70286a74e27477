"""What a model loses when a modality is corrupted: its ordinary scores, and how much it uses each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from synib import keys, tokens
from synib.checks import check_kind
from synib.masks import HideTokens, Mask, Noise, Probe, RandomMask, ShuffledNoise
from synib.masks.base import mask_shape
from synib.measure.arrays import class_family, class_probabilities, family_of, probabilities
from synib.measure.calibration import BINS, Calibration, Scores, calibrate, score
from synib.measure.estimate import Estimate, bootstrap, check_resampling
from synib.measure.metrics import correct
from synib.measure.models import CHUNK, Encoded, Modalities, Model, evaluated, targets_of
from synib.objective import Bernoulli, Family, Reference, Uniform


@dataclass(frozen=True)
class CorruptionScores:
    """What :func:`scores_under_corruption` tells.

    Attributes:
        intact: Scores on the data as they are.
        corrupted: Modality → scores with this modality replaced.
        calibration: Modality, or ``""`` for intact data → what a calibration plot shows.
    """

    intact: Scores
    corrupted: Mapping[str, Scores]
    calibration: Mapping[str, Calibration]

    def __str__(self) -> str:
        rows = {"intact": self.intact, **{f"{name} corrupted": s for name, s in self.corrupted.items()}}
        width = max(map(len, rows))
        lines = [f"{'':{width}}  {'accuracy':20}  {'macro F1':20}  {'AUROC':20}  {'ECE':20}  confidence"]
        for name, s in rows.items():
            cells = "  ".join(f"{one!s:20}" for one in (s.accuracy, s.macro_f1, s.auroc, s.ece, s.confidence))
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
    """:func:`scores` on intact data, and with each modality corrupted whole.

    What the result says depends on what fills the gap. With :class:`~synib.ShuffledNoise`, the default, a swapped pair
    looks like a real one and no model can tell: look at accuracy, which says whether the model uses the modality, and read
    nothing into its confidence. To ask whether a model is unsure when a modality is gone, pass what does not look like data,
    ``StandardNoise()`` or the noise it was trained with: a model that works through the interaction of its modalities
    should then lose its confidence along with its accuracy. One that rests on a shortcut in modality i stays confident when
    another is corrupted.

    Every draw is scored by itself, since a model in use meets one corrupted input and not an average over many;
    an average would look uncertain even where each prediction is confident. Intervals resample examples together with
    all their draws.

    Args:
        predict: A :class:`~synib.FusionModel`, whose latents are computed once, or any callable from modalities to the
            family's parameters. A module is put into evaluation mode, and back into the mode it was in.
        modalities: Name → tensor, array or :class:`~synib.Tokens`, batch first.
        target: The true labels.
        noise: What replaces a modality; another example's values by default (:class:`~synib.ShuffledNoise`), which tells
            what the model uses and not whether it notices.
        draws: How many corrupted copies of each example.
        family: ``Bernoulli()`` or ``Categorical()`` (default).
        chunk: How many examples the model sees at a time.
        resamples: For the intervals.
        seed: Of counterfactuals and resampling.
    """
    family = class_family(family)
    noise = ShuffledNoise() if noise is None else check_kind("noise", noise, Noise, "ShuffledNoise()")
    check_resampling(seed, draws=draws, resamples=resamples)
    key = keys.fold(keys.key(seed), "corruption")
    found: dict[str, list[Tensor]] = {}
    with evaluated(predict), evaluated(noise):
        model = Encoded(predict, modalities, chunk)
        rows = torch.arange(model.size, device=model.device)
        found[""] = [model.mixed({}, rows)]
        for name in model.names:
            x = model.modalities[name]
            whole = torch.ones(mask_shape(x, "modality"), dtype=torch.bool, device=model.device)
            for draw in range(draws):
                mine = keys.fold(key, name, draw)
                if noise.shuffles:  # what fills a row is already encoded
                    prediction = model.mixed({name: noise.rows(mine, model.size, device=model.device)}, rows)
                else:
                    prediction = model.mixed({}, rows, {name: noise.corrupt(x, whole, mine, name)})
                found.setdefault(name, []).append(prediction)
    told, bins = {}, {}
    for name, predictions in found.items():
        p, y = zip(*(class_probabilities(one, target, family) for one in predictions), strict=True)
        each = np.stack(p, 1)
        told[name], bins[name] = score(each, y[0], resamples, seed), calibrate(each, y[0], BINS, resamples, seed)
    return CorruptionScores(told.pop(""), told, bins)


@dataclass(frozen=True)
class Use:
    """How much a model uses one modality. A family without classes has no accuracy and no confidence: ``None``.

    Args:
        mipd: The surrogate of the paper's MIPD, in nats.
        accuracy_drop: Accuracy intact less accuracy with this modality corrupted.
        confidence_drop: The same of the mean probability of the predicted class.
    """

    mipd: Estimate
    accuracy_drop: Estimate | None
    confidence_drop: Estimate | None


@dataclass(frozen=True)
class Usage:
    """What :func:`usage` found.

    Args:
        modalities: For each modality how much it is used.
        accuracy, confidence, log_loss: Of the model with all modalities intact; log-loss in nats.
        reference: C_r, the cross-entropy of the targets under the reference, in nats.
    """

    modalities: dict[str, Use]
    accuracy: Estimate | None
    confidence: Estimate | None
    log_loss: Estimate
    reference: float

    def __getitem__(self, name: str) -> Use:
        if name not in self.modalities:
            raise KeyError(f"There is no modality {name!r}; there are {', '.join(map(repr, self.modalities))}.")
        return self.modalities[name]

    def __str__(self) -> str:
        intact = f"intact: log-loss {self.log_loss}"
        if self.accuracy is not None and self.confidence is not None:
            intact += f", accuracy {self.accuracy}, confidence {self.confidence}"
        lines = [f"{intact}, C_r {self.reference:.3f}"]
        for name, use in self.modalities.items():
            line = f"without {name}: MIPD {use.mipd} nats"
            if use.accuracy_drop is not None and use.confidence_drop is not None:
                line += f", accuracy falls {use.accuracy_drop}, confidence {use.confidence_drop}"
            lines.append(line)
        return "\n".join(lines)


def usage(
    predict: Model,
    modalities: Modalities,
    target: ArrayLike | Tensor,
    family: Family | None = None,
    mask: Mask | None = None,
    noise: Noise | None = None,
    reference: Reference | None = None,
    draws: int = 16,
    seed: int = 0,
    *,
    level: float = 0.95,
    chunk: int = CHUNK,
) -> Usage:
    r"""How much a model uses each modality: the MIPD surrogate, and the fall of accuracy and confidence without it.

    The Mutual Information Perturbation Difference :math:`\mathrm{MIPD}_i = H(Y \mid \tilde X_i, X_{\neg i}) - H(Y \mid X)` is
    what corrupting modality *i* costs in predictability. Its surrogate (App. "Variational Surrogate for MIPD",
    Eq. mipd-surrogate) is

    .. math:: \widehat{\mathrm{MIPD}}_i = C_r - \mathbb E\, D_\mathrm{KL}\big(q(\cdot \mid \tilde x_i, x_{\neg i})
              \,\|\, r\big) - \mathrm{CE}\big(q(y \mid x)\big), \qquad C_r = \mathbb E_{p(y)}[-\log r(y)],

    with :math:`C_r` from the targets given here. Use held-out examples: on training data the cross-entropy is too small.

    **What it does not say.** It is not a bound on either side: it equals MIPD only where q is the true posterior, on intact
    *and* on corrupted inputs. Below that an overconfident answer to a corrupted input makes it too small, even negative, and
    an unsure one too large. A model that rests on the interaction but was never taught to doubt a swapped modality answers
    each swapped pair with full confidence: with one draw its MIPD is near 0, the same as if it did not look at the modality.
    Several draws, averaged, and the drop of accuracy tell these apart. And it depends on the corruption: a fill that leaves
    information behind, or that the model recognises, gives another number.

    With several ``draws`` predictions are averaged before the KL, as in :class:`~synib.SynIB`, which approaches q with the
    modality marginalised out (and MIPD the conditional information :math:`I(X_i; Y \mid X_{\neg i})`); K draws leave the KL
    too large by about (classes - 1) / 2K. Accuracy and confidence are those of single draws, averaged.

    Args:
        predict: A :class:`~synib.FusionModel`, whose modalities are encoded once, or any callable from modalities to the
            family's parameters.
        modalities: Name → tensor, array or :class:`~synib.Tokens`, batch first: held-out examples.
        target: Their targets.
        family: The predictive distribution. Default: ``Categorical()``.
        mask: What to corrupt. Default: the whole modality, ``RandomMask(1.0)``.
        noise: What to put there. Default: other examples' values, ``ShuffledNoise()``.
        reference: r. Default: ``Uniform()``. ``Unimodal()`` needs a model with unimodal heads.
        draws: K, of mask and noise; 1 is the paper's surrogate.
        seed: Of the draws and of the intervals.
        level: Of confidence.
        chunk: How many rows go through the model at a time.

    Example:
        >>> import torch, synib
        >>> x = {"a": torch.randn(200, 1), "b": torch.randn(200, 1)}
        >>> only_a = lambda x: 5 * x["a"]
        >>> found = usage(only_a, x, (x["a"] > 0).long(), synib.Bernoulli())
        >>> found["a"].accuracy_drop.value > 0.4, found["b"].accuracy_drop.value
        (True, 0.0)
    """
    family = family_of(family)
    mask = RandomMask(1.0) if mask is None else check_kind("mask", mask, Mask, "RandomMask(1.0)")
    noise = ShuffledNoise() if noise is None else check_kind("noise", noise, Noise, "ShuffledNoise()")
    reference = Uniform() if reference is None else check_kind("reference", reference, Reference, "Uniform()")
    check_resampling(seed, level, draws=draws)
    if mask.probes and isinstance(noise, HideTokens):
        raise ValueError(f"{type(mask).__name__} mixes noise into the values, and HideTokens has none to mix.")
    with evaluated(predict), evaluated(mask), evaluated(noise), evaluated(reference):
        encoded = Encoded(predict, modalities, chunk)
        intact = encoded.own()
        y = targets_of(target, intact, family)
        corrupted = {name: _corrupted(encoded, name, y, family, mask, noise, draws, seed) for name in encoded.names}
        heads = [name for name in encoded.names if reference.needs_unimodal and encoded.model.has_head(name)]
        alone = {name: encoded.model.head(name, encoded.latents[name]).double() for name in heads}

    def estimate(x: Tensor) -> Estimate:
        return bootstrap(np.mean, x, level=level, seed=seed)

    def right(p: Tensor) -> Tensor:
        return correct(family, p, y).double()

    def drop(of: Callable[[Tensor], Tensor], each: Tensor) -> Estimate:
        return estimate(of(intact) - torch.stack([of(p) for p in each]).mean(0))

    nll, sure = family.nll(intact, y), partial(_confidence, family)
    found, constants = {}, []
    for name, each in corrupted.items():
        rest = {other: p for other, p in alone.items() if other != name}
        if reference.needs_unimodal and not rest:
            raise ValueError(
                f"The Unimodal reference needs a unimodal predictor of a modality other than {name!r}: give the "
                "FusionModel heads."
            )
        average = each[0] if draws == 1 else family.average(each)
        r = reference(average, family, rest).to(average)
        constants.append(family.nll(r.expand_as(average), y))
        mipd = estimate(constants[-1] - family.kl(average, r) - nll)
        found[name] = Use(mipd, drop(right, each), drop(sure, each)) if family.discrete else Use(mipd, None, None)
    return Usage(
        found,
        estimate(right(intact)) if family.discrete else None,
        estimate(sure(intact)) if family.discrete else None,
        estimate(nll),
        float(torch.stack(constants).mean()),
    )


def _corrupted(
    encoded: Encoded, name: str, target: Tensor, family: Family, mask: Mask, noise: Noise, draws: int, seed: int
) -> Tensor:
    """Predictions with one modality corrupted, ``(draws, examples, ...)``; drawn as SynIB draws with the seed's key."""
    key = keys.fold(keys.key(seed), name, "")
    rows = torch.arange(encoded.size, device=encoded.device).repeat(draws)
    if mask.whole and noise.shuffles:
        fill = noise.rows(keys.fold(key, "noise"), encoded.size, draws, encoded.device)
        return encoded.mixed({name: fill}, rows).unflatten(0, (draws, -1))
    x, model = encoded.modalities[name], encoded.model

    def unimodal_loss(v: Tensor) -> Tensor:
        return family.nll(model.head(name, model.encode(name, tokens.with_values(x, v)), through=True), target)

    probe = Probe(name, lambda k: noise(x, k, name), unimodal_loss if model.has_head(name) else None)
    where = mask(x, keys.fold(key, "mask"), probe, draws)
    changed = noise.corrupt(x, where, keys.fold(key, "noise"), name, draws)
    return encoded.mixed({}, rows, {name: changed}).unflatten(0, (draws, -1))


def _confidence(family: Family, parameters: Tensor) -> Tensor:
    """The probability of the predicted class, ``(examples,)``."""
    p = probabilities(family, parameters)
    return torch.maximum(p, 1 - p).reshape(-1) if isinstance(family, Bernoulli) else p.amax(-1)
