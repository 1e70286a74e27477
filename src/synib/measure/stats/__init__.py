"""All statistical procedures of the package: intervals, folds, null distributions, scaling, temperature."""

from synib.measure.stats.folds import assign, assign_groups, check_folds, deal, group_numbers, halves
from synib.measure.stats.intervals import (
    Estimate,
    bootstrap,
    check_resampling,
    cross_validated,
    interval,
    ratio,
    statistics,
    unknown,
    widen,
)
from synib.measure.stats.means import corrected_resampled_t, mean, resampled_p_value
from synib.measure.stats.multiple import Simultaneous, holm, inverted_p_value, simultaneous
from synib.measure.stats.nulls import p_value, permutations
from synib.measure.stats.proportions import difference, proportion
from synib.measure.stats.scaling import Scale, standardisation, standardised
from synib.measure.stats.temperature import temperature, tempered

__all__ = [
    "Estimate",
    "Scale",
    "Simultaneous",
    "assign",
    "assign_groups",
    "bootstrap",
    "check_folds",
    "check_resampling",
    "corrected_resampled_t",
    "cross_validated",
    "deal",
    "difference",
    "group_numbers",
    "halves",
    "holm",
    "interval",
    "inverted_p_value",
    "mean",
    "p_value",
    "permutations",
    "proportion",
    "ratio",
    "resampled_p_value",
    "simultaneous",
    "standardisation",
    "standardised",
    "statistics",
    "temperature",
    "tempered",
    "unknown",
    "widen",
]
