"""Validation of an experiment's options and of changed settings."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from synib.checks import check_choice
from synib.methods import check_method
from synib.training.plan import DEFAULTS

# Settings of a cell that are not the method's.
OF_TRAINING = ("lr", "weight_decay", "epochs", "batch_size", "data", *DEFAULTS)


def checked_options(experiment: Any) -> dict[str, Any]:
    """The options of an experiment; raises ``ValueError`` if one has another type than its default, or is out of range."""
    hints = get_type_hints(type(experiment))
    options = {f.name: getattr(experiment, f.name) for f in fields(experiment)}
    for f in fields(experiment):
        hint, value = hints[f.name], options[f.name]
        _check(experiment.name, f, hint, value)
        if float in get_args(hint):  # 1 and 1.0 are one cell, with one id
            options[f.name] = tuple(float(v) for v in value)
    return options


def check_methods(experiment: str, methods: Iterable[str], settings: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` for a method without settings in the experiment."""
    for method in methods:
        if check_method(method) not in settings:
            raise ValueError(f"{experiment} has no settings for {method!r}; choose from {', '.join(settings)}.")


def check_overrides(experiment: Any, method: str, changes: Any, defaults: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` for a changed setting that is invalid or has no effect; a method validates its own settings.

    Args:
        experiment: The experiment whose settings are changed.
        method: The method of the settings.
        changes: The changed settings.
        defaults: The settings of the method without the changes.
    """
    if not isinstance(changes, Mapping):
        raise ValueError(
            f"overrides of {experiment.name} must have the form {{'{method}': {{'lr': 0.01}}}}; got {changes!r}."
        )
    options = {f.name for f in fields(experiment)}
    for name, value in changes.items():
        number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if name == "lr" and not (number and value > 0):
            raise ValueError(f"{method}.lr must be a number above 0; got {value!r}.")
        if name == "weight_decay" and not (number and value >= 0):
            raise ValueError(f"{method}.weight_decay must be a number of at least 0; got {value!r}.")
        of_method = name in defaults and name not in OF_TRAINING  # an option and a method's setting may share a name
        if name in options and not of_method:
            raise ValueError(
                f"{name} is the same for all methods: change the option {name} of {experiment.name}, not {method}.{name}."
            )
        if name in ("batch_size", "epochs") and not (isinstance(value, int) and number and value >= 1):
            raise ValueError(f"{method}.{name} must be a whole number of at least 1; got {value!r}.")
        if name in ("data", "family"):
            raise ValueError(f"{name} is determined by the experiment and is not a setting of {method}.")


def _check(experiment: str, f: Field[Any], hint: Any, value: Any) -> None:
    default = f.default if f.default is not MISSING else {}
    if not _like(value, default):
        raise ValueError(f"{f.name} of {experiment} must have the form {default!r}; got {value!r}.")
    choices = get_args(hint)
    if get_origin(hint) is Literal:
        check_choice(f.name, value, hint)
    among = f.metadata.get("among")
    if among and (others := [item for item in (value if isinstance(value, tuple) else (value,)) if item not in among]):
        raise ValueError(f"{f.name} must be one of {', '.join(map(str, among))}; got {others[0]!r}.")
    if hint is int and isinstance(default, int) and value < (least := min(1, default)):
        raise ValueError(f"{f.name} must be at least {least}; got {value}.")
    if choices[-1:] == (...,):
        if not value:
            raise ValueError(f"{f.name} must have at least one value; got none.")
        if len(set(value)) < len(value):  # the same model twice would count as two seeds
            raise ValueError(f"{f.name} must not repeat a value; got {list(value)}.")


def _like(value: Any, default: Any) -> bool:
    """Whether a value has the type of an option's default."""
    if isinstance(default, tuple):
        return isinstance(value, tuple) and all(_like(v, default[0] if default else "") for v in value)
    types = (int, float) if isinstance(default, float) else (type(default),)
    return type(value) in types
