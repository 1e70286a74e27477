"""What a search tries for each method: three values of the method's own setting."""

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
    """Method → its own setting → the values to try. Methods that have none of their own try the weight decay.

    Args:
        modalities: Each has a unimodal model.
        weight: Of the confidence penalty and of SynIB's term.
        experts_weight: Of the experts' term.
        p: How much of an input is masked.
        weight_decay: Of methods without a setting of their own.
        oracle: Whether the oracles of masks are among the methods.
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
