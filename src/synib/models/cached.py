"""Latents of encoders that do not train, computed once: on disk, memory-mapped, with an account of what they are of."""

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from synib.checks import check_whole, shown
from synib.models.fusion import FusionModel
from synib.tokens import Modality, Tokens, move, take, values

FORMAT = "synib latents 1"
ACCOUNT = "latents.json"
SPLITS = ("train", "validation", "test")

Data = TypeVar("Data")


class Given(nn.Module):
    """In an encoder's place where latents are given: it passes them on, as real numbers of the model's kind."""

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
    """The latents of a model's frozen encoders, computed once, and the model behind its encoders.

    In the folder there is an array for each split and modality, and ``latents.json``, which says for each what it was computed
    from: checksums of the encoder's weights and settings, and of the data. What is there and matches is mapped, the rest is
    computed. Arrays and account are each written whole or not at all, the account last, so an interrupted call leaves what was
    there before.

    Masks that act on the inputs of the model behind the encoders act on latents.

    Args:
        model: Its encoders take no gradient. They are evaluated in evaluation mode, and end on the device they were on.
        data: A :class:`~synib.data.Dataset`, which may be memory-mapped.
        folder: Where latents are kept.
        batch_size: Examples encoded at once.
        device: Where.
        dtype: How latents are stored: in half the space, or exactly as computed.
        on_batch: Called after each batch, with how many of how many were computed.

    Returns:
        The data set with latents for modalities (no longer with ``blocks``, which are of inputs), and a ``FusionModel`` that
        takes them and shares the fusion and the heads with ``model``.
    """
    check_whole("batch_size", batch_size)
    if dtype not in ("float16", "float32"):
        raise ValueError(f"dtype is 'float16' or 'float32'; got {shown(dtype)}.")
    if not isinstance(model, FusionModel):
        raise ValueError(f"model is a FusionModel; got {shown(model)}.")
    splits: dict[str, Any] = {name: getattr(data, name, None) for name in SPLITS}
    if splits["train"] is None:
        raise ValueError(f"data is a Dataset; got {shown(data)}.")
    for name, encoder in model.encoders.items():
        trained = sum(p.requires_grad for p in encoder.parameters())
        if trained:
            raise ValueError(
                f"The encoder of {name!r} trains ({trained} parameters take a gradient), so its latents change with every "
                f"step: freeze it, as with model.encoders[{name!r}].requires_grad_(False), or do not cache them."
            )
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    account = _account(folder / ACCOUNT)
    sums = {name: encoder_checksum(encoder) for name, encoder in model.encoders.items()}
    wanted: dict[str, dict[str, Any]] = {}
    for split, part in splits.items():
        for name in model.names if part is not None else ():
            if name not in part.modalities:
                raise ValueError(f"The model has a modality {name!r}, and the {split} data have none of that name.")
            x = part.modalities[name]
            wanted[f"{split}/{name}"] = {
                "encoder": sums[name],
                "data": data_checksum(x),
                "dtype": dtype,
                "examples": len(values(x)),
            }
    latents: dict[str, Modality] = {}
    for what, made_of in wanted.items():
        found = _mapped(folder, account.get(what, {}), made_of)
        if found is not None:
            latents[what] = found
    missing = [what for what in wanted if what not in latents]
    total = sum(-(-wanted[what]["examples"] // batch_size) for what in missing)
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        if on_batch:
            on_batch(done, total)

    for what in missing:
        split, name = what.split("/", 1)
        old = account.get(what, {})
        encode = _encoded(model.encoders[name], splits[split].modalities[name], batch_size, device)
        account[what] = wanted[what] | _written(folder, what, wanted[what], encode, step)
        _write(folder / ACCOUNT, {"format": FORMAT, "latents": account})
        for file in {old.get("values"), old.get("padding")} - {None}:
            if file not in account[what].values():
                with suppress(OSError):  # where somebody still maps it, it may have to stay
                    (folder / file).unlink()
        made = _mapped(folder, account[what], wanted[what])
        assert made is not None
        latents[what] = made
    changed: dict[str, Any] = {
        split: replace(part, modalities={name: latents[f"{split}/{name}"] for name in model.names})
        for split, part in splits.items()
        if part is not None
    }
    like = next(iter(model.fusion.parameters()), torch.empty(0))
    behind = FusionModel(
        {name: Given(like) for name in model.names}, model.fusion, dict(model.heads.items()), model.detach_heads
    )
    return replace(data, **changed, blocks={}), behind.train(model.training)  # type: ignore[type-var]


def encoder_checksum(encoder: nn.Module) -> str:
    """SHA-256 of an encoder: its layers, its settings where it is a network of transformers, and every weight and buffer."""
    told = hashlib.sha256(str(encoder).encode())
    for module in encoder.modules():
        config: Any = getattr(module, "config", None)
        if hasattr(config, "to_dict"):
            settings = {k: v for k, v in config.to_dict().items() if k != "_name_or_path"}
            told.update(json.dumps(settings, sort_keys=True, default=str).encode())
            break
    for name, tensor in encoder.state_dict().items():
        told.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        told.update(_bytes(tensor))
    return told.hexdigest()


def data_checksum(x: Modality) -> str:
    """SHA-256 of a modality's numbers and padding, read piece by piece."""
    told = hashlib.sha256()
    for tensor in x if isinstance(x, Tokens) else (x,):
        told.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        for piece in tensor.split(256):
            told.update(_bytes(piece))
    return told.hexdigest()


def _bytes(tensor: Tensor) -> Any:
    return tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data if tensor.numel() else b""


def _encoded(
    encoder: nn.Module, x: Modality, batch_size: int, device: torch.device | str
) -> Callable[[Callable[[slice, Modality], None]], None]:
    """Latents of all examples, batch after batch, handed to whoever keeps them."""

    def run(keep: Callable[[slice, Modality], None]) -> None:
        modes = {m: m.training for m in encoder.modules()}
        tensors = [*encoder.parameters(), *encoder.buffers()]
        home = tensors[0].device if tensors else torch.device("cpu")
        try:
            encoder.to(device).eval()
            with torch.inference_mode():
                for start in range(0, len(values(x)), batch_size):
                    rows = slice(start, start + batch_size)
                    keep(rows, move(encoder(move(take(x, rows), device)), "cpu"))
        finally:
            encoder.to(home)
            for module, mode in modes.items():
                module.training = mode

    return run


def _written(
    folder: Path,
    what: str,
    made_of: Mapping[str, Any],
    encode: Callable[[Callable[[slice, Modality], None]], None],
    step: Callable[[], None],
) -> dict[str, str | None]:
    """Writes the arrays of one split and modality; gives their names."""
    sum_ = hashlib.sha256(json.dumps([FORMAT, what, made_of], sort_keys=True).encode()).hexdigest()
    stem = f"{re.sub(r'[^A-Za-z0-9]+', '-', what)}-{sum_[:16]}"
    arrays: dict[str, NDArray[Any]] = {}
    parts: dict[str, Path] = {}

    def array(kind: str, like: Tensor, dtype: str) -> NDArray[Any]:
        if kind not in arrays:
            with tempfile.NamedTemporaryFile(dir=folder, prefix=f"{stem}-", suffix=".part", delete=False) as file:
                parts[kind] = Path(file.name)
            shape = (made_of["examples"], *like.shape[1:])
            arrays[kind] = np.lib.format.open_memmap(parts[kind], mode="w+", dtype=np.dtype(dtype), shape=shape)
        return arrays[kind]

    def keep(rows: slice, latent: Modality) -> None:
        v = values(latent)
        if made_of["dtype"] == "float16" and v.abs().max() > torch.finfo(torch.float16).max:
            raise ValueError(
                f"Latents of {what!r} are too large for float16, up to {v.abs().max():g}: use dtype='float32'."
            )
        array("values", v, made_of["dtype"])[rows] = v.float().numpy()
        if isinstance(latent, Tokens):
            array("padding", latent.padding, "bool")[rows] = latent.padding.numpy()
        step()

    try:
        encode(keep)
        names: dict[str, str | None] = {"values": None, "padding": None}
        for kind in list(arrays):
            arrays.pop(kind).flush()  # type: ignore[attr-defined]
            names[kind] = f"{stem}{'-padding' if kind == 'padding' else ''}.npy"
            os.replace(parts[kind], folder / str(names[kind]))
        return names
    finally:
        arrays.clear()
        for path in parts.values():
            path.unlink(missing_ok=True)


def _account(path: Path) -> dict[str, Any]:
    """What the folder holds, or nothing where its account cannot be used."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        right = told["format"] == FORMAT and all(
            Path(entry[kind]).name == entry[kind]
            for entry in told["latents"].values()
            for kind in ("values", "padding")
            if entry[kind] is not None
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
    return told["latents"] if right else {}


def _mapped(folder: Path, entry: Mapping[str, Any], made_of: Mapping[str, Any]) -> Modality | None:
    """The latents an entry names, if they are of what is wanted and all there."""
    if any(entry.get(k) != v for k, v in made_of.items()) or not entry.get("values"):
        return None
    arrays = []
    for kind, dtype in (("values", made_of["dtype"]), ("padding", "bool")):
        if entry.get(kind) is None:
            continue
        # "c": pages are private, so that nothing can write to the file; a read-only array would be no tensor without a warning.
        try:
            array = np.load(folder / entry[kind], mmap_mode="c", allow_pickle=False)
        except (OSError, ValueError):
            return None
        if array.dtype != np.dtype(dtype) or len(array) != made_of["examples"]:
            return None
        arrays.append(torch.from_numpy(array))
    return Tokens(*arrays) if len(arrays) == 2 else arrays[0]


def _write(path: Path, told: Mapping[str, Any]) -> None:
    with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".part", delete=False, encoding="utf-8") as file:
        json.dump(told, file, indent=1)
    os.replace(file.name, path)
