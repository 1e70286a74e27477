"""SynIB as named methods whose settings can be written in a file."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from synib.checks import check_choice
from synib.masks import (
    AmortizedMask,
    ClassShuffledNoise,
    HideTokens,
    LearnedMask,
    Mask,
    MatchedNoise,
    Noise,
    OracleMask,
    RandomMask,
    ShuffledNoise,
    StandardNoise,
    ZeroNoise,
)
from synib.masks.base import Over
from synib.objective import SynIB

NOISES: dict[str, type[Noise]] = {
    "standard": StandardNoise,
    "matched": MatchedNoise,
    "shuffled": ShuffledNoise,
    "class-shuffled": ClassShuffledNoise,
    "zeros": ZeroNoise,
    "hidden": HideTokens,
}
NoiseName = Literal["standard", "matched", "shuffled", "class-shuffled", "zeros", "hidden"]


def synib_random(*, p: float, noise: NoiseName = "standard", over: Over = "coordinates", **settings: Any) -> SynIB:
    """SynIB with random masks: each coordinate, or each token, corrupted with probability ``p``."""
    return _synib(RandomMask(p, over), noise, settings)


def synib_oracle(
    *,
    coordinates: Mapping[str, Sequence[int]],
    only: Sequence[bool] | None = None,
    noise: NoiseName = "standard",
    **settings: Any,
) -> SynIB:
    """SynIB with oracle masks: ``coordinates`` that are known to be synergistic, in all examples or ``only`` in some."""
    return _synib(OracleMask(coordinates, only), noise, settings)


def synib_learned(
    *,
    steps: int,
    mask_lr: float,
    sparsity: float,
    norm: Literal["sum", "mean"] = "sum",
    init: float = 0.0,
    noise: NoiseName = "standard",
    over: Over = "coordinates",
    whole_share: float = 0.0,
    **settings: Any,
) -> SynIB:
    """SynIB with masks over coordinates or tokens, searched for each example against the unimodal heads."""
    mask = LearnedMask(
        steps=steps, lr=mask_lr, sparsity=sparsity, norm=norm, init=init, over=over, whole_share=whole_share
    )
    return _synib(mask, noise, settings)


def synib_amortized(
    *, widths: Mapping[str, int], sparsity: float, hidden: int = 64, noise: NoiseName = "standard", **settings: Any
) -> SynIB:
    """SynIB with masks proposed by a small network that is trained together with the model."""
    return _synib(AmortizedMask(widths, hidden=hidden, sparsity=sparsity), noise, settings)


def synib_marginal(*, draws: int, debias: bool = False, **settings: Any) -> SynIB:
    """SynIB that marginalises a modality out: swaps whole modalities between examples and averages predictions over draws."""
    return _synib(RandomMask(1.0), "shuffled", settings | {"draws": draws, "debias": debias})


def _synib(mask: Mask, noise: str, settings: dict[str, Any]) -> SynIB:
    return SynIB(mask, make_noise(noise), **{"weight": 1.0, "draws": 1, **settings})


def make_noise(name: str) -> Noise:
    """The noise of that name."""
    return NOISES[check_choice("noise", name, NOISES)]()
