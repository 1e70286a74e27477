"""Low-rank updates: a few trainable parameters added to a frozen linear layer (LoRA, Hu et al. 2022)."""

import math
from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional

from synib.checks import check_kind, check_number, check_whole

# What the linear layers of attention are called in CLIP and in DeBERTa.
ATTENTION = ("q_proj", "k_proj", "v_proj", "out_proj", "query_proj", "key_proj", "value_proj")


class LowRank(nn.Module):
    r"""A frozen linear layer with a low-rank update, :math:`Wx + b + \tfrac{\alpha}{r} B A x`.

    :math:`B` is initialised to 0, so the layer is initially unchanged.

    Args:
        linear: The layer, which is frozen.
        rank: r, the rank of the update.
        alpha: α, which keeps the scale of an update when the rank changes.
    """

    def __init__(self, linear: nn.Linear, rank: int = 8, alpha: float = 16.0) -> None:
        super().__init__()
        check_kind("linear", linear, nn.Linear, "nn.Linear(8, 8)")
        check_whole("rank", rank)
        self.scale = check_number("alpha", alpha, above=0) / rank
        self.linear = linear.requires_grad_(False)
        self.a = nn.Parameter(linear.weight.new_empty(rank, linear.in_features))
        self.b = nn.Parameter(linear.weight.new_zeros(linear.out_features, rank))
        nn.init.kaiming_uniform_(self.a, a=math.sqrt(5))

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) + self.scale * functional.linear(functional.linear(x, self.a), self.b)

    def extra_repr(self) -> str:
        return f"rank={len(self.a)}"


def add_lora(network: nn.Module, rank: int = 8, alpha: float = 16.0, layers: Sequence[str] = ATTENTION) -> int:
    """Freeze a network and add a :class:`LowRank` update to its linear layers of the given names, in place.

    Args:
        network: Any module, also from transformers.
        rank, alpha: See :class:`LowRank`.
        layers: Last parts of the names of the layers to update; the attention layers by default.

    Returns:
        The number of updated layers.
    """
    linears = [
        (parent, name, child)
        for parent in network.modules()
        if not isinstance(parent, LowRank)
        for name, child in parent.named_children()
        if name in layers and isinstance(child, nn.Linear)
    ]
    if not linears:
        raise ValueError(
            f"{type(network).__name__} has no linear layer called {', '.join(layers)}: name the layers to "
            "update with layers=."
        )
    network.requires_grad_(False)
    for parent, name, child in linears:
        setattr(parent, name, LowRank(child, rank, alpha))
    return len(linears)
