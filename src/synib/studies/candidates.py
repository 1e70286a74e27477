"""The candidates of a search for each method: three values of the method-specific setting."""

from collections.abc import Iterable, Sequence

Values = Sequence[float]


def own_values(
    modalities: Iterable[str],
    *,
    weight: Values = (0.3, 1.0, 3.0),
    experts_weight: Values = (1.0, 3.0, 10.0),
    p: Values = (0.3, 0.5, 0.7),
    weight_decay: Values = (1e-5, 1e-4, 1e-3),
    oracle: bool = False,
) -> dict[str, dict[str, Values]]:
    """Method → its specific setting → the values to try. Methods without one vary the weight decay.

    Args:
        modalities: The modalities, each with a unimodal model.
        weight: Values for the confidence penalty and SynIB's term.
        experts_weight: Values for the term of the experts.
        p: Fraction of an input that is masked.
        weight_decay: Values for methods without a specific setting.
        oracle: Whether to include the methods with oracle masks.
    """
    decay = {"weight_decay": weight_decay}
    values = {f"unimodal-{modality}": decay for modality in modalities} | {
        "ensemble": decay,
        "vanilla": decay,
        "masked-random": {"p": p},
        "masked-oracle": decay,
        "confidence": {"weight": weight},
        "ogm": {"alpha": (0.1, 0.3, 1.0)},
        "agm": {"alpha": (0.3, 1.0, 3.0)},
        "dnr": {"strength": (1.0, 3.0, 10.0)},
        "mmpareto": {"unimodal_weight": (1.0, 0.3, 0.1)},  # not its scale: Adam cancels a constant factor
        "reconboost": {"reconcile": (0.1, 0.3, 1.0)},
        "mcr": {"game": (0.01, 0.1, 1.0)},
        "synib-random": {"weight": weight},
        "synib-learned": {"weight": weight},
        "synib-marginal": {"weight": weight},
        "synib-oracle": {"weight": weight},
        "experts": {"weight": experts_weight},
    }
    return {method: own for method, own in values.items() if oracle or not method.endswith("-oracle")}
