"""Models of transformers, from a folder, the Hub cache or a configuration, and how they are fine-tuned."""

import importlib
import json
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from synib.checks import check_choice, check_flag, shown
from synib.models.lora import add_lora

Tune = Literal["full", "frozen", "lora"]


class Pretrained(nn.Module):
    """Base class of encoders around a transformers model.

    A frozen network requires no gradient and stays in evaluation mode, whatever the mode of the surrounding model: no
    dropout, no updates of BatchNorm, and always the same output for an example. Gradients with respect to its input
    still pass through it, for masks that search. With LoRA, only low-rank updates of the attention layers are trained.

    These networks use torch's dropout, so they need an engine that trains one model at a time.

    Args:
        network: The network.
        tune: ``"full"``, ``"frozen"`` or ``"lora"``.
        rank: Rank of the LoRA updates.
    """

    def __init__(self, network: nn.Module, tune: Tune = "full", rank: int = 8) -> None:
        super().__init__()
        self.network, self.tune = network, check_choice("tune", tune, Tune)
        if tune == "frozen":
            network.requires_grad_(False).eval()
        elif tune == "lora":
            add_lora(network, rank)

    def train(self, mode: bool = True) -> "Pretrained":
        super().train(mode)
        if self.tune == "frozen":
            self.network.eval()
        return self

    def extra_repr(self) -> str:
        return f"tune={self.tune!r}"


class Normalise(nn.Module):
    """Normalises images given as bytes as in the network's pre-training; real numbers are assumed to be normalised already.

    Args:
        mean, deviation: Mean and standard deviation of each channel, for bytes scaled to 0 to 1.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, mean: tuple[float, ...], deviation: tuple[float, ...]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1), persistent=False)
        self.register_buffer("deviation", torch.tensor(deviation).view(-1, 1, 1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if x.is_floating_point():
            return x
        if x.dtype != torch.uint8:
            raise ValueError(
                f"Images must be bytes (uint8), or real numbers that are already normalised; got {x.dtype}."
            )
        return (x.to(self.mean.dtype) / 255 - self.mean) / self.deviation


def load_network(kind: str, weights: Any, types: tuple[str, ...], download: bool = False, **config: Any) -> nn.Module:
    """Load or construct a transformers model.

    Args:
        kind: Its class in transformers, such as ``"CLIPVisionModel"``.
        weights: A folder with ``config.json`` and weights; a Hugging Face Hub id such as
            ``"openai/clip-vit-base-patch16"``, loaded from the transformers cache; or, for random weights, a
            configuration: a transformers config or a dict of its settings (``None`` for the defaults).
        types: The accepted ``model_type`` values in a folder's ``config.json``.
        download: Whether to download a model that is not in the cache.
        **config: Further settings of the configuration.

    Returns:
        The network. No code from a folder or from the Hub is run, and weights are read without executing pickles.
    """
    network_class = transformers(kind)
    check_flag("download", download)
    if weights is None or isinstance(weights, Mapping):
        settings = dict(weights or {})
        try:
            return network_class(network_class.config_class(**config | settings))
        except Exception as e:  # of many kinds, some of the hub's own
            raise ValueError(f"{kind} cannot be constructed from the settings {shown(settings)}: {_short(e)}.") from e
    if isinstance(weights, network_class.config_class):
        return network_class(weights)
    if not isinstance(weights, str | Path):
        raise ValueError(
            f"The weights of {kind} must be a folder, a Hugging Face Hub id or a configuration; got {shown(weights)}."
        )
    return _read(network_class, weights, types, download)


def transformers(kind: str) -> Any:
    """A class of transformers; raises an error if the package is not installed."""
    try:
        with (
            warnings.catch_warnings()
        ):  # it compiles a few functions in a way that newer versions of torch advise against
            warnings.filterwarnings("ignore", ".*torch.jit.script.*", DeprecationWarning)
            return getattr(importlib.import_module("transformers"), kind)
    except ImportError as e:
        raise ImportError(f'{kind} needs the package transformers: pip install "synib[vision,text]"') from e


def _read(network_class: Any, weights: str | Path, types: tuple[str, ...], download: bool) -> nn.Module:
    folder = Path(weights)
    local = folder.is_dir()
    if local:
        _check_folder(folder, types)
    elif isinstance(weights, Path) or not re.fullmatch(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", weights):
        raise ValueError(f"{weights} is not a folder: give one that contains config.json and model.safetensors.")
    try:
        network, loading = network_class.from_pretrained(
            str(weights),
            local_files_only=local or not download,
            weights_only=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    except Exception as e:  # transformers, its hub and safetensors raise many kinds
        if local:
            raise ValueError(f"The weights in {folder} cannot be read: {_short(e)}.") from e
        way = (
            "" if download else " in the transformers cache: download it first (hf download ID), or pass download=True"
        )
        raise ValueError(f"{weights!r} is neither a folder nor a model{way} ({_short(e)}).") from e
    if missing := sorted(loading["missing_keys"]):
        raise ValueError(
            f"{weights} has no weights for {len(missing)} parts of {network_class.__name__}, such as "
            f"{missing[0]}: it is a different model."
        )
    return network


def _check_folder(folder: Path, types: tuple[str, ...]) -> None:
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{folder} has no config.json: give a folder to which a model was saved.") from None
    except (OSError, ValueError) as e:
        raise ValueError(f"{folder / 'config.json'} cannot be read: {_short(e)}.") from None
    model_type = config.get("model_type") if isinstance(config, dict) else None
    if model_type not in types:
        raise ValueError(
            f"{folder} contains a model of type {shown(model_type)}; expected {' or '.join(map(repr, types))}."
        )
    if not [*folder.glob("*.safetensors"), *folder.glob("*.bin")]:
        raise ValueError(f"{folder} has a config.json but no weights (model.safetensors).")


def _short(e: BaseException) -> str:
    lines = str(e.__cause__ or e).strip().splitlines()
    text = lines[0].rstrip(".") if lines else type(e).__name__
    return text if len(text) <= 160 else f"{text[:157]}..."
