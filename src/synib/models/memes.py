"""CLIP, DeBERTa and a transformer that fuses their tokens: the network for pictures with texts."""

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn

from synib.checks import check_whole
from synib.models.fusion import FusionModel
from synib.models.pretrained import Normalise, Pretrained, Tune, load_network
from synib.models.transformer import TransformerLayer
from synib.tokens import Modality, Tokens, mean_token

CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_DEVIATION = (0.26862954, 0.26130258, 0.27577711)
CLIP_B16: dict[str, Any] = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "patch_size": 16,
    "image_size": 224,
}
DEBERTA_V3_BASE: dict[str, Any] = {
    "vocab_size": 128100,
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "max_position_embeddings": 512,
    "position_buckets": 256,
    "relative_attention": True,
    "max_relative_positions": -1,
    "position_biased_input": False,
    "pos_att_type": ["p2c", "c2p"],
    "share_att_key": True,
    "norm_rel_ebd": "layer_norm",
    "type_vocab_size": 0,
    "layer_norm_eps": 1e-7,
    "pad_token_id": 0,
}


class ImageEncoder(Pretrained):
    """A picture to CLIP's tokens: one for the picture, one for each patch.

    It takes pictures, ``(batch, 3, size, size)``, as bytes or as CLIP's image processor gives them; or patches that are
    embedded already (:meth:`embed`), as :class:`~synib.Tokens`. Hidden patches are looked at by nobody, here or in the fusion;
    the picture's own token is never hidden.

    Args:
        weights: A folder, an id of the hub or a configuration of a ``CLIPVisionModel``; a dict of settings begins at ViT-B/16.
        tune, rank: See :class:`~synib.models.pretrained.Pretrained`.
        download: Whether a model that is not in transformers' cache is fetched from the hub.
    """

    def __init__(self, weights: Any = None, tune: Tune = "full", rank: int = 8, download: bool = False) -> None:
        network: Any = load_network("CLIPVisionModel", weights, ("clip", "clip_vision_model"), download, **CLIP_B16)
        super().__init__(network, tune, rank)
        self.normalise = Normalise(CLIP_MEAN, CLIP_DEVIATION)
        self.size, self.width = int(network.config.image_size), int(network.config.hidden_size)
        # Nothing of what we take passes here, and a parameter that never gets a gradient stops training on many devices.
        for name, p in network.named_parameters():
            if "post_layernorm" in name:
                p.requires_grad_(False)

    @property
    def body(self) -> Any:
        """CLIP's vision transformer, which some versions of transformers keep in a module of its own."""
        return getattr(self.network, "vision_model", self.network)

    def embed(self, x: Modality) -> Tokens:
        """The patches of pictures as tokens, before their places are added."""
        if isinstance(x, Tokens):
            return x
        if x.ndim != 4 or x.shape[1:] != (3, self.size, self.size):
            raise ValueError(f"Pictures are (batch, 3, {self.size}, {self.size}); got {tuple(x.shape)}.")
        patches = self.body.embeddings.patch_embedding(self.normalise(x)).flatten(2).transpose(1, 2)
        return Tokens(patches, torch.zeros(patches.shape[:2], dtype=torch.bool, device=patches.device))

    def forward(self, x: Modality) -> Tokens:
        patches, padding = self.embed(x)
        padding = nn.functional.pad(padding, (1, 0), value=False)
        embeddings = self.body.embeddings
        own = embeddings.class_embedding.to(patches.dtype).expand(len(patches), 1, -1)
        places = embeddings.position_embedding.weight
        if patches.shape[1] + 1 != len(places):
            raise ValueError(f"A picture is {len(places) - 1} patches; got {patches.shape[1]}.")
        tokens = self.body.pre_layrnorm(torch.cat([own, patches], 1) + places)
        mask = None  # pictures as such hide nothing, and attention without a mask is faster
        if isinstance(x, Tokens):
            rows = padding[:, None, None, :].expand(-1, 1, padding.shape[1], -1)
            mask = torch.zeros(rows.shape, dtype=tokens.dtype, device=tokens.device)
            mask = mask.masked_fill(rows, torch.finfo(tokens.dtype).min)
        return Tokens(self.body.encoder(inputs_embeds=tokens, attention_mask=mask)[0], padding)


class TextEncoder(Pretrained):
    """A text to DeBERTa's tokens.

    It takes token ids, ``(batch, tokens)``, padded with the tokenizer's padding; or words that are embedded already
    (:meth:`embed`), as :class:`~synib.Tokens`. Padding and hidden words are looked at by nobody, here or in the fusion.

    Args:
        weights: A folder, an id of the hub or a configuration of a ``DebertaV2Model``; a dict of settings begins at v3-base.
        tune, rank, download: As for :class:`ImageEncoder`.
    """

    def __init__(self, weights: Any = None, tune: Tune = "full", rank: int = 8, download: bool = False) -> None:
        network: Any = load_network("DebertaV2Model", weights, ("deberta-v2",), download, **DEBERTA_V3_BASE)
        super().__init__(network, tune, rank)
        self.width, self.padding_id = int(network.config.hidden_size), int(network.config.pad_token_id or 0)

    def embed(self, x: Modality) -> Tokens:
        """The words of texts as tokens."""
        if isinstance(x, Tokens):
            return x
        if x.ndim != 2 or x.is_floating_point():
            raise ValueError(f"Texts are token ids (batch, tokens), whole numbers; got {x.dtype}, {tuple(x.shape)}.")
        words: Any = cast(Any, self.network).get_input_embeddings()
        return Tokens(words(x.long()), x == self.padding_id)

    def forward(self, x: Modality) -> Tokens:
        words, padding = self.embed(x)
        return Tokens(self.network(inputs_embeds=words, attention_mask=(~padding).long())[0], padding)


