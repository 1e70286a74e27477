"""Latents of frozen encoders, computed once and stored on disk."""

import hashlib
import itertools
import json
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn

from synib.checks import check_choice, check_whole, shown
from synib.files.arrays import ArrayCache
from synib.masks.base import undisturbed
from synib.models.fusion import FusionModel
from synib.tokens import Modality, Tokens, move, take, values

SPLITS = ("train", "validation", "test")

Data = TypeVar("Data")


class LatentInput(nn.Module):
    """Replaces an encoder when the data are latents: returns them in the model's dtype."""

    like: Tensor

    def __init__(self, like: Tensor) -> None:
        super().__init__()
        self.register_buffer("like", torch.empty(0, dtype=like.dtype, device=like.device), persistent=False)

    def forward(self, x: Modality) -> Modality:
        if isinstance(x, Tokens):
            return Tokens(x.values.to(self.like.dtype), x.padding)
        return x.to(self.like.dtype)


def cache_features(
    model: FusionModel,
    data: Data,
    folder: str | Path,
    batch_size: int = 64,
    device: torch.device | str = "cpu",
    *,
    dtype: Literal["float16", "float32"] = "float16",
    on_batch: Callable[[int, int], None] | None = None,
) -> tuple[Data, FusionModel]:
    """Compute the latents of a model's frozen encoders once; return them with the rest of the model.

    The folder contains an array for each split and modality, and ``latents.json`` with the source of each: checksums of
    the encoder's weights and settings, and of the data (:class:`~synib.files.arrays.ArrayCache`). Arrays that match are
    memory-mapped, the others are computed.

    Masks on the inputs of the returned model act on latents.

    Args:
        model: A model with frozen encoders. They run in evaluation mode, and are moved back to their device.
        data: A :class:`~synib.data.Dataset`, which may be memory-mapped.
        folder: Folder for the latents.
        batch_size: Number of examples encoded at once.
        device: Device for encoding.
        dtype: Storage type of latents: half precision, or exactly as computed.
        on_batch: Called after each batch with the number of computed batches and the total.

    Returns:
        The data set with latents as modalities (without ``blocks``, which describe inputs), and a ``FusionModel`` that
        takes them and shares fusion and heads with ``model``.
    """
    check_whole("batch_size", batch_size)
    check_choice("dtype", dtype, ("float16", "float32"))
    if not isinstance(model, FusionModel):
        raise ValueError(f"model must be a FusionModel; got {shown(model)}.")
    splits: dict[str, Any] = {name: getattr(data, name, None) for name in SPLITS}
    if splits["train"] is None:
        raise ValueError(f"data must be a Dataset; got {shown(data)}.")
    for name, encoder in model.encoders.items():
        trained = sum(p.requires_grad for p in encoder.parameters())
        if trained:
            raise ValueError(
                f"The encoder of {name!r} is trainable ({trained} parameters require a gradient), so its latents "
                f"change in every step: freeze it with model.encoders[{name!r}].requires_grad_(False), or do not "
                "cache its latents."
            )
    cache = ArrayCache(folder, "latents")
    checksums = {name: encoder_checksum(encoder) for name, encoder in model.encoders.items()}
    sources: dict[tuple[str, str], dict[str, Any]] = {}
    for split, part in splits.items():
        for name in model.names if part is not None else ():
            if name not in part.modalities:
                raise ValueError(f"The model has a modality {name!r}, but the {split} data do not.")
            x = part.modalities[name]
            sources[split, name] = {
                "encoder": checksums[name],
                "data": data_checksum(x),
                "dtype": dtype,
                "examples": len(values(x)),
            }
    latents = {which: _load(cache, "/".join(which), source) for which, source in sources.items()}
    missing = [which for which, latent in latents.items() if latent is None]
    total = sum(-(-sources[which]["examples"] // batch_size) for which in missing)
    count = itertools.count(1)
    for split, name in missing:
        with closing(_encode(model.encoders[name], splits[split].modalities[name], batch_size, device)) as batches:
            _store(
                cache,
                f"{split}/{name}",
                sources[split, name],
                batches,
                lambda: on_batch and on_batch(next(count), total),
            )
        latents[split, name] = _load(cache, f"{split}/{name}", sources[split, name])
    changed: dict[str, Any] = {
        split: replace(part, modalities={name: latents[split, name] for name in model.names})
        for split, part in splits.items()
        if part is not None
    }
    like = next(iter(model.fusion.parameters()), torch.empty(0))
    behind = FusionModel(
        {name: LatentInput(like) for name in model.names}, model.fusion, dict(model.heads.items()), model.detach_heads
    )
    return replace(data, **changed, blocks={}), behind.train(model.training)  # type: ignore[type-var]


def encoder_checksum(encoder: nn.Module) -> str:
    """SHA-256 of an encoder: its layers, its transformers config if it has one, and all weights and buffers."""
    digest = hashlib.sha256(str(encoder).encode())
    for module in encoder.modules():
        config: Any = getattr(module, "config", None)
        if hasattr(config, "to_dict"):
            settings = {k: v for k, v in config.to_dict().items() if k != "_name_or_path"}
            digest.update(json.dumps(settings, sort_keys=True, default=str).encode())
            break
    for name, tensor in encoder.state_dict().items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(_bytes(tensor))
    return digest.hexdigest()


def data_checksum(x: Modality) -> str:
    """SHA-256 of the values and padding of a modality, read in chunks."""
    digest = hashlib.sha256()
    for tensor in x if isinstance(x, Tokens) else (x,):
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        for piece in tensor.split(256):
            digest.update(_bytes(piece))
    return digest.hexdigest()


def _bytes(tensor: Tensor) -> Any:
    return tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data if tensor.numel() else b""


def _encode(
    encoder: nn.Module, x: Modality, batch_size: int, device: torch.device | str
) -> Generator[Modality, None, None]:
    """The latents of all examples, batch by batch, in evaluation mode; the encoder's state is restored afterwards."""
    tensors = [*encoder.parameters(), *encoder.buffers()]
    home = tensors[0].device if tensors else torch.device("cpu")
    with undisturbed([encoder], recurrent=True):
        try:
            encoder.to(device)
            for start in range(0, len(values(x)), batch_size):
                with torch.inference_mode():
                    latent = move(encoder(move(take(x, slice(start, start + batch_size)), device)), "cpu")
                yield latent
        finally:
            encoder.to(home)


def _store(
    cache: ArrayCache,
    key: str,
    source: dict[str, Any],
    batches: Iterator[Modality],
    on_batch: Callable[[], object],
) -> None:
    """Write the latents of one split and modality: their values and, for tokens, their padding."""
    first = next(batches)
    kinds = {key: (values(first), source["dtype"])}
    if isinstance(first, Tokens):
        kinds[f"{key} padding"] = (first.padding, "bool")
    with ExitStack() as stack:
        arrays = [
            stack.enter_context(cache.create(name, source, (source["examples"], *like.shape[1:]), dtype, list(kinds)))
            for name, (like, dtype) in kinds.items()
        ]
        start = 0
        for latent in itertools.chain([first], batches):
            numbers = values(latent).float()
            if source["dtype"] == "float16" and numbers.abs().max() > torch.finfo(torch.float16).max:
                raise ValueError(
                    f"Latents of {key!r} are too large for float16 (up to {numbers.abs().max():g}): use "
                    "dtype='float32'."
                )
            tensors = [numbers, latent.padding] if isinstance(latent, Tokens) else [numbers]
            for array, tensor in zip(arrays, tensors, strict=True):
                array[start : start + len(tensor)] = tensor.numpy()
            start += len(numbers)
            on_batch()


def _load(cache: ArrayCache, key: str, source: dict[str, Any]) -> Modality | None:
    """The memory-mapped latents of one split and modality, if they are complete and were computed from this source."""
    record = cache.record(key)
    names = record.notes if record is not None else None
    if names not in ([key], [key, f"{key} padding"]):
        return None
    tensors = []
    for name in names:
        record = cache.record(name)
        array = cache.open(name) if record is not None and record.source == source else None
        if array is None or len(array) != source["examples"]:
            return None
        tensors.append(torch.from_numpy(array))
    return Tokens(*tensors) if len(tensors) == 2 else tensors[0]
