"""The decision: is there synergy, is there none of a stated size, or is the evidence inconclusive?"""

from collections.abc import Mapping
from typing import Literal

from synib.own.evidence import Evidence

Answer = Literal["present", "absent", "unclear"]
SMALL = 0.02  # of the metric: a smaller gain is not relevant
LARGEST = 0.2  # of the metric: if only larger interactions would be detected, the audit is inconclusive


def decide(evidence: Evidence, detectable: Mapping[str, float | None]) -> Answer:
    """Decide whether synergy is present, absent or unclear.

    *Present*: some candidate gains over the additive model in log-likelihood, at a level corrected for the number of
    candidates, and by a point or more in the metric. Log-likelihood alone does not suffice: of two models with the same
    information, one can be better calibrated.

    *Absent*: simulated interactions of every kind would have been detected with 80 % power at a stated size of at most
    20 points, and for every candidate the interval excludes a gain of that size.

    *Unclear*: otherwise.

    Args:
        evidence: The gains of all candidates.
        detectable: Kind of interaction → the smallest size detected with 80 % power; ``None`` if 40 points are not enough.
    """
    if any(candidate.sure for candidate in evidence.candidates.values()):
        return "present"
    size = stated_size(detectable)
    if size is None or size > LARGEST:
        return "unclear"
    return "absent" if all(c.bound.high < size for c in evidence.candidates.values()) else "unclear"


def stated_size(detectable: Mapping[str, float | None]) -> float | None:
    """The size at which every simulated kind of interaction would have been detected; ``None`` if there is no such size."""
    if not detectable or None in detectable.values():
        return None
    return max(SMALL, *(size for size in detectable.values() if size is not None))
