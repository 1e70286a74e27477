"""The agreement table: which unimodal models are correct, and whether the fusion is correct on those examples."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from synib.measure.arrays import all_are_right, check_unimodal, true_labels
from synib.measure.stats import Estimate, proportion


@dataclass(frozen=True)
class Agreement:
    """One row of :func:`agreement_table`: the examples that exactly these modalities predict correctly alone.

    Attributes:
        right: The modalities with correct predictions; all others are wrong.
        examples: Number of these examples (with seeds: the mean over seeds).
        fusion_right, fusion_wrong: Number of them that the fusion model predicts correctly, and wrongly.
        share: ``examples`` as a fraction of all.
        accuracy: ``fusion_right`` as a fraction of ``examples``.
    """

    right: tuple[str, ...]
    examples: float
    fusion_right: float
    fusion_wrong: float
    share: Estimate
    accuracy: Estimate


@dataclass(frozen=True)
class AgreementTable:
    """Rows for all combinations of correct modalities; prints as a table."""

    rows: tuple[Agreement, ...]

    def __getitem__(self, right: str | tuple[str, ...]) -> Agreement:
        """The row of the examples that exactly these modalities, or this single one, predict correctly."""
        right_names = {right} if isinstance(right, str) else set(right)
        for row in self.rows:
            if set(row.right) == right_names:
                return row
        names = ", ".join(map(repr, self.rows[-1].right))
        raise KeyError(f"There is no row for {right!r}; choose from the modalities {names}.")

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
) -> AgreementTable:
    """Cross-tabulate which unimodal models are correct with whether the fusion is: 2ⁿ rows for n modalities.

    >>> table = agreement_table({"a": [0, 1, 1, 0], "b": [0, 0, 1, 1]}, [1, 1, 1, 0], [1, 1, 1, 0])
    >>> table["a",].examples, table[()].fusion_right
    (2.0, 1.0)

    Args:
        unimodal: Modality → predicted labels, ``(examples,)`` or ``(seeds, examples)``.
        fusion: Predicted labels of the fusion model, in the same shape; seeds are paired.
        target: The true labels.
    """
    check_unimodal(unimodal)
    y = true_labels(target)
    names = list(unimodal)
    if "fusion" in names:
        raise ValueError(f"A modality in unimodal cannot be called 'fusion'; got {names}.")
    right_alone = all_are_right({**unimodal, "fusion": fusion}, y)
    fusion_hits = right_alone.pop("fusion")
    rows = []
    for size in range(len(names) + 1):
        for names_right in itertools.combinations(names, size):
            members = np.all([right_alone[n] == (n in names_right) for n in names], axis=0)
            count, fusion_hit_count = members.sum(1).mean(), (members & fusion_hits).sum(1).mean()
            rows.append(
                Agreement(
                    names_right, float(count), float(fusion_hit_count), float(count - fusion_hit_count),
                    proportion(members.T),
                    proportion(fusion_hits.T, members.T),
                )
            )  # fmt: skip
    return AgreementTable(tuple(rows))
