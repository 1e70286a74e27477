"""What is looked at in a model's outputs: the family's parameters as they come, or the probabilities of classes."""

from typing import Literal, get_args

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from synib.kinds import check_kind, shown
from synib.measure.arrays import Array, as_array, as_tensor, described
from synib.objective import Bernoulli, Categorical, Family

Of = Literal["logits", "probabilities"]


def check_of(of: str, name: str = "of") -> None:
    """Raise ``ValueError`` where an option is neither; ``name`` is what the caller calls it."""
    if of not in get_args(Of):
        raise ValueError(f"{name} is {' or '.join(map(repr, get_args(Of)))}; got {of!r}.")


def family_of(family: Family | None) -> Family:
    """The family that was given, or ``Categorical()``."""
    return Categorical() if family is None else check_kind("family", family, Family, "Categorical()")


def class_family(family: Family | None) -> Bernoulli | Categorical:
    """The same, where only classes can be scored."""
    if family is None:
        return Categorical()
    if not isinstance(family, Bernoulli | Categorical):
        raise ValueError(f"Scores are of classes: family is Bernoulli() or Categorical(); got {shown(family)}.")
    return family


def probabilities(family: Family, parameters: Tensor) -> Tensor:
    """Of each class, or of 1 alone for a Bernoulli family."""
    if not family.discrete:
        raise ValueError(f"Probabilities belong to Bernoulli and Categorical; got {family}. Use of='logits'.")
    return torch.sigmoid(parameters) if isinstance(family, Bernoulli) else torch.softmax(parameters, -1)


def class_probabilities(
    prediction: ArrayLike | Tensor, target: ArrayLike | Tensor, family: Family | None
) -> tuple[Array, Array]:
    """Of every class, ``(n, classes)`` in double precision, a Bernoulli family's two too; and labels."""
    family = class_family(family)
    p = _numbers(prediction, "A prediction is numbers, the family's parameters,")
    y = _numbers(target, "The target is one whole class number")
    family.check_target(p, y)
    if not len(p):
        raise ValueError("Scores need at least one example; got none.")
    if not p.isfinite().all():
        raise ValueError(f"Predictions are finite; {int((~p.isfinite()).sum())} numbers are not.")
    p = p.double().reshape(len(p), -1)
    logits = torch.cat([torch.zeros_like(p), p], 1) if isinstance(family, Bernoulli) else p
    return logits.softmax(1).numpy(), y.reshape(len(p)).long().numpy()


def _numbers(x: ArrayLike | Tensor, expected: str) -> Tensor:
    try:
        return as_tensor(as_array(x))
    except (TypeError, ValueError):
        raise ValueError(f"{expected} for each example; got {described(x)}.") from None
