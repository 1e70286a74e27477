"""The experiments of the paper, and those that go beyond it."""

from synib.studies.ablations.experiment import Ablations
from synib.studies.affect.experiment import AffectMOSI, AffectMUStARD, AffectURFunny
from synib.studies.attention.experiment import Attention
from synib.studies.attention.search import AttentionSearch
from synib.studies.base import Experiment
from synib.studies.crema_votes.experiment import CremaVotesEmotion, CremaVotesLevel
from synib.studies.crema_votes.search import CremaVotesSearch
from synib.studies.digits.experiment import DigitsPlenty, DigitsScarce
from synib.studies.fair.experiment import Fair
from synib.studies.fair.recipes import FairRecipes
from synib.studies.fair.search import FairSearch
from synib.studies.forms.experiment import Forms
from synib.studies.hateful_memes.experiment import HatefulMemes
from synib.studies.irony.experiment import IronyRates
from synib.studies.irony.forms_experiment import IronyForms, IronyFormsSearch
from synib.studies.irony.matched_experiment import IronyMatched
from synib.studies.irony.matched_search import MatchedSearch
from synib.studies.irony.voices_experiment import IronyVoices, VoicesSearch
from synib.studies.mask_recovery.experiment import MaskRecovery
from synib.studies.pid_xor.compare import ComparePID
from synib.studies.pid_xor.dynamics import PIDDynamics
from synib.studies.pid_xor.learned_masks import LearnedMasks
from synib.studies.pid_xor.ntk import GradientGeometry
from synib.studies.pid_xor.simplex import PIDSimplex
from synib.studies.run import load, run
from synib.studies.search import Search
from synib.studies.spurious_xor.calibration import Calibration
from synib.studies.spurious_xor.compare import CompareXOR
from synib.studies.spurious_xor.experiment import SpuriousXOR
from synib.studies.spurious_xor.parity import Parity

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
        MatchedSearch,
        IronyMatched,
        IronyFormsSearch,
        IronyForms,
        VoicesSearch,
        IronyVoices,
        CremaVotesSearch,
        CremaVotesEmotion,
        CremaVotesLevel,
        Forms,
        FairRecipes,
        FairSearch,
        Fair,
        AttentionSearch,
        Attention,
        Ablations,
        MaskRecovery,
        AffectMOSI,
        AffectMUStARD,
        AffectURFunny,
        HatefulMemes,
        Search,
    )
}

__all__ = [
    "EXPERIMENTS",
    "Ablations",
    "AffectMOSI",
    "AffectMUStARD",
    "AffectURFunny",
    "Attention",
    "AttentionSearch",
    "Calibration",
    "ComparePID",
    "CompareXOR",
    "CremaVotesEmotion",
    "CremaVotesLevel",
    "CremaVotesSearch",
    "DigitsPlenty",
    "DigitsScarce",
    "Experiment",
    "Fair",
    "FairRecipes",
    "FairSearch",
    "Forms",
    "GradientGeometry",
    "HatefulMemes",
    "IronyForms",
    "IronyFormsSearch",
    "IronyMatched",
    "IronyRates",
    "IronyVoices",
    "LearnedMasks",
    "MaskRecovery",
    "MatchedSearch",
    "PIDDynamics",
    "PIDSimplex",
    "Parity",
    "Search",
    "SpuriousXOR",
    "VoicesSearch",
    "load",
    "run",
]
