"""Crowd judgements of the clips of CREMA-D by voice, by face and by both: votes on six emotions, and their strength."""

import csv
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch

from synib.checks import check_choice
from synib.data.dataset import Dataset, Split
from synib.data.files import File, Source
from synib.studies.irony.crema_d import CREMA_D, actor_splits, parse
from synib.studies.irony.donors import Rows
from synib.studies.tables import check_fold

Target = Literal["emotion", "level"]
FOLDS = 5
EMOTIONS = ("A", "D", "F", "H", "N", "S")  # anger, disgust, fear, happiness, neutral, sadness, as the table calls them
ASKED = {"1": "voice", "2": "face", "3": "both"}  # what was heard or seen: the first digit of a row's number
LEVEL = "meanEmoResp"  # mean level, from 0 to 100, that the raters gave to the emotion they chose
# The same mean for the raters of each emotion, in the order of EMOTIONS; -1 if there are none.
LEVELS = tuple(f"mean{name}Resp" for name in ("Anger", "Disgust", "Fear", "Happy", "Neutral", "Sad"))

CREMA_VOTES = Source(
    name="crema-votes",
    about="Crowd judgements of 7,442 clips of CREMA-D by voice, by face and by both (no media)",
    where=CREMA_D.where,
    licence=CREMA_D.licence,
    files=(
        File(("processedResults/tabulatedVotes.csv", "tabulatedVotes.csv"), "votes of every clip in three conditions"),
    ),
    folder="crema-d",
)


class Votes(NamedTuple):
    """Judgements of all clips, in the order of their names.

    Args:
        actors: The actor of each clip.
        counts: Condition → the number of votes for each emotion, ``(clips, 6)``.
        levels: Condition → the mean level given by the raters, ``(clips,)``, from 0 to 100.
        levels_of: Condition → the mean level given by the raters of each emotion, ``(clips, 6)``; NaN if there are none.
    """

    actors: list[int]
    counts: dict[str, np.ndarray]
    levels: dict[str, np.ndarray]
    levels_of: dict[str, np.ndarray]

    def shares(self, condition: str) -> np.ndarray:
        """The fraction of votes for each emotion, ``(clips, 6)``."""
        counts = self.counts[condition]
        return np.asarray(counts / counts.sum(1, keepdims=True))

    def winners(self, condition: str) -> np.ndarray:
        """The emotions with the most votes, ``(clips, 6)``; several in case of a tie."""
        counts = self.counts[condition]
        return np.asarray(counts == counts.max(1, keepdims=True))

    def usable(self, target: Target) -> np.ndarray:
        """Which clips have a target, ``(clips,)``: a joint winner without a tie, or any level."""
        return self.winners("both").sum(1) == 1 if target == "emotion" else np.ones(len(self.actors), bool)


