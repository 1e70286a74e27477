"""CREMA-D: 91 actors speak 12 sentences with 6 emotions; CREMA-D-Irony is constructed from it."""

import csv
import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from synib import keys
from synib.checks import check_number, check_whole, shown
from synib.data.files import File, Source, inside
from synib.studies.irony.clips import ClipFiles, count_clips
from synib.studies.irony.corpus import Corpus
from synib.studies.irony.donors import Rows
from synib.studies.tables import check_fold

EMOTIONS = ("NEU", "HAP", "SAD", "FEA", "DIS", "ANG")
_NEGATIVE = ("SAD", "FEA", "DIS", "ANG")
# The paper's map: happy and negative emotions contradict each other, neutral is contradicted by any other.
CONTRADICTIONS: Mapping[str, tuple[str, ...]] = {
    "NEU": ("HAP", *_NEGATIVE),
    "HAP": _NEGATIVE,
    **dict.fromkeys(_NEGATIVE, ("HAP",)),
}

NAMES = "SentenceFilenames.csv"
_NAME = re.compile(r"(\d{4})_([A-Z]{3})_([A-Z]{3})_(LO|MD|HI|XX?)")


class Clip(NamedTuple):
    """A clip, as described by its name ``1001_DFA_ANG_XX``: actor, sentence, emotion, level of the emotion."""

    id: str
    actor: int
    sentence: str
    emotion: str
    level: str

    @property
    def label(self) -> int:
        """The class index of the emotion."""
        return EMOTIONS.index(self.emotion)


def parse(name: str) -> Clip:
    """The clip of a name, with or without a file extension."""
    match = _NAME.fullmatch(Path(name).stem)
    if not match:
        raise ValueError(
            f"A clip of CREMA-D must be named actor_sentence_emotion_level, such as 1001_DFA_ANG_XX; got {shown(name)}."
        )
    actor, sentence, emotion, level = match.groups()
    if emotion not in EMOTIONS:
        raise ValueError(f"The emotions of CREMA-D are {', '.join(EMOTIONS)}; {name} has {emotion!r}.")
    return Clip(match.group(), int(actor), sentence, emotion, level)


CREMA_D = Source(
    name="crema-d",
    about="Actors' faces and voices in six emotions (CREMA-D, and CREMA-D-Irony made from it)",
    where="https://github.com/CheyneyComputerScience/CREMA-D (with git lfs)",
    licence="Open Database License (ODbL) 1.0",
    files=(
        File("AudioWAV/*.wav", "the voices", count=7442, look=count_clips(parse)),
        File(
            ("VideoFlash/*.flv", "VideoFlash/*.mp4", "VideoMP4/*.mp4"),
            "the faces",
            count=7442,
            look=count_clips(parse),
        ),
        File(NAMES, "the names of the clips; without it those of AudioWAV are used", optional=True),
    ),
    folder="crema-d",
)


def list_clips(root: str | Path | None = None) -> list[Clip]:
    """The clips named in SentenceFilenames.csv, otherwise those of the files in AudioWAV; no media are needed."""
    folder = CREMA_D.find(root)
    table = folder / NAMES
    if table.is_file():
        with inside(folder, NAMES).open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file))
        if not rows or "Filename" not in rows[0]:
            raise ValueError(f"{table} is not a table with a column 'Filename' and one row per clip.")
        names = [row["Filename"] or "" for row in rows]
    else:
        names = [path.stem for path in (folder / "AudioWAV").glob("*.wav")]
        if not names:
            raise ValueError(f"{folder} has neither {NAMES} nor AudioWAV/*.wav: download CREMA-D from {CREMA_D.where}.")
    clips = sorted(parse(name) for name in names)
    for clip, following in itertools.pairwise(clips):
        if clip.id == following.id:
            raise ValueError(f"{table} lists {clip.id} twice.")
    return clips


def find_files(root: str | Path | None = None) -> list[ClipFiles]:
    """The clips and their video and audio files."""
    folder = CREMA_D.find(root)
    video = (("VideoFlash", ".flv"), ("VideoFlash", ".mp4"), ("VideoMP4", ".mp4"))

    def find(name: str, kinds: Sequence[tuple[str, str]]) -> Path:
        # One clip's name ends in X where the list has XX.
        names = (name, name.removesuffix("X"))
        paths = [f"{subfolder}/{stem}{extension}" for stem in names for subfolder, extension in kinds]
        return inside(folder, next((path for path in paths if (folder / path).is_file()), paths[0]))

    clips = list_clips(root)
    return [ClipFiles(clip, find(clip.id, video), find(clip.id, (("AudioWAV", ".wav"),))) for clip in clips]


def actor_splits(
    actors: Sequence[int], fold: int = 0, *, folds: int = 5, share: float = 0.15, seed: int = 0
) -> dict[str, Rows]:
    """Split → indices, with every actor in one split only.

    Actors are arranged in a ring, in random order. Fold k tests on a share of them that starts at k / folds of the
    ring, validates on as many that follow, and trains on the rest; no actor is tested in two folds. A share of 15 %
    gives the paper's sizes (69 / 15 / 15 %), a share of ``1 / folds`` tests every actor once.

    Args:
        actors: The actor of each clip.
        fold: 0 to ``folds - 1``.
        folds: Number of folds.
        share: Fraction of actors in the test split, and in the validation split.
        seed: Seed for the order of the actors, independent of the seed of training.
    """
    check_whole("folds", folds)
    check_fold(fold, folds)
    check_number("share", share, above=0, most=1 / max(folds, 3))
    people = sorted(set(actors))
    ring = [people[i] for i in keys.permutation(keys.fold(keys.key(seed), "crema-d-folds"), len(people)).tolist()]
    start, stop = (k * len(ring) // folds for k in (fold, fold + 1))
    n = max(1, int(share * folds * (stop - start) + 0.5))
    if start == stop or 2 * n >= len(ring):
        raise ValueError(f"{folds} folds with a test share of {share:g} need more actors; got {len(people)}.")
    turned = ring[start:] + ring[:start]
    split_of = dict.fromkeys(turned[:n], "test") | dict.fromkeys(turned[n : 2 * n], "validation")
    splits = np.array([split_of.get(actor, "train") for actor in actors])
    return {name: np.flatnonzero(splits == name) for name in ("train", "validation", "test")}


CORPUS = Corpus(CREMA_D, CONTRADICTIONS, find_files, actor_splits)
make_irony, read_clips, load = CORPUS.make_irony, CORPUS.read_clips, CORPUS.load
