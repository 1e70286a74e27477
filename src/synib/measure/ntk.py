r"""NTK diagnostics: strength and alignment of the gradients of groups of examples (App. "NTK Diagnostics").

With the residual :math:`s^{(g)}` of group *g* (label minus prediction, zero for all other examples), the Jacobian *J* of the
model's outputs and the kernel :math:`K = J J^\top`,

.. math:: v_g = J^\top s^{(g)}, \qquad
          \lambda_g = \frac{\lVert v_g \rVert^2}{\lVert s^{(g)} \rVert^2} = \frac{s^{(g)\top} K s^{(g)}}{s^{(g)\top} s^{(g)}},
          \qquad \cos(g, h) = \frac{\langle v_g, v_h \rangle}{\lVert v_g \rVert \, \lVert v_h \rVert}.

Each :math:`v_g` is one vector-Jacobian product; *J* is never formed. The paper's text leaves open of which outputs *J*
is the Jacobian. For logits, :math:`v_g` is minus the gradient of the group's summed loss, which training follows. For
probabilities, which the text subtracts from the label, a saturated prediction hides its strength: :math:`\partial p = p
(1 - p) \, \partial f` for the logit *f*.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.func import functional_call, grad, vjp

from synib import tokens
from synib.checks import check_choice, check_whole
from synib.measure.arrays import Of, as_tensor, described, family_of, probabilities
from synib.measure.encoded import Modalities, as_target, as_tensors, evaluated
from synib.measure.metrics import check_groups
from synib.objective import Family, MultimodalModel
from synib.tokens import Modality

Parameters = Mapping[str, Tensor]
Predict = Callable[[Parameters, Mapping[str, Modality]], Tensor]

VANISHED = 1e-12  # a smaller mean squared residual is a rounding error without a meaningful direction


@dataclass(frozen=True)
class NTK:
    r"""How strongly groups of examples act on the parameters, and whether their gradients are aligned.

    Args:
        strength: Group → :math:`\lambda_g`; NaN if the group's residual is zero.
        cosine: Pair of groups → :math:`\cos(g, h)`; NaN if one of the residuals is zero.
    """

    strength: Mapping[str, float]
    cosine: Mapping[tuple[str, str], float]

    def __str__(self) -> str:
        strengths = ", ".join(f"{g} {v:.3g}" for g, v in self.strength.items())
        cosines = ", ".join(f"{g}·{h} {v:+.3f}" for (g, h), v in self.cosine.items())
        return f"strength: {strengths}\ncosine: {cosines or 'needs two groups'}"


def ntk(
    model: nn.Module,
    modalities: Modalities,
    target: ArrayLike | Tensor,
    groups: Mapping[str, ArrayLike | Tensor],
    family: Family | None = None,
    most: int | None = None,
    of: Of = "logits",
) -> NTK:
    """The diagnostics of the current model; call it every few steps of your loop to follow them over training.

    Example:
        >>> import torch, synib
        >>> from synib.measure import ntk
        >>> model = synib.FusionModel.mlp({"image": 8, "text": 4}, hidden=[16], classes=3)
        >>> batch = {"image": torch.randn(60, 8), "text": torch.randn(60, 4)}
        >>> result = ntk(model, batch, torch.randint(3, (60,)), {"easy": torch.arange(60) < 40, "hard": torch.arange(60) >= 40})
        >>> sorted(result.strength)
        ['easy', 'hard']

    Args:
        model: A module from a dict of modalities to the family's parameters. It runs in evaluation mode.
        modalities, target: The examples.
        groups: Group → which examples belong to it, one boolean each. Groups may overlap.
        family: The predictive distribution. Default: ``Categorical()``.
        most: Maximum number of examples per group (the first ones); all by default.
        of: Whether J is the Jacobian of the logits or of the probabilities.
    """
    check_choice("of", of, Of)
    chosen_family = family_of(family)
    if most is not None:
        check_whole("most", most)
    if not isinstance(model, nn.Module):
        raise ValueError(
            f"ntk differentiates with respect to the parameters of a module; got {type(model).__name__}, which "
            "has none."
        )
    parameters = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}
    if not parameters:
        raise ValueError("ntk differentiates with respect to parameters, but all parameters of this model are frozen.")
    x = as_tensors(model, modalities, model.names if isinstance(model, MultimodalModel) else None)
    n, device = tokens.values(next(iter(x.values()))).shape[0], next(iter(parameters.values())).device
    members = _members(groups, n, device)
    y = as_target(target, n, device)
    with evaluated(model):
        first = model({name: tokens.take(v, torch.zeros(1, dtype=torch.long, device=device)) for name, v in x.items()})
        chosen_family.check_target(first.expand(n, *first.shape[1:]), y)
        result = tangents(
            lambda changed, part: functional_call(model, dict(changed), (part,)), parameters, chosen_family, x, y, members,
            most or max(int(group.sum()) for group in members.values()), of,
        )  # fmt: skip
    return NTK(
        {g: result[f"strength_{g}"].item() for g in groups},
        {(g, h): result[f"cosine_{g}_{h}"].item() for g, h in combinations(groups, 2)},
    )


def tangents(
    predict: Predict,
    parameters: Parameters,
    family: Family,
    modalities: Mapping[str, Modality],
    target: Tensor,
    groups: Mapping[str, Tensor],
    most: int,
    of: Of = "logits",
) -> dict[str, Tensor]:
    """The diagnostics as a pure function that runs under ``vmap``: ``strength_<g>`` and ``cosine_<g>_<h>``, NaN if undefined.

    Args:
        predict: Function from parameters and modalities to the family's parameters.
        parameters: The parameters at which to differentiate.
        family, modalities, target, groups, of: As in :func:`ntk`.
        most: Maximum number of examples per group.
    """
    result: dict[str, Tensor] = {}
    directions: dict[str, dict[str, Tensor]] = {}
    squares: dict[str, Tensor] = {}
    for name, members in groups.items():
        # Members first, in order; a group with fewer than `most` members is padded with rows of weight 0.
        rows = torch.sort((~members.bool()).to(torch.uint8), stable=True).indices[:most]
        counts = members[rows].to(torch.float32)
        x, y = {modality: tokens.take(v, rows) for modality, v in modalities.items()}, target[rows]
        outputs, pull = vjp(lambda changed, x=x: predict(changed, x), dict(parameters))  # type: ignore[misc]
        slope = grad(lambda out, y=y: family.nll(out, y).sum())(outputs.float())  # type: ignore[misc]
        residual = -slope * counts.view(-1, *(1,) * (outputs.ndim - 1))  # the label minus the probability
        back = residual if of == "logits" else vjp(partial(probabilities, family), outputs.float())[1](residual)[0]
        (directions[name],) = pull(back.to(outputs.dtype))
        size = residual.square().sum()
        squares[name] = _dot(directions[name], directions[name])
        has_residual = size > VANISHED * counts.sum()  # false for an empty group too
        result[f"strength_{name}"] = torch.where(has_residual, squares[name] / size, torch.nan)
        squares[name] = torch.where(has_residual & (squares[name] > 0), squares[name], torch.nan)
    for g, h in combinations(groups, 2):
        # Not the root of the product: a confident model's squares are tiny, and their product may underflow to 0.
        cosine = _dot(directions[g], directions[h]) / (squares[g].sqrt() * squares[h].sqrt())
        result[f"cosine_{g}_{h}"] = cosine.clamp(-1.0, 1.0)
    return result


def _members(groups: Mapping[str, ArrayLike | Tensor], n: int, device: torch.device) -> dict[str, Tensor]:
    """The groups as boolean tensors; invalid groups raise ``ValueError``."""
    check_groups(groups)
    if not groups:
        raise ValueError("ntk needs at least one group of examples; got none.")
    members = {}
    for name, group in groups.items():
        expected = f"Group {name!r} must have one boolean for each of the {n} examples"
        try:
            members[name] = as_tensor(group, device).bool()
        except (TypeError, ValueError, RuntimeError):
            raise ValueError(f"{expected}; got {described(group)}.") from None
        if members[name].shape != (n,):
            raise ValueError(f"{expected}; got {tuple(members[name].shape)}.")
        if not members[name].any():
            raise ValueError(f"Group {name!r} has no examples: leave it out.")
    return members


def _dot(a: Parameters, b: Parameters) -> Tensor:
    return torch.stack([torch.dot(a[name].flatten(), b[name].flatten()).double() for name in a]).sum()
