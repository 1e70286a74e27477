"""How much of a model's behaviour is interaction: Shapley interaction values with modalities as players."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from synib.checks import check_choice, check_whole
from synib.measure import background as backgrounds
from synib.measure.arrays import Array, Of, family_of, probabilities
from synib.measure.encoded import CHUNK, Encoded, Modalities, Model, evaluated, targets_of
from synib.measure.stats import Estimate, bootstrap, check_resampling, ratio, unknown, widen
from synib.objective import Categorical, Family, Gaussian

NOTHING = 1e-6  # relative to the outputs; smaller effects are rounding errors


@dataclass(frozen=True)
class Interaction:
    """The result of :func:`interaction`: shares of the model's behaviour, which sum to 1.

    For a model with constant output all shares are NaN.

    Args:
        score: The share of all interactions, in [0, 1].
        pairs: The share of each pair of modalities.
        main: The share of each modality alone.
        values: Absolute Shapley interaction values of every example, summed over outputs, ``(examples, n, n)``: main
            effects on the diagonal, half of a pair's interaction on each side of it.
        draws: Number of background draws that replaced an absent modality.
    """

    score: Estimate
    pairs: dict[tuple[str, str], Estimate]
    main: dict[str, Estimate]
    values: Array
    draws: int

    def __str__(self) -> str:
        lines = [f"interaction {self.score} of the behaviour on {self.score.n} examples"]
        lines += [f"  {' x '.join(pair)}: {share}" for pair, share in self.pairs.items()]
        lines += [f"  {name} alone: {share}" for name, share in self.main.items()]
        return "\n".join(lines)


def interaction(
    predict: Model,
    modalities: Modalities,
    target: ArrayLike | Tensor | None = None,
    family: Family | None = None,
    draws: int = 256,
    seed: int = 0,
    *,
    of: Of = "logits",
    level: float = 0.95,
    chunk: int = CHUNK,
) -> Interaction:
    r"""The share of a model's behaviour that comes from interactions (in the manner of InterSHAP, Wenderoth et al. 2025).

    Modalities are the players of a game whose value :math:`v(S)` is the model's output with the modalities *S* of the
    example itself and the others averaged over a background. For every example

    .. math:: \phi_{ij} = \sum_{S \not\ni i, j} \frac{|S|!\,(n - |S| - 2)!}{2\,(n - 1)!}
              \big(v(S{\cup}ij) - v(S{\cup}i) - v(S{\cup}j) + v(S)\big), \qquad
              \phi_{ii} = \phi_i - \sum_{j \ne i} \phi_{ij}

    with :math:`\phi_i` the Shapley value, so that all entries sum to :math:`v(\text{all}) - v(\emptyset)`. The score is

    .. math:: \sum_{i \ne j} \mathbb E|\phi_{ij}| \Big/ \sum_{i, j} \mathbb E|\phi_{ij}|.

    All :math:`2^n` coalitions are evaluated. An absent modality takes the values of ``draws`` other examples, drawn
    separately for each modality (the product of the marginals, as in :func:`emap`). All coalitions share the same
    draws, so an additive model scores 0 up to rounding with any number of draws. A pure XOR of two balanced bits scores
    :math:`1 / (1 + |\delta_1| + |\delta_2|)`, where :math:`\delta_i` is the mean of bit *i*, as ±1, over the
    background: exactly 1 if the background is balanced, about :math:`1 / (1 + 1.6/\sqrt{\mathrm{draws}})` if it is
    drawn. In general, few draws inflate main effects: increase ``draws`` until the score is stable.

    Intervals are over examples and include the choice of draws, but not this bias.

    Args:
        predict: A :class:`~synib.FusionModel`, whose modalities are encoded once, or any callable from modalities to the
            family's parameters.
        modalities: Name → tensor, array or :class:`~synib.Tokens`, batch first.
        target: If given, only the output of the example's class is explained; otherwise all outputs, in absolute value.
        family: The predictive distribution. Default: ``Categorical()``, whose logits are centred because only their
            differences matter; for a ``Gaussian`` the means are explained.
        draws: Background draws for an absent modality; at most the number of examples.
        seed: Seed for the draws and the bootstrap.
        of: Explain ``"logits"``, or ``"probabilities"``, for which a sum of logits is already an interaction.
        level: Confidence level.
        chunk: Number of rows per call of the model.

    Example:
        >>> import torch
        >>> x = {"a": torch.randn(100, 2), "b": torch.randn(100, 2)}
        >>> sums, products = lambda x: x["a"] + x["b"], lambda x: x["a"] * x["b"]
        >>> interaction(sums, x).score.value < 1e-6, interaction(products, x).score.value > 0.5
        (True, True)
    """
    family = family_of(family)
    check_choice("of", of, Of)
    check_resampling(seed, level)
    check_whole("draws", draws, least=2)
    if not family.discrete and (of == "probabilities" or target is not None):
        raise ValueError(f"{family!r} has no classes: leave out target and of='probabilities'.")
    with evaluated(predict):
        encoded = Encoded(predict, modalities, chunk)
        if encoded.size < 2:
            raise ValueError(
                "Absent modalities take the values of other examples, which needs at least 2; got 1 example."
            )
        prediction = encoded.own()
        _check(family, prediction)
        y = None if target is None else targets_of(target, prediction, family)
        background = backgrounds.draw(encoded, min(draws, encoded.size), seed)
        names, read = encoded.names, _reader(family, of)
        coalitions = [c for size in range(1, len(names)) for c in itertools.combinations(range(len(names)), size)]
        sums = {
            c: backgrounds.coalition(encoded, background, [names[i] for i in c], read)
            for c in map(frozenset, coalitions)
        }
        full = read(prediction).reshape(encoded.size, -1)
        all_absent = read(encoded.mixed(background.rows, background.group)).reshape(background.draws, -1)

    def local(left_out: int = backgrounds.NONE) -> Tensor:
        worth = {c: backgrounds.mean_without(s, background, left_out) for c, s in sums.items()}
        if len(names) == 2:
            alone = {name: worth[frozenset([i])] for i, name in enumerate(names)}
            empty = backgrounds.grand_mean(alone, background, left_out)
        else:
            # The same draws as for larger coalitions, so that a pair without interaction has a share of exactly 0.
            empty = all_absent[background.kept(left_out)].mean(0)
        worth[frozenset()] = empty.expand_as(full)
        worth[frozenset(range(len(names)))] = full
        if y is not None and full.shape[1] > 1:
            worth = {c: v.gather(1, y[:, None]) for c, v in worth.items()}
        return interaction_values(worth, len(names)).abs().sum(-1).permute(2, 0, 1)

    values = local()
    without = [local(group).mean(0) for group in range(background.groups)] if background.finite else []
    behaviour = values.sum((1, 2))
    constant = float(behaviour.mean()) <= NOTHING * float(full.abs().max())

    def share(part: Callable[[Tensor], Tensor]) -> Estimate:
        """The share of the values that ``part`` selects."""
        if constant:
            return unknown(encoded.size, level)
        over_examples = bootstrap(ratio, part(values), behaviour, level=level, seed=seed)
        wide = widen(over_examples, [float(part(v) / v.sum()) for v in without], background.finite)
        return Estimate(wide.value, max(0.0, wide.low), min(1.0, wide.high), wide.n, level)

    pairs = list(itertools.combinations(range(len(names)), 2))
    return Interaction(
        share(lambda v: v.sum((-1, -2)) - v.diagonal(dim1=-2, dim2=-1).sum(-1)),
        {(names[i], names[j]): share(lambda v, i=i, j=j: v[..., i, j] + v[..., j, i]) for i, j in pairs},  # type: ignore[misc]
        {name: share(lambda v, i=i: v[..., i, i]) for i, name in enumerate(names)},  # type: ignore[misc]
        values.cpu().numpy(),
        background.draws,
    )


def interaction_values(worth: dict[frozenset[int], Tensor], players: int) -> Tensor:
    """Shapley interaction values φ of a game, ``(players, players, *worth)``; they sum to v(all) - v(none).

    Args:
        worth: Coalition → its value, for all :math:`2^n` coalitions.
        players: n.
    """
    everyone, n = frozenset(range(players)), players
    phi = torch.zeros(n, n, *worth[everyone].shape, dtype=torch.float64, device=worth[everyone].device)
    for i in range(n):
        for s in _subsets(everyone - {i}):
            weight = math.factorial(len(s)) * math.factorial(n - len(s) - 1) / math.factorial(n)
            phi[i, i] += weight * (worth[s | {i}] - worth[s])
    for i, j in itertools.combinations(range(n), 2):
        for s in _subsets(everyone - {i, j}):
            weight = math.factorial(len(s)) * math.factorial(n - len(s) - 2) / (2 * math.factorial(n - 1))
            phi[i, j] += weight * (worth[s | {i, j}] - worth[s | {i}] - worth[s | {j}] + worth[s])
        phi[j, i] = phi[i, j]
        phi[i, i] -= phi[i, j]
        phi[j, j] -= phi[i, j]
    return phi


def _subsets(players: frozenset[int]) -> list[frozenset[int]]:
    sizes = range(len(players) + 1)
    return [frozenset(c) for size in sizes for c in itertools.combinations(sorted(players), size)]


def _reader(family: Family, of: Of) -> backgrounds.Read:
    """The outputs to explain."""
    if of == "probabilities":
        return lambda parameters: probabilities(family, parameters)
    if isinstance(family, Categorical):
        return lambda parameters: parameters - parameters.mean(-1, keepdim=True)
    return (lambda parameters: parameters) if family.discrete else family.predict


def _check(family: Family, prediction: Tensor) -> None:
    """Raise ``ValueError`` if the predictions do not match the family."""
    rows = len(prediction)
    like = torch.zeros(rows, family.dim) if isinstance(family, Gaussian) else torch.zeros(rows, dtype=torch.int64)
    family.check_target(prediction, like, values=False)
