"""Export a fitted model: write the graph and its description, and compare its outputs with ``predict``."""

import importlib.metadata
import importlib.util
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import synib
from synib.checks import shown
from synib.files import atomic_file, check_writable, read_json
from synib.own.export.describe import export_card, inputs_as_plain
from synib.own.export.encoders import FOLDER, exported_encoders
from synib.own.export.graph import Graph
from synib.own.export.inputs import Input, inputs_of, made_up_rows
from synib.own.export.programs import need_onnx, onnx_bytes, run_onnx, run_torch, torch_bytes, traced
from synib.own.predictor import Predictor

FILES = {"onnx": "model.onnx", "torch": "model.pt2"}
PLAIN, CARD = "export.json", "README.md"
TOLERANCE = 1e-5  # of probabilities; for numbers, relative to the target's deviation plus the distance from its mean
CHECKED = 64  # random rows for the comparison


def check_export(to: str, folder: Path) -> None:
    """Raise ``ValueError`` if an export cannot be created or written."""
    if to not in FILES:
        raise ValueError(f"to must be {' or '.join(FILES)}; got {shown(to)}.")
    if to == "onnx":
        need_onnx()
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"An export is written to a folder, but {folder} is a file; choose another.")
    export_files = (PLAIN, CARD, FILES[to], FOLDER) if _is_export(folder) else ()
    others = sorted(path.name for path in folder.iterdir() if path.name not in export_files) if folder.is_dir() else []
    if others:
        raise ValueError(
            f"{folder} holds other files ({', '.join(others[:3])}{', ...' * (len(others) > 3)}); choose an empty folder."
        )
    check_writable(folder)


def export(
    model: Predictor, folder: Path, to: str = "onnx", moved: Mapping[str, str | Sequence[str]] | None = None
) -> dict[str, Any]:
    """Write a model's graph, ``export.json`` and ``README.md`` (see :meth:`Predictor.export`); returns ``export.json``.

    Args:
        model: The model.
        folder: The folder to write.
        to: ``"onnx"`` or ``"torch"``.
        moved: Modality or kind → the folder of its transformers encoder, if that was moved since training.
    """
    check_export(to, folder)
    inputs = inputs_of(model)
    outputs = ("mean", "deviation") if model.kind == "regression" else ("probabilities",)
    program = traced(Graph(model), made_up_rows(model, inputs, 3).inputs)
    content = onnx_bytes(program, inputs, outputs) if to == "onnx" else torch_bytes(program)
    encoders = exported_encoders(model, to, moved)
    plain: dict[str, Any] = {
        "format": 1,
        "synib": synib.__version__,
        "to": to,
        "graph": FILES[to],
        "versions": _versions(to),
        "inputs": inputs_as_plain(model, inputs, to, encoders),
        "outputs": [
            {"name": name, "dtype": "float64", "shape": ["rows"]}
            if model.kind == "regression"
            else {"name": name, "dtype": "float32", "shape": ["rows", len(model.classes)]}
            for name in outputs
        ],
        "target": model.kind,
        "classes": list(model.classes),
        "check": _check(model, inputs, to, content),
    }
    text = json.dumps(plain, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # The description is written first, so that after an interruption the folder can be recognised and replaced.
        files = {PLAIN: text.encode(), FILES[to]: content, CARD: export_card(plain).encode()}
        for one in (one for of_modality in encoders.values() for one in of_modality):
            files |= one.files
        for name, written in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            with atomic_file(folder / name) as file:
                file.write(written)
    except OSError as e:
        raise ValueError(f"Cannot write an export to {folder}: {e.strerror or e}.") from e
    return plain


def _check(model: Predictor, inputs: Sequence[Input], to: str, content: bytes) -> dict[str, Any]:
    """The largest difference between the file's outputs and those of ``predict``, for complete and incomplete rows."""
    if to == "onnx" and importlib.util.find_spec("onnxruntime") is None:
        return {"rows": 0, "why": "onnxruntime is not installed"}
    rows = made_up_rows(model, inputs, CHECKED, seed=1)
    outputs = run_onnx(content, rows.inputs, inputs) if to == "onnx" else run_torch(content, rows.inputs)
    expected, actual, unit = model.predict(rows.modalities), outputs[0], np.ones(())
    if model.kind == "regression":
        mean, deviation = model.scaling.target
        actual, unit = np.stack(outputs, 1), deviation + np.abs(expected - [mean, 0.0])
    difference = float((np.abs(actual - expected) / unit).max())
    if not difference <= TOLERANCE:
        raise ValueError(
            f"The exported graph differs from predict by {difference:.2g}, more than {TOLERANCE:g}: nothing was written."
        )
    return {"rows": CHECKED, "largest_difference": difference}


def _versions(to: str) -> dict[str, str]:
    packages = ("onnx", "onnxscript") if to == "onnx" else ()
    return {"torch": torch.__version__} | {name: importlib.metadata.version(name) for name in packages}


def _is_export(folder: Path) -> bool:
    if not (folder / PLAIN).is_file():
        return False
    try:
        plain = read_json(folder / PLAIN)
    except ValueError:
        return False
    return isinstance(plain, dict) and "synib" in plain and plain.get("graph") in FILES.values()
