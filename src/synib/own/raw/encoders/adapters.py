"""Low-rank updates of an encoder's attention (LoRA): add them to a network, extract them, and load them from a file."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from synib.checks import is_whole, shown
from synib.models.lora import ATTENTION, LowRank, add_lora
from synib.own.columns import Array

RANK, MOST = 8, 256  # rank of an update by default, and at most
# Names of linear attention layers in BERT, ViT, RoBERTa, ELECTRA; in DistilBERT; in T5 and MPNet; and of joint layers.
LAYERS = (*ATTENTION, "query", "key", "value", "q_lin", "k_lin", "v_lin", "out_lin", "q", "k", "v", "o", "qkv", "Wqkv")


def add_adapters(name: str, network: nn.Module, rank: Any = RANK) -> None:
    """Freeze a network and add low-rank updates, initially 0, to its attention layers.

    Args:
        name: Name of the encoder, for error messages.
        network: The network.
        rank: Rank of the updates.
    """
    if not is_whole(rank) or not 1 <= rank <= MOST:
        raise ValueError(f"The rank of the updates of the encoder {name} must be from 1 to {MOST}; got {shown(rank)}.")
    try:
        add_lora(network, rank, 2.0 * rank, LAYERS)
    except ValueError as e:
        raise ValueError(
            f"The encoder {name} cannot be tuned: {type(network).__name__} has no linear attention layer with a known name "
            f"({', '.join(LAYERS[:8])}, ...)."
        ) from e


def adapters_of(network: nn.Module) -> dict[str, Array]:
    """Name in the network → update, in single precision."""
    updates: dict[str, nn.Parameter] = {}
    for name, layer in network.named_modules():
        if isinstance(layer, LowRank):
            updates |= {f"{name}.a": layer.a, f"{name}.b": layer.b}
    return {name: p.detach().float().cpu().numpy().copy() for name, p in updates.items()}


def load_adapters(name: str, network: nn.Module, arrays: Mapping[str, Array]) -> None:
    """Replace the updates of a network by those of a file; ``ValueError`` if the shapes differ."""
    layers = {at: layer for at, layer in network.named_modules() if isinstance(layer, LowRank)}
    updates = {f"{at}.{part}": getattr(layer, part) for at, layer in layers.items() for part in ("a", "b")}
    wrong = next((key for key in updates.keys() | arrays.keys() if key not in updates or key not in arrays), None)
    wrong = wrong or next((key for key, p in updates.items() if arrays[key].shape != tuple(p.shape)), None)
    if wrong is not None:
        raise ValueError(
            f"The updates of the encoder {name} do not fit its network ({shown(wrong)}): fit the model again."
        )
    with torch.no_grad():
        for key, p in updates.items():
            p.copy_(torch.from_numpy(arrays[key]))
