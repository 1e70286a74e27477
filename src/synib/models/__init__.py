"""Encoders, heads and fusion."""

from synib.models.fusion import ConcatFusion, FusionModel
from synib.models.mlp import Dropout, mlp
from synib.models.paper import pid_xor_model, spurious_xor_model

__all__ = ["ConcatFusion", "Dropout", "FusionModel", "mlp", "pid_xor_model", "spurious_xor_model"]
