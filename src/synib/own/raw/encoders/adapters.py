"""Low-rank updates of an encoder's attention (LoRA): added to a network, taken out of it, and put back from a file."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from synib.checks import is_whole, shown
from synib.models.lora import ATTENTION, LowRank, add_lora
from synib.own.columns import Array

RANK, MOST = 8, 256  # of an update; the most that is read from a file
# Linear layers of attention in BERT, ViT, RoBERTa, ELECTRA; in DistilBERT; in T5 and MPNet; joined in one layer.
LAYERS = (*ATTENTION, "query", "key", "value", "q_lin", "k_lin", "v_lin", "out_lin", "q", "k", "v", "o", "qkv", "Wqkv")


def add_adapters(name: str, network: nn.Module, rank: Any = RANK) -> None:
    """Freeze a network and put low-rank updates, which begin as 0, on its layers of attention.

    Args:
        name: The encoder's, for sentences.
        network: The network.
        rank: Of the updates.
    """
    if not is_whole(rank) or not 1 <= rank <= MOST:
        raise ValueError(f"The rank of the updates of the encoder {name} is from 1 to {MOST}; got {shown(rank)}.")
    try:
        add_lora(network, rank, 2.0 * rank, LAYERS)
    except ValueError as e:
        raise ValueError(
            f"The encoder {name} cannot be tuned: {type(network).__name__} has no linear layer of attention that is known "
            f"here ({', '.join(LAYERS[:8])}, ...)."
        ) from e


def adapters_of(network: nn.Module) -> dict[str, Array]:
    """The updates by their names in the network, in single precision."""
    found: dict[str, nn.Parameter] = {}
    for name, layer in network.named_modules():
        if isinstance(layer, LowRank):
            found |= {f"{name}.a": layer.a, f"{name}.b": layer.b}
    return {name: p.detach().float().cpu().numpy().copy() for name, p in found.items()}


def load_adapters(name: str, network: nn.Module, arrays: Mapping[str, Array]) -> None:
    """Put updates of a file in the place of those of the network; ``ValueError`` if they are not of its shapes."""
    layers = {at: layer for at, layer in network.named_modules() if isinstance(layer, LowRank)}
    own = {f"{at}.{part}": getattr(layer, part) for at, layer in layers.items() for part in ("a", "b")}
    wrong = next((key for key in own.keys() | arrays.keys() if key not in own or key not in arrays), None)
    wrong = wrong or next((key for key, p in own.items() if arrays[key].shape != tuple(p.shape)), None)
    if wrong is not None:
        raise ValueError(
            f"The updates of the encoder {name} do not fit its network ({shown(wrong)}): fit the model again."
        )
    with torch.no_grad():
        for key, p in own.items():
            p.copy_(torch.from_numpy(arrays[key]))
