"""Every method with equal means: schedules, fills, searches and ceilings, on five tasks."""
