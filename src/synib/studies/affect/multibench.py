"""MOSI, MUStARD and UR-FUNNY as word-level sequences, from MultiBench's pickles."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from synib.data.dataset import Dataset, Split
from synib.data.files import File, Source, check_disjoint
from synib.data.pickles import read_pickle
from synib.studies.tables import check_modalities
from synib.tokens import Tokens

MODALITIES = ("vision", "audio", "text")
PARTS = ("train", "valid", "test")

Array = np.ndarray[Any, Any]


def mosi(root: str | Path | None = None, *, modalities: Sequence[str] = ("vision", "text")) -> Dataset:
    """CMU-MOSI: is an utterance in a video positive? (MultiBench's ``mosi_raw.pkl`` or ``mosi_data.pkl``)

    Examples whose text is all zero are dropped; all modalities are shifted to start at the first word and padded at the
    end; values that are not finite become 0; the label is 1 if the sentiment is above 0. A video in two splits raises
    ``ValueError``.

    Args:
        root: Folder of the data; ``None`` is ``$SYNIB_DATA``.
        modalities: A subset of vision, audio and text; the paper uses vision and text.

    Returns:
        Modalities are :class:`~synib.Tokens` of (examples, 50 steps, width); ``columns`` contain the ids, if the file
        has them.
    """
    return _dataset(MOSI, root, modalities, video=True)


def mustard(root: str | Path | None = None, *, modalities: Sequence[str] = ("vision", "text")) -> Dataset:
    """MUStARD: is it sarcastic? (MultiBench's ``sarcasm.pkl``)

    Like :func:`mosi`; every feature is z-scored over the steps of each example (padding stays 0), and a constant
    feature is 0.
    """
    return _dataset(MUSTARD, root, modalities, z_score=True)


def ur_funny(root: str | Path | None = None, *, modalities: Sequence[str] = ("vision", "text")) -> Dataset:
    """UR-FUNNY: is the punchline of a talk funny? (MultiBench's ``humor.pkl``). Like :func:`mosi`."""
    return _dataset(UR_FUNNY, root, modalities)


def _dataset(
    source: Source, root: str | Path | None, modalities: Sequence[str], z_score: bool = False, video: bool = False
) -> Dataset:
    names = check_modalities(modalities, MODALITIES)
    path = source.file(root)
    parts = _parts(path)
    train, validation, test = (_split(f"{path}, {part}", parts[part], names, z_score) for part in PARTS)
    ids = [split.columns.get("id", ()) for split in (train, validation, test)]
    check_disjoint("example", *ids)
    if video:
        check_disjoint("video", *(map(_video, names_of_split) for names_of_split in ids))
    return Dataset(train, validation, test)


def _parts(path: Path) -> Mapping[str, Any]:
    parts = read_pickle(path)
    if not isinstance(parts, dict) or not all(isinstance(parts.get(name), dict) for name in PARTS):
        content = (
            ", ".join(str(key)[:20] for key in list(parts)[:5]) if isinstance(parts, dict) else type(parts).__name__
        )
        raise ValueError(f"{path} must contain a dict of {', '.join(PARTS)}, each a dict of arrays; got {content}.")
    return parts


def _split(where: str, part: Mapping[str, Any], modalities: Sequence[str], z_score: bool) -> Split:
    text = _sequences(where, "text", part)
    keep = (text != 0).any((1, 2))
    if not keep.any():
        raise ValueError(f"{where}: every example has a text of zeros only.")
    label = _labels(where, part, len(text))[keep]
    start = (text[keep] != 0).any(2).argmax(1)
    step = np.arange(text.shape[1]) + start[:, None]
    padding = step >= text.shape[1]
    shifted: dict[str, Tokens] = {}
    for name in modalities:
        x = text if name == "text" else _sequences(where, name, part)
        if x.shape[:2] != text.shape[:2]:
            raise ValueError(
                f"{where}: {name} has shape {x.shape} but text has {text.shape}: examples and steps must agree."
            )
        x = np.take_along_axis(x[keep], np.minimum(step, text.shape[1] - 1)[:, :, None], axis=1)
        x[padding] = 0
        if z_score:
            _z_score(x, padding)
        shifted[name] = Tokens(torch.from_numpy(x), torch.from_numpy(padding))
    ids = _ids(where, part, keep)
    return Split(shifted, torch.from_numpy(label), columns={"id": ids} if ids else {})


def _sequences(where: str, name: str, part: Mapping[str, Any]) -> Array:
    x = part.get(name)
    if not isinstance(x, np.ndarray) or x.ndim != 3 or x.dtype.kind not in "fiub" or 0 in x.shape:
        raise ValueError(f"{where}: {name} must be an array of numbers (examples, steps, width); got {_describe(x)}.")
    with np.errstate(over="ignore"):  # numbers too large for float32 become 0, like infinite ones
        return np.nan_to_num(x.astype(np.float32), copy=False, nan=0.0, posinf=0.0, neginf=0.0)


def _labels(where: str, part: Mapping[str, Any], n: int) -> Array:
    y = part.get("labels")
    if not isinstance(y, np.ndarray) or y.size != n or y.dtype.kind not in "fiub" or not np.isfinite(y).all():
        raise ValueError(f"{where}: labels must be {n} finite numbers, one for each text; got {_describe(y)}.")
    return (y.reshape(n) > 0).astype(np.int64)


def _describe(x: object) -> str:
    if isinstance(x, np.ndarray):
        return f"{x.dtype} {x.shape}"
    return "none" if x is None else type(x).__name__


def _ids(where: str, part: Mapping[str, Any], keep: Array) -> list[str]:
    """Names of the examples, if they are strings: numbers may restart in every split."""
    ids = part.get("id")
    if ids is None:
        return []
    is_sequence = ids.ndim > 0 if isinstance(ids, np.ndarray) else isinstance(ids, list | tuple)
    rows = list(ids) if is_sequence else []
    if len(rows) != len(keep):
        raise ValueError(f"{where}: there must be one id for each of {len(keep)} texts; got {len(rows)}.")
    # A row may itself be a video's name, and the start and end of the example.
    names = ["/".join(map(_text, row)) if isinstance(row, np.ndarray | list | tuple) else _text(row) for row in rows]
    if all(re.fullmatch(r"[\d./-]*", name) for name in names):
        return []
    return [name for name, kept in zip(names, keep, strict=True) if kept]


def _text(x: Any) -> str:
    if not isinstance(x, str | bytes | int | float | np.generic):  # nested containers can be endless as a text
        raise ValueError(f"An id must be a string or a number, or a few of them; got {type(x).__name__}.")
    return (x.decode(errors="replace") if isinstance(x, bytes) else str(x))[:200]


def _video(name: str) -> str:
    """The video of an example called ``video[3]``, ``video_3`` or ``video/from/to``."""
    return re.sub(r"(\[\d+\]|_\d+)$", "", name.partition("/")[0])


def _z_score(x: Array, padding: Array) -> None:
    present = ~padding[:, :, None]
    steps = present.sum(1, keepdims=True)
    largest = np.abs(x).max(1, keepdims=True)
    x -= x.sum(1, keepdims=True) / steps
    x *= present
    spread = np.sqrt((x**2).sum(1, keepdims=True) / steps)
    constant = spread <= 1e-6 * largest  # up to rounding
    np.divide(x, spread, out=x, where=~constant)
    x *= ~constant


def _counts(paths: Sequence[Path]) -> str:
    counts = []
    parts = _parts(paths[0])
    for name in PARTS:
        part = parts[name]
        text = _sequences(f"{paths[0]}, {name}", "text", part)
        kept = int((text != 0).any((1, 2)).sum())
        widths = ", ".join(f"{m} {part[m].shape[-1]}" for m in MODALITIES if isinstance(part.get(m), np.ndarray))
        counts.append(f"{name} {kept:,} of {len(text):,} ({widths})")
    return "; ".join(counts)


_MULTIBENCH = "https://github.com/pliang279/MultiBench (its README links the affect files)"


def _file(*names: str) -> tuple[File]:
    return (File(names, "train, valid and test: vision, audio, text, labels, id", look=_counts),)


MOSI = Source(
    "mosi",
    "CMU-MOSI: sentiment of 2,199 utterances; vision, audio and text word by word (MultiBench)",
    _MULTIBENCH,
    "CMU-MOSI's own terms, for research: http://multicomp.cs.cmu.edu/resources/cmu-mosi-dataset",
    _file("mosi_raw.pkl", "mosi_data.pkl"),
    "mosi",
)
MUSTARD = Source(
    "mustard",
    "MUStARD: sarcasm in 690 lines of TV shows; vision, audio and text word by word (MultiBench)",
    _MULTIBENCH,
    "annotations MIT (https://github.com/soujanyaporia/MUStARD); the shows are their makers'",
    _file("sarcasm.pkl"),
    "mustard",
)
UR_FUNNY = Source(
    "ur-funny",
    "UR-FUNNY: humour in talks; vision, audio and text word by word (MultiBench)",
    _MULTIBENCH,
    "for research, as said at https://github.com/ROC-HCI/UR-FUNNY; the talks are TED's",
    _file("humor.pkl"),
    "ur-funny",
)
SOURCES = (MOSI, MUSTARD, UR_FUNNY)
