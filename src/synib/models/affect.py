"""MultiBench's transformer for sentiment, sarcasm and humour: maps the steps of each modality to one vector."""

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor, nn

from synib.checks import check_choice, check_whole, check_widths
from synib.models.fusion import ConcatFusion, FusionModel
from synib.models.mlp import mlp
from synib.models.transformer import TransformerLayer
from synib.tokens import Modality, Tokens, mean_token

Pool = Literal["first", "mean"]


class SequenceEncoder(nn.Module):
    """Maps a sequence to one vector: a linear map of each step, self-attention layers, and the first output or the mean.

    Padding is ignored whatever its values, and so are steps hidden by :class:`~synib.HideTokens`. If no step is left,
    the vector does not depend on the sequence.

    Args:
        features: Width of a step.
        width: Hidden width, and width of the vector.
        layers, heads, feedforward: Settings of the transformer.
        dropout: Dropout rate, drawn by keys, so that the model can be trained in a fleet.
        pool: ``"first"``, as MultiBench does, or the ``"mean"`` of all steps without padding.
    """

    def __init__(
        self,
        features: int,
        width: int = 40,
        layers: int = 5,
        heads: int = 5,
        feedforward: int = 2048,
        dropout: float = 0.1,
        pool: Pool = "first",
    ) -> None:
        super().__init__()
        check_whole("layers", layers)
        self.pool = check_choice("pool", pool, Pool)
        self.map = nn.Linear(features, width, bias=False)  # a convolution of one step is a linear map of every step
        self.layers = nn.ModuleList(TransformerLayer(width, heads, feedforward, dropout) for _ in range(layers))

    def forward(self, x: Modality) -> Tensor:
        if not isinstance(x, Tokens):
            x = Tokens(x, torch.zeros(x.shape[:-1], dtype=torch.bool, device=x.device))
        steps, padding = x
        if steps.shape[-1] != self.map.in_features:
            raise ValueError(f"This encoder expects steps of width {self.map.in_features}; got {steps.shape[-1]}.")
        # Padding may hold anything, and the first step is read even where it is hidden: it brings nothing of its own.
        tokens = self.map(torch.where(padding[..., None], 0.0, steps))
        for layer in self.layers:
            tokens = layer(tokens, padding)
        if self.pool == "first":
            return tokens[..., 0, :]
        return mean_token(Tokens(tokens, padding))


class NormedConcatFusion(ConcatFusion):
    """Normalise each latent, concatenate, then a multilayer perceptron (see :class:`ConcatFusion`)."""

    def __init__(self, widths: Mapping[str, int], layers: list[int], dropout: float = 0.0) -> None:
        super().__init__(widths, layers, dropout)
        self.norms = nn.ModuleDict({name: nn.LayerNorm(width) for name, width in widths.items()})

    def project(self, name: str, latent: Tensor) -> Tensor:
        right = name in self.norms and isinstance(latent, Tensor)
        return super().project(name, self.norms[name](latent) if right else latent)


def affect_model(
    widths: Mapping[str, int],
    classes: int = 2,
    *,
    width: int = 40,
    layers: int = 5,
    heads: int = 5,
    feedforward: int = 2048,
    fusion_hidden: int = 64,
    dropout: float = 0.1,
    pool: Pool = "first",
    detach_heads: bool = False,
) -> FusionModel:
    """The network for MOSI, MUStARD and UR-FUNNY: a transformer per modality (5 layers, 5 heads, width 40), layer norm,
    concatenation 80 → 64 → classes, and heads 40 → 64 → classes.

    Modalities are :class:`~synib.Tokens`, as returned by :func:`synib.studies.affect.multibench.mosi`. All of it runs
    under ``vmap`` with keyed dropout, so the fleet can train it.

    Args:
        widths: Modality → width of a step.
        classes: Number of outputs.
        width, layers, heads, feedforward, pool: Settings of each :class:`SequenceEncoder`; the feed-forward width is
            torch's default, as in MultiBench.
        fusion_hidden: Hidden widths of the fusion and of the heads.
        dropout: Dropout rate of all parts.
        detach_heads: See :class:`FusionModel`.

    Example:
        >>> import torch, synib
        >>> padding = torch.zeros(4, 50, dtype=torch.bool)
        >>> widths = {"vision": 20, "text": 300}
        >>> batch = {name: synib.Tokens(torch.randn(4, 50, n), padding) for name, n in widths.items()}
        >>> synib.models.affect_model(widths, layers=1, feedforward=16)(batch).shape
        torch.Size([4, 2])
    """
    check_widths("widths", widths, module=True)
    check_whole("classes", classes)
    check_whole("fusion_hidden", fusion_hidden)
    encoders = {
        name: SequenceEncoder(n, width, layers, heads, feedforward, dropout, pool) for name, n in widths.items()
    }
    fusion = NormedConcatFusion(dict.fromkeys(widths, width), [fusion_hidden, classes], dropout)
    own = {name: mlp([width, fusion_hidden, classes], dropout=dropout) for name in widths}
    return FusionModel(encoders, fusion, own, detach_heads)
