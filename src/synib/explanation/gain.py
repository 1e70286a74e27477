"""The gain of each part of a modality: how much worse a model predicts when the part is taken from another row."""

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
OTHERS = 8  # values of the other modalities over which the additive projection is averaged
ROWS = 64  # rows at a time


@dataclass(frozen=True)
class PartGain:
    """What each part of a modality adds to the log-likelihood of the targets, in nats per row.

    Args:
        modality: Its name.
        names: The parts.
        label: The number of its part for each coordinate.
        together: The gain of each part through the interaction of the modalities, ``(parts,)``.
        together_low, together_high: Its interval over rows.
        alone: The gain of each part through the evidence of its modality alone.
        alone_low, alone_high: Its interval over rows.
        rows: Number of rows.
        draws: Number of other rows with which each part was exchanged.
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
    r"""The contribution of each part to the log-likelihood of the targets, averaged over rows.

    With :math:`x^{-i}` a row whose part *i* is taken from another row, *f* the model and *g* its additive projection (the sum
    of its unimodal evidence),

    .. math:: \text{alone}_i = \mathbb E \log\frac{g(y \mid x)}{g(y \mid x^{-i})}, \qquad
              \text{together}_i = \mathbb E \log\frac{f(y \mid x)}{f(y \mid x^{-i})} - \text{alone}_i.

    So ``together`` is how much of ``log_loss_added`` (:func:`synib.measure.emap`) is lost without the part. Shapley values
    are less suited for this. A part may be evidence for the answer in one row and against it in the next, or correct another
    part; its mean Shapley value is then near 0 or negative although the model needs it. Its squared Shapley value is large for
    every part that varies much, needed or not. The log-likelihood has neither fault: if a model has learned nothing about
    the target, no part has a gain.

    Args:
        model: A :class:`~synib.FusionModel` (wrapped or not), or any callable from modalities to the family's parameters.
        rows: Name → values, batch first.
        target: The targets of the rows.
        parts: Modality → its parts, as for :func:`synib.explain`.
        background: Rows with which parts and modalities are exchanged. Default: the rows themselves.
        family: The predictive distribution, ``Bernoulli`` or ``Categorical`` (default).
        draws: Rows with which each part is exchanged.
        seed: Seed for all draws.
        level: Confidence level of the intervals, which are over rows.
        chunk: Rows passed through the model at a time.

    Returns:
        Modality → the gain of its parts.
    """
    check_resampling(seed, level)
    check_whole("draws", draws, least=1)
    with evaluated(model):
        subject = Subject(model, rows, background, family, len(_first(background or rows)), seed, chunk)
        if not subject.family.discrete:
            raise ValueError(f"The gain of parts is defined for classes only; got the family {subject.family!r}.")
        y = targets_of(target, subject.predictions(), subject.family)
        result = {}
        for name, kind in parts.items():
            if name not in subject.encoded.names:
                raise ValueError(
                    f"parts must be for the modalities {', '.join(subject.encoded.names)}; got some for {name!r}."
                )
            of_parts = partition(kind, subject.encoded.modalities[name], name)
            gains = _gains(subject, of_parts, name, y, draws, keys.fold(keys.key(seed), "gain", name))
            result[name] = _summary(gains, of_parts, name, subject.encoded, draws, level)
    return result


def _gains(subject: Subject, parts: Partition, name: str, y: Tensor, draws: int, key: Tensor) -> Tensor:
    """The gains of each row and part, together and alone, averaged over draws: ``(rows, parts, 2)``."""
    encoded, size, first = subject.encoded, subject.size, subject.first
    rest = [other for other in encoded.names if other != name]
    others = encoded.size - first
    count = len(parts)
    log_likelihood = subject.family.unweighted().nll
    swaps = torch.cat(
        [torch.ones(1, count, dtype=torch.bool), ~torch.eye(count, dtype=torch.bool)]
    )  # nothing is exchanged in the first
    swaps = swaps.to(encoded.device)
    total = torch.zeros(size, count, 2, dtype=torch.float64, device=encoded.device)
    x = encoded.modalities[name]
    for draw in range(draws):
        draw_key = keys.fold(key, draw)
        fill = first + keys.permutation(keys.fold(draw_key, "fill"), max(size, others), encoded.device)[:size] % others
        absent = {
            o: first + keys.permutation(keys.fold(draw_key, "others", o), others, encoded.device)[:OTHERS]
            for o in encoded.names
        }
        # Additive projection: this modality's evidence alone plus the evidence of the others without it.
        without = _averaged(encoded, {name: absent[name]}, torch.arange(size, device=encoded.device))
        all_absent = _averaged(encoded, absent, torch.zeros(1, dtype=torch.long, device=encoded.device))
        for start in range(0, size, ROWS):
            block = torch.arange(start, min(start + ROWS, size), device=encoded.device)
            swapped = [
                parts.swapped(tokens.take(x, slice(r, r + 1)), tokens.take(x, slice(f, f + 1)), swaps)
                for r, f in zip(block.tolist(), fill[block].tolist(), strict=True)
            ]
            encoded_parts = {name: encoded.fusion_input(name, tokens.join(swapped))}
            inputs = torch.arange(len(block) * len(swaps), device=encoded.device)
            row = block.repeat_interleave(len(swaps))
            full = encoded.mixed({name: inputs}, row, fusion_inputs=encoded_parts)
            unimodal = torch.stack([
                encoded.mixed(
                    {name: inputs, **{o: absent[o][k].expand(len(inputs)) for o in rest}}, row, fusion_inputs=encoded_parts
                )
                for k in range(min(OTHERS, others))
            ]).mean(0)  # fmt: skip
            additive = unimodal + without[row] - all_absent
            log_likelihoods = [
                -log_likelihood(p.reshape(len(p), -1), y[row]).unflatten(0, (-1, len(swaps))) for p in (full, additive)
            ]
            full_gain, unimodal_gain = (w[:, :1] - w[:, 1:] for w in log_likelihoods)
            total[block] += torch.stack([full_gain - unimodal_gain, unimodal_gain], -1) / draws
    return total


def _averaged(encoded: Encoded, absent: Mapping[str, Tensor], rows: Tensor) -> Tensor:
    """Predictions for rows whose absent modalities are taken from other rows, averaged over these rows."""
    draws = len(next(iter(absent.values())))
    repeated = rows.repeat_interleave(draws)
    sampled = {name: drawn.repeat(len(rows)) for name, drawn in absent.items()}
    return encoded.mixed(sampled, repeated).unflatten(0, (-1, draws)).mean(1)


def _summary(gains: Tensor, parts: Partition, name: str, encoded: Encoded, draws: int, level: float) -> PartGain:
    n = len(gains)
    mean = gains.mean(0)
    half_width = interval(0.0, 1.0, n, level)[1] * gains.std(0) / math.sqrt(n)
    ends = [x.T.cpu().numpy() for x in (mean, mean - half_width, mean + half_width)]
    (together, alone), (together_low, alone_low), (together_high, alone_high) = ends
    label = parts.label.expand(tokens.values(encoded.modalities[name]).shape[1:]).numpy()
    return PartGain(
        name, parts.names, label, together, together_low, together_high, alone, alone_low, alone_high, n, draws
    )


def _first(modalities: Modalities) -> Tensor:
    x = next(iter(modalities.values()))
    return tokens.values(x) if isinstance(x, Tensor | tokens.Tokens) else torch.as_tensor(np.asarray(x))
