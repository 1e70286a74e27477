"""CLIP, DeBERTa and a transformer that fuses their tokens: the model for images with text."""

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
    """Encodes an image as CLIP tokens: one for the image, one for each patch.

    The input is images, ``(batch, 3, size, size)``, as bytes or as returned by CLIP's image processor; or embedded
    patches (:meth:`embed`) as :class:`~synib.Tokens`. Hidden patches are ignored by attention here and in the fusion;
    the image token is never hidden.

    Args:
        weights: A folder, a Hugging Face Hub id or a configuration of a ``CLIPVisionModel``; a dict changes settings of
            ViT-B/16.
        tune, rank: See :class:`~synib.models.pretrained.Pretrained`.
        download: Whether to download a model that is not in the transformers cache.
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
        """CLIP's vision transformer, which some versions of transformers keep in a submodule."""
        return getattr(self.network, "vision_model", self.network)

    def embed(self, x: Modality) -> Tokens:
        """The patches of images as tokens, before position embeddings are added."""
        if isinstance(x, Tokens):
            return x
        if x.ndim != 4 or x.shape[1:] != (3, self.size, self.size):
            raise ValueError(f"Images must have shape (batch, 3, {self.size}, {self.size}); got {tuple(x.shape)}.")
        patches = self.body.embeddings.patch_embedding(self.normalise(x)).flatten(2).transpose(1, 2)
        return Tokens(patches, torch.zeros(patches.shape[:2], dtype=torch.bool, device=patches.device))

    def forward(self, x: Modality) -> Tokens:
        patches, padding = self.embed(x)
        padding = nn.functional.pad(padding, (1, 0), value=False)
        embeddings = self.body.embeddings
        own = embeddings.class_embedding.to(patches.dtype).expand(len(patches), 1, -1)
        places = embeddings.position_embedding.weight
        if patches.shape[1] + 1 != len(places):
            raise ValueError(f"An image must have {len(places) - 1} patches; got {patches.shape[1]}.")
        tokens = self.body.pre_layrnorm(torch.cat([own, patches], 1) + places)
        mask = None  # pictures as such hide nothing, and attention without a mask is faster
        if isinstance(x, Tokens):
            rows = padding[:, None, None, :].expand(-1, 1, padding.shape[1], -1)
            mask = torch.zeros(rows.shape, dtype=tokens.dtype, device=tokens.device)
            mask = mask.masked_fill(rows, torch.finfo(tokens.dtype).min)
        return Tokens(self.body.encoder(inputs_embeds=tokens, attention_mask=mask)[0], padding)


class TextEncoder(Pretrained):
    """Encodes a text as DeBERTa tokens.

    The input is token ids, ``(batch, tokens)``, padded with the tokenizer's padding id; or embedded words
    (:meth:`embed`) as :class:`~synib.Tokens`. Padding and hidden words are ignored by attention here and in the fusion.

    Args:
        weights: A folder, a Hugging Face Hub id or a configuration of a ``DebertaV2Model``; a dict changes settings of
            v3-base.
        tune, rank, download: As for :class:`ImageEncoder`.
    """

    def __init__(self, weights: Any = None, tune: Tune = "full", rank: int = 8, download: bool = False) -> None:
        network: Any = load_network("DebertaV2Model", weights, ("deberta-v2",), download, **DEBERTA_V3_BASE)
        super().__init__(network, tune, rank)
        self.width, self.padding_id = int(network.config.hidden_size), int(network.config.pad_token_id or 0)

    def embed(self, x: Modality) -> Tokens:
        """The words of texts as embedded tokens."""
        if isinstance(x, Tokens):
            return x
        if x.ndim != 2 or x.is_floating_point():
            raise ValueError(
                f"Texts must be integer token ids of shape (batch, tokens); got {x.dtype} of shape {tuple(x.shape)}."
            )
        words: Any = cast(Any, self.network).get_input_embeddings()
        return Tokens(words(x.long()), x == self.padding_id)

    def forward(self, x: Modality) -> Tokens:
        words, padding = self.embed(x)
        return Tokens(self.network(inputs_embeds=words, attention_mask=(~padding).long())[0], padding)


