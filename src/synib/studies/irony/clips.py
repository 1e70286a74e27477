"""Clips of faces and voices: video and audio of each, cached, and the data set of their splits."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synib.data.cache import Cached, cached, gather
from synib.data.dataset import Dataset, Split
from synib.data.files import check_disjoint
from synib.data.media import FLOOR, HOP, RATE, SECONDS, WINDOW, log_stft, read_audio, read_frames
from synib.studies.irony.construction import SPLITS, Irony, check_splits
from synib.studies.irony.donors import Rows

Progress = Callable[[int, int], None]

FRAMES, FPS = 3, 1.0  # of a clip


class Clip(Protocol):
    """A clip, as described by its file name."""

    @property
    def id(self) -> str:
        """Its name."""

    @property
    def actor(self) -> int:
        """The actor who is seen and heard."""

    @property
    def label(self) -> int:
        """The class index of the emotion."""


class ClipFiles(NamedTuple):
    """A clip and its files."""

    clip: Clip
    video: Path
    audio: Path


def count_clips(parse: Callable[[str], Clip]) -> Callable[[Sequence[Path]], str]:
    """A description of files by the clips in their names."""

    def describe(paths: Sequence[Path]) -> str:
        clips = [parse(path.name) for path in paths]
        return f"{len(clips)} clips of {len({clip.actor for clip in clips})} actors"

    return describe


@dataclass(frozen=True, eq=False)
class Clips:
    """The video and audio of every clip of a data set.

    Args:
        clips: The clips.
        video: ``(clips, frames, 3, height, width)``, bytes, memory-mapped.
        audio: ``(clips, 257, 188)``, memory-mapped.
        skipped: Id of an excluded clip → what is wrong with its files.
    """

    clips: tuple[Clip, ...]
    video: Tensor
    audio: Tensor
    skipped: Mapping[str, str]

    @property
    def ids(self) -> tuple[str, ...]:
        """The clips' names."""
        return tuple(clip.id for clip in self.clips)

    def dataset(
        self, splits: Mapping[str, Rows], irony: Irony | None = None, *, scratch: str | Path | None = None
    ) -> Dataset:
        """The data set of actor-disjoint splits, as recorded or after an irony assignment.

        Args:
            splits: Split → positions of its clips.
            irony: An assignment for these clips, whose splits replace ``splits``.
            scratch: A folder for data that are too large for memory; see :func:`~synib.data.cache.gather`.
        """
        if irony is not None:
            irony = irony.at(self.ids)
            splits = {name: t.video for name, t in irony.splits.items()}
            used = (self.ids[i] for t in irony.splits.values() for i in (*t.video, *t.audio))
            if broken := next((name for name in used if name in self.skipped), None):
                raise ValueError(
                    f"The irony assignment uses clip {broken!r}, which cannot be read: {self.skipped[broken]}"
                )
        check_splits(splits)
        check_disjoint("actor", *([self.clips[i].actor for i in splits[name]] for name in SPLITS))
        if irony is not None:
            return irony.dataset(self.video, self.audio, scratch=scratch)

        def part(rows: Rows) -> Split:
            clips = [self.clips[i] for i in rows]
            return Split(
                {"video": gather(self.video, rows, scratch), "audio": gather(self.audio, rows, scratch)},
                torch.tensor([clip.label for clip in clips], dtype=torch.int64),
                columns={"id": [clip.id for clip in clips], "actor": [clip.actor for clip in clips]},
            )

        train, validation, test = (
            part(np.array([i for i in splits[name] if self.clips[i].id not in self.skipped], np.int64))
            for name in SPLITS
        )
        return Dataset(train, validation, test)


def read_media(
    files: Sequence[ClipFiles],
    cache: Path,
    skip_broken: bool = False,
    workers: int = 1,
    on_file: Progress | None = None,
    size: int = 224,
) -> Clips:
    """Spectrograms and frames of clips, read once and then memory-mapped; arguments as in ``Corpus.read_clips``."""
    missing = {clip.id: f"{path} is missing." for clip, *paths in files for path in paths if not path.is_file()}
    if not skip_broken:  # reported before an hour of reading
        _refuse_broken(missing, len(files))
    audio = _spectrograms({clip.id: path for clip, _, path in files}, cache, workers, on_file)
    video = _frames({clip.id: path for clip, path, _ in files}, cache, size, workers, on_file)
    broken = video.broken | audio.broken
    if not skip_broken or len(broken) == len(files):
        _refuse_broken(broken, len(files))
    return Clips(tuple(clip for clip, _, _ in files), video.values, audio.values, broken)


def _spectrograms(files: Mapping[str, Path], cache: Path, workers: int, on_file: Progress | None) -> Cached:
    """Log spectrograms of audio files, ``(clips, 257, 188)``, ``float32``."""
    recipe = f"log(|stft|+{FLOOR:g}) at {RATE} Hz, {SECONDS:g} s, window {WINDOW}, hop {HOP}, Hann, centred, zeros"
    shape = (WINDOW // 2 + 1, 1 + round(SECONDS * RATE) // HOP)

    def read(path: Path) -> NDArray[np.float32]:
        return log_stft(read_audio(path))

    return cached(cache, "audio", files, read, shape, "float32", recipe, workers=workers, on_file=on_file)


def _frames(files: Mapping[str, Path], cache: Path, size: int, workers: int, on_file: Progress | None) -> Cached:
    """Frames of video files, ``(clips, frames, 3, size, size)``, bytes."""
    recipe = f"{FRAMES} frames at {FPS:g} a second, {size} pixels, bilinear"

    def read(path: Path) -> NDArray[np.uint8]:
        return read_frames(path, FRAMES, FPS, size)

    shape = (FRAMES, 3, size, size)
    return cached(cache, "video", files, read, shape, "uint8", recipe, workers=workers, on_file=on_file)


def _refuse_broken(broken: Mapping[str, str], n: int) -> None:
    """Raise ``ValueError`` if clips cannot be read; n is the number of all clips."""
    if not broken:
        return
    first = next(iter(broken.values())).rstrip(".")
    if len(broken) == n:
        raise ValueError(f"None of the {n} clips can be read; the first error: {first}.")
    others = f", and {len(broken) - 1} more of {n} clips" if len(broken) > 1 else ""
    raise ValueError(f"{first}{others}: download the files again, or skip such clips with skip_broken=True.")
