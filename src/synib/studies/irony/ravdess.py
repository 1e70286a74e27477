"""RAVDESS speech: 24 actors say two sentences with 8 emotions; and RAVDESS-Irony, made from it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from synib.checks import check_whole, shown
from synib.data.dataset import Dataset
from synib.data.files import File, Source, inside
from synib.studies.irony.clips import Clips, Progress, clips_of
from synib.studies.irony.construction import Donors, Irony

EMOTIONS = ("neutral", "calm", "happy", "sad", "angry", "fearful", "disgust", "surprised")
_NEGATIVE = ("sad", "angry", "fearful", "disgust")
# The paper's map, with the two emotions that CREMA-D has not. Calm differs from neutral by a shade, so that the two are
# contradicted by what is neither, and never by each other. Surprise is glad or not: like neutral it has no opposite, and is
# contradicted by anything else.
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
_SOUND, _PICTURE = (".wav", ".flac", ".opus", ".ogg"), (".mp4", ".flv", ".avi", ".mkv")


class Clip(NamedTuple):
    """A clip, as its name ``03-01-05-01-02-01-12`` says; ``id`` is what its video and audio share: ``01-05-01-02-01-12``."""

    id: str
    emotion: str
    intensity: int
    statement: int
    repetition: int
    actor: int

    @property
    def label(self) -> int:
        """The emotion's class number."""
        return EMOTIONS.index(self.emotion)


def parse(name: str) -> Clip:
    """The clip of a name, with or without a file's ending; songs (channel 02) are none."""
    found = _NAME.fullmatch(Path(name).stem)
    if not found or found.group(2) != "01":
        why = "is of a song" if found else "is not"
        raise ValueError(
            f"A speech clip of RAVDESS is called modality-01-emotion-intensity-statement-repetition-actor, such as "
            f"03-01-05-01-02-01-12; {shown(name)} {why}."
        )
    emotion, intensity, statement, repetition, actor = map(int, found.groups()[2:])
    return Clip(found.group()[3:], EMOTIONS[emotion - 1], intensity, statement, repetition, actor)


def _look(found: Sequence[Path]) -> str:
    clips = [parse(path.name) for path in found]
    return f"{len(clips)} clips of {len({clip.actor for clip in clips})} actors"


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
            look=_look,
        ),
        File(("Actor_*/01-01-*.mp4", "Actor_*/02-01-*.mp4", "**/01-01-*.mp4"), "the faces", count=1440, look=_look),
    ),
    folder="ravdess",
)


def find_files(root: str | Path | None = None) -> tuple[dict[str, Path], dict[str, Path]]:
    """Clip → its video file, and clip → its audio file, wherever in the folder they lie."""
    folder = RAVDESS.find(root)
    names = sorted(path for path in folder.rglob("0?-01-*") if _NAME.fullmatch(path.stem))
    # Where a clip is there twice: wav before opus, the full recording before the silent one.
    video = _first(folder, (p for p in names if p.suffix.lower() in _PICTURE and p.stem[:2] in ("01", "02")), _PICTURE)
    audio = _first(folder, (p for p in names if p.suffix.lower() in _SOUND and p.stem[:2] == "03"), _SOUND)
    return video, audio


def list_clips(root: str | Path | None = None) -> list[Clip]:
    """The clips that have a video or an audio file, by their names; nothing is decoded."""
    video, audio = find_files(root)
    if not video and not audio:
        raise ValueError(
            f"{RAVDESS.find(root)} holds no files such as 03-01-05-01-02-01-12.wav: get RAVDESS from {RAVDESS.where}."
        )
    return [parse(f"03-{name}") for name in sorted({*video, *audio})]


def actor_splits(actors: Sequence[int], fold: int = 0) -> dict[str, NDArray[np.int64]]:
    """Split → positions: test on the actors of one of the five ``FOLDS``, validate on the next, train on the rest."""
    if not 0 <= check_whole("fold", fold, least=0) < len(FOLDS):
        raise ValueError(f"fold is a whole number from 0 to {len(FOLDS) - 1}; got {fold}.")
    place = {actor: k for k, people in enumerate(FOLDS) for actor in people}
    if strangers := sorted(set(actors) - set(place)):
        raise ValueError(f"The actors of RAVDESS are numbered 1 to 24; got {shown(strangers[0])}.")
    of = np.array([(place[actor] - fold) % len(FOLDS) for actor in actors], np.int64)
    return {"train": np.flatnonzero(of > 1), "validation": np.flatnonzero(of == 1), "test": np.flatnonzero(of == 0)}