class TokenFusion(nn.Module):
    """A transformer over the tokens of all modalities, with the prediction read from an additional class token.

    The tokens of each modality are normalised, projected to one width and given a modality embedding (:meth:`project`,
    which a counterfactual shares); then all tokens attend to all. The last layer computes only the class token. The
    class token is never hidden, so a whole modality may be hidden.

    Args:
        widths: Modality → width of its tokens.
        classes: Number of outputs.
        width, layers, heads: Settings of the transformer.
        dropout: Dropout rate.
        keyed: Whether dropout is drawn by keys, so that a fleet can train it, instead of torch's faster dropout
            (:class:`~synib.models.transformer.TransformerLayer`).
    """

    def __init__(
        self,
        widths: Mapping[str, int],
        classes: int,
        width: int = 512,
        layers: int = 2,
        heads: int = 8,
        dropout: float = 0.1,
        keyed: bool = False,
    ) -> None:
        super().__init__()
        check_whole("layers", layers)
        self.maps = nn.ModuleDict(
            {name: nn.Sequential(nn.LayerNorm(n), nn.Linear(n, width)) for name, n in widths.items()}
        )
        self.marks = nn.ParameterDict({name: nn.Parameter(0.02 * torch.randn(width)) for name in widths})
        self.own = nn.Parameter(0.02 * torch.randn(width))
        self.layers = nn.ModuleList(
            TransformerLayer(width, heads, 4 * width, dropout, norm_first=True, keyed=keyed, activation=nn.GELU())
            for _ in range(layers)
        )
        self.out = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, classes))

    def forward(self, latents: Mapping[str, Tokens]) -> Tensor:
        return self.combine({name: self.project(name, z) for name, z in latents.items()})

    def project(self, name: str, latent: Tokens) -> Tokens:
        if not isinstance(latent, Tokens):
            raise ValueError(
                f"TokenFusion expects synib.Tokens, but the encoder of {name!r} returns {type(latent).__name__}."
            )
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
    """The unimodal prediction of a modality from the mean of its tokens, without padding and hidden tokens.

    Args:
        width: Width of a token.
        classes: Number of outputs.
    """

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, latent: Tokens) -> Tensor:
        return self.out(self.norm(mean_token(latent)))


class MemesModel(FusionModel):
    """A :class:`FusionModel` of tokens, in which masks can act in three places.

    On the inputs: ``objective(model, batch, target)``. On embedded patches and words, before the encoders:
    ``objective(model, model.tokens(batch), target)``. On latents, where the encoders run only once:
    ``objective(model.on_latents(), model.encode_all(batch), target)``. In the last two, ``HideTokens`` is an attention
    mask.
    """

    def tokens(self, modalities: Mapping[str, Modality]) -> dict[str, Tokens]:
        """The modalities as embedded tokens, which the encoders accept as input."""
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
    """The model for Hateful Memes: CLIP ViT-B/16, DeBERTa-v3-base, projections to 512, a fusion transformer of 2 layers
    and 8 heads with a class token, and a head for each modality.

    Modalities are ``image`` (bytes, or as returned by CLIP's image processor) and ``text`` (token ids). Dropout is
    torch's, so the model needs an engine that trains one model at a time.

    Args:
        vision, text: Weights of each encoder: a folder, or a Hugging Face Hub id (``"openai/clip-vit-base-patch16"``
            and ``"microsoft/deberta-v3-base"``, from the transformers cache); or, with random weights, a configuration
            (a transformers config, or a dict of changes to ViT-B/16 and v3-base); ``None`` for random weights at full
            size.
        classes: Number of outputs.
        tune: ``"frozen"`` encoders (whose latents :func:`cache_features` computes once), ``"lora"``, or ``"full"``.
        rank: Rank of the LoRA updates.
        width, layers, heads, dropout: Settings of the fusion.
        download: Whether to download a model that is not in the transformers cache.
    """
    check_whole("classes", classes)
    encoders: dict[str, Pretrained] = {
        "image": ImageEncoder(vision, tune, rank, download),
        "text": TextEncoder(text, tune, rank, download),
    }
    widths = {name: int(cast(Any, encoder).width) for name, encoder in encoders.items()}
    fusion = TokenFusion(widths, classes, width, layers, heads, dropout)
    return MemesModel(encoders, fusion, {name: TokenHead(n, classes) for name, n in widths.items()})
