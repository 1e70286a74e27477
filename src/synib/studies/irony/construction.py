"""Irony assignments: for some clips the voice is replaced by one with a contradicting emotion (App. "Irony")."""

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
from synib.studies.irony.leak import Leak, unimodal_leak

FORMAT = "synib irony 1"
SPLITS = ("train", "validation", "test")


@dataclass(frozen=True, eq=False)
class Irony:
    """An irony assignment: the clip that is seen, the clip that is heard and the label of every example of every split.

    Args:
        ids: The names of the clips; triplets contain indices into them.
        labels: The original class indices of the clips.
        contradictions: Base class → classes that contradict it.
        splits: Split → triplets.
        alpha, donors, seed: Arguments of the construction.
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
        """Apply :func:`~synib.studies.irony.donors.make_ironic` to every split; donors come from the split itself.

        Args:
            ids: The clips' names.
            labels: Their class indices, in the order of the map's keys.
            contradictions, alpha, donors, seed: As in ``make_ironic``.
            splits: Split → indices of its clips.
            within: A key for each clip, such as its actor: a donor must have the same key.
        """
        y = np.asarray(labels)
        if len(y) != len(ids) or len(set(ids)) != len(ids):
            raise ValueError(
                f"ids must be distinct names, one for each label; got {len(set(ids))} distinct names and {len(y)} "
                "labels."
            )
        split_of: dict[int, str] = {}
        triplets = {}
        for name, positions in splits.items():
            rows = check_rows(f"The positions of split {name!r}", positions)
            if len(rows) and not 0 <= rows.min() <= rows.max() < len(y):
                raise ValueError(
                    f"Split {name!r} must contain indices of {len(y)} clips; got {rows.min()} to {rows.max()}."
                )
            for row in rows.tolist():
                if row in split_of:
                    raise ValueError(f"Clip {ids[row]!r} is in two splits, {split_of[row]!r} and {name!r}.")
                split_of[row] = name
            key = None if within is None else [within[i] for i in rows]
            triplets[name] = make_ironic(
                rows, rows, y[rows], alpha, contradictions, donors=donors, seed=seed, split=name, within=key
            )
        return cls(tuple(ids), y.astype(np.int64), contradictions, triplets, float(alpha), donors, seed)

    @property
    def classes(self) -> tuple[str, ...]:
        """The base classes and, last, irony."""
        return (*self.contradictions, IRONY)

    def at(self, ids: Sequence[str]) -> "Irony":
        """The same assignment with indices into another list of names, which must contain all clips that it uses."""
        position = {name: i for i, name in enumerate(ids)}
        used = sorted({int(i) for t in self.splits.values() for i in (*t.video, *t.audio)})
        if missing := [self.ids[i] for i in used if self.ids[i] not in position]:
            raise ValueError(
                f"The irony assignment uses {len(missing)} clips that are not among the {len(ids)} given, such as "
                f"{missing[0]!r}: use the clips it was made for, or create a new assignment."
            )
        to = np.array([position.get(name, -1) for name in self.ids], np.int64)
        labels = np.full(len(ids), -1, np.int64)
        labels[to[to >= 0]] = self.labels[to >= 0]
        splits = {name: Triplets(to[t.video], to[t.audio], t.label) for name, t in self.splits.items()}
        return replace(self, ids=tuple(ids), labels=labels, splits=splits)

    def leak(self, split: str) -> dict[str, Leak]:
        """Modality → how well its true emotion alone predicts irony in this split."""
        t = self.splits[split]
        return unimodal_leak(
            self.labels[t.video], self.labels[t.audio], t.label == len(self.classes) - 1, self.contradictions
        )

    def dataset(self, video: Tensor, audio: Tensor, *, scratch: str | Path | None = None) -> Dataset:
        """The data: rows of ``video`` and ``audio``; the group ``ironic``, and the ids of the clips seen and heard as columns.

        Args:
            video, audio: One row for each of ``ids``.
            scratch: A folder for data that are too large for memory; see :func:`~synib.data.cache.gather`.
        """
        for name, x in (("video", video), ("audio", audio)):
            if len(x) != len(self.ids):
                raise ValueError(f"{name} must have one row for each of the {len(self.ids)} clips; got {len(x)}.")
        check_splits(self.splits)

        def part(t: Triplets) -> Split:
            label = torch.from_numpy(t.label.copy())
            seen, heard = gather(video, t.video, scratch), gather(audio, t.audio, scratch)
            columns = {"video_id": [self.ids[i] for i in t.video], "audio_id": [self.ids[i] for i in t.audio]}
            return Split({"video": seen, "audio": heard}, label, {"ironic": label == len(self.classes) - 1}, columns)

        train, validation, test = (part(self.splits[name]) for name in SPLITS)
        return Dataset(train, validation, test)

    def save(self, path: str | Path) -> Path:
        """Write the assignment atomically as JSON, with one line per clip and example."""
        path = Path(path)
        names = self.classes
        clips = ([name, names[k] if k >= 0 else None] for name, k in zip(self.ids, self.labels, strict=True))
        splits = {
            split: _lines(json.dumps([self.ids[v], self.ids[a], names[k]]) for v, a, k in zip(*t, strict=True))
            for split, t in self.splits.items()
        }
        contradictions = (f"{json.dumps(k)}: {json.dumps(list(v))}" for k, v in self.contradictions.items())
        parts = {
            "format": json.dumps(FORMAT),
            "alpha": json.dumps(self.alpha),
            "donors": json.dumps(self.donors),
            "seed": json.dumps(self.seed),
            "contradictions": _lines(contradictions, "{}"),
            "clips": _lines(map(json.dumps, clips)),
            "splits": "{\n" + ",\n".join(f"{json.dumps(name)}: {rows}" for name, rows in splits.items()) + "\n}",
        }
        text = "{\n" + ",\n".join(f'"{key}": {value}' for key, value in parts.items()) + "\n}\n"
        write_text(path, text)
        return path

    @classmethod
    def load(cls, path: str | Path) -> "Irony":
        """Read and check an assignment written by :meth:`save`."""
        path = Path(path)
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ValueError(f"{path} does not exist: write an assignment with Irony.make(...).save(path).") from None
        except (json.JSONDecodeError, UnicodeDecodeError) as e:
            raise ValueError(f"{path} is not an irony assignment: it is not JSON ({e}).") from None
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ValueError(f"{path} is not an irony assignment: its format is not {FORMAT!r}.")
        try:
            return cls._from_json(content)
        except (KeyError, TypeError, ValueError, AttributeError) as e:
            reason = f"{e} is missing or unknown" if isinstance(e, KeyError) else str(e)
            raise ValueError(f"{path} is a damaged irony assignment: {reason}.") from None

    @classmethod
    def _from_json(cls, content: dict[str, Any]) -> "Irony":
        contradictions = {k: tuple(v) for k, v in content["contradictions"].items()}
        check_contradictions(contradictions)
        number: dict[str | None, int] = {name: k for k, name in enumerate((*contradictions, IRONY))} | {None: -1}
        ids = tuple(name for name, _ in content["clips"])
        labels = np.array([number[k] for _, k in content["clips"]], np.int64)
        position = {name: i for i, name in enumerate(ids)}
        if len(position) != len(ids):
            raise ValueError("a clip is listed twice")
        splits = {}
        for name, rows in content["splits"].items():
            indices = [(position[v], position[a], number[k]) for v, a, k in rows]
            video, audio, label = np.array(indices, np.int64).reshape(-1, 3).T
            same = labels[video] == labels[audio]
            if ((label == len(contradictions)) == same).any() or (label[same] != labels[video][same]).any():
                raise ValueError(f"a label of split {name!r} does not follow from its clips")
            splits[name] = Triplets(video, audio, label)
        return cls(ids, labels, contradictions, splits, content["alpha"], content["donors"], content["seed"])


def check_splits(splits: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` if a split of a data set is missing."""
    if missing := [name for name in SPLITS if name not in splits]:
        raise ValueError(f"A data set must have the splits {', '.join(SPLITS)}; {missing[0]!r} is missing.")


def _lines(items: Iterable[str], brackets: str = "[]") -> str:
    return f"{brackets[0]}\n" + ",\n".join(f"  {item}" for item in items) + f"\n{brackets[1]}"
