"""Networks of transformers, from a folder, the hub's cache or a configuration, and how they are trained."""

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
    """Base of encoders around a network of transformers.

    A frozen network takes no gradient and stays in evaluation mode, whatever mode the model around it is in: it does not drop,
    its BatchNorm does not change, and what it gives for an example is always the same. Gradients with respect to its input
    still pass through it, for masks that search. A network with LoRA trains low-rank updates of its attention and nothing else.

    Networks of transformers drop with torch's dropout, so they are for an engine that trains one model at a time.

    Args:
        network: The network.
        tune: ``"full"``, ``"frozen"`` or ``"lora"``.
        rank: Of LoRA's updates.
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
    """Pictures as bytes to the numbers a network was trained on; real numbers are taken as they are, normalised already.

    Args:
        mean, deviation: Of each channel, where bytes are 0 to 1.
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
            raise ValueError(f"Pictures are bytes (uint8), or real numbers that are normalised already; got {x.dtype}.")
        return (x.to(self.mean.dtype) / 255 - self.mean) / self.deviation


def load_network(kind: str, weights: Any, types: tuple[str, ...], download: bool = False, **config: Any) -> nn.Module:
    """A network of transformers.

    Args:
        kind: Its class there, such as ``"CLIPVisionModel"``.
        weights: A folder with ``config.json`` and weights; the id of a model on the hub, such as
            ``"openai/clip-vit-base-patch16"``, taken from transformers' cache; or, for random weights, a configuration: an
            object of transformers or a dict of its settings (``None`` for none).
        types: The ``model_type`` that a folder's ``config.json`` may name.
        download: Whether a model that is not in the cache is fetched from the hub.
        **config: Settings beside those of a configuration.

    Returns:
        The network. No code of a folder or of the hub is run, and weights are read without executing pickles.
    """
    network_class = transformers(kind)
    check_flag("download", download)
    if weights is None or isinstance(weights, Mapping):
        settings = dict(weights or {})
        try:
            return network_class(network_class.config_class(**config | settings))
        except Exception as e:  # of many kinds, some of the hub's own
            raise ValueError(f"{kind} cannot be made of the settings {shown(settings)}: {_short(e)}.") from e
    if isinstance(weights, network_class.config_class):
        return network_class(weights)
    if not isinstance(weights, str | Path):
        raise ValueError(
            f"The weights of {kind} are a folder, an id of the hub or a configuration; got {shown(weights)}."
        )
    return _read(network_class, weights, types, download)


def transformers(kind: str) -> Any:
    """A class of transformers, if that package is installed."""
    try:
        with (
            warnings.catch_warnings()
        ):  # it compiles a few functions in a way that newer versions of torch advise against
            warnings.filterwarnings("ignore", ".*torch.jit.script.*", DeprecationWarning)
            return getattr(importlib.import_module("transformers"), kind)
    except ImportError as e:
        raise ImportError(f'{kind} is a network of transformers: pip install "synib[vision,text]"') from e


def _read(network_class: Any, weights: str | Path, types: tuple[str, ...], download: bool) -> nn.Module:
    folder = Path(weights)
    local = folder.is_dir()
    if local:
        _check_folder(folder, types)
    elif isinstance(weights, Path) or not re.fullmatch(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", weights):
        raise ValueError(f"{weights} is no folder: give one with config.json and model.safetensors in it.")
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
        way = "" if download else " in transformers' cache: fetch it first (hf download ID), or pass download=True"
        raise ValueError(f"{weights!r} is no folder here and no model{way} ({_short(e)}).") from e
    if missing := sorted(loading["missing_keys"]):
        raise ValueError(
            f"{weights} has no weights for {len(missing)} parts of {network_class.__name__}, such as {missing[0]}: it is "
            "another model."
        )
    return network


def _check_folder(folder: Path, types: tuple[str, ...]) -> None:
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{folder} has no config.json: give a folder that a model was saved to.") from None
    except (OSError, ValueError) as e:
        raise ValueError(f"{folder / 'config.json'} cannot be read: {_short(e)}.") from None
    model_type = config.get("model_type") if isinstance(config, dict) else None
    if model_type not in types:
        raise ValueError(
            f"{folder} holds a model of type {shown(model_type)}; expected {' or '.join(map(repr, types))}."
        )
    if not [*folder.glob("*.safetensors"), *folder.glob("*.bin")]:
        raise ValueError(f"{folder} has a config.json and no weights (model.safetensors).")


def _short(e: BaseException) -> str:
    lines = str(e.__cause__ or e).strip().splitlines()
    text = lines[0].rstrip(".") if lines else type(e).__name__
    return text if len(text) <= 160 else f"{text[:157]}..."
