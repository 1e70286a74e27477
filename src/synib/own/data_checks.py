"""Facts and warnings about the data: sizes, missing modalities, duplicates, leaks across a split, class balance."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from synib.files.pages import blocks
from synib.own.folds import Fold
from synib.own.table import Table

FEW = 30  # rows of a class; below that, results on the class mean little
RARE = 0.05  # share of a class; below that, accuracy says little about the class
GROUPS = 4  # fewer groups give no usable interval
ROWS = 1024  # rows in double precision at a time

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Finding:
    """A fact or a warning about the data.

    Args:
        level: ``"fact"``, or ``"warning"`` where it may invalidate what follows.
        words: A sentence.
    """

    level: Literal["fact", "warning"]
    words: str


def check(table: Table, parts: Sequence[Fold]) -> list[Finding]:
    """Facts and warnings about a table and how it is split."""
    findings = [
        *_sizes(table),
        *_balance(table),
        *_missing(table),
        *_columns(table),
        *_copies(table, parts),
        *_groups(table, parts),
    ]
    warning_starts = tuple(f.words.rstrip(".").partition(":")[0] for f in findings if f.level == "warning")
    # A note that begins like a warning repeats it.
    return findings + [
        Finding("fact", note) for note in table.notes if not (warning_starts and note.startswith(warning_starts))
    ]


def _sizes(table: Table) -> list[Finding]:
    widths = ", ".join(f"{name} ({x.shape[1]} numbers)" for name, x in table.modalities.items())
    return [Finding("fact", f"{len(table.target):,} rows of {len(table.modalities)} modalities: {widths}.")]


def _balance(table: Table) -> list[Finding]:
    if not table.classes:
        y = table.target
        return [Finding("fact", f"The target is a number from {y.min():.3g} to {y.max():.3g}, mean {y.mean():.3g}.")]
    several = table.kind == "multilabel"
    counts = table.target.sum(0) if several else np.bincount(table.target, minlength=len(table.classes))
    by_class, listed = [*zip(table.classes, counts, strict=True)], f"{counts.min():,} to {counts.max():,} rows each"
    if len(counts) <= 10:
        listed = ", ".join(f"{name} {n:,}" for name, n in by_class)
    noun = {"multilabel": "labels", "ordinal": "ordered classes"}.get(table.kind, "classes")
    findings = [Finding("fact", f"{len(counts)} {noun}: {listed}.")]
    if several and (none := int((table.target.sum(1) == 0).sum())):
        findings.append(Finding("fact", f"{none:,} rows have none of the labels."))
    rare = [name for name, n in by_class if n / len(table.target) < RARE and len(counts) <= 10]
    few = [name for name, n in by_class if n < FEW]
    if few:
        findings.append(
            Finding("warning", f"Fewer than {FEW} rows of {_first_names(few)}: results on such classes are unreliable.")
        )
    elif rare:
        findings.append(
            Finding(
                "warning",
                f"Less than {RARE:.0%} of the rows belong to {_first_names(rare)}, so accuracy says little about it.",
            )
        )
    return findings


def _missing(table: Table) -> list[Finding]:
    findings = []
    for name, present in table.present.items():
        absent = int((~present).sum())
        if absent:
            share = absent / len(present)
            findings.append(
                Finding("fact", f"{absent:,} rows ({share:.0%}) lack {name}; models are trained to predict without it.")
            )
    empty = ~np.stack(list(table.present.values())).any(0)
    if empty.any():
        findings.append(
            Finding("warning", f"{int(empty.sum()):,} rows have no modality at all, such as row {int(empty.argmax())}.")
        )
    if findings and table.classes:
        chosen = (
            table.target == 1 if table.kind == "multilabel" else table.target[:, None] == np.arange(len(table.classes))
        )
        for name, present in table.present.items():
            rates = [present[of_class].mean() for of_class in chosen.T if of_class.any()]
            if max(rates) - min(rates) > 0.2:
                findings.append(
                    Finding(
                        "warning",
                        f"Whether a row has {name} depends on the class: {min(rates):.0%} to {max(rates):.0%} of the rows.",
                    )
                )
    return findings


def _columns(table: Table) -> list[Finding]:
    """Modalities with constant columns."""
    findings = []
    for name, x in table.modalities.items():
        low, high = np.full(x.shape[1], np.inf), np.full(x.shape[1], -np.inf)
        present = table.present[name]
        for at, block in blocks(x):
            rows = block if present[at].all() else block[present[at]]
            if len(rows):
                low, high = np.minimum(low, rows.min(0)), np.maximum(high, rows.max(0))
        constant = int((low >= high).sum())
        if constant == x.shape[1]:
            findings.append(
                Finding("warning", f"{name} is the same in every row, so it cannot help to predict anything.")
            )
        elif constant:
            findings.append(Finding("fact", f"{constant} of {x.shape[1]} numbers of {name} are the same in every row."))
    return findings


def _copies(table: Table, parts: Sequence[Fold]) -> list[Finding]:
    """Rows that are equal or almost equal in all modalities, especially on both sides of a split."""
    from synib.own.near_copies import near_copies  # imports this module

    _, exact_labels = np.unique(digests(table), return_inverse=True)
    extra, exact_across = len(exact_labels) - int(exact_labels.max()) - 1, _across(exact_labels, parts)
    near_labels = near_copies(table)
    near_extra = len(near_labels) - int(near_labels.max()) - 1
    if near_extra > extra:
        copies = (
            "1 row is almost a copy of another"
            if near_extra == 1
            else f"{near_extra:,} rows are almost copies of others"
        )
        words = f"{copies}: in every modality, their distance is below a thousandth of the usual distance between rows"
        shared = _across(near_labels, parts)
        if not shared:
            return [Finding("fact", f"{words}; none is on both sides of a split.")]
        rows = "1 tested row is" if shared == 1 else f"{shared:,} tested rows are"
        return [
            Finding(
                "warning",
                f"{words}. {rows} that close to rows used for training or model selection: remove copies, or name a group "
                "column that keeps them together.",
            )
        ]
    if not extra:
        return []
    if exact_across:
        occur = "1 tested row also occurs" if exact_across == 1 else f"{exact_across:,} tested rows also occur"
        words = f"{occur}, with identical numbers, among the rows used for training or model selection"
        return [Finding("warning", f"{words}: remove copies, or name a group column that keeps them together.")]
    copies = "1 row is a copy of another" if extra == 1 else f"{extra:,} rows are copies of others"
    return [Finding("fact", f"{copies}; none is on both sides of a split.")]


def _across(labels: Rows, parts: Sequence[Fold]) -> int:
    """How many tested rows share their label with a row used for training or model selection."""
    across = 0
    for part in parts:
        in_training = np.zeros(int(labels.max()) + 1, dtype=bool)
        in_training[labels[np.concatenate([part.train, part.validation])]] = True
        across += int(in_training[labels[part.test]].sum())
    return across


def digests(table: Table) -> NDArray[np.uint64]:
    """A 64-bit hash of each row: the same for equal rows, and for different ones with probability 2^-64."""
    total = np.zeros(len(table.target), dtype=np.uint64)
    random = np.random.default_rng(0)
    for name, x in table.modalities.items():
        odd = random.integers(0, 2**63, x.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
        for rows, block in blocks(x, ROWS):
            bits = np.ascontiguousarray(np.asarray(block, dtype=np.float64) + 0.0).view(np.uint64)  # -0 is 0
            bits ^= bits >> np.uint64(29)
            bits *= odd
            total[rows] += bits.sum(1, dtype=np.uint64)
            total[rows] += table.present[name][rows].astype(np.uint64) * odd[0]
    return total


def _groups(table: Table, parts: Sequence[Fold]) -> list[Finding]:
    if table.group is None:
        return []
    names = np.unique(table.group)
    findings = []
    if len(names) < GROUPS:
        findings.append(
            Finding(
                "warning",
                f"There are only {len(names)} groups: results may not hold for other groups, and intervals over them are "
                "very wide.",
            )
        )
    shared = 0
    for part in parts:
        training_groups = np.unique(table.group[np.concatenate([part.train, part.validation])])
        shared += int(np.isin(np.unique(table.group[part.test]), training_groups).sum())
    if shared:
        words = (
            f"{shared:,} groups are on both sides of the given split: test rows are not independent of training rows."
        )
        return [*findings, Finding("warning", words)]
    return [*findings, Finding("fact", f"{len(names):,} groups; none is on both sides of a split.")]


def _first_names(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
