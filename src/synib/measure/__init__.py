"""Measures of the information in data, of a model's use of its modalities, and of its gradients, for any model."""

from synib.measure.agreement_table import Agreement, AgreementTable, agreement_table
from synib.measure.auc import auc
from synib.measure.calibration import Calibration, calibration
from synib.measure.detectability import detectability
from synib.measure.emap import Emap, emap
from synib.measure.f1 import best_shift, f1_by_class
from synib.measure.interaction import Interaction, interaction
from synib.measure.interaction_gain import InteractionGain, interaction_gain
from synib.measure.metrics import accuracies, correct, group_losses
from synib.measure.ntk import NTK, ntk
from synib.measure.pid import PID, PIDEstimate, broja, pid_neural, pid_quantised
from synib.measure.product_gain import product_gain
from synib.measure.scores import Scores, scores
from synib.measure.scores_under_corruption import CorruptionScores, scores_under_corruption
from synib.measure.shuffle_within_class import shuffle_within_class
from synib.measure.stats import Estimate, bootstrap, interval, statistics, temperature
from synib.measure.synergy_subset import SynergySubset, synergy_subset
from synib.measure.usage import Usage, Use, usage

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
