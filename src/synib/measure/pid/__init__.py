"""Partial information decomposition: the redundant, unique and synergistic information of two modalities about a target."""

from synib.measure.pid.broja import broja
from synib.measure.pid.decomposition import PID, PIDEstimate
from synib.measure.pid.neural import pid_neural
from synib.measure.pid.quantised import pid_quantised

__all__ = ["PID", "PIDEstimate", "broja", "pid_neural", "pid_quantised"]
