"""Irony: for some clips the voice is replaced by one of a contradicting emotion, and the label by "ironic" (App. "Irony")."""

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from synib.data.cache import gather
from synib.data.dataset import Dataset, Split
from synib.files import write_text
from synib.studies.irony.donors import (
    IRONY,
    Contradictions,
    Donors,
    Rows,
    Triplets,
    check_contradictions,
    check_rows,
    make_ironic,
)
from synib.studies.irony.leak import Leak, expected_leak, unimodal_leak

__all__ = [
    "IRONY",
    "Contradictions",
    "Donors",
    "Irony",
    "Leak",
    "Triplets",
    "expected_leak",
    "make_ironic",
    "unimodal_leak",
]

FORMAT = "synib irony 1"
SPLITS = ("train", "validation", "test")


@dataclass(frozen=True, eq=False)
class Irony:
    """An irony assignment: who is seen, who is heard and the label, for every example of every split.

    Args:
        ids: The clips' names; triplets hold positions in it.
        labels: The clips' own class numbers.
        contradictions: The map it was made with; its keys are the base classes.
        splits: Split → triplets.
        alpha, donors, seed: How it was made.
    """

    ids: tuple[str, ...]
    labels: Rows
    contradictions: Contradictions
    splits: Mapping[str, Triplets]
    alpha: float
    donors: Donors
    seed: int

    @classmethod
    def make(
        cls,
        ids: Sequence[str],
        labels: ArrayLike,
        contradictions: Contradictions,
        splits: Mapping[str, ArrayLike],
        alpha: float,
        *,
        donors: Donors = "paper",
        seed: int = 0,
        within: Sequence[Hashable] | None = None,
    ) -> "Irony":
        """Mutates every split by :func:`make_ironic`, with donors from the split itself.

        Args:
            ids: The clips' names.
            labels: Their class numbers, in the order of the map's keys.
            contradictions, alpha, donors, seed: As in :func:`make_ironic`.
            splits: Split → positions of its clips.
            within: A key for each clip, such as its actor, that donors share.
        """
        y = np.asarray(labels)
        if len(y) != len(ids) or len(set(ids)) != len(ids):
            raise ValueError(
                f"ids are different names, one for each label; got {len(set(ids))} names, {len(y)} labels."
            )
        taken: dict[int, str] = {}
        made = {}
        for name, positions in splits.items():
            rows = check_rows(f"The positions of split {name!r}", positions)
            if len(rows) and not 0 <= rows.min() <= rows.max() < len(y):
                raise ValueError(f"Split {name!r} holds positions of {len(y)} clips; got {rows.min()} to {rows.max()}.")
            for row in rows.tolist():
                if row in taken:
                    raise ValueError(
                        f"Clip {ids[row]!r} is in split {taken[row]!r} and again in {name!r}: a clip has one place."
                    )
                taken[row] = name
            key = None if within is None else [within[i] for i in rows]
            made[name] = make_ironic(
                rows, rows, y[rows], alpha, contradictions, donors=donors, seed=seed, split=name, within=key
            )
        return cls(tuple(ids), y.astype(np.int64), contradictions, made, float(alpha), donors, seed)

    @property
    def classes(self) -> tuple[str, ...]:
        """The base classes and, last, irony."""
        return (*self.contradictions, IRONY)

    def at(self, ids: Sequence[str]) -> "Irony":
        """The same assignment with positions in another list of names, which holds all of its clips."""
        place = {name: i for i, name in enumerate(ids)}
        used = sorted({int(i) for t in self.splits.values() for i in (*t.video, *t.audio)})
        if absent := [self.ids[i] for i in used if self.ids[i] not in place]:
            raise ValueError(
                f"The irony assignment uses clip {absent[0]!r}, which is not among the {len(ids)} clips here "
                f"({len(absent)} such): give the clips it was made for, or make a new one."
            )
        to = np.array([place.get(name, -1) for name in self.ids], np.int64)
        labels = np.full(len(ids), -1, np.int64)
        labels[to[to >= 0]] = self.labels[to >= 0]
        splits = {name: Triplets(to[t.video], to[t.audio], t.label) for name, t in self.splits.items()}
        return replace(self, ids=tuple(ids), labels=labels, splits=splits)

    def leak(self, split: str) -> dict[str, Leak]:
        """Modality → what its true emotion alone says about irony in this split."""
        t = self.splits[split]
        return unimodal_leak(
            self.labels[t.video], self.labels[t.audio], t.label == len(self.classes) - 1, self.contradictions
        )

    def dataset(self, video: Tensor, audio: Tensor, *, scratch: str | Path | None = None) -> Dataset:
        """The data: rows of ``video`` and ``audio``; ``groups`` says which are ironic, ``columns`` who is seen and heard.

        Args:
            video, audio: A row for each of ``ids``.
            scratch: A folder for what is too large for memory; see :func:`~synib.data.cache.gather`.
        """
        for name, x in (("video", video), ("audio", audio)):
            if len(x) != len(self.ids):
                raise ValueError(f"{name} has a row for each of the {len(self.ids)} clips; got {len(x)}.")
        if absent := [name for name in SPLITS if name not in self.splits]:
            raise ValueError(f"A data set has splits {', '.join(SPLITS)}; {absent[0]!r} is missing.")

        def part(t: Triplets) -> Split:
            label = torch.from_numpy(t.label.copy())
            seen, heard = gather(video, t.video, scratch), gather(audio, t.audio, scratch)
            columns = {"video_id": [self.ids[i] for i in t.video], "audio_id": [self.ids[i] for i in t.audio]}
            return Split({"video": seen, "audio": heard}, label, {"ironic": label == len(self.classes) - 1}, columns)

        train, validation, test = (part(self.splits[name]) for name in SPLITS)
        return Dataset(train, validation, test)

    def save(self, path: str | Path) -> Path:
        """Writes it as JSON that can be read by eye: a line for each clip and each example; whole or not at all."""
        path = Path(path)
        names = self.classes
        head = {"alpha": self.alpha, "donors": self.donors, "seed": self.seed}
        clips = ([name, names[k] if k >= 0 else None] for name, k in zip(self.ids, self.labels, strict=True))
        parts = [f'"format": {json.dumps(FORMAT)}', *(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in head.items())]
        parts.append(f'"contradictions": {_lines(dict(self.contradictions).items(), "{}", lambda p: _pair(p))}')
        parts.append(f'"clips": {_lines(clips)}')
        splits = (
            f"{json.dumps(split)}: " + _lines([self.ids[v], self.ids[a], names[k]] for v, a, k in zip(*t, strict=True))
            for split, t in self.splits.items()
        )
        parts.append('"splits": {\n' + ",\n".join(splits) + "\n}")
        write_text(path, "{\n" + ",\n".join(parts) + "\n}\n")
        return path

    @classmethod
    def load(cls, path: str | Path) -> "Irony":
        """Reads what :meth:`save` wrote, and checks it."""
        path = Path(path)
        try:
            told = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ValueError(
                f"There is no irony assignment at {path}: Irony.make(...).save(path) writes one."
            ) from None
        except (json.JSONDecodeError, UnicodeDecodeError) as e:
            raise ValueError(f"{path} is not an irony assignment: it is not JSON ({e}).") from None
        if not isinstance(told, dict) or told.get("format") != FORMAT:
            raise ValueError(f"{path} is not an irony assignment: its format is not {FORMAT!r}.")
        try:
            return cls._told(told)
        except (KeyError, TypeError, ValueError, AttributeError) as e:
            said = f"{e} is missing or unknown" if isinstance(e, KeyError) else str(e)
            raise ValueError(f"{path} is a damaged irony assignment: {said}.") from None

    @classmethod
    def _told(cls, told: dict[str, Any]) -> "Irony":
        contradictions = {k: tuple(v) for k, v in told["contradictions"].items()}
        check_contradictions(contradictions)
        number: dict[str | None, int] = {name: k for k, name in enumerate((*contradictions, IRONY))} | {None: -1}
        ids = tuple(name for name, _ in told["clips"])
        labels = np.array([number[k] for _, k in told["clips"]], np.int64)
        place = {name: i for i, name in enumerate(ids)}
        if len(place) != len(ids):
            raise ValueError("a clip is listed twice")
        splits = {}
        for name, rows in told["splits"].items():
            video, audio, label = (np.array(column, np.int64) for column in _columns(rows, place, number))
            expected = labels[video] == labels[audio]
            if ((label == len(contradictions)) == expected).any() or (label[expected] != labels[video][expected]).any():
                raise ValueError(f"a label of split {name!r} does not follow from its clips")
            splits[name] = Triplets(video, audio, label)
        return cls(ids, labels, contradictions, splits, told["alpha"], told["donors"], told["seed"])


def _columns(
    rows: list[list[Any]], place: dict[str, int], number: dict[str | None, int]
) -> tuple[list[int], list[int], list[int]]:
    return [place[v] for v, _, _ in rows], [place[a] for _, a, _ in rows], [number[k] for _, _, k in rows]


def _pair(pair: tuple[str, Sequence[str]]) -> str:
    return f"{json.dumps(pair[0])}: {json.dumps(list(pair[1]))}"


def _lines(items: Iterable[Any], around: str = "[]", write: Any = json.dumps) -> str:
    return f"{around[0]}\n" + ",\n".join(f"  {write(item)}" for item in items) + f"\n{around[1]}"
