"""Clips of faces and voices: what is seen and heard in each, cached, and the data set of a split of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synib.data.cache import Cached, cached, gather
from synib.data.dataset import Dataset, Split
from synib.data.files import check_disjoint
from synib.data.media import FLOOR, HOP, RATE, SECONDS, WINDOW, log_stft, read_audio, read_frames
from synib.studies.irony.construction import SPLITS, Irony

Progress = Callable[[int, int], None]


def spectrograms(
    files: Mapping[str, Path], cache: str | Path, *, workers: int = 1, on_file: Progress | None = None
) -> Cached:
    """Log spectrograms of sound files, ``(clips, 257, 188)``, ``float32``, memory-mapped."""
    recipe = f"log(|stft|+{FLOOR:g}) at {RATE} Hz, {SECONDS:g} s, window {WINDOW}, hop {HOP}, Hann, centred, zeros"
    shape = (WINDOW // 2 + 1, 1 + round(SECONDS * RATE) // HOP)
    return cached(
        cache,
        "audio",
        files,
        lambda p: log_stft(read_audio(p)),
        shape,
        "float32",
        recipe,
        workers=workers,
        on_file=on_file,
    )


def frames(
    files: Mapping[str, Path],
    cache: str | Path,
    *,
    count: int = 3,
    fps: float = 1.0,
    size: int = 224,
    workers: int = 1,
    on_file: Progress | None = None,
) -> Cached:
    """Frames of video files, ``(clips, count, 3, size, size)``, bytes, memory-mapped."""
    recipe = f"{count} frames at {fps:g} a second, {size} pixels, bilinear"
    shape = (count, 3, size, size)
    return cached(
        cache,
        "video",
        files,
        lambda p: read_frames(p, count, fps, size),
        shape,
        "uint8",
        recipe,
        workers=workers,
        on_file=on_file,
    )


@dataclass(frozen=True, eq=False)
class Clips:
    """What is seen and heard in every clip of a data set.

    Args:
        ids: The clips' names.
        labels: Their class numbers.
        speakers: Who speaks in each.
        video: ``(clips, frames, 3, height, width)``, bytes, memory-mapped.
        audio: ``(clips, 257, 188)``, memory-mapped.
        skipped: Name → what is wrong with its files; these clips are in no split.
    """

    ids: tuple[str, ...]
    labels: NDArray[np.int64]
    speakers: tuple[int, ...]
    video: Tensor
    audio: Tensor
    skipped: Mapping[str, str]

    def usable(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of the positions whose clip was not skipped."""
        return np.array([i for i in positions if self.ids[i] not in self.skipped], np.int64)

    def dataset(
        self,
        splits: Mapping[str, NDArray[np.int64]],
        irony: Irony | None = None,
        *,
        scratch: str | Path | None = None,
    ) -> Dataset:
        """The data set of speaker-disjoint splits, as they are or after an irony assignment.

        Args:
            splits: Split → positions of its clips.
            irony: An assignment for these clips, which then says what each split holds.
            scratch: A folder for what is too large for memory; see :func:`~synib.data.cache.gather`.
        """
        if irony is not None:
            irony = irony.at(self.ids)
            splits = {name: t.video for name, t in irony.splits.items()}
            for t in irony.splits.values():
                for i in (*t.video, *t.audio):
                    if self.ids[i] in self.skipped:
                        raise ValueError(
                            f"The irony assignment uses clip {self.ids[i]!r}, which cannot be read: {self.skipped[self.ids[i]]}"
                        )
        if absent := [name for name in SPLITS if name not in splits]:
            raise ValueError(f"A data set has splits {', '.join(SPLITS)}; {absent[0]!r} is missing.")
        check_disjoint("actor", *([self.speakers[i] for i in splits[name]] for name in SPLITS))
        if irony is not None:
            return irony.dataset(self.video, self.audio, scratch=scratch)

        def part(rows: NDArray[np.int64]) -> Split:
            seen, heard = gather(self.video, rows, scratch), gather(self.audio, rows, scratch)
            columns = {"id": [self.ids[i] for i in rows], "actor": [self.speakers[i] for i in rows]}
            return Split({"video": seen, "audio": heard}, torch.from_numpy(self.labels[rows]), columns=columns)

        train, validation, test = (part(self.usable(splits[name])) for name in SPLITS)
        return Dataset(train, validation, test)


def clips_of(
    ids: Sequence[str],
    labels: Sequence[int],
    speakers: Sequence[int],
    video: Mapping[str, Path],
    audio: Mapping[str, Path],
    cache: str | Path,
    *,
    skip_broken: bool = False,
    workers: int = 1,
    on_file: Progress | None = None,
    count: int = 3,
    fps: float = 1.0,
    size: int = 224,
) -> Clips:
    """Reads every clip's video and audio, or maps what was read before.

    Args:
        ids, labels, speakers: One for each clip.
        video, audio: Name → its file.
        cache: The folder in which arrays are kept.
        skip_broken: Whether to go on without clips whose files are missing or broken; else these are an error.
        workers: Threads that read.
        on_file: Called after each file, with how many of how many were read.
        count, fps, size: Of the frames.
    """
    absent = {
        name: f"{path} is missing." for files in (video, audio) for name, path in files.items() if not path.is_file()
    }
    if absent and not skip_broken:  # said before an hour of reading
        raise ValueError(_said(absent, len(ids)))
    heard = spectrograms(audio, cache, workers=workers, on_file=on_file)
    seen = frames(video, cache, count=count, fps=fps, size=size, workers=workers, on_file=on_file)
    broken = seen.broken | heard.broken
    if broken and (not skip_broken or len(broken) == len(ids)):
        raise ValueError(_said(broken, len(ids)))
    return Clips(tuple(ids), np.array(labels, np.int64), tuple(speakers), seen.values, heard.values, broken)


def _said(broken: Mapping[str, str], n: int) -> str:
    first = next(iter(broken.values())).rstrip(".")
    if len(broken) == n:
        return f"None of the {n} clips can be read; the first: {first}."
    others = f", and {len(broken) - 1} more of {n} clips" if len(broken) > 1 else ""
    return f"{first}{others}: get the files again, or leave such clips out with skip_broken=True (--skip-broken)."
