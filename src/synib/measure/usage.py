"""How much a model uses each modality: MIPD, and the drop in accuracy and confidence when it is corrupted."""

from dataclasses import dataclass
from functools import partial

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from synib import keys
from synib.checks import check_kind
from synib.masks import HideTokens, Mask, Noise, RandomMask, ShuffledNoise
from synib.measure.arrays import family_of, probabilities
from synib.measure.encoded import CHUNK, Encoded, Modalities, Model, evaluated, targets_of
from synib.measure.metrics import correct
from synib.measure.stats import Estimate, check_resampling, difference, mean, proportion
from synib.objective import Bernoulli, Family, Reference, Uniform
from synib.objective.probes import unimodal_probe


@dataclass(frozen=True)
class Use:
    """How much a model uses one modality. Accuracy and confidence are ``None`` for a family without classes.

    Args:
        mipd: The surrogate of the paper's MIPD, in nats.
        accuracy_drop: Accuracy on intact data minus accuracy with this modality corrupted.
        confidence_drop: The same for the mean probability of the predicted class.
    """

    mipd: Estimate
    accuracy_drop: Estimate | None
    confidence_drop: Estimate | None


@dataclass(frozen=True)
class Usage:
    """The result of :func:`usage`.

    Args:
        modalities: The use of each modality.
        accuracy, confidence, log_loss: Scores of the model with all modalities intact; log-loss in nats.
        reference: C_r, the cross-entropy of the targets under the reference, in nats.
    """

    modalities: dict[str, Use]
    accuracy: Estimate | None
    confidence: Estimate | None
    log_loss: Estimate
    reference: float

    def __getitem__(self, name: str) -> Use:
        if name not in self.modalities:
            raise KeyError(
                f"There is no modality {name!r}; the modalities are {', '.join(map(repr, self.modalities))}."
            )
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
    r"""How much a model uses each modality: the MIPD surrogate, and the drop in accuracy and confidence without it.

    The Mutual Information Perturbation Difference :math:`\mathrm{MIPD}_i = H(Y \mid \tilde X_i, X_{\neg i}) - H(Y
    \mid X)` is the loss of predictability when modality *i* is corrupted. Its surrogate (App. "Variational
    Surrogate for MIPD", Eq. mipd-surrogate) is

    .. math:: \widehat{\mathrm{MIPD}}_i = C_r - \mathbb E\, D_\mathrm{KL}\big(q(\cdot \mid \tilde x_i, x_{\neg i})
              \,\|\, r\big) - \mathrm{CE}\big(q(y \mid x)\big), \qquad C_r = \mathbb E_{p(y)}[-\log r(y)],

    with :math:`C_r` from the given targets. Use held-out examples: on training data the cross-entropy is too small.

    **Limits.** The surrogate is not a bound in either direction: it equals MIPD only if q is the true posterior on
    intact *and* on corrupted inputs. Otherwise an overconfident prediction for a corrupted input makes it too small,
    even negative, and an uncertain one too large. A model that relies on the interaction but was never trained to be
    uncertain about a swapped modality predicts each swapped pair with full confidence: with one draw its MIPD is near
    0, as if it did not use the modality. Averaging several draws, and the drop in accuracy, distinguish these cases.
    The surrogate also depends on the corruption: noise that leaves information behind, or that the model recognises,
    gives another value.

    With several ``draws``, predictions are averaged before the KL, as in :class:`~synib.SynIB`, which approximates q
    with the modality marginalised out (and MIPD the conditional information :math:`I(X_i; Y \mid X_{\neg
    i})`); K draws bias the KL upwards by about (classes - 1) / 2K. Accuracy and confidence are averages over single
    draws.

    Args:
        predict: A :class:`~synib.FusionModel`, whose modalities are encoded once, or any callable from modalities to the
            family's parameters.
        modalities: Name → tensor, array or :class:`~synib.Tokens`, batch first: held-out examples.
        target: Their targets.
        family: The predictive distribution. Default: ``Categorical()``.
        mask: Which coordinates to corrupt. Default: the whole modality, ``RandomMask(1.0)``.
        noise: The replacement values. Default: those of other examples, ``ShuffledNoise()``.
        reference: r. Default: ``Uniform()``. ``Unimodal()`` needs a model with unimodal heads.
        draws: K, the number of draws of mask and noise; the paper's surrogate uses 1.
        seed: Seed for the draws.
        level: Confidence level.
        chunk: Number of rows per call of the model.

    Example:
        >>> import torch, synib
        >>> x = {"a": torch.randn(200, 1), "b": torch.randn(200, 1)}
        >>> only_a = lambda x: 5 * x["a"]
        >>> used = usage(only_a, x, (x["a"] > 0).long(), synib.Bernoulli())
        >>> used["a"].accuracy_drop.value > 0.4, used["b"].accuracy_drop.value
        (True, 0.0)
    """
    family = family_of(family)
    mask = RandomMask(1.0) if mask is None else check_kind("mask", mask, Mask, "RandomMask(1.0)")
    noise = ShuffledNoise() if noise is None else check_kind("noise", noise, Noise, "ShuffledNoise()")
    reference = Uniform() if reference is None else check_kind("reference", reference, Reference, "Uniform()")
    check_resampling(seed, level, draws=draws)
    if mask.probes and isinstance(noise, HideTokens):
        raise ValueError(f"{type(mask).__name__} mixes noise into the values, but HideTokens has no values to mix in.")
    with evaluated(predict), evaluated(mask), evaluated(noise), evaluated(reference):
        encoded = Encoded(predict, modalities, chunk)
        intact = encoded.own()
        y = targets_of(target, intact, family)
        corrupted = {name: _corrupted(encoded, name, y, family, mask, noise, draws, seed) for name in encoded.names}
        heads = [name for name in encoded.names if reference.needs_unimodal and encoded.model.has_head(name)]
        unimodal = {name: encoded.model.head(name, encoded.latents[name]).double() for name in heads}

    def estimate(x: Tensor) -> Estimate:
        return mean(x, level=level)

    def hits(p: Tensor) -> Tensor:
        return correct(family, p, y).double()

    def accuracy_drop(draws_of_modality: Tensor) -> Estimate:
        return difference(hits(intact)[:, None], torch.stack([hits(p) for p in draws_of_modality], 1), level=level)

    def confidence_drop(draws_of_modality: Tensor) -> Estimate:
        return estimate(confidence_of(intact) - torch.stack([confidence_of(p) for p in draws_of_modality]).mean(0))

    nll, confidence_of = family.nll(intact, y), partial(_confidence, family)
    uses, constants = {}, []
    for name, draws_of_modality in corrupted.items():
        other_heads = {other: p for other, p in unimodal.items() if other != name}
        if reference.needs_unimodal and not other_heads:
            raise ValueError(
                f"The Unimodal reference needs a unimodal predictor for a modality other than {name!r}: give the "
                "FusionModel heads."
            )
        average = draws_of_modality[0] if draws == 1 else family.average(draws_of_modality)
        r = reference(average, family, other_heads).to(average)
        constants.append(family.nll(r.expand_as(average), y))
        mipd = estimate(constants[-1] - family.kl(average, r) - nll)
        uses[name] = (
            Use(mipd, accuracy_drop(draws_of_modality), confidence_drop(draws_of_modality))
            if family.discrete
            else Use(mipd, None, None)
        )
    return Usage(
        uses,
        proportion(hits(intact), level=level) if family.discrete else None,
        estimate(confidence_of(intact)) if family.discrete else None,
        estimate(nll),
        float(torch.stack(constants).mean()),
    )


