"""The answer: is there synergy in the data, does plain fusion find it, would SynIB help; with intervals, or "cannot tell"."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from synib.measure import Estimate
from synib.measure.stats import above_zero, difference, mean
from synib.own.shortcuts import Shortcut

Answer = Literal["present", "absent", "unclear"]
Numbers = NDArray[np.float64]

SMALL = 0.02  # of accuracy (or of explained variance): a gain below it is none worth having
WORTH = 0.2  # likewise: an interaction so large must be seen where it is planted, or nothing can be said
TRIES, ENOUGH = 10, 8  # so often in so many tries


@dataclass(frozen=True)
class Reliance:
    """How far a model leans on a modality: what it loses when the modality is another example's.

    Args:
        accuracy: Accuracy (or explained variance) lost.
        confidence: Mean probability of its own answer, lost likewise; 0 for numbers.
    """

    accuracy: Estimate
    confidence: Estimate


class Planted(NamedTuple):
    """How often an interaction that is there was found.

    Args:
        found, of: In how many of so many tries; of two modalities they end when 8 have found it, or 3 have not.
        unseen: The first two modalities whose interaction was not found often enough.
        worth: By how much who knows it exceeds the additive combination, in accuracy (or explained variance), among rows that
            have both.
    """

    found: int
    of: int
    unseen: tuple[str, str] | None = None
    worth: float = WORTH

    @property
    def seen(self) -> bool:
        """Whether that is enough to take "nothing was found" for an answer."""
        return bool(self.of) and self.unseen is None


@dataclass(frozen=True)
class Verdict:
    """What the audit ends in.

    Args:
        synergy: Whether the modalities tell something together that no sum of what each tells gives.
        interaction: By how much the best fusion, or a regression on products, exceeds the best additive combination, in
            accuracy (or explained variance).
        planted: Where nothing was found, how often an interaction that was planted into the same rows was.
        pooling: By how much that additive combination exceeds the best modality alone.
        gain: By how much SynIB exceeds vanilla fusion.
        found: Whether vanilla fusion alone already exceeds the additive combination.
        reliance: Method → modality → what it loses without it.
        shortcuts: Alarms.
        sentences: All this in words.
    """

    synergy: Answer
    interaction: Estimate
    planted: Planted | None
    pooling: Estimate
    gain: Estimate
    found: Estimate
    reliance: Mapping[str, Mapping[str, Reliance]]
    shortcuts: Sequence[Shortcut]
    sentences: Sequence[str]

    def plain(self) -> dict[str, Any]:
        """For scripts: plain values."""
        return {
            "synergy": self.synergy,
            "interaction": _plain(self.interaction),
            "planted": None if self.planted is None else self.planted._asdict(),
            "pooling": _plain(self.pooling),
            "gain": _plain(self.gain),
            "vanilla": _plain(self.found),
            "modalities": {
                name: {
                    method: {"accuracy": _plain(r[name].accuracy), "confidence": _plain(r[name].confidence)}
                    for method, r in self.reliance.items()
                }
                for name in next(iter(self.reliance.values()), {})
            },
            "shortcuts": [
                {"what": s.what, "kind": s.kind, "score": _plain(s.score), "beyond": _plain(s.beyond), "words": s.words}
                for s in self.shortcuts
            ],
            "words": list(self.sentences),
        }


def answer(evidence: Estimate, lead: Estimate, tried: int) -> Answer:
    """Present where both log-likelihood and accuracy say so; absent where accuracy rules out more than little.

    Log-likelihood alone does not suffice: of two networks that know the same one can be surer where it is right.

    Args:
        evidence: Log-likelihood that the fusion has over the additive combination.
        lead: The same in accuracy, or in the share of variance explained.
        tried: How many fusions were tried, of which this is the best: so many times more sure one must be.
    """
    if above_zero(evidence, tried) and lead.low > 0:
        return "present"
    return "absent" if lead.high < SMALL else "unclear"


def over(ours: Numbers, theirs: Numbers, group: NDArray[Any] | None, seed: int = 0) -> Estimate:
    """Mean lead of one score of each example over another, ``(rows,)`` or ``(seeds, rows)``; rows that are NaN are left out."""
    lead = np.atleast_2d(ours - theirs).mean(0)
    tested = ~np.isnan(lead)
    if group is not None:
        return mean(lead[tested], group[tested], seed=seed)
    ours, theirs = np.atleast_2d(ours).mean(0)[tested], np.atleast_2d(theirs).mean(0)[tested]
    shares = min(ours.min(), theirs.min()) >= 0 and max(ours.max(), theirs.max()) <= 1
    return difference(ours, theirs, seed=seed) if shares else mean(lead[tested], seed=seed)


def sentences(
    told: Answer,
    interaction: Estimate,
    best: str,
    planted: Planted | None,
    pooling: Estimate,
    gain: Estimate,
    found: Estimate,
    measure: str,
    rows: int,
) -> list[str]:
    """The verdict in words; ``best`` is what it was reached by, ``measure`` "accuracy" or "explained variance"."""
    said = []
    if told == "present":
        said.append(
            "There is synergy: together the modalities tell what no sum of what each tells alone gives "
            f"({measure} {_signed(interaction)} over the best additive combination)."
        )
    elif told == "absent":
        said.append(
            f"No synergy was found: the best fusion has {measure} {_signed(interaction)} over the best additive combination of "
            "what each modality tells alone. What larger models or more rows would find is not told."
        )
    else:
        said.append(
            f"From {rows:,} rows one cannot tell if there is synergy: the best fusion has {measure} {_signed(interaction)} "
            "over the best additive combination."
        )
    if planted is not None and not planted.of:
        said.append("No two modalities vary in the same rows, so that nothing could show.")
    elif planted is not None:
        size = f"{100 * planted.worth:.0f} points" if measure == "accuracy" else f"{planted.worth:.0%} of the variance"
        shows = "It would show" if planted.seen else "It would hardly show"
        of_whom = "two modalities" if planted.unseen is None else " and ".join(planted.unseen)
        said.append(
            f"{shows}: an interaction of {of_whom} worth {size}, planted into the rows that have both, was found in "
            f"{planted.found} of {planted.of} tries."
        )
    if pooling.low > 0:
        said.append(
            f"Pooling helps: adding up what each tells has {measure} {_signed(pooling)} over the best modality alone."
        )
    elif pooling.high < SMALL:
        said.append(
            f"Pooling does not: adding up what each tells has {measure} {_signed(pooling)} over the best modality alone."
        )
    if told == "present":
        if found.low > 0 and found.value >= SMALL:
            said.append(f"Plain fusion finds it, or part of it ({_signed(found)} over the additive combination).")
        else:
            said.append(f"Plain fusion does not show it ({_signed(found)} over the additive combination).")
        if best == "products":
            said.append("A regression on products of two modalities' numbers shows it best.")
    if gain.low > 0:
        said.append(f"SynIB is better than plain fusion, by {_signed(gain)}.")
    elif gain.high < 0:
        said.append(f"SynIB is worse than plain fusion, by {_signed(gain)}: keep plain fusion.")
    elif gain.high < SMALL:
        said.append(f"SynIB gains nothing worth having over plain fusion ({_signed(gain)}).")
    else:
        said.append(f"Whether SynIB is better than plain fusion cannot be told ({_signed(gain)}).")
    return said


def _signed(e: Estimate) -> str:
    return f"{e.value:+.3f} [{e.low:+.3f}, {e.high:+.3f}]"


def _plain(e: Estimate) -> dict[str, float | int | None]:
    def number(x: float) -> float | None:
        return None if np.isnan(x) else round(float(x), 6)

    return {"mean": number(e.value), "low": number(e.low), "high": number(e.high), "n": e.n}
