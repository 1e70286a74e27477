"""Fair comparison: every method with equal schedules, fills, searches and ceilings, on six tasks."""
