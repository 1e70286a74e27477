"""The synergy subset: the examples that no modality predicts alone, and a model's accuracy on them."""

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
    """Accuracy of a model on a synergy subset and on all other examples.

    Attributes:
        on, off: Accuracy on the subset, and on all other examples; ``n`` counts distinct examples.
        control: Accuracy of the control model on the subset, if one was given.
        excess: ``on`` minus ``control``, paired by example: the relevant part.
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
    """The result of :meth:`SynergySubset.score`: both kinds of subset, and whether they are large enough."""

    strict: SubsetScore
    per_seed: SubsetScore
    warning: str

    def __str__(self) -> str:
        lines = [f"strict    {self.strict}", f"per seed  {self.per_seed}"]
        if self.strict.excess is None:
            lines.append("no control given: a model that merely disagrees with the unimodal models also scores here")
        return "\n".join(lines + [self.warning] * bool(self.warning))


@dataclass(frozen=True)
class SynergySubset:
    """The examples that no unimodal model predicts correctly; returned by :func:`synergy_subset`.

    Attributes:
        strict: ``(examples,)``, wrong for all modalities and all seeds.
        per_seed: ``(seeds, examples)``, wrong for all modalities at this seed.
        target: ``(examples,)``.
    """

    strict: Array
    per_seed: Array
    target: Array

    @property
    def size(self) -> int:
        """Number of examples in the strict subset."""
        return int(self.strict.sum())

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of examples in the subset of each seed."""
        return tuple(int(n) for n in self.per_seed.sum(1))

    @property
    def warning(self) -> str:
        """One sentence for each subset that is too small for a conclusion; empty if none is.

        Too small means below 97 examples: the 95 % interval of an accuracy near 1/2 is then wider than ±.1. Subsets of
        single seeds are judged by their mean size, since the seeds share most of their examples.
        """
        sentences = []
        for name, size in (("strict subset has", self.size), ("subsets of single seeds have", np.mean(self.sizes))):
            if size == 0:
                sentences.append(f"The {name} no examples, so its accuracy is undefined.")
            elif size < ENOUGH:
                sentences.append(
                    f"The {name} {size:.4g} of {len(self.target)} examples: below {ENOUGH}, the 95 % interval of an "
                    "accuracy near 1/2 is wider than ±.1."
                )
        return " ".join(sentences)

    def score(
        self,
        fusion: ArrayLike | Tensor,
        control: ArrayLike | Tensor | None = None,
    ) -> SubsetScores:
        """Accuracy of a model on the subset and on all other examples, with confidence intervals over examples.

        Every unimodal model is wrong on the subset, so any model that merely disagrees with them scores on it: in a
        binary task, a model that always contradicts them scores 1, an uninformed one 1/2. Only the excess over a
        control is meaningful: a fusion model trained on :func:`shuffle_within_class` of the training data, which has no
        cross-modal information. Conversely, an ensemble of the models that define the subset scores 0 by definition in
        a binary task, because all of them are wrong; evaluate ensembles of other checkpoints.

        Per seed, model ``s`` is scored on subset ``s``, and all pairs of seed and example have equal weight. Intervals
        are score intervals for an effective number of examples (:func:`~synib.measure.stats.proportion`).

        Args:
            fusion: Predicted labels, ``(examples,)`` or ``(seeds, examples)``.
            control: Predicted labels of the control, in the same shape.
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
        are_correct = are_right(labels, name, self.target)
        if len(are_correct) != len(self.per_seed) and 1 not in (len(are_correct), len(self.per_seed)):
            raise ValueError(
                f"{name} has {len(are_correct)} seeds, but the subset has {len(self.per_seed)}: give one row of labels "
                "for each seed, or a single one."
            )
        return are_correct.astype(float)

    def __str__(self) -> str:
        text = f"strict {self.size} of {len(self.target)} examples; per seed {', '.join(map(str, self.sizes))}"
        return f"{text}\n{self.warning}" if self.warning else text


def synergy_subset(unimodal: Mapping[str, ArrayLike | Tensor], target: ArrayLike | Tensor) -> SynergySubset:
    """The examples that every unimodal model predicts wrongly (Sec. "Experiments", synergy subset).

    *Strict*: wrong for all modalities and all seeds. *Per seed*: wrong for all modalities at this seed.

    >>> subset = synergy_subset({"image": [0, 1, 1, 0], "text": [0, 0, 1, 1]}, [1, 1, 1, 0])
    >>> subset.strict
    array([ True, False, False, False])

    Args:
        unimodal: Modality → predicted labels, ``(examples,)`` or ``(seeds, examples)``; a single row applies to all
            seeds.
        target: The true labels, ``(examples,)``.
    """
    check_unimodal(unimodal)
    y = true_labels(target)
    per_seed = np.logical_not(np.any(list(all_are_right(unimodal, y).values()), axis=0))
    return SynergySubset(np.all(per_seed, axis=0), per_seed, y)
