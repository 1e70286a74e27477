"""Transformers encoders as graphs beside that of a model: from tokens, pixels or samples to the model's vectors."""

import importlib.util
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from synib.own.export.programs import onnx_model, run_onnx, run_torch, torch_bytes, traced
from synib.own.predictor import Predictor
from synib.own.raw import catalogue
from synib.own.raw.encoders.base import EncoderState, RawKind
from synib.own.raw.encoders.pretrained import POOLED
from synib.own.raw.sounds import RATE, Wave
from synib.own.raw.spec import RawModality

FOLDER = "encoders"
ENDINGS = {"onnx": ".onnx", "torch": ".pt2"}
OUTPUT, LENGTH = "vectors", "length"
NOT_A_NETWORK = "it is not a transformers model"
TOLERANCE = 1e-3  # of vectors, relative to their root mean square
TEXTS = ("a longer text of several words, with a number: 12", "a", "two words")


@dataclass(frozen=True)
class EncoderExport:
    """An exported encoder.

    Args:
        plain: Its description in ``export.json``, or ``why`` it is not exported.
        files: Path in the folder of the export → content.
    """

    plain: dict[str, Any]
    files: dict[str, bytes] = field(default_factory=dict)


def exported_encoders(
    model: Predictor, to: str, moved: Mapping[str, str | Sequence[str]] | None = None
) -> dict[str, list[EncoderExport]]:
    """Modality → its encoders, in the order of their vectors. Tables are part of the model's own graph.

    Args:
        model: The model.
        to: ``"onnx"`` or ``"torch"``.
        moved: Modality or kind → the folder of its transformers encoder, if that was moved since training.
    """
    return {
        name: [_exported(name if k == 0 else f"{name}-{k + 1}", raw, state, to) for k, state in enumerate(raw.encoders)]
        for name, raw in catalogue.moved(model.raw, moved).items()
        if raw.kind != "table"
    }


def _exported(name: str, raw: RawModality, state: EncoderState, to: str) -> EncoderExport:
    if not catalogue.is_network(raw.kind, state.name):
        return EncoderExport({"why": NOT_A_NETWORK})
    try:
        encoder: Any = catalogue.restore(raw, state, False, "cpu")
    except ValueError as e:
        return EncoderExport({"why": str(e).rstrip(".")})
    try:
        return _traced(name, encoder, to)
    except Exception as e:  # whatever PyTorch, ONNX and onnxruntime raise for an architecture
        reason = (str(e).strip().splitlines() or [""])[0].rstrip(".")[:160]
        return EncoderExport(
            {"why": f"{type(encoder.network).__name__} cannot be exported ({type(e).__name__}: {reason})"}
        )


def _traced(name: str, encoder: Any, to: str) -> EncoderExport:
    """The graph, compared with the encoder on items one by one, and the files of its tokenizer or preprocessor."""
    items = _items(encoder.kind)
    example, single = encoder.inputs(items), encoder.inputs(items[1:2])
    lengths = [key for key, x in example.items() if x.shape[1:2] != single[key].shape[1:2]]
    program = traced(_Pooled(encoder), example, lengths)
    if to == "onnx":
        model = onnx_model(program, list(example), [OUTPUT])
        for value in model.graph.input:
            if value.name in lengths:
                value.type.tensor_type.shape.dim[1].dim_param = LENGTH
        content = bytes(model.SerializeToString())
    else:
        content = torch_bytes(program)
    check: dict[str, Any] = {"items": 0, "why": "onnxruntime is not installed"}
    if to == "torch" or importlib.util.find_spec("onnxruntime") is not None:
        run = run_onnx if to == "onnx" else run_torch
        vectors = np.concatenate([run(content, encoder.inputs([item]))[0] for item in items])
        expected = np.concatenate([encoder.encode([item]) for item in items])
        difference = float(np.abs(vectors - expected).max() / np.sqrt(np.square(expected).mean()))
        if not difference <= TOLERANCE:
            raise ValueError(f"its vectors differ by {difference:.2g} of their root mean square")
        check = {"items": len(items), "largest_difference": difference}
    graph, reader = f"{FOLDER}/{name}{ENDINGS[to]}", f"{FOLDER}/{name}"
    with tempfile.TemporaryDirectory() as folder:
        encoder.save_reader(Path(folder))
        files = {f"{reader}/{path.name}": path.read_bytes() for path in sorted(Path(folder).iterdir())}
    inputs = [
        {"name": key, "dtype": str(x.dtype).removeprefix("torch."), "shape": _shape(x, key in lengths)}
        for key, x in example.items()
    ]
    plain = {"graph": graph, "reader": reader, "inputs": inputs, "output": OUTPUT, "check": check}
    plain |= _reading(encoder) | ({"mask": POOLED} if POOLED in example else {})
    return EncoderExport(plain, {graph: content, **files})


def _shape(x: Tensor, varies: bool) -> list[Any]:
    return ["rows", *([LENGTH] if varies else x.shape[1:2]), *x.shape[2:]]


def _reading(encoder: Any) -> dict[str, Any]:
    """How the inputs are computed from a text, an image or a sound: a class of transformers and its options."""
    if encoder.kind == "text":
        return {
            "reader_class": "AutoTokenizer",
            "options": {"padding": True, "truncation": True, "max_length": encoder.tokens},
        }
    if encoder.kind == "image":
        return {"reader_class": "AutoImageProcessor", "options": {}}
    options = {"sampling_rate": encoder.reader_rate, "padding": encoder.padding, "return_attention_mask": True}
    return {"reader_class": "AutoFeatureExtractor", "options": options}


def _items(kind: RawKind) -> list[Any]:
    """Items of different sizes to trace and check an encoder: texts, pictures of noise, or sounds of noise."""
    rng = np.random.default_rng(0)
    if kind == "text":
        return list(TEXTS)
    if kind == "image":
        from PIL import Image

        sizes = ((90, 120, 3), (64, 64, 3), (200, 100, 3))
        return [Image.fromarray(rng.integers(0, 256, size).astype(np.uint8)) for size in sizes]
    return [Wave(0.1 * rng.normal(size=length * RATE // 4).astype(np.float32), RATE) for length in (3, 2, 4)]


class _Pooled(nn.Module):
    """A network with its pooling: one vector for each item."""

    def __init__(self, encoder: Any) -> None:
        super().__init__()
        self.network, self._pool = encoder.network, encoder.pool

    def forward(self, inputs: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        return (self._pool(dict(inputs)).float(),)
