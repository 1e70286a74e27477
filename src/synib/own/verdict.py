"""The verdict of an audit: numbers for scripts, and sentences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from synib.measure import Estimate
from synib.own.claims import Claims
from synib.own.decision import Answer
from synib.own.evidence import Candidate
from synib.own.learning_curve import LearningCurve
from synib.own.power import in_points
from synib.own.reliance import Reliance
from synib.own.shortcuts import Shortcut


class Recommendation(NamedTuple):
    """What to train on these data.

    Args:
        method: ``"synib"``, ``"vanilla"``, ``"additive"``, ``"unimodal-<modality>"``, or ``"auto"`` to choose by
            cross-validation.
        why: The reason, as one sentence.
    """

    method: str
    why: str


@dataclass(frozen=True)
class Verdict:
    """The result of the audit. Gains are in units of the metric.

    Args:
        synergy: Whether the modalities together predict the target better than any sum of their separate predictions.
        metric: How models are compared.
        best: The fusion model or detector with the strongest evidence.
        interaction: Its gain over the best additive model.
        candidates: Every fusion model and detector → its gain.
        detectable: Kind of interaction → the smallest size that would have been detected with 80 % power; empty if
            synergy is present, ``None`` for a kind that would not be detected.
        pooling: The gain of the additive model over the best single modality.
        plain_fusion: The gain of plain fusion over the additive model.
        gain: The gain of SynIB over the same estimator with weight 0.
        gain_over_vanilla: The gain of SynIB over one plain fusion network.
        chance: The metric of a constant prediction.
        claims: The other claims, with p-values adjusted for their number.
        curve: Whether plain fusion is trained to convergence; ``None`` if this was not tested.
        recommendation: The recommended method.
        reliance: Method → modality → its loss without the modality.
        shortcuts: Possible shortcuts.
        sentences: The verdict as text.
    """

    synergy: Answer
    metric: str
    best: str
    interaction: Estimate
    candidates: Mapping[str, Candidate]
    detectable: Mapping[str, float | None]
    pooling: Estimate
    plain_fusion: Estimate
    gain: Estimate
    gain_over_vanilla: Estimate
    chance: Estimate
    claims: Claims
    curve: LearningCurve | None
    recommendation: Recommendation
    reliance: Mapping[str, Mapping[str, Reliance]]
    shortcuts: Sequence[Shortcut]
    sentences: Sequence[str]

    def plain(self) -> dict[str, Any]:
        """The verdict as plain values, for scripts."""
        return {
            "synergy": self.synergy,
            "metric": self.metric,
            "best": self.best,
            "interaction": _plain(self.interaction),
            "candidates": {
                name: {"nats": _plain(c.evidence), "p": round(c.p, 6), "lead": _plain(c.lead), "score": _plain(c.score)}
                for name, c in self.candidates.items()
            },
            "detectable": in_points(self.detectable),
            "pooling": _plain(self.pooling),
            "vanilla": _plain(self.plain_fusion),
            "gain": _plain(self.gain),
            "gain_over_vanilla": _plain(self.gain_over_vanilla),
            "chance": _plain(self.chance),
            "claims": {name: round(p, 6) for name, p in self.claims.adjusted.items()},
            "learning_curve": None if self.curve is None else {
                "adequate": self.curve.adequate,
                **{name: _plain(change) for name, change in self.curve._asdict().items()},
            },
            "recommendation": self.recommendation._asdict(),
            "modalities": {
                name: {
                    method: {"score": _plain(r[name].score), "confidence": _plain(r[name].confidence)}
                    for method, r in self.reliance.items()
                }
                for name in next(iter(self.reliance.values()), {})
            },
            "shortcuts": [
                {"what": s.what, "kind": s.kind, "score": _plain(s.score), "beyond": _plain(s.beyond), "words": s.words}
                for s in self.shortcuts
            ],
            "words": list(self.sentences),
        }  # fmt: skip


def _plain(e: Estimate) -> dict[str, float | int | None]:
    def number(x: float) -> float | None:
        return None if np.isnan(x) else round(float(x), 6)

    return {"mean": number(e.value), "low": number(e.low), "high": number(e.high), "n": e.n}
