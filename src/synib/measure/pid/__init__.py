"""What two modalities tell about a target: together, each alone, and only in combination."""

from synib.measure.pid.broja import broja
from synib.measure.pid.decomposition import PID, PIDEstimate
from synib.measure.pid.neural import pid_neural
from synib.measure.pid.quantised import pid_quantised

__all__ = ["PID", "PIDEstimate", "broja", "pid_neural", "pid_quantised"]
