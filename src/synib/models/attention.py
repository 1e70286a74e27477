"""Attention fusion of short sequences: tokens with learned places, a transformer for each modality, and one over all tokens."""

from collections.abc import Mapping

import torch
from torch import nn

from synib.checks import check_whole, check_widths
from synib.models.fusion import FusionModel
from synib.models.memes import TokenFusion, TokenHead
from synib.models.transformer import TransformerLayer
from synib.tokens import Modality, Tokens, describe, values


class TokenEncoder(nn.Module):
    """Maps a sequence of fixed length to tokens: a linear map of each step, learned places, self-attention layers.

    Hidden steps (:class:`~synib.HideTokens`) stay hidden from attention, here and in the fusion.

    Args:
        features: Width of a step.
        steps: Number of steps.
        width, layers, heads: Settings of the transformer.
        dropout: Dropout rate, drawn by keys, so that the model can be trained in a fleet.
    """

    def __init__(
        self, features: int, steps: int, width: int = 32, layers: int = 1, heads: int = 2, dropout: float = 0.0
    ) -> None:
        super().__init__()
        check_whole("layers", layers, least=0)
        self.map = nn.Linear(features, width)
        self.places = nn.Parameter(0.02 * torch.randn(check_whole("steps", steps), width))
        self.layers = nn.ModuleList(
            TransformerLayer(width, heads, 4 * width, dropout, norm_first=True, activation=nn.GELU())
            for _ in range(layers)
        )

    def forward(self, x: Modality) -> Tokens:
        if not isinstance(x, Tokens) or x.values.shape[-2:] != (len(self.places), self.map.in_features):
            steps = f"{len(self.places)} steps of width {self.map.in_features}"
            raise ValueError(f"This encoder expects synib.Tokens of {steps}; got {describe(values(x))}.")
        tokens = self.map(x.values) + self.places
        for layer in self.layers:
            tokens = layer(tokens, x.padding)
        return Tokens(tokens, x.padding)


def attention_model(
    shapes: Mapping[str, tuple[int, int]],
    classes: int = 1,
    *,
    width: int = 32,
    layers: int = 1,
    fusion_layers: int = 2,
    heads: int = 2,
    dropout: float = 0.0,
    detach_heads: bool = False,
) -> FusionModel:
    """A small transformer for modalities of tokens: one for each modality, then one over the tokens of all, with a class token.

    Modalities are :class:`~synib.Tokens`. Everything runs under ``vmap`` with keyed dropout, so the fleet can train it.

    Args:
        shapes: Modality → its number of steps, and the width of a step.
        classes: Number of outputs.
        width, heads: Settings of all transformers.
        layers: Layers of each modality's transformer.
        fusion_layers: Layers of the fusion (:class:`~synib.models.memes.TokenFusion`).
        dropout: Dropout rate of all parts.
        detach_heads: See :class:`FusionModel`.

    Example:
        >>> import torch, synib
        >>> model = synib.models.attention_model({"audio": (24, 40), "image": (16, 49)})
        >>> batch = {name: synib.Tokens(torch.randn(4, n, w), torch.zeros(4, n).bool()) for name, (n, w) in
        ...          {"audio": (24, 40), "image": (16, 49)}.items()}
        >>> model(batch).shape
        torch.Size([4, 1])
    """
    check_widths("shapes", {name: features for name, (_, features) in shapes.items()}, module=True)
    check_whole("classes", classes)
    encoders = {
        name: TokenEncoder(features, steps, width, layers, heads, dropout) for name, (steps, features) in shapes.items()
    }
    widths = dict.fromkeys(shapes, width)
    fusion = TokenFusion(widths, classes, width, fusion_layers, heads, dropout, keyed=True)
    return FusionModel(encoders, fusion, {name: TokenHead(width, classes) for name in shapes}, detach_heads)
