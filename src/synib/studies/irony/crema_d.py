"""CREMA-D: 91 actors say 12 sentences with 6 emotions; and CREMA-D-Irony, made from it."""

import csv
import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from synib import keys
from synib.checks import check_number, check_whole, shown
from synib.data.dataset import Dataset
from synib.data.files import File, Source, inside
from synib.studies.irony.clips import Clips, Progress, clips_of
from synib.studies.irony.construction import Donors, Irony

EMOTIONS = ("NEU", "HAP", "SAD", "FEA", "DIS", "ANG")
_NEGATIVE = ("SAD", "FEA", "DIS", "ANG")
# The paper's map: what is happy is contradicted by what is not and the other way round; neutral by anything else.
CONTRADICTIONS: Mapping[str, tuple[str, ...]] = {
    "NEU": ("HAP", *_NEGATIVE),
    "HAP": _NEGATIVE,
    **dict.fromkeys(_NEGATIVE, ("HAP",)),
}

NAMES = "SentenceFilenames.csv"
_NAME = re.compile(r"(\d{4})_([A-Z]{3})_([A-Z]{3})_(LO|MD|HI|XX?)")


class Clip(NamedTuple):
    """A clip, as its name ``1001_DFA_ANG_XX`` says: who, which sentence, which emotion, how strong."""

    id: str
    actor: int
    sentence: str
    emotion: str
    level: str

    @property
    def label(self) -> int:
        """The emotion's class number."""
        return EMOTIONS.index(self.emotion)


def parse(name: str) -> Clip:
    """The clip of a name, with or without a file's ending."""
    found = _NAME.fullmatch(Path(name).stem)
    if not found:
        raise ValueError(
            f"A clip of CREMA-D is called actor_sentence_emotion_level, such as 1001_DFA_ANG_XX; got {shown(name)}."
        )
    actor, sentence, emotion, level = found.groups()
    if emotion not in EMOTIONS:
        raise ValueError(f"The emotions of CREMA-D are {', '.join(EMOTIONS)}; {name} has {emotion!r}.")
    return Clip(found.group(), int(actor), sentence, emotion, level)


def _look(found: Sequence[Path]) -> str:
    clips = [parse(path.name) for path in found]
    return f"{len(clips)} clips of {len({clip.actor for clip in clips})} actors"


CREMA_D = Source(
    name="crema-d",
    about="Actors' faces and voices in six emotions (CREMA-D, and CREMA-D-Irony made from it)",
    where="https://github.com/CheyneyComputerScience/CREMA-D (with git lfs)",
    licence="Open Database License (ODbL) 1.0",
    files=(
        File("AudioWAV/*.wav", "the voices", count=7442, look=_look),
        File(("VideoFlash/*.flv", "VideoFlash/*.mp4", "VideoMP4/*.mp4"), "the faces", count=7442, look=_look),
        File(NAMES, "the clips' names; without it those of AudioWAV are taken", optional=True),
    ),
    folder="crema-d",
)


def list_clips(root: str | Path | None = None) -> list[Clip]:
    """The clips' names, by SentenceFilenames.csv or else by the files in AudioWAV; no media are needed."""
    folder = CREMA_D.find(root)
    table = folder / NAMES
    if table.is_file():
        with inside(folder, NAMES).open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file))
        if not rows or "Filename" not in rows[0]:
            raise ValueError(
                f"{table} is a table with a column 'Filename' and a row for each clip; it is something else."
            )
        names = [row["Filename"] or "" for row in rows]
    else:
        names = [path.stem for path in (folder / "AudioWAV").glob("*.wav")]
        if not names:
            raise ValueError(f"{folder} holds neither {NAMES} nor AudioWAV/*.wav: get CREMA-D from {CREMA_D.where}.")
    clips = sorted(parse(name) for name in names)
    for one, other in itertools.pairwise(clips):
        if one.id == other.id:
            raise ValueError(f"{table} lists {one.id} twice.")
    return clips


