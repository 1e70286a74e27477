"""A model on disk as JSON and safetensors, written atomically and read without executing any content."""

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

import synib
from synib.checks import check_widths, is_number, is_whole, shown
from synib.files import atomic_file, check_writable
from synib.measure.stats import Scale
from synib.methods.hooks import AddsModules
from synib.own.answers import Answers, Frequencies
from synib.own.budget import Budget
from synib.own.card import card
from synib.own.columns import Array, printable
from synib.own.crossfit import FREQUENCIES
from synib.own.predictor import Predictor
from synib.own.raw.saved import arrays_of, modalities_of, plain_of
from synib.own.recipe import KINDS as TARGETS
from synib.own.recipe import family_of, make_method, make_model
from synib.own.scaling import Scaling
from synib.own.search_space import SECOND
from synib.own.second import SecondModel, groups
from synib.training import Learner

FORMAT = 4
WITHOUT_SECOND = 3  # format of a model without a second model, readable by earlier versions
WITHOUT_RAW = 2  # format of a model without raw modalities either
READ = (1, 2, 3, 4)  # format 1 does not store the kind of target; with classes it is classification
HOTTEST = 1e6  # highest temperature; a fit searches from exp(-5) to exp(5)
LONGEST = 2**26  # bytes of the JSON, at most
BACKGROUND = 1024  # rows of a background, at most
PLAIN, TENSORS, ENCODERS, CARD = "model.json", "model.safetensors", "encoders.safetensors", "README.md"
KINDS: dict[str, type | tuple[type, ...]] = {
    "format": int, "synib": str, "versions": dict, "method": str, "settings": dict, "widths": dict, "classes": list,
    "missing": list, "learned": list, "target": list, "temperature": (int, float), "about": dict, "sha256": str,
}  # fmt: skip


