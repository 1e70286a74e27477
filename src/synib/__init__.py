"""synib: make multimodal models use what only the modalities together say."""

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
)
from synib.methods import Confidence, OnLatents, Vanilla
from synib.models import FusionModel
from synib.objective import (
    Annealing,
    Bernoulli,
    BlackBoxModel,
    Categorical,
    Fixed,
    Gaussian,
    LinearWarmup,
    MultiLabel,
    Prior,
    SynIB,
    Uniform,
    Unimodal,
)
from synib.tokens import Tokens

__version__ = "0.1.0"

__all__ = [
    "AmortizedMask",
    "Annealing",
    "Bernoulli",
    "BlackBoxModel",
    "Categorical",
    "ClassShuffledNoise",
    "Confidence",
    "Fixed",
    "FusionModel",
    "Gaussian",
    "HideTokens",
    "LearnedMask",
    "LinearWarmup",
    "Mask",
    "MatchedNoise",
    "MultiLabel",
    "Noise",
    "OnLatents",
    "OracleMask",
    "Prior",
    "RandomMask",
    "ShuffledNoise",
    "StandardNoise",
    "SynIB",
    "Tokens",
    "Uniform",
    "Unimodal",
    "Vanilla",
]
