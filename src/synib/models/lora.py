"""Low-rank updates: a few parameters beside a frozen linear layer (LoRA, Hu et al. 2022)."""

import math
from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional

from synib.checks import check_kind, check_number, check_whole

# What the linear layers of attention are called in CLIP and in DeBERTa.
ATTENTION = ("q_proj", "k_proj", "v_proj", "out_proj", "query_proj", "key_proj", "value_proj")


class LowRank(nn.Module):
    r"""A frozen linear layer and a low-rank update of it, :math:`Wx + b + \tfrac{\alpha}{r} B A x`.

    :math:`B` begins as 0, so the layer begins as what it was.

    Args:
        linear: The layer; it is frozen.
        rank: r.
        alpha: α, which keeps the size of an update when the rank changes.
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
    """Freezes a network and puts a :class:`LowRank` update on its linear layers of these names, in place.

    Args:
        network: Any module, of transformers or not.
        rank, alpha: See :class:`LowRank`.
        layers: Last parts of the names of the layers to update; the layers of attention by default.

    Returns:
        How many layers were updated.
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
            f"{type(network).__name__} has no linear layer called {', '.join(layers)}: name those to update with layers=."
        )
    network.requires_grad_(False)
    for parent, name, child in linears:
        setattr(parent, name, LowRank(child, rank, alpha))
    return len(linears)
