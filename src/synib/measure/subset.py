"""Where modalities are right alone: the synergy subset, which none of them gets right, and the agreement table of all cases."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from synib import keys
from synib.checks import check_whole
from synib.measure.arrays import Array, all_are_right, are_right, as_array, check_unimodal, true_labels
from synib.measure.estimate import Estimate, check_resampling, difference, proportion
from synib.tokens import Modality, Tokens, take, values

ENOUGH = 97  # the smallest n with 1.96 · √(¼ / n) ≤ .1: an accuracy near 1/2 is then known to ±.1


@dataclass(frozen=True)
class SubsetScore:
    """Accuracy of a model on a synergy subset and off it.

    Attributes:
        on, off: Accuracy on the subset, and on all other examples; ``n`` counts different examples.
        control: Accuracy of the control model on the subset, where one was given.
        excess: ``on`` minus ``control``, paired by example: the part that counts.
    """

    on: Estimate
    off: Estimate
    control: Estimate | None = None
    excess: Estimate | None = None

    def __str__(self) -> str:
        text = f"{self.on} on it (n = {self.on.n}), {self.off} off it (n = {self.off.n})"
        return text if self.excess is None else f"{text}; control {self.control}, excess {self.excess}"


@dataclass(frozen=True)
class SubsetScores:
    """What :meth:`SynergySubset.score` tells: both kinds of subset, and whether they are large enough to say anything."""

    strict: SubsetScore
    per_seed: SubsetScore
    warning: str

    def __str__(self) -> str:
        lines = [f"strict    {self.strict}", f"per seed  {self.per_seed}"]
        if self.strict.excess is None:
            lines.append("no control given: a model that merely disagrees with the unimodal ones scores here too")
        return "\n".join(lines + [self.warning] * bool(self.warning))


@dataclass(frozen=True)
class SynergySubset:
    """Which examples no unimodal model gets right; made by :func:`synergy_subset`.

    Attributes:
        strict: ``(examples,)``, wrong under all modalities and all seeds.
        per_seed: ``(seeds, examples)``, wrong under all modalities at this seed.
        target: ``(examples,)``.
    """

    strict: Array
    per_seed: Array
    target: Array

    @property
    def size(self) -> int:
        """How many examples the strict subset has."""
        return int(self.strict.sum())

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many examples the subset of each seed has."""
        return tuple(int(n) for n in self.per_seed.sum(1))

    @property
    def warning(self) -> str:
        """A sentence for each subset that is too small to say anything; empty if none is.

        Too small is below 97 examples: the 95 % interval of an accuracy near 1/2 is then wider than ±.1. Subsets of
        single seeds are judged by their mean size, since what one seed's examples say another's largely repeat.
        """
        said = []
        for name, size in (("strict subset has", self.size), ("subsets of single seeds have", np.mean(self.sizes))):
            if size == 0:
                said.append(f"The {name} no examples: there is nothing to score.")
            elif size < ENOUGH:
                said.append(
                    f"The {name} {size:.4g} of {len(self.target)} examples: below {ENOUGH} an accuracy near 1/2 is known "
                    "only to worse than ±.1."
                )
        return " ".join(said)

    def score(
        self,
        fusion: ArrayLike | Tensor,
        control: ArrayLike | Tensor | None = None,
        *,
        resamples: int = 2000,
        seed: int = 0,
    ) -> SubsetScores:
        """Accuracy of a model on the subset and off it, with intervals from resampling examples.

        The subset holds what every unimodal model gets wrong, so whoever merely disagrees with them scores on it: in a
        binary task a model that always answers against them scores 1, one that knows nothing 1/2. Only the excess over a
        control counts: a fusion model trained on :func:`shuffle_within_class` of the training data, which has no
        cross-modal information. On the other hand an ensemble of the very models that define the subset scores 0 by
        definition in a binary task, since all of them are wrong; compare ensembles of other checkpoints.

        Per seed, model ``s`` is scored on subset ``s``, and all pairs of seed and example count alike. Where all examples
        say the same resampling sees no spread; the interval is then the exact binomial one, for the excess too.

        Args:
            fusion: Predicted labels, ``(examples,)`` or ``(seeds, examples)``.
            control: Predicted labels of the control, likewise.
            resamples: For the intervals.
            seed: Of the resampling.
        """
        check_resampling(seed, resamples=resamples)
        hits = self._hits(fusion, "fusion")
        other = None if control is None else self._hits(control, "control")

        def part(members: Array, hits: Array, other: Array | None) -> SubsetScore:
            on, off = (proportion(hits.T, where.T, draws=resamples, seed=seed) for where in (members, ~members))
            if other is None:
                return SubsetScore(on, off)
            reached = proportion(other.T, members.T, draws=resamples, seed=seed)
            return SubsetScore(on, off, reached, difference(hits.T, other.T, members.T, draws=resamples, seed=seed))

        strict = part(self.strict[None], hits.mean(0, keepdims=True), None if other is None else other.mean(0)[None])
        return SubsetScores(strict, part(self.per_seed, hits, other), self.warning)

    def _hits(self, labels: ArrayLike | Tensor, name: str) -> Array:
        found = are_right(labels, name, self.target)
        if len(found) != len(self.per_seed) and 1 not in (len(found), len(self.per_seed)):
            raise ValueError(
                f"{name} has {len(found)} seeds and the subset {len(self.per_seed)}: give one row of labels for each seed, "
                "or a single one."
            )
        return found.astype(float)

    def __str__(self) -> str:
        text = f"strict {self.size} of {len(self.target)} examples; per seed {', '.join(map(str, self.sizes))}"
        return f"{text}\n{self.warning}" if self.warning else text


