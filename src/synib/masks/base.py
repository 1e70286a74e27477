"""What every mask is: a choice, for each example, of the coordinates to corrupt; and the one at random."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from synib import keys
from synib.checks import check_choice, check_number, settings_repr
from synib.tokens import Modality, values

Over = Literal["coordinates", "tokens", "modality"]


class Probe(NamedTuple):
    """What a mask may ask about the modality that it masks.

    Args:
        modality: Its name.
        fill: Key → one draw of the noise that would replace it, shaped like its values.
        loss: Values of this modality → the negative log-likelihood of the target under this modality's *unimodal*
            prediction, per example. ``None`` where the model has no unimodal predictor.
        examples: Which training examples the rows are, where that is known.
    """

    modality: str
    fill: Callable[[Tensor], Tensor]
    loss: Callable[[Tensor], Tensor] | None
    examples: Tensor | None = None


class Mask(nn.Module):
    """Base of all masks: true marks a coordinate to corrupt (M = 1 in the paper).

    A mask is called with a modality, a random key and a :class:`Probe`, and returns a boolean tensor that broadcasts to
    the modality's values, with ``draws`` times as many rows if it draws afresh for each, or as many rows as the modality.

    Attributes:
        whole: Whether it always corrupts the entire modality (the objective then has less to compute).
        probes: Whether it asks for the unimodal loss, so that a unimodal predictor must exist.
    """

    whole: bool = False
    probes: bool = False

    def forward(self, x: Modality, key: Tensor, probe: Probe, draws: int = 1) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} must define forward(x, key, probe, draws).")

    def loss(self, x: Modality, key: Tensor, probe: Probe) -> Tensor | None:
        """The mask's own training loss, for masks that have parameters. It never reaches the model's parameters."""
        return None

    def check_examples(self, examples: Tensor) -> None:
        """Raise ``ValueError`` where a batch holds training examples that the mask does not know."""

    def extra_repr(self) -> str:
        return settings_repr(self)


def mask_shape(x: Modality, over: Over, draws: int = 1) -> tuple[int, ...]:
    """The shape of a mask over ``x``: one entry for each thing that is corrupted or kept as a whole."""
    v = x if isinstance(x, Tensor) else x.values
    rows = draws * v.shape[0]
    if over == "modality":
        return (rows,) + (1,) * (v.ndim - 1)
    if over == "coordinates":
        return (rows, *v.shape[1:])
    if v.ndim < 3:
        raise ValueError(
            f"A mask over {over} needs (batch, {over}, ...) with at least 3 dimensions; got {tuple(v.shape)}. "
            "For plain vectors use over='coordinates'."
        )
    return (rows, v.shape[1]) + (1,) * (v.ndim - 2)


class undisturbed:
    """Within this context the modules neither drop units nor update statistics; their modes are put back after it.

    Args:
        modules: Each with all that is inside it.
        recurrent: Whether recurrent layers are in evaluation mode too, where cuDNN refuses to differentiate them.
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

    ``p=1`` corrupts the whole modality and needs no draw; it is often the strongest choice, and the one to try first.

    Args:
        p: Probability that a coordinate is corrupted.
        over: What is corrupted or kept together: single ``"coordinates"``, whole ``"tokens"`` (everything behind dimension 1,
            so also the channels of an image), or the whole ``"modality"`` of an example.

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
        return keys.uniform(key, mask_shape(x, self.over, draws), device) < self.p
