"""Training methods, one file each."""

import difflib
import inspect
from collections.abc import Callable
from typing import Any

from synib.checks import check_choice, parameters_of, shown
from synib.methods.additive import Additive
from synib.methods.agm import AGM
from synib.methods.confidence import Confidence
from synib.methods.debiased import Debiased, learned_mixin, product_of_experts
from synib.methods.dnr import DnR
from synib.methods.ensemble import Ensemble
from synib.methods.experts import Experts, experts, stacked
from synib.methods.gradient_blending import GradientBlending
from synib.methods.jtt import JTT
from synib.methods.masked_input import MaskedInput, masked_oracle, masked_random
from synib.methods.mcr import MCR
from synib.methods.mmpareto import MMPareto
from synib.methods.modality_dropout import ModalityDropout, modality_dropout
from synib.methods.ogm import OGM
from synib.methods.on_latents import OnLatents
from synib.methods.reconboost import ReconBoost
from synib.methods.synib import synib_amortized, synib_learned, synib_marginal, synib_oracle, synib_random
from synib.methods.unimodal import UnimodalModel
from synib.methods.vanilla import Vanilla
from synib.objective import Annealing, LinearWarmup, Objective, Reference, SynIB, Uniform, Unimodal

METHODS: dict[str, Callable[..., Objective]] = {
    "unimodal": UnimodalModel,
    "ensemble": Ensemble,
    "additive": Additive,
    "vanilla": Vanilla,
    "confidence": Confidence,
    "masked-random": masked_random,
    "masked-oracle": masked_oracle,
    "modality-dropout": modality_dropout,
    "synib-random": synib_random,
    "synib-learned": synib_learned,
    "synib-amortized": synib_amortized,
    "synib-marginal": synib_marginal,
    "synib-oracle": synib_oracle,
    "experts": experts,
    "stacked": stacked,
    "dnr": DnR,
    "mmpareto": MMPareto,
    "reconboost": ReconBoost,
    "mcr": MCR,
    "ogm": OGM,
    "agm": AGM,
    "gradient-blending": GradientBlending,
    "product-of-experts": product_of_experts,
    "learned-mixin": learned_mixin,
    "jtt": JTT,
}
PARTS = ("mask", "noise")  # which a method's function makes from its own settings
SCHEDULES: dict[str, type[Annealing] | type[LinearWarmup]] = {"warmup": LinearWarmup, "anneal": Annealing}
SCHEDULED = {"modality-dropout": "p"}  # what a schedule changes; of all other methods the weight
REFERENCES: dict[str, type[Reference]] = {"uniform": Uniform, "unimodal": Unimodal}
UNIMODAL = "unimodal-"  # and the modality's name: unimodal-image is unimodal with modality="image"


def build(name: str, **settings: Any) -> Objective:
    """Construct a method by its name, with settings as written in a file.

    Some settings are names of objects: ``weight_schedule`` (``"warmup"`` or ``"anneal"``) over ``weight_steps`` steps
    (it changes the probability in modality dropout; an annealed weight ends at ``weight_floor``, by default 0),
    ``reference`` (``"uniform"`` or ``"unimodal"``), and for SynIB ``space="latents"``, which applies masks to latents.
    """
    check_method(name)
    settings = _with_objects(name, settings)
    space = settings.pop("space", "inputs")
    unimodal = {"modality": name.removeprefix(UNIMODAL)} if name.startswith(UNIMODAL) else {}
    make = UnimodalModel if unimodal else METHODS[name]
    takes = {setting: needed for setting, needed in settings_of(make).items() if setting not in unimodal}
    unknown = [setting for setting in settings if setting not in takes]
    missing = [setting for setting, needed in takes.items() if needed and setting not in settings]
    if unknown or missing:
        wrong = f"has no setting {unknown[0]!r}" if unknown else f"needs the setting {missing[0]!r}"
        raise ValueError(f"{name} {wrong}; its settings are {', '.join(takes)}.")
    method = make(**unimodal, **settings)
    if space == "inputs":
        return method
    if space == "latents" and isinstance(method, Experts) and isinstance(method.synergy, SynIB):
        return Experts(OnLatents(method.synergy), method.l2)
    if space == "latents" and isinstance(method, SynIB):
        return OnLatents(method)
    raise ValueError(f"space must be 'inputs', or 'latents' for a SynIB method; got {shown(space)} for {name}.")


def _with_objects(name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Settings with names replaced by objects: a schedule of the weight, a reference."""
    settings = dict(settings)
    if settings.keys() & {"weight_schedule", "weight_steps", "weight_floor"}:
        schedule, steps = settings.pop("weight_schedule", None), settings.pop("weight_steps", None)
        if not isinstance(schedule, str) or schedule not in SCHEDULES or steps is None:
            raise ValueError(
                f"weight_schedule must be one of {', '.join(SCHEDULES)}, with weight_steps; got {shown(schedule)} "
                f"and {shown(steps)}."
            )
        changing = SCHEDULED.get(name, "weight")
        if changing not in settings:
            raise ValueError(f"A schedule for {name} needs the setting {changing} that it changes.")
        floor = {"floor": settings.pop("weight_floor")} if "weight_floor" in settings else {}
        if floor and SCHEDULES[schedule] is not Annealing:
            raise ValueError(f"weight_floor needs the weight_schedule 'anneal'; got {shown(schedule)}.")
        settings[changing] = SCHEDULES[schedule](settings[changing], steps, **floor)
    if isinstance(reference := settings.get("reference"), str):
        settings["reference"] = REFERENCES[check_choice("reference", reference, REFERENCES)]()
    return settings


def settings_of(make: Callable[..., Any]) -> dict[str, bool]:
    """The settings of a method, including those that it passes on, and whether each is required."""
    if isinstance(make, type):
        return {name: p.default is p.empty for name, p in parameters_of(make).items()}
    own = {p.name: p.default is p.empty for p in inspect.signature(make).parameters.values() if p.kind != p.VAR_KEYWORD}
    # A function passes the rest on to what it makes, whose parts it has made itself.
    passed_to: dict[Any, Any] = {experts: synib_marginal, stacked: Vanilla}
    onto = passed_to.get(make) or inspect.signature(make).return_annotation
    return own | {name: needed for name, needed in settings_of(onto).items() if name not in (*PARTS, *own)}


def check_method(name: str) -> str:
    """Return the name of a method; an unknown name raises ``ValueError`` with similar names."""
    if not isinstance(name, str):
        raise ValueError(f"A method must be given by its name, such as 'vanilla'; got {shown(name)}.")
    if name not in METHODS and not (name.startswith(UNIMODAL) and name != UNIMODAL):
        close = difflib.get_close_matches(name, METHODS, n=3)
        hint = f"did you mean {' or '.join(map(repr, close))}?" if close else f"choose from {', '.join(METHODS)}."
        raise ValueError(f"Unknown method {name!r}: {hint}")
    return name


__all__ = [
    "AGM",
    "JTT",
    "MCR",
    "METHODS",
    "OGM",
    "Additive",
    "Confidence",
    "Debiased",
    "DnR",
    "Ensemble",
    "Experts",
    "GradientBlending",
    "MMPareto",
    "MaskedInput",
    "ModalityDropout",
    "OnLatents",
    "ReconBoost",
    "UnimodalModel",
    "Vanilla",
    "build",
    "check_method",
]