def actor_splits(
    actors: Sequence[int], fold: int = 0, *, folds: int = 5, share: float = 0.15, seed: int = 0
) -> dict[str, NDArray[np.int64]]:
    """Split → positions, with every actor in one split only.

    Actors stand in a ring, in an order that the seed decides. Fold k tests on a share of them from k / folds of the way round,
    validates on as many after these, and trains on the rest; no actor is tested in two folds. A share of 15 % gives the
    paper's sizes (69 / 15 / 15 %), a share of ``1 / folds`` tests everybody once.

    Args:
        actors: Who is in each clip.
        fold: 0 to ``folds - 1``.
        folds: How many.
        share: Of actors to test on, and to validate on.
        seed: Decides the order; it has nothing to do with the seed of a training.
    """
    people = sorted(set(actors))
    check_whole("folds", folds)
    if not 0 <= check_whole("fold", fold, least=0) < folds:
        raise ValueError(f"fold is a whole number from 0 to {folds - 1}; got {fold}.")
    check_number("share", share, above=0, most=1 / max(folds, 3))
    ring = [people[i] for i in keys.permutation(keys.fold(keys.key(seed), "crema-d-folds"), len(people)).tolist()]
    start, stop = (k * len(ring) // folds for k in (fold, fold + 1))
    n = max(1, int(share * folds * (stop - start) + 0.5))
    if start == stop or 2 * n >= len(ring):
        raise ValueError(f"{folds} folds with a share of {share:g} to test on need more actors; got {len(people)}.")
    turned = ring[start:] + ring[:start]
    part = dict.fromkeys(turned[:n], "test") | dict.fromkeys(turned[n : 2 * n], "validation")
    of = np.array([part.get(actor, "train") for actor in actors])
    return {name: np.flatnonzero(of == name) for name in ("train", "validation", "test")}


def make_irony(
    clips: Sequence[Clip],
    alpha: float,
    fold: int = 0,
    *,
    donors: Donors = "paper",
    seed: int = 0,
    same_actor: bool = False,
    folds: int = 5,
    share: float = 0.15,
    split_seed: int = 0,
    without: Sequence[str] = (),
) -> Irony:
    """The irony assignment of a fold; no media are needed.

    Args:
        clips: Of :func:`list_clips`.
        alpha, donors, seed: As in :func:`~synib.studies.irony.construction.make_ironic`.
        fold, folds, share, split_seed: As in :func:`actor_splits`.
        same_actor: Whether a donor is the actor that is seen; else it is anybody of the split, as in the paper, and most ironic
            examples can be told by a voice that is another person's than the face.
        without: Names of clips to leave out, such as those whose files are broken.
    """
    actors = [clip.actor for clip in clips]
    gone = set(without)
    splits = {
        name: np.array([i for i in rows if clips[i].id not in gone], np.int64)
        for name, rows in actor_splits(actors, fold, folds=folds, share=share, seed=split_seed).items()
    }
    return Irony.make(
        [clip.id for clip in clips],
        [clip.label for clip in clips],
        CONTRADICTIONS,
        splits,
        alpha,
        donors=donors,
        seed=seed,
        within=actors if same_actor else None,
    )


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
        root: CREMA-D's folder or the one that holds it; ``None`` is ``$SYNIB_DATA``.
        cache: Where arrays are kept (3.4 GB of frames and 1.5 GB of spectrograms for all clips); ``synib-cache`` in the data's
            folder if not given.
        skip_broken: Whether to go on without clips whose files are missing or broken; ``skipped`` says which.
        workers, on_file: Threads that read; called with how many files of how many were read.
        size: Pixels of a frame's side.
    """
    folder = CREMA_D.find(root)
    clips = list_clips(root)
    audio = {clip.id: _file(folder, clip.id, (("AudioWAV", ".wav"),)) for clip in clips}
    kinds = (("VideoFlash", ".flv"), ("VideoFlash", ".mp4"), ("VideoMP4", ".mp4"))
    video = {clip.id: _file(folder, clip.id, kinds) for clip in clips}
    return clips_of(
        [clip.id for clip in clips],
        [clip.label for clip in clips],
        [clip.actor for clip in clips],
        video,
        audio,
        folder / "synib-cache" if cache is None else cache,
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
    """CREMA-D from its media files: ``video`` (3 frames, bytes), ``audio`` (257 × 188), six emotions; with irony, a seventh.

    Args:
        root, cache, skip_broken, workers, size: As in :func:`read_clips`.
        fold: Of five, with actors in one split only; see :func:`actor_splits`.
        irony: ``None``: the clips as they are. A number: α of :func:`make_irony`. Or an assignment made or loaded before.
        donors, irony_seed, same_actor: Of the assignment.
        scratch: A folder for splits that are too large for memory; see :func:`~synib.data.cache.gather`.
    """
    media = read_clips(root, cache, skip_broken=skip_broken, workers=workers, size=size)
    if irony is not None and not isinstance(irony, Irony):
        irony = make_irony(
            [parse(name) for name in media.ids],
            irony,
            fold,
            donors=donors,
            seed=irony_seed,
            same_actor=same_actor,
            without=tuple(media.skipped),
        )
    return media.dataset(actor_splits(media.speakers, fold), irony, scratch=scratch)


def _file(folder: Path, name: str, kinds: Sequence[tuple[str, str]]) -> Path:
    # One clip's name ends in X where the list has XX.
    tried = [f"{place}/{n}{ending}" for n in (name, name.removesuffix("X")) for place, ending in kinds]
    return inside(folder, next((path for path in tried if (folder / path).is_file()), tried[0]))
