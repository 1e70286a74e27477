"""The synergy subset: the examples that no modality predicts alone, and a model's accuracy there."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from synib.measure.arrays import Array, all_are_right, are_right, check_unimodal, true_labels
from synib.measure.stats import Estimate, difference, proportion

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
    """The result of :meth:`SynergySubset.score`: both kinds of subset, and whether they are large enough to say anything."""

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
        sentences = []
        for name, size in (("strict subset has", self.size), ("subsets of single seeds have", np.mean(self.sizes))):
            if size == 0:
                sentences.append(f"The {name} no examples: there is nothing to score.")
            elif size < ENOUGH:
                sentences.append(
                    f"The {name} {size:.4g} of {len(self.target)} examples: below {ENOUGH} an accuracy near 1/2 is known "
                    "only to worse than ±.1."
                )
        return " ".join(sentences)

    def score(
        self,
        fusion: ArrayLike | Tensor,
        control: ArrayLike | Tensor | None = None,
    ) -> SubsetScores:
        """Accuracy of a model on the subset and off it, with intervals over examples.

        The subset holds what every unimodal model gets wrong, so whoever merely disagrees with them scores on it: in a
        binary task a model that always answers against them scores 1, one that knows nothing 1/2. Only the excess over a
        control counts: a fusion model trained on :func:`shuffle_within_class` of the training data, which has no
        cross-modal information. On the other hand an ensemble of the very models that define the subset scores 0 by
        definition in a binary task, since all of them are wrong; compare ensembles of other checkpoints.

        Per seed, model ``s`` is scored on subset ``s``, and all pairs of seed and example count alike. Intervals are score
        intervals of an effective number of examples (:func:`~synib.measure.stats.proportion`).

        Args:
            fusion: Predicted labels, ``(examples,)`` or ``(seeds, examples)``.
            control: Predicted labels of the control, likewise.
        """
        hits = self._hits(fusion, "fusion")
        other = None if control is None else self._hits(control, "control")

        def part(members: Array, hits: Array, other: Array | None) -> SubsetScore:
            on, off = (proportion(hits.T, where.T) for where in (members, ~members))
            if other is None:
                return SubsetScore(on, off)
            reached = proportion(other.T, members.T)
            return SubsetScore(on, off, reached, difference(hits.T, other.T, members.T))

        strict = part(self.strict[None], hits.mean(0, keepdims=True), None if other is None else other.mean(0)[None])
        return SubsetScores(strict, part(self.per_seed, hits, other), self.warning)

    def _hits(self, labels: ArrayLike | Tensor, name: str) -> Array:
        right = are_right(labels, name, self.target)
        if len(right) != len(self.per_seed) and 1 not in (len(right), len(self.per_seed)):
            raise ValueError(
                f"{name} has {len(right)} seeds and the subset {len(self.per_seed)}: give one row of labels for each seed, "
                "or a single one."
            )
        return right.astype(float)

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
