"""Refutation tests: the audit repeated on data for which the verdict is known or should not change."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from synib.own.audit import Audit, Progress, audit
from synib.own.claims import ABOVE_CHANCE
from synib.own.folds import strata
from synib.own.table import Table

DUMMY = "dummy target"


class Refutation(NamedTuple):
    """One refutation test.

    Args:
        name: What was changed.
        expected: The expected verdict.
        verdict: The verdict of the repeated audit.
        passed: Whether it is as expected.
        words: A sentence.
    """

    name: str
    expected: str
    verdict: str
    passed: bool
    words: str


def refute(original: Audit, *, on_progress: Progress = lambda done, total, what: None, **plan: Any) -> list[Refutation]:
    """Try to refute an audit's verdict.

    - *pairing shuffled within class*: each modality is permuted among the rows of a class, so that no interaction is
      left; a claim of synergy here would be false.
    - *dummy target*: the target is permuted among rows (among groups, where all rows of a group share it); neither
      synergy nor a model better than chance should be found.
    - *half of the rows*: the verdict may become inconclusive, but should not be reversed.
    - *other seeds*: folds, initial weights and draws change; the verdict should not be reversed.

    Args:
        original: The audit.
        on_progress: Called with the work done, the total work, and the current step.
        plan: Arguments of :func:`synib.own.audit.audit`, as for the original audit.
    """
    table, seed = original.table, int(plan.pop("seed", 0))
    tests: list[tuple[str, str, Table, int]] = [
        ("pairing shuffled within class", "not present", _shuffled_pairs(table, seed), seed),
        (DUMMY, "not present", _dummy_target(table, seed), seed),
        ("half of the rows", "not contradicted", _half(table, seed), seed),
        ("other seeds", "not contradicted", table, seed + 1000),
    ]
    results = []
    for number, (name, expected, changed, changed_seed) in enumerate(tests):

        def report(done: float, total: float, what: str, name: str = name, number: int = number) -> None:
            on_progress(number + done / total, len(tests), f"refutation: {name}")

        repeated = audit(changed, seed=changed_seed, on_progress=report, **plan).verdict
        synergy = repeated.synergy
        opposite = {original.verdict.synergy, synergy} == {"present", "absent"}
        passed = synergy != "present" if expected == "not present" else not opposite
        outcome = f"synergy {synergy}, expected {expected}"
        if name == DUMMY:
            learned = repeated.claims.hold(ABOVE_CHANCE)
            passed = passed and not learned
            outcome += f"; {'a' if learned else 'no'} model better than a constant prediction, expected none"
        words = f"{name.capitalize()}: {outcome}: {'passed' if passed else 'FAILED'}."
        results.append(Refutation(name, expected, synergy, passed, words))
    return results


def _shuffled_pairs(table: Table, seed: int) -> Table:
    """Each modality except the first permuted among rows of the same class (for a real target: quantile band) that have it."""
    random, part = np.random.default_rng(seed), strata(table)
    modalities, present = dict(table.modalities), dict(table.present)
    for name in list(modalities)[1:]:
        order = np.arange(len(part))
        for stratum in np.unique(part):
            rows = np.flatnonzero(part == stratum)
            order[rows] = random.permutation(rows)
        modalities[name], present[name] = np.asarray(modalities[name])[order], np.asarray(present[name])[order]
    return replace(table, modalities=modalities, present=present)


def _dummy_target(table: Table, seed: int) -> Table:
    """The target permuted among rows, or among groups if all rows of a group share it."""
    random, target = np.random.default_rng(seed), np.asarray(table.target)
    if table.group is not None:
        _, first, unit = np.unique(table.group, return_index=True, return_inverse=True)
        if (target == target[first][unit]).all():
            return replace(table, target=random.permutation(target[first])[unit])
    if table.split is None:
        return replace(table, target=random.permutation(target))
    permuted = target.copy()
    for part in np.unique(table.split):
        rows = np.flatnonzero(table.split == part)
        permuted[rows] = target[random.permutation(rows)]
    return replace(table, target=permuted)


def _half(table: Table, seed: int) -> Table:
    """A random half of the rows, or of the groups."""
    random, n = np.random.default_rng(seed), len(table.target)
    if table.group is None:
        part = strata(table)
        keep = np.zeros(n, dtype=bool)
        for stratum in np.unique(part):
            rows = random.permutation(np.flatnonzero(part == stratum))
            keep[rows[: (len(rows) + 1) // 2]] = True
    else:
        names = random.permutation(np.unique(table.group))
        keep = np.isin(table.group, names[: max(3, (len(names) + 1) // 2)])
    rows = np.flatnonzero(keep)

    def cut(x: Any) -> Any:
        return None if x is None else np.asarray(x)[rows]

    return replace(
        table,
        modalities={name: cut(x) for name, x in table.modalities.items()},
        present={name: cut(x) for name, x in table.present.items()},
        target=cut(table.target),
        split=cut(table.split),
        group=cut(table.group),
        nuisance={name: cut(x) for name, x in table.nuisance.items()},
        row_numbers=cut(table.row_numbers),
    )
