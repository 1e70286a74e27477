"""The verdict: is there synergy in the data, does plain fusion find it, would SynIB help; as numbers and as sentences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from synib.measure import Estimate
from synib.own.decision import SMALL, Answer
from synib.own.planted import Planted
from synib.own.reliance import Reliance
from synib.own.shortcuts import Shortcut


@dataclass(frozen=True)
class Verdict:
    """The result of the audit.

    Args:
        synergy: Whether the modalities together predict the target better than any sum of their separate predictions.
        interaction: By how much the best fusion, or a regression on products, exceeds the best additive combination, in
            accuracy (or explained variance).
        planted: Where nothing was found, how often an interaction planted into the same rows was.
        pooling: By how much that additive combination exceeds the best modality alone.
        gain: By how much SynIB exceeds vanilla fusion.
        found: By how much vanilla fusion exceeds the additive combination.
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


def sentences(
    synergy: Answer,
    interaction: Estimate,
    best: str,
    planted: Planted | None,
    pooling: Estimate,
    gain: Estimate,
    found: Estimate,
    measure: str,
    rows: int,
) -> list[str]:
    """The verdict in words; the first arguments are those of :class:`Verdict`.

    Args:
        best: The fusion, or ``"products"``, that the verdict rests on.
        measure: ``"accuracy"`` or ``"explained variance"``.
        rows: Number of rows.
    """
    return [
        _on_synergy(synergy, interaction, measure, rows),
        *_on_power(planted, measure),
        *_on_pooling(pooling, measure),
        *(_on_plain_fusion(found, best) if synergy == "present" else []),
        _on_synib(gain),
    ]


def _on_synergy(synergy: Answer, interaction: Estimate, measure: str, rows: int) -> str:
    if synergy == "present":
        return (
            "There is synergy: the modalities together predict the target better than any sum of their separate predictions "
            f"({measure} {_signed(interaction)} over the best additive combination)."
        )
    over = f"the best fusion has {measure} {_signed(interaction)} over the best additive combination"
    if synergy == "absent":
        return f"No synergy was found: {over}. A larger model or more data might still find some."
    return f"Inconclusive: {over} (n = {rows:,})."


def _on_power(planted: Planted | None, measure: str) -> list[str]:
    if planted is None:
        return []
    if not planted.of:
        return ["No row has two non-constant modalities, so interactions cannot be tested."]
    size = (
        f"{100 * planted.worth:.0f} points of accuracy"
        if measure == "accuracy"
        else f"{planted.worth:.0%} of the variance"
    )
    sensitive = "This test was sensitive enough" if planted.seen else "This test was not sensitive enough"
    modalities = "two modalities" if planted.unseen is None else " and ".join(planted.unseen)
    return [
        f"{sensitive}: an artificial interaction of {modalities} worth {size} was detected in {planted.found} of "
        f"{planted.of} tries."
    ]


def _on_pooling(pooling: Estimate, measure: str) -> list[str]:
    if pooling.low > 0:
        return [
            "Combining the modalities' separate predictions beats the best single modality "
            f"({measure} {_signed(pooling)})."
        ]
    if pooling.high < SMALL:
        return [
            "Combining the modalities' separate predictions does not beat the best single modality "
            f"({measure} {_signed(pooling)})."
        ]
    return []


def _on_plain_fusion(found: Estimate, best: str) -> list[str]:
    finds = found.low > 0 and found.value >= SMALL
    over = f"({_signed(found)} over the additive combination)"
    result = [f"Plain fusion {'finds it, or part of it' if finds else 'does not show it'} {over}."]
    if best == "products":
        result.append(
            "The strongest evidence comes from a regression on products of two modalities' features, not from a network."
        )
    return result


def _on_synib(gain: Estimate) -> str:
    if gain.low > 0:
        return f"SynIB is better than plain fusion, by {_signed(gain)}."
    if gain.high < 0:
        return f"SynIB is worse than plain fusion, by {_signed(gain)}: keep plain fusion."
    if gain.high < SMALL:
        return f"SynIB gains nothing worth having over plain fusion ({_signed(gain)})."
    return f"These rows do not show whether SynIB beats plain fusion ({_signed(gain)})."


def _signed(e: Estimate) -> str:
    return f"{e.value:+.3f} [{e.low:+.3f}, {e.high:+.3f}]"


def _plain(e: Estimate) -> dict[str, float | int | None]:
    def number(x: float) -> float | None:
        return None if np.isnan(x) else round(float(x), 6)

    return {"mean": number(e.value), "low": number(e.low), "high": number(e.high), "n": e.n}