def synergy_subset(unimodal: Mapping[str, ArrayLike | Tensor], target: ArrayLike | Tensor) -> SynergySubset:
    """The examples that every unimodal model gets wrong (Sec. "Experiments", synergy subset).

    *Strict*: wrong under all modalities and all seeds. *Per seed*: wrong under all modalities at this seed.

    >>> subset = synergy_subset({"image": [0, 1, 1, 0], "text": [0, 0, 1, 1]}, [1, 1, 1, 0])
    >>> subset.strict
    array([ True, False, False, False])

    Args:
        unimodal: Modality → predicted labels, ``(examples,)`` or ``(seeds, examples)``; a single row serves all seeds.
        target: The true labels, ``(examples,)``.
    """
    check_unimodal(unimodal)
    y = true_labels(target)
    per_seed = np.logical_not(np.any(list(all_are_right(unimodal, y).values()), axis=0))
    return SynergySubset(np.all(per_seed, axis=0), per_seed, y)


def shuffle_within_class(modalities: Mapping[str, Any], target: ArrayLike | Tensor, seed: int = 0) -> dict[str, Any]:
    """Training data for a control: every modality permuted on its own among the examples of its class.

    Each modality given the class stays as it is; what modalities say only together goes. A model trained on this has no
    cross-modal information, so what it reaches on a synergy subset is mere disagreement with the unimodal models. A
    class of a single example keeps it.

    Args:
        modalities: Name → tensor, array or :class:`~synib.Tokens`, batch first.
        target: Class of each example; it stays valid for the result.
        seed: Of the permutations.
    """
    if not isinstance(modalities, Mapping):
        raise ValueError(f"Modalities are a dict of name → tensor; got {type(modalities).__name__}.")
    check_whole("seed", seed, least=None)
    y = true_labels(target)
    result: dict[str, Any] = {}
    for name, x in modalities.items():
        if not hasattr(values(x), "__len__"):
            raise ValueError(f"Modality {name!r} is a tensor, an array or synib.Tokens; got {type(x).__name__}.")
        n = len(values(x))
        if n != len(y):
            raise ValueError(f"{name!r} has {n} examples and the target {len(y)}; give one label for each example.")
        rows = torch.arange(n)
        for label in np.unique(y):
            mine = torch.from_numpy(np.flatnonzero(y == label))
            order = keys.permutation(keys.fold(keys.key(seed), name, int(label)), len(mine))
            rows[mine] = mine[order]
        result[name] = _take(x, rows)
    return result


