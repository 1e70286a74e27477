"""What a training step costs, in steps of plain fusion; only progress bars ask."""

from synib.masks import LearnedMask
from synib.methods import AGM, MCR, OGM, Experts, MMPareto, OnLatents, UnimodalModel
from synib.objective import Objective, SynIB

COSTS: dict[type[Objective], float] = {UnimodalModel: 0.5, OGM: 1.5, MMPareto: 2.0, AGM: 2.2, MCR: 2.7}


def cost(method: Objective) -> float:
    """Roughly what a step of a method costs, in steps of plain fusion (``benchmarks/method_cost.py`` measures it)."""
    if isinstance(method, Experts):
        return cost(method.synergy) + 1.0
    if isinstance(method, OnLatents):
        return cost(method.objective)
    if isinstance(method, SynIB):
        searched = 0.6 * method.mask.steps if isinstance(method.mask, LearnedMask) else 0.0
        return 1.5 + 0.1 * method.draws + searched
    return COSTS.get(type(method), 1.0)
