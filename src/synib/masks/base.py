"""The base class of masks, which choose the coordinates to corrupt for each example; and the random mask."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from synib import keys
from synib.checks import check_choice, check_number, settings_repr
from synib.tokens import Modality, values

Over = Literal["coordinates", "tokens", "modality"]


class Probe(NamedTuple):
    """What a mask can evaluate about the modality that it masks.

    Args:
        modality: Its name.
        fill: Key → one draw of the replacing noise, shaped like the modality's values.
        loss: Values of this modality → negative log-likelihood of the target under this modality's *unimodal*
            prediction, per example. ``None`` if the model has no unimodal predictor.
        examples: Indices of the rows in the training data, if known.
        slope: Values → gradient of the summed ``loss`` with respect to them, if there is a faster way than to
            differentiate ``loss``.
    """

    modality: str
    fill: Callable[[Tensor], Tensor]
    loss: Callable[[Tensor], Tensor] | None
    examples: Tensor | None = None
    slope: Callable[[Tensor], Tensor] | None = None


class Mask(nn.Module):
    """Base class of all masks: true marks a coordinate to corrupt (M = 1 in the paper).

    A mask is called with a modality, a random key and a :class:`Probe`, and returns a boolean tensor that broadcasts to
    the modality's values, with ``draws`` times as many rows if every draw has a new mask, otherwise as many rows as the
    modality.

    Attributes:
        whole: Whether it always corrupts the entire modality, which lets the objective compute less.
        probes: Whether it evaluates the unimodal loss, so that a unimodal predictor must exist.
    """

    whole: bool = False
    probes: bool = False

    def forward(self, x: Modality, key: Tensor, probe: Probe, draws: int = 1) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} must define forward(x, key, probe, draws).")

    def loss(self, x: Modality, key: Tensor, probe: Probe) -> Tensor | None:
        """The training loss of the mask, for masks that have parameters. It never reaches the model's parameters."""
        return None

    def check_examples(self, examples: Tensor) -> None:
        """Raise ``ValueError`` if a batch contains training examples unknown to the mask."""

    def extra_repr(self) -> str:
        return settings_repr(self)


def mask_shape(x: Modality, over: Over, draws: int = 1) -> tuple[int, ...]:
    """The shape of a mask over ``x``: one entry for each unit that is corrupted or kept as a whole."""
    v = x if isinstance(x, Tensor) else x.values
    rows = draws * v.shape[0]
    if over == "modality":
        return (rows,) + (1,) * (v.ndim - 1)
    if over == "coordinates":
        return (rows, *v.shape[1:])
    if v.ndim < 3:
        raise ValueError(
            f"A mask over {over} needs shape (batch, {over}, ...) with at least 3 dimensions; got "
            f"{tuple(v.shape)}. For plain vectors use over='coordinates'."
        )
    return (rows, v.shape[1]) + (1,) * (v.ndim - 2)


class undisturbed:
    """Context in which modules neither drop units nor update statistics; their modes are restored afterwards.

    Args:
        modules: The modules, including all submodules.
        recurrent: Whether recurrent layers are in evaluation mode too, in which cuDNN cannot differentiate them.
    """

    def __init__(self, modules: list[nn.Module], recurrent: bool = False) -> None:
        inside = [m for module in modules for m in module.modules() if m.training]
        self.changed = inside if recurrent else [m for m in inside if not isinstance(m, nn.RNNBase)]

    def __enter__(self) -> None:
        for m in self.changed:
            m.training = False

    def __exit__(self, *_: object) -> None:
        for m in self.changed:
            m.training = True


class RandomMask(Mask):
    r"""Random masking, :math:`M_j \sim \mathrm{Bernoulli}(p)` (Sec. "Counterfactual Corruption", App. "Masking").

    ``p=1`` corrupts the whole modality without random draws. It is often the strongest choice, and the one to try
    first.

    Args:
        p: Probability that a coordinate is corrupted.
        over: The unit that is corrupted or kept: single ``"coordinates"``, whole ``"tokens"`` (everything behind
            dimension 1, so also the channels of an image), or the whole ``"modality"`` of an example.

    Example:
        >>> import torch, synib
        >>> mask = synib.RandomMask(0.4)
        >>> mask
        RandomMask(p=0.4)
    """

    def __init__(self, p: float = 0.5, over: Over = "coordinates") -> None:
        super().__init__()
        self.p = check_number("p", p, least=0, most=1)
        self.over = check_choice("over", over, Over)
        self.whole = p == 1.0

    def forward(self, x: Modality, key: Tensor, probe: Probe, draws: int = 1) -> Tensor:
        if self.p in (0.0, 1.0):
            shape = mask_shape(x, "modality")
            return torch.full(shape, self.p == 1.0, dtype=torch.bool, device=values(x).device)
        device = (x if isinstance(x, Tensor) else x.values).device
        return keys.bernoulli(key, self.p, mask_shape(x, self.over, draws), device)
