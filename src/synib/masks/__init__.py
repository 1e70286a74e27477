"""What to corrupt, and the noise that goes there."""

from synib.masks.base import Mask, Probe, RandomMask
from synib.masks.learned import AmortizedMask, LearnedMask
from synib.masks.noise import ClassShuffledNoise, HideTokens, MatchedNoise, Noise, ShuffledNoise, StandardNoise
from synib.masks.oracle import OracleMask

__all__ = [
    "AmortizedMask",
    "ClassShuffledNoise",
    "HideTokens",
    "LearnedMask",
    "Mask",
    "MatchedNoise",
    "Noise",
    "OracleMask",
    "Probe",
    "RandomMask",
    "ShuffledNoise",
    "StandardNoise",
]
