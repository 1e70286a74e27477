"""The paper's loss, in parts that combine freely: family, reference, weight, mask and noise."""

from synib.objective.base import Batch, Objective, Parts
from synib.objective.families import Bernoulli, Categorical, Family, Gaussian
from synib.objective.fusible import Fusible
from synib.objective.penalised import Annealing, Constant, LinearWarmup, Penalised
from synib.objective.references import Fixed, Prior, Reference, Uniform, Unimodal
from synib.objective.synib import SynIB

__all__ = [
    "Annealing",
    "Batch",
    "Bernoulli",
    "Categorical",
    "Constant",
    "Family",
    "Fixed",
    "Fusible",
    "Gaussian",
    "LinearWarmup",
    "Objective",
    "Parts",
    "Penalised",
    "Prior",
    "Reference",
    "SynIB",
    "Uniform",
    "Unimodal",
]