def check_free(folder: Path) -> None:
    """Raise ``ValueError`` if a model must not be written here: the folder has other files, or is not a folder."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"A model is written to a folder, but {folder} is a file; choose another.")
    model_files = (PLAIN, TENSORS, ENCODERS, CARD) if (folder / PLAIN).exists() else (PLAIN, TENSORS)
    others = sorted(p.name for p in folder.iterdir() if p.name not in model_files) if folder.is_dir() else []
    if others:
        raise ValueError(
            f"{folder} holds other files ({', '.join(others[:3])}{', ...' * (len(others) > 3)}); choose an empty folder."
        )
    if (folder / PLAIN).exists():
        _read_plain(folder)  # raises if it is not a model, which is then kept
    elif (folder / TENSORS).exists():
        raise ValueError(
            f"{folder} contains a {TENSORS} but no {PLAIN}, so it is not a synib model and was not changed."
        )
    check_writable(folder)


def save(model: Predictor, folder: Path) -> Path:
    """Write a model, replacing an earlier one; files left by an interruption are refused when the model is loaded."""
    need_safetensors()
    from safetensors.numpy import save as arrays_as_bytes
    from safetensors.torch import save as as_bytes

    check_free(folder)
    if isinstance(model.answers, Frequencies):
        tensors = {"constant": model.answers.constant}
    else:
        tensors = _state("learner", model.answers)
    for name in model.widths:
        tensors[f"mean.{name}"] = torch.from_numpy(model.scaling.columns[name].mean)
        tensors[f"factor.{name}"] = torch.from_numpy(model.scaling.columns[name].factor)
        tensors[f"background.{name}"] = model.background[name]
    if model.second is not None:
        tensors |= _state("second", model.second.answers)
        tensors |= {"weights.second": model.second.weights, "bias.second": model.second.bias}
    content = as_bytes({name: x.detach().cpu().contiguous() for name, x in tensors.items()})
    arrays = arrays_of(model.raw)
    encoders = arrays_as_bytes(arrays) if arrays else b""
    plain = {
        "format": FORMAT if model.second is not None else WITHOUT_SECOND if model.raw else WITHOUT_RAW,
        "synib": synib.__version__,
        "versions": {"torch": torch.__version__, "numpy": np.__version__, "python": platform.python_version()},
        "method": model.method,
        "settings": dict(model.settings),
        "widths": dict(model.widths),
        "classes": list(model.classes),
        "kind": model.kind,
        "missing": list(model.missing),
        "learned": list(model.learned),
        "target": list(model.scaling.target),
        "temperature": model.temperature,
        "bias": list(model.bias),
        "about": dict(model.about),
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    if model.second is not None:
        plain["second"] = dict(model.second.settings)
    if model.raw:
        plain |= {
            "raw": plain_of(model.raw),
            "encoders_sha256": hashlib.sha256(encoders).hexdigest() if encoders else "",
        }
    text = (json.dumps(plain, indent=1, allow_nan=False, ensure_ascii=False) + "\n").encode()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # The JSON has the checksum of the tensors: after an interruption the pair is refused, and may be overwritten.
        for name, written in ((PLAIN, text), (ENCODERS, encoders), (TENSORS, content), (CARD, card(model).encode())):
            if not written:
                (folder / name).unlink(missing_ok=True)  # of an earlier model
                continue
            with atomic_file(folder / name) as file:
                file.write(written)
    except OSError as e:
        raise ValueError(f"Cannot write a model to {folder}: {e.strerror or e}.") from e
    return folder


def load(folder: str | Path) -> Predictor:
    """Load a model from a folder written by :meth:`Predictor.save`.

    Only JSON and safetensors are read; no content is executed.

    Raises:
        ValueError: If the folder is not a synib model, or is damaged.
    """
    need_safetensors()
    from safetensors import SafetensorError
    from safetensors.torch import load as of_bytes

    folder = Path(folder)
    if not folder.is_dir():
        problem = "is a file" if folder.exists() else "does not exist"
        raise ValueError(f"A model must be a folder written by synib fit; {folder} {problem}.")
    plain = _read_plain(folder)
    content = _read_tensors(folder, TENSORS, plain["sha256"])
    try:
        tensors: dict[str, Tensor] = of_bytes(content)
        arrays = _encoder_arrays(folder, plain)
    except (SafetensorError, KeyError, OverflowError) as e:
        raise ValueError(f"{folder / TENSORS} is not a safetensors file: fit the model again.") from e
    try:
        return _built(plain, tensors, arrays)
    except ValueError as e:
        raise ValueError(f"{folder} cannot be used: {e}") from e


def _read_tensors(folder: Path, name: str, sha256: str) -> bytes:
    """The bytes of a file of the model, if they match the checksum in ``model.json``."""
    try:
        if (folder / name).exists() and not (folder / name).is_file():
            raise ValueError(f"{folder / name} is not a file: fit the model again.")
        Budget(folder / name).take(2 * (folder / name).stat().st_size)  # the file, and the tensors
        content = (folder / name).read_bytes()
    except OSError as e:
        raise ValueError(f"{folder} has no readable {name} ({e.strerror}): fit the model again.") from e
    if hashlib.sha256(content).hexdigest() != sha256:
        raise ValueError(f"{folder / name} does not match {PLAIN}, or is damaged: fit the model again.")
    return content


def _encoder_arrays(folder: Path, plain: Mapping[str, Any]) -> dict[str, Array]:
    if not plain.get("encoders_sha256"):
        return {}
    from safetensors.numpy import load as of_bytes

    return dict(of_bytes(_read_tensors(folder, ENCODERS, plain["encoders_sha256"])))


def _built(plain: Mapping[str, Any], tensors: Mapping[str, Tensor], arrays: Mapping[str, Array]) -> Predictor:
    widths = check_widths("widths", plain["widths"], module=True)
    classes = _texts("classes", plain["classes"])
    missing, learned = (_texts(name, plain[name]) for name in ("missing", "learned"))
    kind = plain.get("kind", "classification" if classes else "regression")
    few = len(classes) == 1 and kind != "multilabel"
    if not set(learned) <= set(missing) <= set(widths) or few or len(set(classes)) < len(classes):
        _refuse("the lists of classes, missing and learned modalities contradict each other")
    if kind not in TARGETS or (kind == "regression") != (not classes):
        _refuse(f"the target is {shown(kind)}, with {len(classes)} classes")
    outputs = family_of(kind, classes)[1]
    settings, target = plain["settings"], plain["target"]
    if len(target) != 2 or not all(map(is_number, target)) or not target[1] > 0:
        _refuse(f"target must be a mean and a positive deviation; got {shown(target)}")
    if not is_number(plain["temperature"]) or not 1 / HOTTEST <= plain["temperature"] <= HOTTEST:
        _refuse(f"temperature must be between {1 / HOTTEST:g} and {HOTTEST:g}; got {shown(plain['temperature'])}")
    bias = plain.get("bias", [0.0] * outputs)
    if not isinstance(bias, list) or len(bias) != outputs or not all(map(is_number, bias)):
        _refuse(f"bias must be {outputs} numbers; got {shown(bias)}")
    answers: Answers | Frequencies
    if plain["method"] == FREQUENCIES:
        answers = Frequencies(tuple(widths), torch.zeros(outputs))
        expected, latent_width = {"constant": answers.constant}, outputs
    else:
        answers = _network(plain, widths, missing, kind, tensors)
        expected = {f"learner.{name}": x for name, x in answers.learner.state_dict().items()}
        latent_width = settings["hidden"][-1] + outputs
    for name, width in widths.items():
        expected |= {f"{statistic}.{name}": torch.zeros(width, dtype=torch.float64) for statistic in ("mean", "factor")}
        draws = len(tensors[f"background.{name}"]) if tensors.get(f"background.{name}", torch.empty(0)).ndim == 2 else 1
        if draws > BACKGROUND:  # each costs a pass through the network for every row that lacks the modality
            _refuse(f"background.{name} has {draws:,} rows; at most {BACKGROUND:,} are allowed")
        expected[f"background.{name}"] = torch.zeros(draws, latent_width, dtype=torch.float64)
    second = None
    if "second" in plain:
        of_second = {**plain, "method": SECOND, "settings": plain["second"]}
        second = _network(of_second, widths, tuple(widths), kind, tensors)
        expected |= {f"second.{name}": x for name, x in second.learner.state_dict().items()}
        for name, columns in (("weights", 2), ("bias", outputs)):
            expected[f"{name}.second"] = torch.zeros(groups(len(widths)), columns, dtype=torch.float64)
    if expected.keys() != tensors.keys():
        _refuse(f"{TENSORS} has other tensors: {shown(min(expected.keys() ^ tensors.keys()))}")
    for name, x in tensors.items():
        if x.shape != expected[name].shape or x.dtype != expected[name].dtype or not x.numel():
            _refuse(
                f"{name} is {tuple(x.shape)} of {x.dtype}, and not {tuple(expected[name].shape)} of {expected[name].dtype}"
            )
        if not x.isfinite().all():
            _refuse(f"{name} holds numbers that are not finite")
    if isinstance(answers, Frequencies):
        answers.constant.copy_(tensors["constant"])
    else:
        state = answers.learner.state_dict()
        answers.learner.load_state_dict({name: tensors[f"learner.{name}"] for name in state})
    if second is not None:
        second.learner.load_state_dict({name: tensors[f"second.{name}"] for name in second.learner.state_dict()})
    scales = {name: Scale(tensors[f"mean.{name}"].numpy(), tensors[f"factor.{name}"].numpy()) for name in widths}
    scaling = Scaling(scales, (float(target[0]), float(target[1])))
    return Predictor(
        answers=answers.double().eval(),
        method=plain["method"],
        settings=settings,
        widths=widths,
        classes=classes,
        missing=missing,
        learned=learned,
        scaling=scaling,
        temperature=float(plain["temperature"]),
        background={name: tensors[f"background.{name}"] for name in widths},
        about=plain["about"],
        bias=tuple(map(float, bias)),
        kind=kind,
        raw=modalities_of(plain.get("raw", {}), arrays, widths),
        second=None
        if second is None
        else SecondModel(second.double().eval(), plain["second"], tensors["weights.second"], tensors["bias.second"]),
    )


def _state(prefix: str, answers: Answers) -> dict[str, Tensor]:
    """The tensors of a network in single precision, in which it was trained."""
    state = answers.learner.state_dict()
    return {f"{prefix}.{name}": x.float() if x.is_floating_point() else x for name, x in state.items()}


def _network(
    plain: Mapping[str, Any],
    widths: Mapping[str, int],
    missing: Sequence[str],
    kind: str,
    tensors: Mapping[str, Tensor],
) -> Answers:
    """The untrained network of the settings, if the tensors are at least as large."""
    settings = plain["settings"]
    family, outputs = family_of(kind, plain["classes"])
    hidden = settings.get("hidden")
    if not isinstance(hidden, list) or not hidden or not all(is_whole(h) and h > 0 for h in hidden):
        _refuse(f"hidden must be a list of widths; got {shown(hidden)}")
    # Checked before allocation: a small JSON must not require more memory than the tensors have.
    size = sum(x.numel() for x in tensors.values())
    if sum(widths.values()) * hidden[0] + sum(a * b for a, b in pairwise([*hidden, outputs])) > size:
        _refuse(f"a network of these widths is larger than {TENSORS}")
    try:
        model = make_model(widths, outputs, missing, settings)
        method = make_method(plain["method"], family, settings)
        if isinstance(method, AddsModules):
            method.attach(model)
        return Answers(Learner(model, method), outputs)
    except (KeyError, TypeError) as e:
        raise ValueError(f"its settings are not those of a model ({shown(e.args[0] if e.args else e)}).") from e


def _read_plain(folder: Path) -> dict[str, Any]:
    """The content of ``model.json``; ``ValueError`` if it is not that of a synib model."""
    path = folder / PLAIN
    if path.exists() and (not path.is_file() or path.stat().st_size > LONGEST):
        raise ValueError(f"{path} is not a file of at most {LONGEST:,} bytes, so it is not a synib model.")
    try:
        plain = json.loads(path.read_bytes().decode("utf-8"), parse_constant=_refuse_constant)
    except OSError as e:
        raise ValueError(f"{folder} has no readable {PLAIN} ({e.strerror}): it is not a synib model.") from e
    except (ValueError, RecursionError) as e:
        raise ValueError(f"{path} is not valid JSON: it is not a synib model, or is damaged.") from e
    if not isinstance(plain, dict) or "format" not in plain or "synib" not in plain:
        raise ValueError(f"{path} does not describe a synib model.")
    if plain["format"] not in READ:
        raise ValueError(
            f"{path} has format {shown(plain['format'])}, written by synib {shown(plain['synib'])}; this version reads formats "
            f"up to {FORMAT}."
        )
    for name, kind in KINDS.items():
        if not isinstance(plain.get(name), kind) or isinstance(plain[name], bool):
            raise ValueError(f"{path} is damaged: {name} is {shown(plain.get(name))}.")
    for name in ("raw", "second"):
        if not isinstance(plain.get(name, {}), dict):
            raise ValueError(f"{path} is damaged: {name} is {shown(plain.get(name))}.")
    if not isinstance(plain.get("encoders_sha256", ""), str):
        raise ValueError(f"{path} is damaged: encoders_sha256 is {shown(plain['encoders_sha256'])}.")
    return plain


def _texts(name: str, value: Sequence[Any]) -> tuple[str, ...]:
    if not all(isinstance(text, str) for text in value):
        _refuse(f"{name} must be texts; got {shown(value)}")
    if not all(printable(text) == text for text in value):
        _refuse(f"{name} hold characters that cannot be printed: {shown(value)}")
    return tuple(value)


def _refuse(why: str) -> NoReturn:
    raise ValueError(f"{why}.")


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")


def need_safetensors() -> None:
    """Raise ``ValueError`` if safetensors is not installed."""
    try:
        import safetensors  # noqa: F401
    except ImportError as error:
        raise ValueError(
            "Models are saved with safetensors, which is not installed: pip install 'synib[audit]'"
        ) from error
