"""What the data hold, what a model uses, and where its gradient goes: one call each, on any model."""

from synib.measure.additive import Emap, emap
from synib.measure.calibration import Calibration, Scores, calibration, scores, temperature
from synib.measure.corruption import CorruptionScores, Usage, Use, scores_under_corruption, usage
from synib.measure.detect import detectability
from synib.measure.estimate import Estimate, bootstrap, interval, statistics
from synib.measure.gain import InteractionGain, interaction_gain
from synib.measure.metrics import accuracies, correct, group_losses
from synib.measure.ntk import NTK, ntk
from synib.measure.pid import PID, PIDEstimate, broja, pid_neural, pid_quantised
from synib.measure.products import product_gain
from synib.measure.ranking import auc, best_shift, f1_by_class
from synib.measure.shapley import Interaction, interaction
from synib.measure.subset import (
    Agreement,
    AgreementTable,
    SynergySubset,
    agreement_table,
    shuffle_within_class,
    synergy_subset,
)

__all__ = [
    "NTK",
    "PID",
    "Agreement",
    "AgreementTable",
    "Calibration",
    "CorruptionScores",
    "Emap",
    "Estimate",
    "Interaction",
    "InteractionGain",
    "PIDEstimate",
    "Scores",
    "SynergySubset",
    "Usage",
    "Use",
    "accuracies",
    "agreement_table",
    "auc",
    "best_shift",
    "bootstrap",
    "broja",
    "calibration",
    "correct",
    "detectability",
    "emap",
    "f1_by_class",
    "group_losses",
    "interaction",
    "interaction_gain",
    "interval",
    "ntk",
    "pid_neural",
    "pid_quantised",
    "product_gain",
    "scores",
    "scores_under_corruption",
    "shuffle_within_class",
    "statistics",
    "synergy_subset",
    "temperature",
    "usage",
]
