"""Masks, which select the coordinates to corrupt, and the noise that replaces them."""

from synib.masks.amortized import AmortizedMask
from synib.masks.base import Mask, Probe, RandomMask
from synib.masks.learned import LearnedMask
from synib.masks.matched import MatchedNoise
from synib.masks.noise import HideTokens, Noise, StandardNoise, ZeroNoise
from synib.masks.oracle import OracleMask
from synib.masks.shuffled import ClassShuffledNoise, ShuffledNoise

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
    "ZeroNoise",
]
