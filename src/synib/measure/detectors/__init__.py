"""Detectors of interactions between modalities that need no trained fusion model."""

from synib.measure.detectors.compare import Comparison, Detectors, Extension, extend
from synib.measure.detectors.responses import Labels, Number, OneOf, Response

__all__ = ["Comparison", "Detectors", "Extension", "Labels", "Number", "OneOf", "Response", "extend"]
