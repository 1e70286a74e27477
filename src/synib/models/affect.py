"""MultiBench's transformer for sentiment, sarcasm and humour: a few dozen steps of each modality to one vector."""

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
    """A sequence to one vector: a map of each step, layers of self-attention, and the first step's output or the mean.

    Padding is never looked at, whatever it holds, and neither is what :class:`~synib.HideTokens` has hidden. If nothing is
    left to look at the vector is one that does not depend on the sequence.

    Args:
        features: Width of a step.
        width: Width inside, and of the vector.
        layers, heads, feedforward: Of the transformer.
        dropout: By keys, so that the model can be trained among others.
        pool: ``"first"``, as MultiBench does, or the ``"mean"`` of all steps that are no padding.
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
            raise ValueError(f"A step is {self.map.in_features} wide for this encoder; got {steps.shape[-1]}.")
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

    Modalities are :class:`~synib.Tokens`, as :func:`synib.studies.affect.multibench.mosi` gives them. Everything in it runs
    under ``vmap`` and drops by keys, so the fleet can train it.

    Args:
        widths: For each modality the width of a step.
        classes: Size of the prediction.
        width, layers, heads, feedforward, pool: Of each :class:`SequenceEncoder`; the feed-forward width is torch's default,
            which MultiBench does not change.
        fusion_hidden: Of the fusion and of the heads.
        dropout: Everywhere.
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
