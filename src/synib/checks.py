"""Validation of arguments: a wrong type or value raises ``ValueError`` with one sentence.

Every check returns the value that it was given, so that a constructor reads ``self.p = check_number("p", p, least=0,
most=1)``.
"""

import inspect
import math
import warnings
from collections.abc import Mapping
from numbers import Integral, Real
from types import FunctionType
from typing import Any, TypeVar, cast, get_args
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

T = TypeVar("T")
_MODULES = nn.ModuleDict()
_WARNED: "WeakKeyDictionary[nn.Module, set[str]]" = WeakKeyDictionary()


def shown(value: object) -> str:
    """The value as quoted in an error message: short, on one line, a class or a function by its name."""
    if isinstance(value, type | FunctionType):
        return f"the {'class' if isinstance(value, type) else 'function'} {value.__name__}"
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def check_kind(name: str, value: object, kind: type[T], example: str) -> T:
    """Return the value if it is an instance of ``kind``; ``example`` shows how a user would write one."""
    if isinstance(value, kind):
        return value
    way = f": write {value.__name__}(...)" if isinstance(value, type) and issubclass(value, kind) else ""
    an = "an" if kind.__name__[0] in "AEIOU" else "a"
    raise ValueError(f"{name} must be {an} {kind.__name__} such as {example}; got {shown(value)}{way}.")


def is_number(value: object) -> bool:
    """Whether the value is a finite real number (Python or NumPy); booleans do not count."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def is_whole(value: object) -> bool:
    """Whether the value is an integer (Python or NumPy); booleans do not count."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_number(
    name: str,
    value: Any,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
) -> float:
    """Return the value if it is a finite number within its bounds; ``least`` and ``most`` are inclusive."""
    right = (
        is_number(value)
        and (least is None or value >= least)
        and (above is None or value > above)
        and (most is None or value <= most)
        and (below is None or value < below)
    )
    if right:
        return cast(float, value)
    if least is not None and most is not None:
        expected = f"must be between {least:g} and {most:g}"
    else:
        bounds = (("of at least", least), ("above", above), ("of at most", most), ("below", below))
        stated = " and ".join(f"{word} {bound:g}" for word, bound in bounds if bound is not None)
        expected = f"must be a number {stated}".rstrip()
    raise ValueError(f"{name} {expected}; got {shown(value)}.")


def check_whole(name: str, value: Any, least: int | None = 1) -> int:
    """Return the value if it is a whole number of at least ``least`` (any whole number if ``None``)."""
    if is_whole(value) and (least is None or value >= least):
        return cast(int, value)
    bound = "" if least is None else f" of at least {least}"
    raise ValueError(f"{name} must be a whole number{bound}; got {shown(value)}.")


def check_flag(name: str, value: Any, *, none: bool = False) -> Any:
    """Return the value if it is a boolean, or ``None`` where that is allowed."""
    if isinstance(value, bool) or (none and value is None):
        return value
    raise ValueError(f"{name} must be {'True, False or None' if none else 'True or False'}; got {shown(value)}.")


def check_choice(name: str, value: T, choices: Any) -> T:
    """Return the value if it is one of the choices, given as a ``Literal`` or as a list of strings."""
    known = get_args(choices) or tuple(choices)
    if value in known:
        return value
    *others, last = map(repr, known)
    raise ValueError(f"{name} must be {', '.join(others)}{' or ' * bool(others)}{last}; got {shown(value)}.")


def check_tensor(name: str, value: Any) -> Tensor:
    """Return the value if it is a tensor."""
    if isinstance(value, Tensor):
        return value
    way = "" if value is None or isinstance(value, type) else f": convert it with torch.as_tensor({name.split()[-1]})"
    raise ValueError(f"{name} must be a tensor; got {_class(value)}{way}.")


def check_modality(name: Any, *, module: bool = False) -> str:
    """Return the name of a modality if it is valid, for a ``module`` also as a key of ``ModuleDict``."""
    if not isinstance(name, str) or not name or "." in name:
        raise ValueError(f"The name of a modality must be a string without a dot; got {name!r}.")
    if module and hasattr(_MODULES, name):
        raise ValueError(
            f"A modality cannot be called {name!r}, because torch modules reserve that name: choose another one."
        )
    return name


def check_widths(name: str, value: Any, *, module: bool = False) -> dict[str, int]:
    """Return the value if it is a dict of modality → width; ``module`` as in :func:`check_modality`."""
    if not isinstance(value, Mapping):
        raise ValueError(
            f"{name} must be a dict of modality → width, such as {{'image': 512, 'text': 300}}; got {shown(value)}."
        )
    return {
        check_modality(of, module=module): check_whole(f"The width of {of!r}", width) for of, width in value.items()
    }


def parameters_of(kind: type) -> dict[str, inspect.Parameter]:
    """The arguments of a class's constructor, including those that it passes on to its base classes by ``**kwargs``."""
    parameters: dict[str, inspect.Parameter] = {}
    for step in (vars(c)["__init__"] for c in kind.__mro__ if "__init__" in vars(c)):
        own = list(inspect.signature(step).parameters.values())[1:]
        parameters |= {
            p.name: p for p in own if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL) and p.name not in parameters
        }
        if all(p.kind != p.VAR_KEYWORD for p in own):
            break
    return parameters


def settings_repr(owner: object) -> str:
    """The arguments of an object that differ from their defaults, as in a call: ``p=0.4, over='tokens'``."""
    listed = []
    for name, parameter in parameters_of(type(owner)).items():
        value = getattr(owner, name, parameter.default)
        if isinstance(value, Tensor):
            value = [round(v, 6) for v in value.tolist()] if value.ndim else round(value.item(), 6)
        if not isinstance(value, nn.Module) and value != parameter.default:  # modules are shown by themselves
            listed.append(f"{name}={value!r}")
    return ", ".join(listed)


def warn_once(owner: nn.Module, sentence: str, stacklevel: int) -> None:
    """Issue a warning about a module, at most once for each sentence."""
    sentences = _WARNED.setdefault(owner, set())
    if sentence not in sentences and not torch.compiler.is_compiling():
        sentences.add(sentence)
        warnings.warn(sentence, stacklevel=stacklevel + 1)


def _class(value: object) -> str:
    return shown(value) if isinstance(value, type) else type(value).__name__
