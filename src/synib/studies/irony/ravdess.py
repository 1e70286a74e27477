"""RAVDESS speech: 24 actors speak two sentences with 8 emotions; RAVDESS-Irony is constructed from it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from synib.checks import shown
from synib.data.files import File, Source, inside
from synib.studies.irony.clips import ClipFiles, count_clips
from synib.studies.irony.corpus import Corpus
from synib.studies.irony.donors import Rows
from synib.studies.tables import check_fold

EMOTIONS = ("neutral", "calm", "happy", "sad", "angry", "fearful", "disgust", "surprised")
_NEGATIVE = ("sad", "angry", "fearful", "disgust")
# The paper's map, extended to the two emotions that CREMA-D lacks. Calm is close to neutral, so the two never contradict each
# other. Surprise can be pleasant or not: like neutral it has no opposite, and is contradicted by any other.
CONTRADICTIONS: Mapping[str, tuple[str, ...]] = {
    "neutral": ("happy", *_NEGATIVE, "surprised"),
    "calm": ("happy", *_NEGATIVE, "surprised"),
    "happy": _NEGATIVE,
    **dict.fromkeys(_NEGATIVE, ("happy",)),
    "surprised": ("neutral", "calm", "happy", *_NEGATIVE),
}
# Actors of the folds that are usual for RAVDESS, each with both sexes.
FOLDS = ((2, 5, 14, 15, 16), (3, 6, 7, 13, 18), (10, 11, 12, 19, 20), (8, 17, 21, 23, 24), (1, 4, 9, 22))

_NAME = re.compile(r"(0[123])-(0[12])-(0[1-8])-(0[12])-(0[12])-(0[12])-(0[1-9]|1\d|2[0-4])")
_AUDIO, _VIDEO = (".wav", ".flac", ".opus", ".ogg"), (".mp4", ".flv", ".avi", ".mkv")  # the first is preferred


class Clip(NamedTuple):
    """A clip, as described by its name ``03-01-05-01-02-01-12``; ``id`` is the part shared by its video and audio."""

    id: str
    emotion: str
    intensity: int
    statement: int
    repetition: int
    actor: int

    @property
    def label(self) -> int:
        """The class index of the emotion."""
        return EMOTIONS.index(self.emotion)


def parse(name: str) -> Clip:
    """The clip of a name, with or without a file extension; songs (channel 02) raise ``ValueError``."""
    match = _NAME.fullmatch(Path(name).stem)
    if not match or match.group(2) != "01":
        raise ValueError(
            "A speech clip of RAVDESS must be named modality-01-emotion-intensity-statement-repetition-actor, "
            f"such as 03-01-05-01-02-01-12; got {shown(name)}{', a song' if match else ''}."
        )
    emotion, intensity, statement, repetition, actor = map(int, match.groups()[2:])
    return Clip(match.group()[3:], EMOTIONS[emotion - 1], intensity, statement, repetition, actor)


RAVDESS = Source(
    name="ravdess-media",
    about="Actors' faces and voices in eight emotions (RAVDESS speech, and RAVDESS-Irony made from it)",
    where="https://zenodo.org/records/1188976 (Audio_Speech_Actors_01-24.zip and Video_Speech_Actor_*.zip)",
    licence="CC BY-NC-SA 4.0",
    files=(
        File(
            ("Actor_*/03-01-*.wav", "audio_opus16k/03-01-*.opus", "**/03-01-*.wav"),
            "the voices",
            count=1440,
            look=count_clips(parse),
        ),
        File(
            ("Actor_*/01-01-*.mp4", "Actor_*/02-01-*.mp4", "**/01-01-*.mp4"),
            "the faces",
            count=1440,
            look=count_clips(parse),
        ),
    ),
    folder="ravdess",
)


def find_files(root: str | Path | None = None) -> list[ClipFiles]:
    """The clips that have a video or an audio file anywhere in the folder, with both paths; nothing is decoded."""
    folder = RAVDESS.find(root)
    paths = sorted(path for path in folder.rglob("0?-01-*") if _NAME.fullmatch(path.stem))
    # Of several files for a clip: wav before opus, the full recording (01) before the silent one (02).
    video = _first(folder, (p for p in paths if p.suffix.lower() in _VIDEO and p.stem[:2] in ("01", "02")), _VIDEO)
    audio = _first(folder, (p for p in paths if p.suffix.lower() in _AUDIO and p.stem[:2] == "03"), _AUDIO)
    if not video and not audio:
        raise ValueError(
            f"{folder} has no files such as 03-01-05-01-02-01-12.wav: download RAVDESS from {RAVDESS.where}."
        )
    return [
        ClipFiles(
            parse(f"03-{name}"),
            video.get(name, folder / f"01-{name}.mp4"),
            audio.get(name, folder / f"03-{name}.wav"),
        )
        for name in sorted({*video, *audio})
    ]


def list_clips(root: str | Path | None = None) -> list[Clip]:
    """The clips that have a video or an audio file."""
    return [parse(f"03-{clip.id}") for clip, _, _ in find_files(root)]


def actor_splits(actors: Sequence[int], fold: int = 0) -> dict[str, Rows]:
    """Split → indices: the actors of one of the five ``FOLDS`` are tested, those of the next validate, the others train."""
    check_fold(fold, len(FOLDS))
    fold_of = {actor: k for k, people in enumerate(FOLDS) for actor in people}
    if unknown := sorted(set(actors) - set(fold_of)):
        raise ValueError(f"The actors of RAVDESS must be numbers 1 to 24; got {shown(unknown[0])}.")
    offset = np.array([(fold_of[actor] - fold) % len(FOLDS) for actor in actors], np.int64)
    return {
        "train": np.flatnonzero(offset > 1),
        "validation": np.flatnonzero(offset == 1),
        "test": np.flatnonzero(offset == 0),
    }


def _first(folder: Path, paths: Iterable[Path], extensions: Sequence[str]) -> dict[str, Path]:
    """Clip → its file with the first extension."""
    chosen: dict[str, Path] = {}
    for path in sorted(paths, key=lambda p: (extensions.index(p.suffix.lower()), p.stem, str(p))):
        chosen.setdefault(path.stem[3:], inside(folder, path.relative_to(folder)))
    return chosen


CORPUS = Corpus(RAVDESS, CONTRADICTIONS, find_files, actor_splits)
make_irony, read_clips, load = CORPUS.make_irony, CORPUS.read_clips, CORPUS.load
