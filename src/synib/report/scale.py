"""The colour scale of triangles and heat maps."""

from collections.abc import Iterable

COLOUR_MAP = "viridis"  # perceptually uniform: readable in grey and for colour-blind readers


def scale_ticks(limits: tuple[float, float], means: Iterable[float | None]) -> tuple[list[float], list[str]]:
    """Ticks of a colour scale and their labels; the labels at the ends show whether there are values beyond.

    Args:
        limits: Ends of the scale.
        means: The values that are shown; ``None`` for missing ones.
    """
    low, high = limits
    values = [mean for mean in means if mean is not None]
    ticks = [low + k * (high - low) / 5 for k in range(6)]
    labels = [f"{tick:.3g}" for tick in ticks]
    if any(value < low for value in values):
        labels[0] = f"≤ {labels[0]}"
    if any(value > high for value in values):
        labels[-1] = f"≥ {labels[-1]}"
    return ticks, labels
