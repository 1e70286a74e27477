"""How well the joint judgement can be predicted at all: it comes from about ten raters, and others would differ."""

from functools import lru_cache
from pathlib import Path

import numpy as np

from synib.studies.crema_votes.data import CREMA_VOTES, FOLDS, Target, Votes, read_votes, split_rows

DRAWS = 100  # panels drawn for each clip


@lru_cache(maxsize=2 * FOLDS)
def ceilings(root: str, target: Target, fold: int) -> dict[str, float]:
    """Ceilings on the test clips of a fold, from the joint votes alone: ``low`` and ``high`` accuracies, or ``estimate``.

    Args:
        root, target, fold: As in :func:`~synib.studies.crema_votes.data.crema_votes`.
    """
    votes = read_votes(CREMA_VOTES.file(Path(root)))
    every = split_rows(votes.actors, votes.usable("level"), fold)["test"]
    if target == "level":
        return {"estimate": explainable_variance(votes, every)}
    tested = split_rows(votes.actors, votes.usable(target), fold)["test"]
    counts = votes.counts["both"].astype(np.int64)
    return {"low": halves_agree(counts[every]), "high": redrawn_agree(counts[tested])}


def halves_agree(counts: np.ndarray) -> float:
    """How often one half of a clip's raters predicts the winner among the other half: too low for a whole panel.

    Both halves are drawn at random, ``DRAWS`` times. A tie for the prediction counts as a random choice among the
    winners; where the predicted half has a tie, the draw is dropped, as such clips are dropped from the data.

    Args:
        counts: Votes of all clips, ``(clips, emotions)``; without those that have a tie, both halves would depend on each
            other.
    """
    rng, hits, kept = np.random.default_rng(0), 0.0, 0
    for votes in counts:
        first = rng.multivariate_hypergeometric(votes, votes.sum() // 2, size=DRAWS)
        one, other = _winners(first), _winners(votes - first)
        unique = other.sum(1) == 1
        hits += float(((one & other).any(1) / one.sum(1))[unique].sum())
        kept += int(unique.sum())
    return hits / kept


def redrawn_agree(counts: np.ndarray) -> float:
    """How often new raters, drawn from a clip's own fractions of votes, have the same winner: too high.

    The fractions in ten votes are more extreme than those of all people. Draws with a tie are dropped.

    Args:
        counts: Votes without a tie for the winner, ``(clips, emotions)``.
    """
    total = counts.sum(1)
    drawn = np.random.default_rng(0).multinomial(
        total[:, None], (counts / total[:, None])[:, None], size=(len(counts), DRAWS)
    )
    winners = _winners(drawn)
    unique = winners.sum(2) == 1
    same = (winners & _winners(counts)[:, None]).any(2)
    return float(same[unique].mean())


def explainable_variance(votes: Votes, rows: np.ndarray) -> float:
    """The fraction of the variance of the mean level that is not noise of the raters; rather too low.

    The variance of raters within a clip is estimated by an analysis of variance between those who voted for different
    emotions, pooled over all clips. Raters of a clip's winner are left out: they give higher levels than the others. If
    levels differ between the other emotions, too, the variance is too large, and this fraction too low.

    Args:
        votes: The judgements.
        rows: The clips.
    """
    counts, levels = votes.counts["both"], np.nan_to_num(votes.levels_of["both"])
    others = counts.copy()
    others[np.arange(len(counts)), counts.argmax(1)] = 0
    several = (others > 0).sum(1) > 1
    n, x = others[several], levels[several]
    mean = (n * x).sum(1, keepdims=True) / n.sum(1, keepdims=True)
    variance = (n * (x - mean) ** 2).sum() / ((n > 0).sum(1) - 1).sum()
    noise = (variance / counts[rows].sum(1)).mean()
    return float(1 - noise / votes.levels["both"][rows].var())


def _winners(counts: np.ndarray) -> np.ndarray:
    return np.asarray(counts == counts.max(-1, keepdims=True))
