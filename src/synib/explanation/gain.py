"""Which parts a model's fit to the target rests on: by how much it predicts worse when a part is another row's."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from synib import keys, tokens
from synib.checks import check_whole
from synib.explanation.partition import Partition, PartsOf, partition
from synib.explanation.subject import Subject
from synib.measure.encoded import CHUNK, Encoded, Modalities, Model, evaluated, targets_of
from synib.measure.stats import check_resampling, interval
from synib.objective import Family

Numbers = NDArray[np.float64]
OTHERS = 8  # values of the other modalities that the additive projection is averaged over
ROWS = 64  # at a time


@dataclass(frozen=True)
class PartGain:
    """What each part of a modality adds to the log-likelihood of the targets, in nats per row.

    Args:
        modality: Its name.
        names: The parts.
        label: The number of its part for each coordinate.
        together: What a part adds through the interaction of the modalities, ``(parts,)``.
        together_low, together_high: Its interval over rows.
        alone: What it adds through what the modality says alone.
        alone_low, alone_high: Its interval over rows.
        rows: How many rows it is the mean of.
        draws: How many other rows each part was swapped with.
    """

    modality: str
    names: tuple[str, ...]
    label: NDArray[np.int64]
    together: Numbers
    together_low: Numbers
    together_high: Numbers
    alone: Numbers
    alone_low: Numbers
    alone_high: Numbers
    rows: int
    draws: int


def part_gain(
    model: Model,
    rows: Modalities,
    target: ArrayLike | Tensor,
    parts: Mapping[str, PartsOf],
    *,
    background: Modalities | None = None,
    family: Family | None = None,
    draws: int = 16,
    seed: int = 0,
    level: float = 0.95,
    chunk: int = CHUNK,
) -> dict[str, PartGain]:
    r"""A map of the parts over many rows: what each adds to the log-likelihood of the targets.

    With :math:`x^{-i}` a row whose part *i* is another row's, *f* the model and *g* its additive projection (what each
    modality says alone, added up),

    .. math:: \text{alone}_i = \mathbb E \log\frac{g(y \mid x)}{g(y \mid x^{-i})}, \qquad
              \text{together}_i = \mathbb E \log\frac{f(y \mid x)}{f(y \mid x^{-i})} - \text{alone}_i.

    So ``together`` is how much of ``log_loss_added`` (:func:`synib.measure.emap`) is lost without the part. A part may argue
    for the answer in one row and against it in the next, or correct another part: its mean Shapley value is then near 0
    or negative although the model needs it, and its squared Shapley value is large for every part that varies much, needed or
    not. The log-likelihood has neither fault: a model that has learned nothing about the target gains nothing from
    any part.

    Args:
        model: A :class:`~synib.FusionModel` (wrapped or not), or any callable from modalities to the family's parameters.
        rows: Name → values, batch first.
        target: The targets of the rows.
        parts: Modality → its parts, as for :func:`synib.explain`.
        background: Rows that parts and modalities are swapped with. Default: the rows themselves.
        family: How outputs are read: ``Bernoulli``, or ``Categorical`` by default.
        draws: Rows that each part is swapped with.
        seed: Seed for all draws.
        level: Confidence level of the intervals, which are over rows.
        chunk: How many rows go through the model at a time.
    """
    check_resampling(seed, level)
    check_whole("draws", draws, least=1)
    with evaluated(model):
        subject = Subject(model, rows, background, family, len(_first(background or rows)), seed, chunk)
        if not subject.family.discrete:
            raise ValueError(f"The gain of parts is of classes; got the family {subject.family!r}.")
        y = targets_of(target, subject.predictions(), subject.family)
        result = {}
        for name, kind in parts.items():
            if name not in subject.encoded.names:
                raise ValueError(f"parts are of {', '.join(subject.encoded.names)}; got some of {name!r}.")
            of_parts = partition(kind, subject.encoded.modalities[name], name)
            gains = _gains(subject, of_parts, name, y, draws, keys.fold(keys.key(seed), "gain", name))
            result[name] = _summary(gains, of_parts, name, subject.encoded, draws, level)
    return result


def _gains(subject: Subject, parts: Partition, name: str, y: Tensor, draws: int, key: Tensor) -> Tensor:
    """Of each row and part, together and alone, averaged over draws, ``(rows, parts, 2)``."""
    encoded, size, first = subject.encoded, subject.size, subject.first
    rest = [other for other in encoded.names if other != name]
    others = encoded.size - first
    count = len(parts)
    log_likelihood = subject.family.unweighted().nll
    swaps = torch.cat([torch.ones(1, count, dtype=torch.bool), ~torch.eye(count, dtype=torch.bool)])  # first: nothing
    swaps = swaps.to(encoded.device)
    total = torch.zeros(size, count, 2, dtype=torch.float64, device=encoded.device)
    x = encoded.modalities[name]
    for draw in range(draws):
        at = keys.fold(key, draw)
        fill = first + keys.permutation(keys.fold(at, "fill"), max(size, others), encoded.device)[:size] % others
        absent = {
            o: first + keys.permutation(keys.fold(at, "others", o), others, encoded.device)[:OTHERS]
            for o in encoded.names
        }
        # The additive projection: what this modality says alone is added to what the others say without it.
        without = _averaged(encoded, {name: absent[name]}, torch.arange(size, device=encoded.device))
        nobody = _averaged(encoded, absent, torch.zeros(1, dtype=torch.long, device=encoded.device))
        for start in range(0, size, ROWS):
            block = torch.arange(start, min(start + ROWS, size), device=encoded.device)
            swapped = [
                parts.swapped(tokens.take(x, slice(r, r + 1)), tokens.take(x, slice(f, f + 1)), swaps)
                for r, f in zip(block.tolist(), fill[block].tolist(), strict=True)
            ]
            brought = {name: encoded.bring(name, tokens.join(swapped))}
            each = torch.arange(len(block) * len(swaps), device=encoded.device)
            row = block.repeat_interleave(len(swaps))
            full = encoded.mixed({name: each}, row, brought=brought)
            alone = torch.stack([
                encoded.mixed(
                    {name: each, **{o: absent[o][k].expand(len(each)) for o in rest}}, row, brought=brought
                )
                for k in range(min(OTHERS, others))
            ]).mean(0)  # fmt: skip
            additive = alone + without[row] - nobody
            worth = [
                -log_likelihood(p.reshape(len(p), -1), y[row]).unflatten(0, (-1, len(swaps))) for p in (full, additive)
            ]
            both, single = (w[:, :1] - w[:, 1:] for w in worth)
            total[block] += torch.stack([both - single, single], -1) / draws
    return total


def _averaged(encoded: Encoded, absent: Mapping[str, Tensor], rows: Tensor) -> Tensor:
    """Predictions for rows whose absent modalities are taken from other rows, averaged over these rows."""
    draws = len(next(iter(absent.values())))
    each = rows.repeat_interleave(draws)
    taken = {name: drawn.repeat(len(rows)) for name, drawn in absent.items()}
    return encoded.mixed(taken, each).unflatten(0, (-1, draws)).mean(1)


def _summary(gains: Tensor, parts: Partition, name: str, encoded: Encoded, draws: int, level: float) -> PartGain:
    n = len(gains)
    mean = gains.mean(0)
    reach = interval(0.0, 1.0, n, level)[1] * gains.std(0) / math.sqrt(n)
    ends = [x.T.cpu().numpy() for x in (mean, mean - reach, mean + reach)]
    (together, alone), (together_low, alone_low), (together_high, alone_high) = ends
    label = parts.label.expand(tokens.values(encoded.modalities[name]).shape[1:]).numpy()
    return PartGain(
        name, parts.names, label, together, together_low, together_high, alone, alone_low, alone_high, n, draws
    )


def _first(modalities: Modalities) -> Tensor:
    x = next(iter(modalities.values()))
    return tokens.values(x) if isinstance(x, Tensor | tokens.Tokens) else torch.as_tensor(np.asarray(x))
