"""Encoders, heads and fusion. Models that use transformers import that package on construction."""

from synib.models.affect import affect_model
from synib.models.attention import attention_model
from synib.models.cached import cache_features
from synib.models.fusion import ConcatFusion, FusionModel, pid_xor_model, spurious_xor_model
from synib.models.lora import add_lora
from synib.models.memes import memes_model
from synib.models.mlp import Dropout, OptionalEncoder, mlp
from synib.models.resnet import resnet_model

__all__ = [
    "ConcatFusion",
    "Dropout",
    "FusionModel",
    "OptionalEncoder",
    "add_lora",
    "affect_model",
    "attention_model",
    "cache_features",
    "memes_model",
    "mlp",
    "pid_xor_model",
    "resnet_model",
    "spurious_xor_model",
]
