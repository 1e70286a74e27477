"""The loss of the paper, in parts that combine freely: family, reference, weight, mask and noise."""

from synib.objective.base import Batch, Objective, Parts
from synib.objective.families import Bernoulli, Categorical, Family, MultiLabel
from synib.objective.gaussian import Gaussian
from synib.objective.model import BlackBoxModel, MultimodalModel
from synib.objective.penalised import Annealing, Constant, LinearWarmup, Penalised, Scheduled
from synib.objective.references import Fixed, Prior, Reference, Uniform, Unimodal
from synib.objective.synib import SynIB

__all__ = [
    "Annealing",
    "Batch",
    "Bernoulli",
    "BlackBoxModel",
    "Categorical",
    "Constant",
    "Family",
    "Fixed",
    "Gaussian",
    "LinearWarmup",
    "MultiLabel",
    "MultimodalModel",
    "Objective",
    "Parts",
    "Penalised",
    "Prior",
    "Reference",
    "Scheduled",
    "SynIB",
    "Uniform",
    "Unimodal",
]
