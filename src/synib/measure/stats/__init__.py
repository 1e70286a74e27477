"""Every rule of statistics in the package, once: intervals, folds, null distributions, scaling, temperature."""

from synib.measure.stats.folds import assign, assign_groups, check_folds, deal, group_numbers, halves
from synib.measure.stats.intervals import (
    Estimate,
    above_zero,
    bootstrap,
    check_resampling,
    difference,
    interval,
    mean,
    proportion,
    ratio,
    statistics,
    unknown,
    widen,
)
from synib.measure.stats.nulls import p_value, permutations
from synib.measure.stats.scaling import Scale, standardisation, standardised
from synib.measure.stats.temperature import temperature, tempered

__all__ = [
    "Estimate",
    "Scale",
    "above_zero",
    "assign",
    "assign_groups",
    "bootstrap",
    "check_folds",
    "check_resampling",
    "deal",
    "difference",
    "group_numbers",
    "halves",
    "interval",
    "mean",
    "p_value",
    "permutations",
    "proportion",
    "ratio",
    "standardisation",
    "standardised",
    "statistics",
    "temperature",
    "tempered",
    "unknown",
    "widen",
]