class TokenFusion(nn.Module):
    """A transformer over the tokens of all modalities, read at a token of its own.

    Each modality's tokens are normalised, mapped to one width and marked as its own (:meth:`project`, which a counterfactual
    shares); then all look at all. The last layer computes what its own token sees, and no other token. That token is never
    hidden, so a modality may be hidden whole.

    Args:
        widths: For each modality the width of its tokens.
        classes: Size of the prediction.
        width, layers, heads: Of the transformer.
        dropout: Torch's, which is fast and draws from torch's generator.
    """

    def __init__(
        self,
        widths: Mapping[str, int],
        classes: int,
        width: int = 512,
        layers: int = 2,
        heads: int = 8,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        check_whole("layers", layers)
        self.maps = nn.ModuleDict(
            {name: nn.Sequential(nn.LayerNorm(n), nn.Linear(n, width)) for name, n in widths.items()}
        )
        self.marks = nn.ParameterDict({name: nn.Parameter(0.02 * torch.randn(width)) for name in widths})
        self.own = nn.Parameter(0.02 * torch.randn(width))
        self.layers = nn.ModuleList(
            TransformerLayer(width, heads, 4 * width, dropout, norm_first=True, keyed=False, activation=nn.GELU())
            for _ in range(layers)
        )
        self.out = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, classes))

    def forward(self, latents: Mapping[str, Tokens]) -> Tensor:
        return self.combine({name: self.project(name, z) for name, z in latents.items()})

    def project(self, name: str, latent: Tokens) -> Tokens:
        if not isinstance(latent, Tokens):
            raise ValueError(f"TokenFusion takes synib.Tokens; the encoder of {name!r} gives {type(latent).__name__}.")
        return Tokens(self.maps[name](latent.values) + self.marks[name], latent.padding)

    def combine(self, projected: Mapping[str, Tokens]) -> Tensor:
        pieces = [p.values for p in projected.values()]
        own = self.own.to(pieces[0].dtype).expand(len(pieces[0]), 1, -1)
        tokens = torch.cat([own, *pieces], 1)
        padding = torch.cat([p.padding for p in projected.values()], 1)
        padding = nn.functional.pad(padding, (1, 0), value=False)
        for layer in self.layers[:-1]:
            tokens = layer(tokens, padding)
        return self.out(self.layers[-1](tokens, padding, queries=1)[:, 0])


class TokenHead(nn.Module):
    """A modality's own prediction from the mean of its tokens; padding and hidden tokens do not count.

    Args:
        width: Of a token.
        classes: Size of the prediction.
    """

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, latent: Tokens) -> Tensor:
        return self.out(self.norm(mean_token(latent)))


class MemesModel(FusionModel):
    """A :class:`FusionModel` of tokens, whose masks can act in three places.

    On what is given: ``objective(model, batch, target)``. On embedded patches and words, before the encoders:
    ``objective(model, model.tokens(batch), target)``. On latents, behind them, where the encoders run once:
    ``objective(model.on_latents(), model.encode_all(batch), target)``. In the last two ``HideTokens`` is an attention mask.
    """

    def tokens(self, modalities: Mapping[str, Modality]) -> dict[str, Tokens]:
        """The modalities as embedded tokens, which the encoders take as well."""
        return {name: cast(Any, self.encoders[name]).embed(modalities[name]) for name in self.names}


def memes_model(
    vision: Any = None,
    text: Any = None,
    classes: int = 2,
    *,
    tune: Tune = "frozen",
    rank: int = 8,
    width: int = 512,
    layers: int = 2,
    heads: int = 8,
    dropout: float = 0.1,
    download: bool = False,
) -> MemesModel:
    """The network for Hateful Memes: CLIP ViT-B/16, DeBERTa-v3-base, projections to 512, and a fusion transformer of 2 layers
    and 8 heads, read at a token of its own; and a head for each modality.

    Modalities are ``image`` (bytes, or as CLIP's image processor gives them) and ``text`` (token ids). Dropout is torch's: it
    is a model for an engine that trains one at a time.

    Args:
        vision, text: Weights of each encoder: a folder, or an id of the hub (``"openai/clip-vit-base-patch16"`` and
            ``"microsoft/deberta-v3-base"``, from transformers' cache); or, with random weights, a configuration (an object of
            transformers, or a dict of what differs from ViT-B/16 and v3-base); ``None`` for random weights at full size.
        classes: Size of the prediction.
        tune: ``"frozen"`` encoders (then :func:`cache_features` computes their latents once), ``"lora"``, or ``"full"``.
        rank: Of LoRA's updates.
        width, layers, heads, dropout: Of the fusion.
        download: Whether a model that is not in transformers' cache is fetched from the hub.
    """
    check_whole("classes", classes)
    encoders: dict[str, Pretrained] = {
        "image": ImageEncoder(vision, tune, rank, download),
        "text": TextEncoder(text, tune, rank, download),
    }
    widths = {name: int(cast(Any, encoder).width) for name, encoder in encoders.items()}
    fusion = TokenFusion(widths, classes, width, layers, heads, dropout)
    return MemesModel(encoders, fusion, {name: TokenHead(n, classes) for name, n in widths.items()})
