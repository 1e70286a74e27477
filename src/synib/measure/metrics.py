"""Which predictions are right, and means over groups of examples."""

from collections.abc import Mapping

from torch import Tensor

from synib.objective import Family


def correct(family: Family, prediction: Tensor, target: Tensor) -> Tensor:
    """Which examples are predicted right, as 0 and 1."""
    return (family.predict(prediction) == target).float()


def accuracies(hits: Tensor, groups: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """Mean over all examples, and over each group: ``name``, ``name_<group>``; NaN for a group without examples.

    Args:
        hits: What :func:`correct` gave, ``(..., examples)``.
        groups: Name → membership, shaped like ``hits``.
        name: What to call the metric.
    """
    return {name: hits.mean(-1), **group_means(hits, groups, name)}


def group_means(x: Tensor, groups: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """Mean over each group's examples, ``(..., examples)`` → ``(...)``: ``<name>_<group>``; NaN for a group without any."""
    return {f"{name}_{group}": (x * members).sum(-1) / members.sum(-1) for group, members in groups.items()}


def group_losses(
    family: Family, prediction: Tensor, target: Tensor, groups: Mapping[str, Tensor], name: str
) -> dict[str, Tensor]:
    """Mean negative log-likelihood of each group: ``<name>_<group>``; NaN for a group without examples."""
    return group_means(family.nll(prediction, target), groups, name)