def _corrupted(
    encoded: Encoded, name: str, target: Tensor, family: Family, mask: Mask, noise: Noise, draws: int, seed: int
) -> Tensor:
    """Predictions with one modality corrupted, ``(draws, examples, ...)``; drawn as in SynIB, with the key of the seed."""
    key = keys.fold(keys.key(seed), name, "")
    rows = torch.arange(encoded.size, device=encoded.device).repeat(draws)
    if mask.whole and noise.shuffles:
        fill = noise.rows(keys.fold(key, "noise"), encoded.size, draws, encoded.device)
        return encoded.mixed({name: fill}, rows).unflatten(0, (draws, -1))
    x, model = encoded.modalities[name], encoded.model

    probe = unimodal_probe(model, name, x, lambda k: noise(x, k, name), lambda own: family.nll(own, target))
    where = mask(x, keys.fold(key, "mask"), probe, draws)
    changed = noise.corrupt(x, where, keys.fold(key, "noise"), name, draws)
    return encoded.mixed({}, rows, {name: changed}).unflatten(0, (draws, -1))


def _confidence(family: Family, parameters: Tensor) -> Tensor:
    """The probability of the predicted class, ``(examples,)``."""
    p = probabilities(family, parameters)
    return torch.maximum(p, 1 - p).reshape(-1) if isinstance(family, Bernoulli) else p.amax(-1)
