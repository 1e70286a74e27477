"""The evidence of each row: of each modality alone, shared by several, and from their interaction."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synib.explanation.answers import Readout
from synib.measure import background as backgrounds
from synib.measure.arrays import probabilities
from synib.measure.background import Background
from synib.measure.encoded import Encoded
from synib.measure.stats import interval
from synib.objective import Bernoulli, Gaussian

Numbers = NDArray[np.float64]
Coalition = frozenset[int]


class Scores(NamedTuple):
    """A number per row with its interval over the background draws, ``(rows,)`` each."""

    value: Numbers
    low: Numbers
    high: Numbers


@dataclass(frozen=True)
class RowEvidence:
    r"""The decomposed evidence of a model for its answers.

    With :math:`v(S)` the evidence when the modalities *S* come from the row and the others are averaged over the background,

    .. math:: v(\text{all}) = \underbrace{v(\emptyset)}_{\text{baseline}}
              + \sum_m \underbrace{v(m) - v(\emptyset)}_{\text{alone}_m} + \text{interaction}
              = \text{baseline} + \sum_m \text{unique}_m + \text{shared} + \text{synergy}.

    Args:
        names: The modalities.
        answer: The explained answer of each row.
        evidence: :math:`v(\text{all})`.
        baseline: :math:`v(\emptyset)`.
        alone: Modality → :math:`v(m) - v(\emptyset)`.
        interaction: The remainder: the model minus its additive projection (:func:`synib.measure.emap`).
        interactions: The interaction of each set of modalities (Harsanyi dividends); they add up to ``interaction``.
        unique: Modality → its evidence alone, beyond that of any other modality in the same direction.
        shared: The evidence that several modalities give alike, counted as often as the model counts it.
        synergy: The interaction without the part that only corrects double counting of shared evidence.
        probability: The probability of the answer with all modalities.
        probability_alone: Modality → the probability of the answer with this modality alone, averaged over draws.
        gain: The increase of the log-probability of the answer by the interaction, in nats; NaN for numbers and labels.
        interaction_parameters: The interaction in every parameter of the family, ``(rows, parameters)``.
        draws: Number of background draws for an absent modality.
        kind: The kind of evidence, a key of ``synib.explanation.answers.EVIDENCE``.
        several: Which rows have at least two modalities; the others can have no synergy.
    """

    names: tuple[str, ...]
    answer: NDArray[np.int64]
    evidence: Numbers
    baseline: Numbers
    alone: Mapping[str, Scores]
    interaction: Scores
    interactions: Mapping[tuple[str, ...], Scores]
    unique: Mapping[str, Scores]
    shared: Scores
    synergy: Scores
    probability: Numbers
    probability_alone: Mapping[str, Numbers]
    gain: Numbers
    interaction_parameters: Numbers
    draws: int
    kind: str
    several: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.answer)

    @property
    def needs_both(self) -> Numbers:
        """The probability of the answer given all modalities minus the largest given one, at least 0; NaN for numbers."""
        surest = np.max(list(self.probability_alone.values()), 0)
        return np.maximum(self.probability - surest, 0.0)

    @property
    def lead(self) -> Numbers:
        """How much synergy exceeds the absolute evidence of the strongest single modality; ranks rows by synergy."""
        return self.synergy.value - np.max([np.abs(scores.value) for scores in self.alone.values()], 0)


def row_evidence(
    encoded: Encoded,
    background: Background,
    readout: Readout,
    rows: int,
    present: Tensor | None = None,
    level: float = 0.95,
) -> RowEvidence:
    """Decompose the evidence of the first ``rows`` examples.

    Args:
        encoded: The model with rows and background.
        background: The draws that replace absent modalities.
        readout: The explained quantity of the first ``rows`` examples.
        rows: Number of examples to explain; later examples are background only.
        present: Which rows have each modality, ``(rows, modalities)``; a missing modality is always absent.
        level: Confidence level.
    """
    names, family = encoded.names, readout.family
    n_parameters = readout.weights.shape[1]

    def read(parameters: Tensor) -> Tensor:
        flat = parameters.reshape(len(parameters), -1)
        if isinstance(family, Gaussian):
            return flat
        return torch.cat([flat, probabilities(family if family.discrete else Bernoulli(), flat)], 1)

    all_modalities = frozenset(range(len(names)))
    sums = {
        c: backgrounds.coalition(encoded, background, [names[i] for i in c], read)
        for c in _coalitions(all_modalities)
        if c not in (frozenset(), all_modalities)
    }
    present_values = read(encoded.mixed({}, torch.arange(rows, device=encoded.device)))
    all_absent = read(encoded.mixed(background.rows, background.group)) if len(names) > 2 else None

    def worths(left_out: int) -> dict[Coalition, Tensor]:
        """Coalition → the evidence for each row without one group of draws, ``(rows, numbers)``."""
        means = {c: backgrounds.mean_without(s, background, left_out) for c, s in sums.items()}
        if all_absent is None:
            alone = {name: means[frozenset([i])] for i, name in enumerate(names)}
            empty = backgrounds.grand_mean(alone, background, left_out)
        else:  # the same draws as for larger coalitions, so that the interaction of additive modalities is exactly 0
            empty = all_absent[background.kept(left_out)].mean(0)
        worth = {c: v[:rows] for c, v in means.items()} | {
            all_modalities: present_values,
            frozenset(): empty.expand_as(present_values),
        }
        return worth if present is None else _of_present(worth, present)

    coalitions = worths(backgrounds.NONE)
    parts = _parts(_evidence(coalitions, readout, n_parameters), names)
    without = [_parts(_evidence(worths(group), readout, n_parameters), names) for group in range(background.groups)]

    def scores(of: Callable[[_Parts], Tensor]) -> Scores:
        return _with_interval(of(parts), torch.stack([of(p) for p in without]), level)

    full = coalitions[all_modalities]
    empty, singles = coalitions[frozenset()], [coalitions[frozenset([i])] for i in range(len(names))]
    additive = torch.stack(singles).sum(0) - (len(names) - 1) * empty
    parameters, projected = full[:, :n_parameters], additive[:, :n_parameters]
    has_probability = not isinstance(family, Gaussian)
    of_answer = [
        readout.probability(x[:, n_parameters:]) if has_probability else x[:, 0] * torch.nan for x in (full, *singles)
    ]
    return RowEvidence(
        names=tuple(names),
        answer=readout.answer.cpu().numpy(),
        evidence=_array(parts.evidence),
        baseline=_array(parts.baseline),
        alone={name: scores(lambda p, i=i: p.alone[i]) for i, name in enumerate(names)},  # type: ignore[misc]
        interaction=scores(lambda p: p.interaction),
        interactions={
            tuple(names[i] for i in sorted(c)): scores(lambda p, c=c: p.dividends[c])  # type: ignore[misc]
            for c in parts.dividends
        },
        unique={name: scores(lambda p, i=i: p.alone[i] - p.agreed[i]) for i, name in enumerate(names)},  # type: ignore[misc]
        shared=scores(lambda p: p.agreed.sum(0) + p.overlap),
        synergy=scores(lambda p: p.interaction - p.overlap),
        probability=_array(of_answer[0]),
        probability_alone={name: _array(p) for name, p in zip(names, of_answer[1:], strict=True)},
        gain=_array(readout.log_probability(parameters) - readout.log_probability(projected)),
        interaction_parameters=_array(parameters - projected),
        draws=background.draws,
        kind=readout.kind,
        several=np.ones(rows, dtype=bool) if present is None else (present.sum(1) > 1).cpu().numpy(),
    )


class _Parts(NamedTuple):
    evidence: Tensor
    baseline: Tensor
    alone: Tensor  # (modalities, rows)
    interaction: Tensor
    dividends: dict[Coalition, Tensor]
    agreed: Tensor  # of what each says alone, (modalities, rows)
    overlap: Tensor


def _evidence(worth: Mapping[Coalition, Tensor], readout: Readout, parameters: int) -> dict[Coalition, Tensor]:
    return {c: readout(v[:, :parameters]) for c, v in worth.items()}


def _parts(v: Mapping[Coalition, Tensor], names: Sequence[str]) -> _Parts:
    n = len(names)
    all_modalities: Coalition = frozenset(range(n))
    empty = v[frozenset()]
    alone = torch.stack([v[frozenset([i])] - empty for i in range(n)])
    interaction = v[all_modalities] - empty - alone.sum(0)
    dividends: dict[Coalition, Tensor] = {}
    for c in _coalitions(all_modalities):
        if len(c) > 1:
            signs = [((-1) ** (len(c) - len(s)), s) for s in _coalitions(c)]
            dividends[c] = torch.stack([sign * v[s] for sign, s in signs]).sum(0)
    agreed, overlap = agreement(alone, interaction)
    return _Parts(v[all_modalities], empty, alone, interaction, dividends, agreed, overlap)


def agreement(alone: Tensor, interaction: Tensor) -> tuple[Tensor, Tensor]:
    r"""The evidence that modalities share, and the part of an interaction that corrects its double counting.

    *Agreed* is the part of each modality's evidence that another modality gives alone in the same direction: if two agree in
    sign the smaller of both, :math:`\operatorname{sign}(a)\,\min(|a|, |b|)`, otherwise 0. An additive model counts it twice.
    A model that counts it once has an interaction of the opposite sign. Up to the amount counted twice, this *overlap* is
    assigned to shared evidence and not to synergy.

    Args:
        alone: Evidence of each modality alone, ``(modalities, rows)``.
        interaction: The evidence of all modalities minus this sum, ``(rows,)``.

    Returns:
        *Agreed* for each modality ``(modalities, rows)``, and the *overlap* ``(rows,)``.
    """
    agreed = torch.zeros_like(alone)
    overlap = torch.zeros_like(interaction)
    for sign in (1.0, -1.0):
        size = (sign * alone).clamp(min=0.0)
        largest, second = size.topk(2, 0).values
        agreeing = torch.minimum(size, second.expand_as(size))
        # The largest agrees with the second largest; every other one is contained in the largest.
        agreeing = torch.where(size < largest, size, agreeing)
        agreed = agreed + sign * agreeing
        counted_twice = agreeing.sum(0) - agreeing.amax(0)
        overlap = overlap - sign * torch.minimum(counted_twice, (-sign * interaction).clamp(min=0.0))
    return agreed, overlap


def _of_present(worth: Mapping[Coalition, Tensor], present: Tensor) -> dict[Coalition, Tensor]:
    """The value of each coalition, restricted for each row to the modalities that the row has."""
    patterns, of_row = present.unique(dim=0, return_inverse=True)
    result = {c: v.clone() for c, v in worth.items()}
    for i, pattern in enumerate(patterns.tolist()):
        has: Coalition = frozenset(k for k, is_present in enumerate(pattern) if is_present)
        rows = of_row == i
        for c, v in result.items():
            v[rows] = worth[c & has][rows]
    return result


def _with_interval(value: Tensor, without: Tensor, level: float) -> Scores:
    """The value with its jackknife interval over groups of draws."""
    groups = len(without)
    if groups < 2:
        unknown = np.full(len(value), np.nan)
        return Scores(_array(value), unknown, unknown)
    se = ((groups - 1) / groups * (without - without.mean(0)).square().sum(0)).sqrt()
    half_width = interval(0.0, 1.0, groups, level)[1] * se
    return Scores(_array(value), _array(value - half_width), _array(value + half_width))


def _coalitions(modalities: Coalition) -> list[Coalition]:
    sizes = range(len(modalities) + 1)
    return [frozenset(c) for size in sizes for c in itertools.combinations(sorted(modalities), size)]


def _array(x: Tensor) -> Numbers:
    return x.double().cpu().numpy()