def make_irony(
    clips: Sequence[Clip],
    alpha: float,
    fold: int = 0,
    *,
    donors: Donors = "paper",
    seed: int = 0,
    same_actor: bool = False,
    without: Sequence[str] = (),
) -> Irony:
    """The irony assignment of a fold; no media are needed.

    Args:
        clips: Of :func:`list_clips`.
        alpha, donors, seed: As in :func:`~synib.studies.irony.construction.make_ironic`.
        fold: As in :func:`actor_splits`.
        same_actor: Whether a donor is the actor that is seen, so that face and voice are one person's.
        without: Names of clips to leave out, such as those whose files are broken.
    """
    actors = [clip.actor for clip in clips]
    gone = set(without)
    splits = {
        name: np.array([i for i in rows if clips[i].id not in gone], np.int64)
        for name, rows in actor_splits(actors, fold).items()
    }
    within = actors if same_actor else None
    ids, labels = [clip.id for clip in clips], [clip.label for clip in clips]
    return Irony.make(ids, labels, CONTRADICTIONS, splits, alpha, donors=donors, seed=seed, within=within)


def read_clips(
    root: str | Path | None = None,
    cache: str | Path | None = None,
    *,
    skip_broken: bool = False,
    workers: int = 1,
    on_file: Progress | None = None,
    size: int = 224,
) -> Clips:
    """All clips' spectrograms and frames, read once and then memory-mapped.

    Args:
        root: RAVDESS's folder or the one that holds it; ``None`` is ``$SYNIB_DATA``.
        cache: Where arrays are kept; ``synib-cache`` in the data's folder if not given.
        skip_broken: Whether to go on without clips whose files are missing or broken; ``skipped`` says which.
        workers, on_file: Threads that read; called with how many files of how many were read.
        size: Pixels of a frame's side.
    """
    folder = RAVDESS.find(root)
    clips = list_clips(root)
    video, audio = find_files(root)
    return clips_of(
        [clip.id for clip in clips],
        [clip.label for clip in clips],
        [clip.actor for clip in clips],
        {clip.id: video.get(clip.id, folder / f"01-{clip.id}.mp4") for clip in clips},
        {clip.id: audio.get(clip.id, folder / f"03-{clip.id}.wav") for clip in clips},
        _cache(root, cache),
        skip_broken=skip_broken,
        workers=workers,
        on_file=on_file,
        size=size,
    )


def load(
    root: str | Path | None = None,
    fold: int = 0,
    irony: float | Irony | None = None,
    *,
    donors: Donors = "paper",
    irony_seed: int = 0,
    same_actor: bool = False,
    cache: str | Path | None = None,
    scratch: str | Path | None = None,
    skip_broken: bool = False,
    workers: int = 1,
    size: int = 224,
) -> Dataset:
    """RAVDESS speech from its media files: ``video`` (3 frames, bytes), ``audio`` (257 × 188), 8 emotions; with irony, 9.

    Args:
        root, cache, skip_broken, workers, size: As in :func:`read_clips`.
        fold: Of five, with actors in one split only; see :func:`actor_splits`.
        irony: ``None``: the clips as they are. A number: α of :func:`make_irony`. Or an assignment made or loaded before.
        donors, irony_seed, same_actor: Of the assignment.
        scratch: A folder for splits that are too large for memory; see :func:`~synib.data.cache.gather`.
    """
    media = read_clips(root, cache, skip_broken=skip_broken, workers=workers, size=size)
    if irony is not None and not isinstance(irony, Irony):
        clips, gone = [parse(f"03-{name}") for name in media.ids], tuple(media.skipped)
        irony = make_irony(clips, irony, fold, donors=donors, seed=irony_seed, same_actor=same_actor, without=gone)
    return media.dataset(actor_splits(media.speakers, fold), irony, scratch=scratch)


def _cache(root: str | Path | None, cache: str | Path | None) -> Path:
    return RAVDESS.find(root) / "synib-cache" if cache is None else Path(cache)


def _first(folder: Path, paths: Iterable[Path], endings: Sequence[str]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for path in sorted(paths, key=lambda p: (endings.index(p.suffix.lower()), p.stem, str(p))):
        found.setdefault(path.stem[3:], inside(folder, path.relative_to(folder)))
    return dict(sorted(found.items()))
