"""The verdict in sentences with numbers."""

from collections.abc import Mapping

from synib.measure import Estimate
from synib.own.claims import ABOVE_CHANCE, GAIN, LEARNS, LEARNS_LITTLE, NO_POOLING, POOLING, Claims
from synib.own.decision import SMALL, Answer, stated_size
from synib.own.evidence import Evidence
from synib.own.learning_curve import LearningCurve
from synib.own.verdict import Recommendation

KINDS = {"product": "a product of two directions", "lookup": "a lookup table over clusters", "gate": "a gate"}
DETECTORS = {"products": "a regression on products of two modalities' features", "kernel": "a product-kernel regression",
             "table": "a table over clusters of two modalities"}  # fmt: skip
NETWORKS = {"vanilla": "plain fusion", "experts": "SynIB", "synib-marginal": "SynIB"}


def model_name(candidate: str) -> str:
    """The name of a fusion method or detector in a sentence."""
    return NETWORKS.get(candidate) or DETECTORS.get(candidate.partition("-")[0], candidate)


def interval(e: Estimate, metric: str) -> str:
    """A gain with its interval: in points, or as a share of variance."""
    unit = "% of the variance" if metric == "explained variance" else "points"
    return f"{100 * e.value:+.1f} {unit} (95 % CI {100 * e.low:+.1f} to {100 * e.high:+.1f}, n = {e.n:,})"


def on_synergy(synergy: Answer, evidence: Evidence, detectable: Mapping[str, float | None], metric: str) -> list[str]:
    """Whether there is synergy, and which interactions would have been detected."""
    best = evidence.candidates[evidence.best]
    name, gain = model_name(evidence.best), f"{interval(best.lead, metric)} in {metric}"
    if synergy == "present":
        return [
            "There is synergy: the modalities together predict the target better than any sum of their separate predictions; "
            f"{name} exceeds the best additive model by {gain}."
        ]
    power = _on_power(detectable, metric)
    if synergy == "absent":
        size = stated_size(detectable)
        assert size is not None
        largest = max(c.bound.high for c in evidence.candidates.values())
        return [
            f"No synergy of {_points(size, metric)} or more in {metric}: every fusion model and detector gains less than "
            f"{_points(max(largest, 0.0), metric)} over the best additive model (simultaneous 95 % limit, "
            f"n = {best.lead.n:,}).",
            power,
            "This holds for these kinds of interactions; another kind, a larger model or more data might "
            "still reveal one.",
        ]
    return [f"Inconclusive: the strongest candidate is {name}, with {gain} over the best additive model.", power]


def _on_power(detectable: Mapping[str, float | None], metric: str) -> str:
    if not detectable or all(size is None for size in detectable.values()):
        return "Not even an interaction of 40 points would have been detected reliably in these rows: more rows are needed."
    detected = [f"{KINDS[kind]} of {_points(size, metric)}" for kind, size in detectable.items() if size is not None]
    missed = [KINDS[kind] for kind, size in detectable.items() if size is None]
    text = f"With 80 % power these rows would have revealed {_listed(detected, 'or')}"
    return f"{text}; {_listed(missed, 'or')} would not have been detected reliably." if missed else f"{text}."


def on_pooling(pooling: Estimate, single: str, claims: Claims, metric: str) -> str:
    """Whether combining the modalities' separate predictions helps."""
    size = interval(pooling, metric)
    if pooling.value > 0 and claims.hold(POOLING):
        return f"Adding the modalities' separate predictions is better than {single} alone by {size}."
    if pooling.value < SMALL and claims.hold(NO_POOLING):
        return f"Adding the modalities' separate predictions has no relevant gain over {single} alone: {size}."
    return (
        "These rows do not show whether adding the modalities' separate predictions is better than "
        f"{single} alone: {size}{_adjusted(pooling, claims, POOLING)}."
    )


def _adjusted(lead: Estimate, claims: Claims, name: str) -> str:
    """The adjusted p-value, if a claim is not made although its own interval excludes 0."""
    if lead.low <= 0 <= lead.high or name not in claims.adjusted:
        return ""
    return f", adjusted p = {claims.adjusted[name]:.2f} for {len(claims.p_values)} claims (Holm)"


def on_methods(
    synergy: Answer,
    plain_fusion: Estimate,
    gain: Estimate,
    gain_over_vanilla: Estimate,
    curve: LearningCurve | None,
    claims: Claims,
    metric: str,
    control: str,
) -> list[str]:
    """Whether plain fusion learns the synergy, and whether SynIB helps."""
    if curve is None:
        return ["This plan trains too few models to evaluate plain fusion or SynIB; run without --quick for that."]
    if not curve.adequate:
        return [curve.sentence()]
    result = []
    if synergy == "present":
        if plain_fusion.value >= SMALL and claims.hold(LEARNS):
            text = "Plain fusion learns at least part of it"
        elif plain_fusion.value < SMALL and claims.hold(LEARNS_LITTLE):
            text = "Plain fusion learns little or nothing of it"
        else:
            text = "These rows do not show whether plain fusion learns it"
        result.append(f"{text}: {interval(plain_fusion, metric)} over the best additive model.")
    rival = "the same estimator with weight 0" if control != "vanilla" else "plain fusion, which is SynIB with weight 0"
    over_plain = (
        ""
        if control == "vanilla"
        else f" Its gain over one plain fusion network is {interval(gain_over_vanilla, metric)}."
    )
    if gain.value > 0 and claims.hold(GAIN):
        result.append(f"SynIB is better than {rival}: {interval(gain, metric)}.{over_plain}")
    elif gain.value < 0 and claims.hold(GAIN):
        result.append(f"SynIB is worse than {rival}: {interval(gain, metric)}.{over_plain}")
    else:
        why = _adjusted(gain, claims, GAIN)
        result.append(
            f"These rows do not show that SynIB is better than {rival}: {interval(gain, metric)}{why}.{over_plain}"
        )
    return result


def on_chance(best_score: Estimate, chance: Estimate, claims: Claims, metric: str) -> list[str]:
    """A warning if no model is better than a constant prediction."""
    if claims.hold(ABOVE_CHANCE):
        return []
    return [
        f"No model is shown to be better than a constant prediction: the best model has {metric} "
        f"{best_score.value:.3f}, a constant prediction {chance.value:.3f}."
    ]


def recommend(synergy: Answer, gain: Estimate, plain_fusion: Estimate, claims: Claims, single: str) -> Recommendation:
    """The recommended method for these data, from the verdict."""
    if gain.value >= SMALL and claims.hold(GAIN):
        return Recommendation("synib", "SynIB is better than the same estimator without its penalty.")
    if synergy == "present" and plain_fusion.value > 0 and claims.hold(LEARNS):
        return Recommendation("vanilla", "Plain fusion learns the synergy, and SynIB is not shown to improve on it.")
    if synergy == "absent" and claims.hold(POOLING):
        return Recommendation(
            "additive", "The modalities' separate predictions add up, and no interaction was detected."
        )
    if synergy == "absent" and claims.hold(NO_POOLING):
        return Recommendation(f"unimodal-{single}", f"{single} alone is as good as all modalities together.")
    return Recommendation("auto", "The evidence does not favour one model; choose by cross-validated log-loss.")


def _points(size: float, metric: str) -> str:
    return f"{100 * size:.0f} % of the variance" if metric == "explained variance" else f"{100 * size:.1f} points"


def _listed(items: list[str], word: str) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} {word} {items[-1]}"
