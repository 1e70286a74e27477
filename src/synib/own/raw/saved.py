"""Raw modalities in a saved model: columns and encoders as plain values, fitted parameters as arrays."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from synib.checks import is_whole, shown
from synib.own.columns import Array, printable
from synib.own.raw.encoders.base import EncoderState
from synib.own.raw.spec import RAW, RawModality

TEXTS = ("name", "revision", "licence")


def plain_of(modalities: Mapping[str, RawModality]) -> dict[str, Any]:
    """Modality → plain values."""
    return {
        name: {
            "kind": modality.kind,
            "columns": list(modality.columns),
            "encoders": [
                {
                    "name": state.name,
                    "revision": state.revision,
                    "width": state.width,
                    "licence": state.licence,
                    "settings": dict(state.settings),
                    "arrays": sorted(state.arrays),
                }
                for state in modality.encoders
            ],
        }
        for name, modality in modalities.items()
    }


def arrays_of(modalities: Mapping[str, RawModality]) -> dict[str, Array]:
    """Name of an array in the file → the array."""
    return {
        f"{name}.{k}.{key}": np.ascontiguousarray(array, dtype=np.float32)
        for name, modality in modalities.items()
        for k, state in enumerate(modality.encoders)
        for key, array in state.arrays.items()
    }


def modalities_of(
    plain: Mapping[str, Any], arrays: Mapping[str, Array], widths: Mapping[str, int]
) -> dict[str, RawModality]:
    """Rebuild raw modalities; ``ValueError`` if plain values and arrays are inconsistent.

    Args:
        plain: The result of :func:`plain_of`.
        arrays: The result of :func:`arrays_of`.
        widths: Modality → its width in the model.
    """
    result: dict[str, RawModality] = {}
    expected: set[str] = set()
    for name, entry in plain.items():
        if name not in widths or not isinstance(entry, dict):
            raise ValueError(f"raw has {shown(name)}, which is not a modality of the model.")
        columns, encoders = entry.get("columns"), entry.get("encoders")
        fits = entry.get("kind") in RAW and _are_texts(columns) and isinstance(encoders, list) and bool(encoders)
        if not fits or columns is None or encoders is None:
            raise ValueError(f"raw.{name} must have a kind, columns and encoders; got {shown(entry)}.")
        states = tuple(_state(name, k, encoder, arrays) for k, encoder in enumerate(encoders))
        expected |= {f"{name}.{k}.{key}" for k, state in enumerate(states) for key in state.arrays}
        result[name] = RawModality(entry["kind"], tuple(columns), states)
        if result[name].width != widths[name]:
            raise ValueError(
                f"the encoders of {name} give {result[name].width} numbers, but the model takes {widths[name]}."
            )
    if expected != arrays.keys():
        raise ValueError(f"the file of encoders has other arrays: {shown(min(expected ^ arrays.keys()))}.")
    return result


def _state(name: str, k: int, entry: Any, arrays: Mapping[str, Array]) -> EncoderState:
    fits = isinstance(entry, dict) and all(isinstance(entry.get(key), str) for key in TEXTS)
    fits = fits and isinstance(entry.get("settings"), dict) and is_whole(entry.get("width")) and entry["width"] > 0
    if not fits or not (entry["arrays"] == [] or _are_texts(entry.get("arrays"))):
        raise ValueError(
            f"an encoder of {name} must have a name, a revision, a licence, a width and settings; got {shown(entry)}."
        )
    own_arrays: dict[str, Array] = {}
    for key in entry["arrays"]:
        array = arrays.get(f"{name}.{k}.{key}")
        if array is None or array.dtype != np.float32 or not np.isfinite(array).all():
            raise ValueError(f"the array {key} of the encoder of {name} is missing or damaged.")
        own_arrays[key] = array
    return EncoderState(
        entry["name"], entry["revision"], entry["width"], entry["licence"], entry["settings"], own_arrays
    )


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, str) and printable(v) == v for v in value)
