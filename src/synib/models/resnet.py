"""ResNet-18 encoders for video clips: frames and spectrograms, one vector each."""

from collections.abc import Mapping
from typing import Any, Literal

from torch import Tensor, nn

from synib.checks import check_modality, check_number, check_whole, shown
from synib.models.fusion import ConcatFusion, FusionModel
from synib.models.mlp import mlp
from synib.models.pretrained import Normalise, Pretrained, load_network
from synib.tokens import Tokens, describe

Kind = Literal["frames", "spectrogram"]
RESNET_18: dict[str, Any] = {
    "embedding_size": 64,
    "hidden_sizes": [64, 128, 256, 512],
    "depths": [2, 2, 2, 2],
    "layer_type": "basic",
}
IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class ResNetEncoder(Pretrained):
    """Base class of both encoders: a ResNet with a given number of channels, and its output width."""

    def __init__(self, channels: int, weights: Any, tune: Literal["full", "frozen"], download: bool) -> None:
        if tune not in ("full", "frozen"):
            raise ValueError(
                f"tune must be 'full' or 'frozen' for a ResNet, which has no attention; got {shown(tune)}."
            )
        config = RESNET_18 | {"num_channels": channels}
        network: Any = load_network("ResNetModel", weights, ("resnet",), download, **config)
        super().__init__(network, tune)
        self.width = int(network.config.hidden_sizes[-1])


class SpectrogramEncoder(ResNetEncoder):
    """Encodes a spectrogram, ``(batch, frequencies, times)``, as a vector with a single-channel ResNet.

    Args:
        weights: See :func:`resnet_model`. The first layer of a three-channel network is summed over its channels, which
            equals repeating the spectrogram three times.
        tune: ``"full"`` or ``"frozen"``.
        download: See :func:`resnet_model`.
    """

    def __init__(self, weights: Any = None, tune: Literal["full", "frozen"] = "full", download: bool = False) -> None:
        super().__init__(1, weights, tune, download)
        _sum_channels(self.network)

    def forward(self, x: Tensor) -> Tensor:
        if isinstance(x, Tokens) or x.ndim != 3:
            raise ValueError(f"Spectrograms must have shape (batch, frequencies, times); got {describe(x)}.")
        return self.network(x[:, None]).pooler_output.flatten(1)


class FramesEncoder(ResNetEncoder):
    """Encodes a few frames, ``(batch, frames, 3, height, width)``, as a vector: a ResNet and the mean over frames.

    Bytes are normalised as in ImageNet; real numbers are used unchanged.

    Args:
        weights, tune, download: As for :class:`SpectrogramEncoder`.
    """

    def __init__(self, weights: Any = None, tune: Literal["full", "frozen"] = "full", download: bool = False) -> None:
        super().__init__(3, weights, tune, download)
        self.normalise = Normalise(*IMAGENET)

    def forward(self, x: Tensor) -> Tensor:
        if isinstance(x, Tokens) or x.ndim != 5 or x.shape[2] != 3:
            raise ValueError(f"Frames must have shape (batch, frames, 3, height, width); got {describe(x)}.")
        seen = self.network(self.normalise(x.flatten(0, 1))).pooler_output
        return seen.flatten(1).unflatten(0, x.shape[:2]).mean(1)


ENCODERS: dict[str, type[SpectrogramEncoder] | type[FramesEncoder]] = {
    "frames": FramesEncoder,
    "spectrogram": SpectrogramEncoder,
}


def resnet_model(
    classes: int,
    modalities: Mapping[str, Kind] | None = None,
    *,
    weights: Any = None,
    tune: Literal["full", "frozen"] = "full",
    hidden: int = 64,
    dropout: float = 0.1,
    detach_heads: bool = False,
    download: bool = False,
) -> FusionModel:
    """The model for CREMA-D and its irony task (App. "Irony"): a ResNet-18 per modality, concatenation 1024 → 64 →
    classes, and heads 512 → 64 → classes.

    Its BatchNorm mixes the rows of a batch in training mode, so with masks on inputs, intact and corrupted rows take
    separate passes. Masks on latents avoid that: the encoders run only once.

    Args:
        classes: Number of outputs.
        modalities: Name → kind of input, ``"frames"`` or ``"spectrogram"``; by default ``{"video": "frames", "audio":
            "spectrogram"}``, as in the data sets of clips.
        weights: ``None`` for a ResNet-18 with random weights; a folder, a Hugging Face Hub id
            (``"microsoft/resnet-18"``, from the transformers cache) or a configuration (a transformers config, or a
            dict of its settings); or a dict of modality → one of these.
        tune: ``"full"``, or ``"frozen"`` for encoders that are not trained.
        hidden: Hidden width of the fusion and of the heads.
        dropout: Dropout rate of the fusion and of the heads.
        detach_heads: See :class:`FusionModel`.
        download: Whether to download a model that is not in the transformers cache.
    """
    kinds = {"video": "frames", "audio": "spectrogram"} if modalities is None else modalities
    if not isinstance(kinds, Mapping) or not all(isinstance(k, str) and k in ENCODERS for k in kinds.values()):
        raise ValueError(f"modalities must be a dict of name → 'frames' or 'spectrogram'; got {shown(modalities)}.")
    for name in kinds:
        check_modality(name, module=True)
    check_whole("classes", classes)
    check_whole("hidden", hidden)
    check_number("dropout", dropout, least=0, below=1)
    of_each = (
        weights if isinstance(weights, Mapping) and weights.keys() == kinds.keys() else dict.fromkeys(kinds, weights)
    )
    encoders = {name: ENCODERS[kind](of_each[name], tune, download) for name, kind in kinds.items()}
    widths = {name: encoder.width for name, encoder in encoders.items()}
    fusion = ConcatFusion(widths, [hidden, classes], dropout=dropout)
    heads = {name: mlp([width, hidden, classes], dropout=dropout) for name, width in widths.items()}
    return FusionModel(encoders, fusion, heads, detach_heads)


def _sum_channels(network: Any) -> None:
    """Convert the first layer to one input channel, by summing its weights over channels."""
    embedder = network.embedder
    first = embedder.embedder.convolution
    if first.in_channels == 1:
        return
    summed = nn.Conv2d(
        1, first.out_channels, first.kernel_size, first.stride, first.padding, bias=first.bias is not None
    )
    summed.weight = nn.Parameter(first.weight.detach().sum(1, keepdim=True), first.weight.requires_grad)
    summed.bias = first.bias
    embedder.embedder.convolution = summed.train(first.training)
    embedder.num_channels = network.config.num_channels = 1
