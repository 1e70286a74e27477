"""Checks of models and batches: a mistake raises ``ValueError`` with one sentence."""

import contextlib
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from synib.checks import check_modality, check_tensor, shown
from synib.keys import check_key
from synib.objective.model import BlackBoxModel, MultimodalModel
from synib.tokens import Modality, Tokens


def check_model(model: Any, unimodal: Any, modalities: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` if the argument is not a model, or comes with unimodal predictors that it would never use."""
    if not isinstance(model, MultimodalModel) and (not callable(model) or isinstance(model, type)):
        kind = shown(model) if isinstance(model, type) else type(model).__name__
        hint = ": pass the model itself, not its output" if isinstance(model, Tensor) else ""
        raise ValueError(f"The model must be a FusionModel or a function of the modalities; got {kind}{hint}.")
    if not unimodal:
        return
    if isinstance(model, MultimodalModel):
        raise ValueError(
            f"unimodal= is for plain callables, but {type(model).__name__} has its own predictors: give it "
            "heads instead."
        )
    if not isinstance(unimodal, Mapping):
        raise ValueError(f"unimodal must be a dict of modality → unimodal predictor; got {type(unimodal).__name__}.")
    unknown = [name for name in unimodal if isinstance(modalities, Mapping) and name not in modalities]
    if unknown:
        raise ValueError(
            f"unimodal has a predictor for {unknown[0]!r}, which is not one of the modalities: "
            f"{', '.join(map(repr, modalities))}."
        )


def check_batch(
    modalities: Mapping[str, Modality],
    target: Tensor,
    names: Sequence[str] | None = None,
    examples: Tensor | None = None,
    sample_weight: Tensor | None = None,
    key: Tensor | None = None,
    check: bool | None = None,
) -> bool:
    """Raise ``ValueError`` if a batch is invalid; return whether values were checked as well as shapes and dtypes.

    Args:
        modalities, target, examples, sample_weight, key: The arguments of the objective's call.
        names: The model's modalities, if it declares them.
        check: Whether to check values; by default only where that needs no synchronisation.
    """
    check_modalities(modalities, names)
    name, first = next((name, x if isinstance(x, Tensor) else x.values) for name, x in modalities.items())
    rows = first.shape[0]
    if not isinstance(target, Tensor):
        check_tensor("The target", target)
    if target.shape[:1] != (rows,):
        raise ValueError(f"The target needs one row for each of {rows} examples; got shape {tuple(target.shape)}.")
    if target.device != first.device:
        raise ValueError(
            f"The target is on {target.device} but {name!r} is on {first.device}: move one of them with .to(device)."
        )
    if examples is not None and (
        examples.shape != (rows,) or examples.is_floating_point() or examples.dtype == torch.bool
    ):
        raise ValueError(
            f"examples must be the indices of the {rows} rows in the training data; got shape "
            f"{tuple(examples.shape)} of {examples.dtype}."
        )
    if sample_weight is not None and check_tensor("sample_weight", sample_weight).shape != (rows,):
        raise ValueError(
            f"sample_weight must be one number for each of {rows} examples; got shape {tuple(sample_weight.shape)}."
        )
    if key is not None:
        check_key(key)
    look = first.device.type == "cpu" if check is None else check
    if look:
        check_finite(modalities)
        if sample_weight is not None and not (sample_weight.isfinite().all() and (sample_weight >= 0).all()):
            raise ValueError("sample_weight must be finite and non-negative.")
    return look


def check_modalities(modalities: Mapping[str, Modality], names: Sequence[str] | None = None) -> None:
    """Raise ``ValueError`` unless there are at least two modalities of equal batch size with the expected names."""
    if not isinstance(modalities, Mapping):
        raise ValueError(f"Modalities must be a dict of name → tensor; got {type(modalities).__name__}.")
    if len(modalities) < 2:
        raise ValueError(
            f"Synergy needs at least two modalities; got {len(modalities)} ({', '.join(map(repr, modalities)) or 'none'})."
        )
    if names is not None and (len(modalities) != len(names) or any(name not in modalities for name in names)):
        check_names(modalities, names)
    for name, x in modalities.items():
        if not isinstance(name, str) or not name or "." in name:
            check_modality(name)
        if isinstance(x, Tokens):
            _check_tokens(name, x)
        elif not isinstance(x, Tensor):
            raise ValueError(f"Modality {name!r} must be a tensor or synib.Tokens; got {type(x).__name__}.")
        elif x.ndim < 2:
            raise ValueError(
                f"Modality {name!r} must have shape (batch, ...) with at least 2 dimensions; got {tuple(x.shape)}."
            )
    tensors = {name: x if isinstance(x, Tensor) else x.values for name, x in modalities.items()}
    sizes = {x.shape[0] for x in tensors.values()}
    if len(sizes) > 1:
        listed = ", ".join(f"{name!r} {x.shape[0]}" for name, x in tensors.items())
        raise ValueError(f"All modalities need the same batch size; got {listed}.")
    if 0 in sizes:
        raise ValueError("The batch is empty: every modality has 0 rows.")
    if len({x.device for x in tensors.values()}) > 1:
        listed = ", ".join(f"{name!r} is on {x.device}" for name, x in tensors.items())
        raise ValueError(f"All modalities must be on one device, but {listed}: move them with .to(device).")


def _check_tokens(name: str, x: Tokens) -> None:
    v, padding = x
    if not (isinstance(v, Tensor) and isinstance(padding, Tensor)):
        raise ValueError(
            f"Tokens must hold two tensors, values and padding; {name!r} has {type(v).__name__} and "
            f"{type(padding).__name__}."
        )
    if padding.dtype != torch.bool or padding.shape != v.shape[:2]:
        raise ValueError(
            f"The padding of {name!r} must be boolean of shape {tuple(v.shape[:2])}; got {padding.dtype} of "
            f"shape {tuple(padding.shape)}."
        )
    if v.ndim != 3:
        raise ValueError(
            f"The tokens of {name!r} must have shape (batch, tokens, width); got {tuple(v.shape)}: embed them first."
        )


def check_names(modalities: Mapping[str, Any], names: Sequence[str]) -> None:
    """Raise ``ValueError`` if a modality is missing or unknown to the model."""
    if modalities.keys() != set(names):
        received = {str(name) for name in modalities}
        unknown, missing = sorted(received - set(names)), sorted(set(names) - received)
        wrong = [f"unknown: {', '.join(map(repr, unknown))}"] * bool(unknown)
        wrong += [f"missing: {', '.join(map(repr, missing))}"] * bool(missing)
        raise ValueError(f"The model's modalities are {', '.join(map(repr, names))}; {'; '.join(wrong)}.")


def check_finite(modalities: Mapping[str, Modality]) -> None:
    """Raise ``ValueError`` naming the modality, the number of its non-finite values, and their rows."""
    for name, x in modalities.items():
        finite = (x if isinstance(x, Tensor) else x.values).isfinite()
        if not finite.all():
            rows = (~finite).flatten(1).any(1).nonzero().flatten().tolist()
            listed = ", ".join(map(str, rows[:5])) + (f" and {len(rows) - 5} more" if len(rows) > 5 else "")
            raise ValueError(
                f"Modality {name!r} holds {int((~finite).sum())} NaN or Inf of {finite.numel()} values, in "
                f"row{'s' * (len(rows) > 1)} {listed}; expected finite values."
            )


def explain(mistake: Exception, model: MultimodalModel, modalities: Mapping[str, Modality]) -> None:
    """Raise ``ValueError`` with the cause of an error inside the model, where model and batch show it.

    It is called only after an error, because a model may transform its input in any way.
    """
    if isinstance(mistake, TypeError) and not _takes_a_dict(model, modalities, mistake):
        arguments = ", ".join(f"m[{name!r}]" for name in modalities)
        plain = isinstance(model, BlackBoxModel)
        hint = f"wrap it, for example lambda m: model({arguments})" if plain else "use ConcatFusion"
        raise ValueError(
            f"The {'model' if plain else 'fusion'} is called with one dict of name → tensor, but it expects "
            f"other arguments: {hint}."
        ) from mistake
    encoders = dict(getattr(model, "encoders", {}))
    for name, x in modalities.items():
        layer = encoders.get(name)
        while isinstance(layer, nn.Sequential) and len(layer):
            layer = layer[0]
        if isinstance(layer, nn.Linear):
            _explain_linear(mistake, name, x, layer.weight)


def _takes_a_dict(model: MultimodalModel, modalities: Mapping[str, Modality], mistake: TypeError) -> bool:
    if isinstance(model, BlackBoxModel):
        with contextlib.suppress(ValueError):  # not every callable shows its signature
            try:
                inspect.signature(model.predict).bind(modalities)
            except TypeError:
                return False
    return "must be Tensor, not dict" not in str(mistake)


def _explain_linear(mistake: Exception, name: str, x: Modality, weight: Tensor) -> None:
    if isinstance(x, Tokens):
        sentence = f"{name!r} is synib.Tokens, but its encoder expects a tensor."
    elif x.shape[-1] != weight.shape[1]:
        sentence = f"{name!r} has width {x.shape[-1]}, but its encoder expects {weight.shape[1]}."
    elif x.device != weight.device:
        sentence = (
            f"{name!r} is on {x.device}, but its encoder is on {weight.device}: move one of them with .to(device)."
        )
    elif x.dtype != weight.dtype and not torch.is_autocast_enabled(x.device.type):
        way = {torch.float32: "x.float()", torch.float64: "x.double()"}.get(weight.dtype, f"x.to({weight.dtype})")
        sentence = f"{name!r} is {x.dtype}, but its encoder is {weight.dtype}: use {way}."
    else:
        return
    raise ValueError(sentence) from mistake
