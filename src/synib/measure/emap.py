"""EMAP: the performance of a model when only the additive part of its predictions is kept."""

from dataclasses import dataclass

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from synib.checks import check_choice, check_whole
from synib.measure import background as backgrounds
from synib.measure.arrays import Array, Of, family_of, probabilities
from synib.measure.encoded import CHUNK, Encoded, Modalities, Model, evaluated, targets_of
from synib.measure.metrics import correct
from synib.measure.stats import Estimate, check_resampling, difference, mean, proportion, widen
from synib.objective import Bernoulli, Family

EXACT = 4_000_000  # with more than two modalities, up to this number of combinations are all evaluated
MANY = 512  # combinations that are drawn otherwise
SMALL = 1e-6  # a projected probability may fall outside [0, 1]


@dataclass(frozen=True)
class Emap:
    """The result of :func:`emap`. Accuracy is ``None`` for a family without classes.

    Args:
        accuracy, log_loss: Accuracy and log-loss of the model; log-loss in nats.
        additive_accuracy, additive_log_loss: Accuracy and log-loss of its additive projection.
        accuracy_lost: Accuracy lost by the projection on the same examples: the contribution of interactions.
        log_loss_added: Log-loss added by the projection on the same examples.
        projection: The projected predictions as the family's parameters, ``(examples, outputs)``.
        pairs: Number of combinations of the other modalities over which each example was averaged.
        exact: Whether these were all combinations.
    """

    accuracy: Estimate | None
    log_loss: Estimate
    additive_accuracy: Estimate | None
    additive_log_loss: Estimate
    accuracy_lost: Estimate | None
    log_loss_added: Estimate
    projection: Array
    pairs: int
    exact: bool

    def __str__(self) -> str:
        rows = [("log-loss", self.log_loss, self.additive_log_loss, self.log_loss_added)]
        if self.accuracy is not None and self.additive_accuracy is not None and self.accuracy_lost is not None:
            rows.insert(0, ("accuracy", self.accuracy, self.additive_accuracy, self.accuracy_lost))
        how = "all" if self.exact else "drawn"
        lines = [f"{self.log_loss.n} examples, {self.pairs} combinations for each ({how})"]
        for name, model, additive, change in rows:
            lines.append(f"{name:<9} model {model}  additive {additive}  lost {change}")
        return "\n".join(lines)