def _take(x: Any, rows: Tensor) -> Any:
    if isinstance(x, Tokens | Tensor):
        modality: Modality = x
        return take(modality, rows.to(values(modality).device))
    return as_array(x)[rows.numpy()]


@dataclass(frozen=True)
class Agreement:
    """One row of :func:`agreement_table`: the examples that exactly these modalities get right alone.

    Attributes:
        right: The modalities that are right; all others are wrong.
        examples: How many examples these are (with seeds: the mean over seeds).
        fusion_right, fusion_wrong: On how many of them the fusion model is right, and wrong.
        share: ``examples`` as a share of all.
        accuracy: ``fusion_right`` as a share of ``examples``.
    """

    right: tuple[str, ...]
    examples: float
    fusion_right: float
    fusion_wrong: float
    share: Estimate
    accuracy: Estimate


@dataclass(frozen=True)
class AgreementTable:
    """Rows for all patterns of which modalities are right; printed as a table."""

    rows: tuple[Agreement, ...]

    def __getitem__(self, right: str | tuple[str, ...]) -> Agreement:
        """The row of the examples that exactly these modalities, or this one, get right."""
        wanted = {right} if isinstance(right, str) else set(right)
        for row in self.rows:
            if set(row.right) == wanted:
                return row
        names = ", ".join(map(repr, self.rows[-1].right))
        raise KeyError(f"There is no row of {right!r}; its names are some of {names}.")

    def __str__(self) -> str:
        names = [" + ".join(row.right) or "none" for row in self.rows]
        width = max(len("right alone"), *map(len, names))
        lines = [f"{'right alone':{width}}  examples  fusion right  fusion wrong  accuracy of the fusion"]
        for name, row in zip(names, self.rows, strict=True):
            counts = f"{row.examples:8.6g}  {row.fusion_right:12.6g}  {row.fusion_wrong:12.6g}"
            lines.append(f"{name:{width}}  {counts}  {row.accuracy}")
        return "\n".join(lines)


def agreement_table(
    unimodal: Mapping[str, ArrayLike | Tensor],
    fusion: ArrayLike | Tensor,
    target: ArrayLike | Tensor,
    *,
    resamples: int = 2000,
    seed: int = 0,
) -> AgreementTable:
    """Which modalities are right alone × whether the fusion is right: 2ⁿ rows for n modalities, fewest right first.

    >>> table = agreement_table({"a": [0, 1, 1, 0], "b": [0, 0, 1, 1]}, [1, 1, 1, 0], [1, 1, 1, 0])
    >>> table["a",].examples, table[()].fusion_right
    (2.0, 1.0)

    Args:
        unimodal: Modality → predicted labels, ``(examples,)`` or ``(seeds, examples)``.
        fusion: Predicted labels of the fusion model, likewise; seeds belong together.
        target: The true labels.
        resamples, seed: Of the intervals, which resample examples.
    """
    check_resampling(seed, resamples=resamples)
    check_unimodal(unimodal)
    y = true_labels(target)
    names = list(unimodal)
    if "fusion" in names:
        raise ValueError(f"No modality of unimodal can be called 'fusion'; got {names}.")
    found = all_are_right({**unimodal, "fusion": fusion}, y)
    hits = found.pop("fusion")
    rows = []
    for size in range(len(names) + 1):
        for right in itertools.combinations(names, size):
            cell = np.all([found[n] == (n in right) for n in names], axis=0)
            count, good = cell.sum(1).mean(), (cell & hits).sum(1).mean()
            rows.append(
                Agreement(
                    right, float(count), float(good), float(count - good),
                    proportion(cell.T, draws=resamples, seed=seed),
                    proportion(hits.T, cell.T, draws=resamples, seed=seed),
                )
            )  # fmt: skip
    return AgreementTable(tuple(rows))
