"""Which predictions are correct, and means over groups of examples."""

from collections.abc import Mapping

from torch import Tensor

from synib.checks import check_kind, shown
from synib.objective import Family


def correct(family: Family, prediction: Tensor, target: Tensor) -> Tensor:
    """Whether each example is predicted correctly, as 0 and 1."""
    predicted = check_kind("family", family, Family, "Categorical()").predict(prediction)
    if target.is_floating_point() and family.discrete:  # the most probable class of soft targets
        classes = target.shape == prediction.shape and prediction.shape[-1] > 1 and target.ndim > predicted.ndim
        target = target.argmax(-1) if classes else (target > 0.5).to(predicted.dtype)
    if predicted.shape != target.shape:  # (n,) and (n, 1) would be broadcast to n x n
        shapes = tuple(predicted.shape), tuple(target.shape)
        raise ValueError(f"The target must have the shape of the prediction, {shapes[0]}; got {shapes[1]}.")
    return (predicted == target).float()


def accuracies(
    hits: Tensor, groups: Mapping[str, Tensor], name: str, counted: Tensor | None = None
) -> dict[str, Tensor]:
    """Mean over all examples, and over each group: ``name``, ``name_<group>``; NaN for a group without examples.

    Args:
        hits: The output of :func:`correct`, ``(..., examples)``.
        groups: Name → membership, shaped like ``hits``.
        name: Name of the metric.
        counted: Which examples to include, shaped like ``hits``; all by default.
    """
    if counted is None:
        return {name: hits.mean(-1), **group_means(hits, groups, name)}
    counted_members = {group: members * counted for group, members in groups.items()}
    return {name: (hits * counted).sum(-1) / counted.sum(-1), **group_means(hits, counted_members, name)}


def group_means(x: Tensor, groups: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """Mean over each group's examples, ``(..., examples)`` → ``(...)``: ``<name>_<group>``; NaN for an empty group."""
    check_groups(groups)
    for group, members in groups.items():
        if members.shape[-1:] != x.shape[-1:] or members.ndim > x.ndim:
            shapes = tuple(x.shape), tuple(members.shape)
            raise ValueError(f"Group {group!r} must have the shape of the examples, {shapes[0]}; got {shapes[1]}.")
    return {f"{name}_{group}": (x * members).sum(-1) / members.sum(-1) for group, members in groups.items()}


def check_groups(groups: object) -> None:
    """Raise ``ValueError`` unless groups are a dict."""
    if not isinstance(groups, Mapping):
        raise ValueError(f"Groups must be a dict of name → which examples belong to it; got {shown(groups)}.")


def group_losses(
    family: Family, prediction: Tensor, target: Tensor, groups: Mapping[str, Tensor], name: str
) -> dict[str, Tensor]:
    """Mean negative log-likelihood of each group: ``<name>_<group>``; NaN for a group without examples."""
    check_kind("family", family, Family, "Categorical()").check_target(prediction, target, values=False)
    return group_means(family.nll(prediction, target), groups, name)
