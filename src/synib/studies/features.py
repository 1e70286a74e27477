"""MOSI, MUStARD and RAVDESS from ``features.npz`` files: one vector per modality of an example."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from synib.checks import check_choice
from synib.data.dataset import Dataset
from synib.data.files import File, Source, check_disjoint
from synib.studies.tables import (
    Array,
    Table,
    check_fold,
    check_modalities,
    check_values,
    dataset,
    grouped_folds,
    read_table,
    standardised,
)  # fmt: skip

FOLDS = 5

Standardise = Literal["training", "actor"]
Frames = Literal["mean", "all"]
Scheme = Literal["official", "speaker-independent"]


def mosi(
    root: str | Path | None = None,
    *,
    text: Literal["minilm", "text"] = "minilm",
    fold: int | None = None,
    modalities: Sequence[str] = ("text", "audio", "video"),
) -> Dataset:
    """CMU-MOSI: is an utterance positive? One vector each for text, audio and video.

    Features are standardised by the training examples; constant features are 0. The test set is the official 31 test
    videos.

    The released text and video features appear to have been fitted to the labels of all training videos, including
    those of the validation set in any fold: do not choose settings with them, or exclude them (``modalities=("text",
    "audio")``).

    Args:
        root: Folder of the data; ``None`` is ``$SYNIB_DATA``.
        text: ``"minilm"`` (sentence embeddings of the transcripts), or ``"text"``, the released features.
        fold: Which fifth of the 62 training videos is the validation set, 0 to 4; ``None`` for the 6 official videos,
            of which only 35 % of the examples are positive (51 % in training, 62 % in the test set).
        modalities: A subset of text, audio and video.
    """
    names = check_modalities(modalities, ("text", "audio", "video"))
    check_choice("text", text, ("minilm", "text"))
    arrays = {"text": text, "audio": "audio", "video": "video"}
    columns = ("id", "video_id", "transcript")
    table = read_table(MOSI.file(root), {arrays[m]: 2 for m in names}, (*columns, "split"), 2)
    check_values("mosi", table, "split", ("train", "valid", "test"))
    part = table["split"].copy()
    if fold is not None:
        training = part != "test"
        folds = grouped_folds(table["video_id"][training].tolist(), FOLDS)
        part[training] = np.where(folds == check_fold(fold, FOLDS), "valid", "train")
    rows = [np.flatnonzero(part == name) for name in ("train", "valid", "test")]
    check_disjoint("video", *(table["video_id"][r] for r in rows))
    x = {m: table[arrays[m]].astype(np.float32) for m in names}
    return dataset(table, standardised(x, rows[0]), rows, columns)


def mustard(
    root: str | Path | None = None,
    *,
    scheme: Scheme = "official",
    fold: int = 0,
    modalities: Sequence[str] = ("text", "audio", "video"),
    frames: Frames = "mean",
    groups: Sequence[str] = (),
) -> Dataset:
    """MUStARD: is a line of a TV show sarcastic? Frozen features, standardised by the training examples.

    The source of a clip predicts its label: frame size and frame rate alone predict much of it. These, the audio level
    and the duration are in the ``columns`` of every split, and ``groups`` forms groups of them, to analyse what a model
    relies on.

    Args:
        root: Folder of the data; ``None`` is ``$SYNIB_DATA``.
        scheme: ``"official"``: the authors' fold ``fold`` is the test set and the next the validation set; speakers are in all
            folds. ``"speaker-independent"``: Friends is the test set, and fifth ``fold`` of the other shows' speakers the
            validation set.
        fold: 0 to 4.
        modalities: A subset of text, context, audio, audio_logmel and video.
        frames: The mean over a clip's 8 frames, or ``"all"``: (examples, 8, width).
        groups: Columns whose values become groups: frame_size, fps, audio_level, duration_s, speaker, show. Columns
            with more than 5 distinct numbers are split at the median of the training examples.
    """
    names = check_modalities(modalities, ("text", "context", "audio", "audio_logmel", "video"))
    check_choice("scheme", scheme, Scheme)
    check_choice("frames", frames, Frames)
    columns = ("id", "speaker", "show", "frame_size", "fps", "audio_level", "duration_s")
    table = read_table(MUSTARD.file(root), {m: 2 + (m == "video") for m in names}, (*columns, "fold", "si_test"), 2)
    check_values("mustard", table, "fold", range(FOLDS))
    check_values("mustard", table, "si_test", (0, 1))
    check_fold(fold, FOLDS)
    if scheme == "official":
        rows = _by_fold(table["fold"], fold)
    else:
        training = np.flatnonzero(table["si_test"] == 0)
        folds = grouped_folds(_speakers(table)[training].tolist(), FOLDS)
        rows = [training[folds != fold], training[folds == fold], np.flatnonzero(table["si_test"] == 1)]
        check_disjoint("speaker", *(_speakers(table)[r] for r in rows))
    x = {m: table[m].astype(np.float32) for m in names}
    if "video" in x and frames == "mean":
        x["video"] = x["video"].mean(1)
    return dataset(table, standardised(x, rows[0]), rows, columns, groups)


def ravdess(
    root: str | Path | None = None,
    *,
    fold: int = 0,
    standardise: Standardise = "training",
    modalities: Sequence[str] = ("audio", "visual"),
    groups: Sequence[str] = (),
) -> Dataset:
    """RAVDESS speech: which of 8 emotions does an actor play? Frozen audio features and face action units.

    Actor-disjoint: the actors of fold ``fold`` are the test set, those of the next the validation set, the others train.

    Args:
        root: Folder of the data; ``None`` is ``$SYNIB_DATA``.
        fold: 0 to 4.
        standardise: By the ``"training"`` examples, or each ``"actor"`` by its own examples, without labels: much
            better, but it needs all recordings of a new actor before the first prediction.
        modalities: A subset of audio, audio_logmel and visual.
        groups: Columns whose values become groups: actor, intensity, statement, repetition, duration_s.
    """
    names = check_modalities(modalities, ("audio", "audio_logmel", "visual"))
    check_choice("standardise", standardise, Standardise)
    columns = ("id", "actor", "intensity", "statement", "repetition", "duration_s")
    table = read_table(RAVDESS.file(root), dict.fromkeys(names, 2), (*columns, "fold"), 8)
    check_values("ravdess", table, "fold", range(FOLDS))
    rows = _by_fold(table["fold"], check_fold(fold, FOLDS))
    check_disjoint("actor", *(table["actor"][r] for r in rows))
    x = {m: table[m].astype(np.float32) for m in names}
    if standardise == "actor":
        for actor in np.unique(table["actor"]):
            own = np.flatnonzero(table["actor"] == actor)
            for name, by_own in standardised({m: v[own] for m, v in x.items()}, np.arange(len(own))).items():
                x[name][own] = by_own
    else:
        x = standardised(x, rows[0])
    return dataset(table, x, rows, columns, groups)


def _by_fold(folds: Array, test: int) -> list[Array]:
    validation = (test + 1) % FOLDS
    train = (folds != test) & (folds != validation)
    return [np.flatnonzero(which) for which in (train, folds == validation, folds == test)]


def _speakers(table: Table) -> Array:
    """Speakers by show: "PERSON" is a different speaker in every show."""
    return np.array([f"{show} {speaker}" for show, speaker in zip(table["show"], table["speaker"], strict=True)])


def _counts(classes: int, parts: str, features: dict[str, int]) -> Callable[[Sequence[Path]], str]:
    def describe(paths: Sequence[Path]) -> str:
        table = read_table(paths[0], features, (parts,), classes)
        values, counts = np.unique(table[parts], return_counts=True)
        each = ", ".join(f"{value} {n:,}" for value, n in zip(values.tolist(), counts.tolist(), strict=True))
        widths = ", ".join(f"{name} {table[name].shape[-1]}" for name in features)
        return f"{len(table['label']):,} examples ({parts} {each}); {widths}"

    return describe


def _file(sha256: str, describe: Callable[[Sequence[Path]], str]) -> tuple[File]:
    return (File("features.npz", "frozen features, labels and splits", sha256=sha256, look=describe),)


MOSI = Source(
    "mosi-features",
    "CMU-MOSI: sentiment of 2,199 utterances; one vector each for text, audio and video",
    "https://github.com/declare-lab/contextual-utterance-level-multimodal-sentiment-analysis, and MiniLM sentence vectors",
    "CMU-MOSI's own terms, for research: http://multicomp.cs.cmu.edu/resources/cmu-mosi-dataset",
    _file(
        "4986f5a0b67b037767fe5b4cd36705c3322582af51b34faf97569a6907f53181",
        _counts(2, "split", {"minilm": 2, "text": 2, "audio": 2, "video": 2}),
    ),
    "mosi",
)
MUSTARD = Source(
    "mustard-features",
    "MUStARD: sarcasm in 688 lines of TV shows; frozen features of text, context, audio and video",
    "https://github.com/soujanyaporia/MUStARD, its clips through MiniLM, Whisper and EfficientNet-lite0",
    "annotations MIT; the shows belong to their makers, so the features are not distributed",
    _file(
        "41cc5a5584f4935c6b21e0bde61da3b0158e03d81544ca88579415219c70f2ff",
        _counts(2, "fold", {"text": 2, "context": 2, "audio": 2, "audio_logmel": 2, "video": 3}),
    ),
    "mustard",
)
RAVDESS = Source(
    "ravdess-features",
    "RAVDESS speech: 8 emotions of 24 actors, 1,440 clips; frozen audio features and face action units",
    "https://zenodo.org/records/1188976, its audio through Whisper; action units of "
    "https://github.com/cristinalunaj/MMEmotionRecognition",
    "CC BY-NC-SA 4.0",
    _file(
        "8e874b549a2995881aedd7bda9bf3f0bb0845c53f6471be61713b281e69af4b8",
        _counts(8, "fold", {"audio": 2, "audio_logmel": 2, "visual": 2}),
    ),
    "ravdess",
)
SOURCES = (MOSI, MUSTARD, RAVDESS)
