"""The decision: is there synergy, is there none of a stated size, or is the evidence inconclusive?"""

from collections.abc import Mapping
from typing import Literal

from synib.own.evidence import Evidence

Answer = Literal["present", "absent", "unclear"]
SMALL = 0.02  # of the metric: a smaller gain is none worth having
LARGEST = 0.2  # of the metric: where only larger interactions would be found, nothing can be concluded


def decide(evidence: Evidence, detectable: Mapping[str, float | None]) -> Answer:
    """Present, absent or unclear.

    *Present* where some candidate gains over the additive model in log-likelihood, at a level corrected for the number of
    candidates, and by a point or more in the metric. Log-likelihood alone does not suffice: of two models that know
    the same one can be more confident where it is right.

    *Absent* where interactions of every kind that was planted would have been found with 80 % power down to a stated size of at
    most 20 points, and every candidate rules out a lead of that size.

    Args:
        evidence: The gains of all candidates.
        detectable: Kind of interaction → the smallest size found with 80 % power; ``None`` where none up to 40 points is.
    """
    if any(candidate.sure for candidate in evidence.candidates.values()):
        return "present"
    size = stated_size(detectable)
    if size is None or size > LARGEST:
        return "unclear"
    return "absent" if all(c.bound.high < size for c in evidence.candidates.values()) else "unclear"


def stated_size(detectable: Mapping[str, float | None]) -> float | None:
    """The size of interaction that every planted kind would have been found at; ``None`` if some kind would not."""
    if not detectable or None in detectable.values():
        return None
    return max(SMALL, *(size for size in detectable.values() if size is not None))