def emap(
    predict: Model,
    modalities: Modalities,
    target: ArrayLike | Tensor,
    family: Family | None = None,
    pairs: int | None = None,
    seed: int = 0,
    *,
    of: Of = "logits",
    level: float = 0.95,
    chunk: int = CHUNK,
) -> Emap:
    r"""Project a model's outputs onto their additive part and measure the loss (EMAP, Hessel & Lee 2020).

    The projection is the sum of one function per modality that is closest to the model when modalities are drawn
    independently. For two modalities

    .. math:: \hat f(x_1^i, x_2^i) = \frac1N \sum_j f(x_1^i, x_2^j) + \frac1N \sum_j f(x_1^j, x_2^i)
              - \frac1{N^2} \sum_{jk} f(x_1^j, x_2^k),

    and for n of them, the n means with one modality fixed, minus n - 1 times the grand mean. If the projection is as
    good as the model, the model's interactions contribute nothing on these data, whatever its architecture.

    Two modalities are averaged over all N² pairs. For more modalities, up to 4 million combinations are evaluated
    exactly; beyond that, or if ``pairs`` is given, a sample is used, and the intervals include its error. All examples
    share the sample, so a purely additive model still loses 0. The noise of a small sample makes the projection
    slightly worse, by about 1 / pairs.

    Intervals are conditional on the projection of these examples; they do not include its variation over other samples.

    Args:
        predict: A :class:`~synib.FusionModel`, whose modalities are encoded once, or any callable from modalities to the
            family's parameters.
        modalities: Name → tensor, array or :class:`~synib.Tokens`, batch first: held-out examples.
        target: Their targets.
        family: The predictive distribution. Default: ``Categorical()``.
        pairs: Number of combinations of the other modalities to average over for each example; ``None`` for all (see
            above).
        seed: Seed for the sample.
        of: Project ``"logits"`` (the family's parameters) or ``"probabilities"``, which are clipped at 1e-6 afterwards.
        level: Confidence level.
        chunk: Number of rows per call of the model.

    Example:
        >>> import torch, synib
        >>> bits = torch.tensor([[0.0], [0.0], [1.0], [1.0]]).repeat(50, 1), torch.tensor([[0.0], [1.0]]).repeat(100, 1)
        >>> xor = lambda x: 4 * (2 * (x["a"] != x["b"]).float() - 1)
        >>> projected = emap(xor, {"a": bits[0], "b": bits[1]}, (bits[0] != bits[1]).long(), synib.Bernoulli())
        >>> print(projected.accuracy_lost)
        0.500 [0.431, 0.569]
    """
    family = family_of(family)
    check_choice("of", of, Of)
    check_resampling(seed, level)
    if of == "probabilities" and not family.discrete:
        raise ValueError(f"{family!r} has no class probabilities to project: use of='logits'.")
    if pairs is not None:
        check_whole("pairs", pairs, least=2)

    def read(parameters: Tensor) -> Tensor:
        return parameters if of == "logits" else probabilities(family, parameters)

    with evaluated(predict):
        encoded = Encoded(predict, modalities, chunk)
        prediction = encoded.own()
        y = targets_of(target, prediction, family)
        n, combinations = encoded.size, encoded.size ** (len(encoded.names) - 1)
        if n < 2:
            raise ValueError("EMAP mixes the modalities of different examples and needs at least 2; got 1 example.")
        if pairs is None:
            pairs = combinations if len(encoded.names) == 2 or n * combinations <= EXACT else MANY
        exact = pairs >= combinations
        if exact:
            pairs, background, unimodal_sums = (
                combinations,
                backgrounds.everyone(encoded),
                backgrounds.margins(encoded, read),
            )
        else:
            background = backgrounds.draw(encoded, pairs, seed)
            unimodal_sums = {name: backgrounds.coalition(encoded, background, [name], read) for name in encoded.names}

    def project(left_out: int = backgrounds.NONE) -> Tensor:
        means = {name: backgrounds.mean_without(sums, background, left_out) for name, sums in unimodal_sums.items()}
        log_loss_added = torch.stack(list(means.values())).sum(0)
        flat = log_loss_added - (len(means) - 1) * backgrounds.grand_mean(means, background, left_out)
        projected = flat.reshape(prediction.shape)
        return projected if of == "logits" else parameters_of(family, projected)

    projection = project()
    jackknife = [] if exact else [project(group) for group in range(background.groups)]

    def including_draws(over_examples: Estimate, of_left: list[Tensor]) -> Estimate:
        return widen(over_examples, [float(x.mean()) for x in of_left], background.finite)

    loss, projected_loss, left_loss = (
        family.nll(prediction, y),
        family.nll(projection, y),
        [family.nll(p, y) for p in jackknife],
    )
    log_loss = mean(loss, level=level)
    additive_log_loss = including_draws(mean(projected_loss, level=level), left_loss)
    log_loss_added = including_draws(mean(projected_loss - loss, level=level), [x - loss for x in left_loss])
    accuracy = additive_accuracy = accuracy_lost = None
    if family.discrete:
        hits, projected_hits, *left_hits = (
            correct(family, p, y).double() for p in (prediction, projection, *jackknife)
        )
        accuracy = proportion(hits, level=level)
        additive_accuracy = including_draws(proportion(projected_hits, level=level), left_hits)
        accuracy_lost = including_draws(difference(hits, projected_hits, level=level), [hits - x for x in left_hits])
    return Emap(
        accuracy, log_loss, additive_accuracy, additive_log_loss, accuracy_lost, log_loss_added,
        projection.reshape(n, -1).cpu().numpy(), pairs, exact,
    )  # fmt: skip


def parameters_of(family: Family, probability: Tensor) -> Tensor:
    """The family's parameters for these probabilities, which are clipped to [0, 1]."""
    if isinstance(family, Bernoulli):
        return torch.logit(probability.clamp(SMALL, 1 - SMALL))
    return probability.clamp(min=SMALL).log()
