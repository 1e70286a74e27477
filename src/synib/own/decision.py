"""The decision: is there synergy, is there none, or is the evidence inconclusive?"""

from typing import Literal

from synib.measure.stats import Estimate, above_zero

Answer = Literal["present", "absent", "unclear"]
SMALL = 0.02  # of accuracy (or of explained variance): a smaller gain is none worth having


def decide(evidence: Estimate, lead: Estimate, tried: int) -> Answer:
    """Present where both log-likelihood and accuracy show a gain; absent where accuracy rules out more than a small one.

    Log-likelihood alone does not suffice: of two networks that know the same one can be more confident where it is right.

    Args:
        evidence: The gain of the fusion over the additive combination in log-likelihood.
        lead: The same in accuracy, or in the share of variance explained.
        tried: How many fusions were tried, of which this is the best; the threshold is corrected for so many comparisons.
    """
    if above_zero(evidence, tried) and lead.low > 0:
        return "present"
    return "absent" if lead.high < SMALL else "unclear"
