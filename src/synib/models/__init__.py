"""Encoders, heads and fusion."""

from synib.models.fusion import ConcatFusion, FusionModel
from synib.models.mlp import Dropout, mlp

__all__ = ["ConcatFusion", "Dropout", "FusionModel", "mlp"]