def crema_votes(root: Path | str | None = None, target: Target = "emotion", fold: int = 0) -> Dataset:
    """Predict how a clip is judged by face and voice together from the separate judgements of each.

    ``voice`` and ``face`` are the fractions of the raters' votes for six emotions and the mean level that they gave,
    seven numbers each, standardised by the training statistics. These are not the audio and frames of the paper's
    ResNets: each modality is a judgement by other people. The raters of the three conditions are different people.

    Every actor is in one split only, and tested in one of five folds. The splits of all folds have the same sizes:
    examples beyond the smallest fold's size are dropped at random.

    Groups: ``disagree``, voice and face have different winners; ``neither``, the joint winner is neither of them.

    Args:
        root: The data folder, or ``$SYNIB_DATA``: it, or its subfolder ``crema-d/``, contains ``tabulatedVotes.csv``.
        target: ``"emotion"``, the one with the most votes for face and voice together (clips with a tie are dropped),
            or ``"level"``, the mean level given by these raters, standardised by the training statistics.
        fold: 0 to 4.
    """
    check_fold(fold, FOLDS)
    check_choice("target", target, Target)
    votes = read_votes(CREMA_VOTES.file(root))
    joint = votes.winners("both")
    rows = split_rows(votes.actors, votes.usable(target), fold)
    x = {name: np.column_stack([votes.shares(name), votes.levels[name]]) for name in ("voice", "face")}
    y = joint.argmax(1) if target == "emotion" else votes.levels["both"]
    alone = votes.winners("voice") | votes.winners("face")
    groups = {
        "disagree": ~(votes.winners("voice") & votes.winners("face")).any(1),
        "neither": ~(alone & joint).any(1),
    }
    first = rows["train"]

    def scaled(values: np.ndarray) -> np.ndarray:
        return (values - values[first].mean(0)) / (values[first].std(0) + 1e-6)

    x = {name: scaled(values).astype(np.float32) for name, values in x.items()}
    y = y.astype(np.int64) if target == "emotion" else scaled(y).astype(np.float32)[:, None]

    def split(at: Rows) -> Split:
        seen = {name: torch.from_numpy(values[at]) for name, values in x.items()}
        return Split(seen, torch.from_numpy(y[at]), {name: torch.from_numpy(g[at]) for name, g in groups.items()})

    return Dataset(split(rows["train"]), split(rows["validation"]), split(rows["test"]))


def split_rows(actors: list[int], kept: np.ndarray, fold: int) -> dict[str, Rows]:
    """Split → positions in a fold, as many as in the smallest fold."""
    folds = [
        {name: rows[kept[rows]] for name, rows in actor_splits(actors, k, folds=FOLDS, share=1 / FOLDS).items()}
        for k in range(FOLDS)
    ]
    drawn = np.random.default_rng(0)
    sizes = {name: min(len(splits[name]) for splits in folds) for name in folds[0]}
    return {name: np.sort(drawn.permutation(folds[fold][name])[:size]) for name, size in sizes.items()}


@lru_cache(maxsize=2)
def read_votes(file: Path) -> Votes:
    """The table of votes; a malformed table raises ``ValueError``."""
    with file.open(newline="", encoding="utf-8-sig") as text:
        reader = csv.DictReader(text)
        missing = [
            name for name in ("", *EMOTIONS, "fileName", LEVEL, *LEVELS) if name not in (reader.fieldnames or ())
        ]
        if missing:
            raise ValueError(f"{file} has no column {missing[0]!r}: it is not tabulatedVotes.csv of CREMA-D.")
        found: dict[str, dict[str, list[float]]] = {}
        for row in reader:
            condition = ASKED.get((row[""] or "")[:1])
            if condition is None:
                raise ValueError(
                    f"{file} must number its rows 1..., 2... and 3... for voice, face and both; got {row['']!r}."
                )
            try:
                numbers = [float(row[name]) for name in (*EMOTIONS, LEVEL, *LEVELS)]
            except (TypeError, ValueError):
                raise ValueError(f"{file} has votes of {row['fileName']} that are not numbers.") from None
            clip = found.setdefault(row["fileName"], {})
            votes, least = numbers[: len(EMOTIONS)], min(numbers[: len(EMOTIONS) + 1])
            if condition in clip or not np.isfinite(numbers).all() or least < 0 or sum(votes) <= 0:
                raise ValueError(f"{file} lists {row['fileName']} by {condition} twice, or without votes.")
            clip[condition] = numbers
    names = sorted(name for name, clip in found.items() if len(clip) == len(ASKED))
    if not names or len(names) < len(found):
        raise ValueError(
            f"{file} has {len(found) - len(names)} of {len(found)} clips without votes in all 3 conditions."
        )
    tables = {c: np.array([found[name][c] for name in names]) for c in ASKED.values()}
    n = len(EMOTIONS)
    return Votes(
        [parse(name).actor for name in names],
        {c: table[:, :n] for c, table in tables.items()},
        {c: table[:, n] for c, table in tables.items()},
        {c: np.where(table[:, :n] > 0, table[:, n + 1 :], np.nan) for c, table in tables.items()},
    )
