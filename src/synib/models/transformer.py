"""A transformer layer, for fleets of small models and for single large ones."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from synib.checks import check_flag, check_number, check_whole
from synib.models.mlp import Dropout


class TransformerLayer(nn.Module):
    """Self-attention and a feed-forward network, each with a residual connection and a layer norm.

    With ``keyed`` it is written in plain matrix products with keyed dropout (:class:`~synib.models.Dropout`): it runs
    under ``vmap``, and a model in a fleet drops the same units as it would alone. Otherwise it uses torch's fused
    attention and dropout, which is faster for a large model.

    Args:
        width: Width of a token.
        heads: Number of attention heads; must divide the width.
        feedforward: Hidden width of the feed-forward network.
        dropout: Dropout rate of attention weights, hidden units and residual branches.
        norm_first: Whether to normalise the input of each sublayer instead of its residual sum.
        keyed: Whether dropout is drawn by keys, see above.
        activation: Activation of the feed-forward network; ReLU by default.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        feedforward: int,
        dropout: float = 0.0,
        *,
        norm_first: bool = False,
        keyed: bool = True,
        activation: nn.Module | None = None,
    ) -> None:
        super().__init__()
        for name, size in {"width": width, "heads": heads, "feedforward": feedforward}.items():
            check_whole(name, size)
        if width % heads:
            raise ValueError(f"heads must divide the width of a token, {width}; got {heads}.")
        self.heads, self.dropout = heads, check_number("dropout", dropout, least=0, below=1)
        self.norm_first = check_flag("norm_first", norm_first)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        nn.init.xavier_uniform_(self.qkv.weight)  # as torch's attention begins
        nn.init.zeros_(self.qkv.bias)
        nn.init.zeros_(self.out.bias)
        self.up, self.down = nn.Linear(width, feedforward), nn.Linear(feedforward, width)
        self.activation = nn.ReLU() if activation is None else activation
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        kind = Dropout if check_flag("keyed", keyed) else nn.Dropout
        self.drops = nn.ModuleList([kind(dropout), kind(dropout), kind(dropout)])
        self.drop_weights = Dropout(dropout) if keyed else None

    def forward(self, x: Tensor, padding: Tensor, queries: int | None = None) -> Tensor:
        """The output tokens of this layer.

        Args:
            x: Tokens, ``(batch, tokens, width)``.
            padding: ``(batch, tokens)``, true for padding, which attention ignores.
            queries: Number of leading tokens to compute; ``None`` for all. The others serve only as keys and values.
        """
        kept = x if queries is None else x[..., :queries, :]
        if self.norm_first:
            kept = kept + self.drops[0](self._attend(self.norms[0](x), padding, queries))
            return kept + self.drops[2](self._feed(self.norms[1](kept)))
        kept = self.norms[0](kept + self.drops[0](self._attend(x, padding, queries)))
        return self.norms[1](kept + self.drops[2](self._feed(kept)))

    def _feed(self, x: Tensor) -> Tensor:
        return self.down(self.drops[1](self.activation(self.up(x))))

    def _attend(self, x: Tensor, padding: Tensor, queries: int | None) -> Tensor:
        if queries is None:
            q, k, v = (self._by_head(part) for part in self.qkv(x).chunk(3, -1))
        else:  # queries of the wanted tokens, keys and values of all
            width = x.shape[-1]
            weights, biases = self.qkv.weight.split([width, 2 * width]), self.qkv.bias.split([width, 2 * width])
            q = self._by_head(functional.linear(x[..., :queries, :], weights[0], biases[0]))
            k, v = (self._by_head(part) for part in functional.linear(x, weights[1], biases[1]).chunk(2, -1))
        hidden = padding[..., None, None, :]
        if self.drop_weights is None:
            rate = self.dropout if self.training else 0.0
            seen = functional.scaled_dot_product_attention(q, k, v, attn_mask=~hidden, dropout_p=rate)
        else:
            scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
            # The smallest number instead of minus infinity: where all is hidden, all is equal instead of not a number.
            scores = torch.where(hidden, torch.finfo(scores.dtype).min, scores)
            seen = self.drop_weights(scores.softmax(-1)) @ v
        return self.out(seen.transpose(-2, -3).flatten(-2))

    def _by_head(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(-2, -3)
