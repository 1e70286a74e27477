"""One file for each figure or table."""

from synib.experiments.affect import AffectMOSI, AffectMUStARD, AffectURFunny
from synib.experiments.base import Experiment
from synib.experiments.calibration import Calibration
from synib.experiments.compare import ComparePID, CompareXOR
from synib.experiments.digits import DigitsPlenty, DigitsScarce
from synib.experiments.forms import Forms
from synib.experiments.hateful_memes import HatefulMemes
from synib.experiments.irony import IronyRates
from synib.experiments.learned_masks import LearnedMasks
from synib.experiments.ntk import GradientGeometry
from synib.experiments.parity import Parity
from synib.experiments.pid_dynamics import PIDDynamics
from synib.experiments.pid_simplex import PIDSimplex
from synib.experiments.run import load, run
from synib.experiments.search import Search
from synib.experiments.spurious_xor import SpuriousXOR

EXPERIMENTS: dict[str, type[Experiment]] = {
    kind.name: kind
    for kind in (
        SpuriousXOR,
        Parity,
        PIDSimplex,
        PIDDynamics,
        LearnedMasks,
        GradientGeometry,
        Calibration,
        CompareXOR,
        ComparePID,
        DigitsScarce,
        DigitsPlenty,
        IronyRates,
        Forms,
        AffectMOSI,
        AffectMUStARD,
        AffectURFunny,
        HatefulMemes,
        Search,
    )
}

__all__ = [
    "EXPERIMENTS",
    "AffectMOSI",
    "AffectMUStARD",
    "AffectURFunny",
    "Calibration",
    "ComparePID",
    "CompareXOR",
    "DigitsPlenty",
    "DigitsScarce",
    "Experiment",
    "Forms",
    "GradientGeometry",
    "HatefulMemes",
    "IronyRates",
    "LearnedMasks",
    "PIDDynamics",
    "PIDSimplex",
    "Parity",
    "Search",
    "SpuriousXOR",
    "load",
    "run",
]
