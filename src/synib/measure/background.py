"""Predictions with some modalities of the example itself and the others replaced by those of background examples."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from synib import keys
from synib.measure.encoded import Encoded

Read = Callable[[Tensor], Tensor]
GROUPS = 16  # groups of background draws for a jackknife over draws
NONE = -1  # no group is left out


class Background(NamedTuple):
    """Rows that replace absent modalities, drawn from each modality separately: the product of the marginals.

    All coalitions and all examples share the same draws, so an additive model stays exactly additive, however few draws
    there are.

    Args:
        rows: Modality → rows of its draws, ``(draws,)``.
        group: The group of each draw, ``(draws,)``.
        groups: Number of groups.
        finite: Finite-population correction of the standard error over draws: 0 if the draws are all examples.
    """

    rows: dict[str, Tensor]
    group: Tensor
    groups: int
    finite: float

    @property
    def draws(self) -> int:
        return len(self.group)

    def kept(self, left_out: int) -> Tensor:
        """Which draws remain when one group is left out, ``(draws,)``."""
        return self.group != left_out


def draw(encoded: Encoded, draws: int, seed: int, first: int = 0) -> Background:
    """A background of a given number of draws; rows of a modality repeat only after all have been used.

    Args:
        encoded: The examples.
        draws: Number of draws.
        seed: Seed for the draws.
        first: Examples before this index are never drawn.
    """
    n, key = encoded.size - first, keys.key(seed)
    rows = {}
    for name in encoded.names:
        rounds = [keys.permutation(keys.fold(key, "background", name, r), n) for r in range(math.ceil(draws / n))]
        rows[name] = first + torch.cat(rounds)[:draws].to(encoded.device)
    groups = min(GROUPS, draws)
    finite = math.sqrt(max(0.0, 1 - draws / n)) if len(encoded.names) == 2 else 1.0
    return Background(rows, torch.arange(draws, device=encoded.device) % groups, groups, finite)


def everyone(encoded: Encoded) -> Background:
    """Every example as one draw, without randomness; :func:`margins` are the means over it."""
    all_rows = torch.arange(encoded.size, device=encoded.device)
    return Background(dict.fromkeys(encoded.names, all_rows), torch.zeros_like(all_rows), 1, 0.0)


def coalition(encoded: Encoded, background: Background, present: Sequence[str], read: Read) -> Tensor:
    """Sums of predictions with these modalities of the example itself and the others from the background.

    Returns:
        For each group of draws and each example, the sum over the group, ``(groups, examples, outputs)``.
    """
    draws, n = background.draws, encoded.size
    sums: Tensor | None = None
    for flat in _blocks(n * draws, encoded):
        example, draw_index = flat // draws, flat % draws
        sampled = {name: example if name in present else rows[draw_index] for name, rows in background.rows.items()}
        outputs = _outputs(read(encoded.mixed(sampled, example)))
        if sums is None:
            sums = outputs.new_zeros(background.groups * n, outputs.shape[1])
        sums.index_add_(0, background.group[draw_index] * n + example, outputs)
    assert sums is not None
    return sums.unflatten(0, (background.groups, n))


def mean_without(sums: Tensor, background: Background, left_out: int) -> Tensor:
    """The mean over all draws except those of one group, ``(examples, outputs)``."""
    groups = torch.arange(background.groups, device=sums.device)
    return sums[groups != left_out].sum(0) / background.kept(left_out).sum()


def grand_mean(alone: Mapping[str, Tensor], background: Background, left_out: int) -> Tensor:
    """The mean with all modalities from the background, from the means of each modality alone, ``(outputs,)``.

    Each background row of a modality is an example, so its mean over the draws of the others is already known.
    Averaging over modalities uses many more combinations than there are draws, at no cost.
    """
    kept = background.kept(left_out)
    return torch.stack([mean[background.rows[name][kept]].mean(0) for name, mean in alone.items()]).mean(0)


def margins(encoded: Encoded, read: Read) -> dict[str, Tensor]:
    """Modality → the result of :func:`coalition` with this modality only, for *all* combinations of the others as draws.

    The model runs once on each of the examples^n combinations. Sums correspond to as many draws as :func:`everyone`
    has.
    """
    n, names = encoded.size, encoded.names
    total = n ** len(names)
    sums: dict[str, Tensor] = {}
    for flat in _blocks(total, encoded):
        combination, remainder = {}, flat
        for name in reversed(names):
            combination[name], remainder = remainder % n, remainder // n
        outputs = _outputs(read(encoded.mixed(combination, flat)))
        for name, rows in combination.items():
            if name not in sums:
                sums[name] = outputs.new_zeros(n, outputs.shape[1])
            sums[name].index_add_(0, rows, outputs)
    return {name: (s / (total // n) * n)[None] for name, s in sums.items()}


def _blocks(total: int, encoded: Encoded) -> Iterator[Tensor]:
    """The integers below ``total``, in chunks."""
    for start in range(0, total, encoded.chunk):
        yield torch.arange(start, min(start + encoded.chunk, total), device=encoded.device)


def _outputs(prediction: Tensor) -> Tensor:
    return prediction.reshape(prediction.shape[0], -1)
