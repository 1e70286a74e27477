"""A corpus of acted clips: its files, its splits by actor, its data set, and the irony constructed from it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from synib.data.dataset import Dataset
from synib.data.files import Source
from synib.studies.irony.clips import Clip, ClipFiles, Clips, Progress, read_media
from synib.studies.irony.construction import Irony
from synib.studies.irony.donors import Contradictions, Donors, Rows


@dataclass(frozen=True)
class Corpus:
    """A collection of acted clips that irony can be constructed from.

    Args:
        source: Its files.
        contradictions: Emotion → emotions that contradict it.
        files: Lists the clips and their files below a folder, in the order of their names.
        actor_splits: Splits clips by actor: called with the actor of each clip and a fold.
    """

    source: Source
    contradictions: Contradictions
    files: Callable[[str | Path | None], list[ClipFiles]]
    actor_splits: Callable[[Sequence[int], int], dict[str, Rows]]

    def make_irony(
        self,
        clips: Sequence[Clip],
        alpha: float,
        fold: int = 0,
        *,
        donors: Donors = "paper",
        seed: int = 0,
        same_actor: bool = False,
        without: Sequence[str] = (),
        splits: Mapping[str, Rows] | None = None,
    ) -> Irony:
        """The irony assignment of a fold; no media are needed.

        Args:
            clips: The clips.
            alpha, donors, seed: As in :func:`~synib.studies.irony.donors.make_ironic`.
            fold: 0 to 4, as in ``actor_splits``.
            same_actor: Whether a donor is the actor that is seen. Otherwise it is any actor of the split, as in the
                paper, and most ironic examples can be recognised because voice and face belong to different people.
            without: Ids of clips to exclude, such as those with broken files.
            splits: Split → indices of its clips, instead of a fold's.
        """
        actors = [clip.actor for clip in clips]
        splits = self.actor_splits(actors, fold) if splits is None else splits
        return Irony.make(
            [clip.id for clip in clips],
            [clip.label for clip in clips],
            self.contradictions,
            {name: [i for i in rows if clips[i].id not in set(without)] for name, rows in splits.items()},
            alpha,
            donors=donors,
            seed=seed,
            within=actors if same_actor else None,
        )

    def read_clips(
        self,
        root: str | Path | None = None,
        cache: str | Path | None = None,
        *,
        skip_broken: bool = False,
        workers: int = 1,
        on_file: Progress | None = None,
        size: int = 224,
    ) -> Clips:
        """Spectrograms and frames of all clips, read once and then memory-mapped.

        Args:
            root: The folder of the data set or its parent; ``None`` is ``$SYNIB_DATA``.
            cache: Folder for the arrays (CREMA-D: 3.4 GB of frames and 1.5 GB of spectrograms); by default ``synib-cache`` in
                the data's folder.
            skip_broken: Whether to skip clips whose files are missing or broken; ``skipped`` lists them.
            workers: Number of reading threads.
            on_file: Called with the number of files read, and with their total.
            size: Side of a frame in pixels.
        """
        folder = self.source.find(root) / "synib-cache" if cache is None else Path(cache)
        return read_media(self.files(root), folder, skip_broken, workers, on_file, size)

    def load(
        self,
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
        """The data set from media files: ``video`` (3 frames, bytes), ``audio`` (257 × 188), emotion; irony is an
        additional class.

        Args:
            root, cache, skip_broken, workers, size: As in :meth:`read_clips`.
            fold: 0 to 4; every actor is in one split only.
            irony: ``None`` for the original clips, a number for α of :meth:`make_irony`, or an existing assignment.
            donors, irony_seed, same_actor: Settings of the assignment.
            scratch: A folder for splits that are too large for memory; see :func:`~synib.data.cache.gather`.
        """
        media = self.read_clips(root, cache, skip_broken=skip_broken, workers=workers, size=size)
        if irony is not None and not isinstance(irony, Irony):
            irony = self.make_irony(
                media.clips,
                irony,
                fold,
                donors=donors,
                seed=irony_seed,
                same_actor=same_actor,
                without=tuple(media.skipped),
            )
        splits = self.actor_splits([clip.actor for clip in media.clips], fold)
        return media.dataset(splits, irony, scratch=scratch)
