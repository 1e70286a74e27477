"""Mistakes in a model or a batch, each answered by one sentence."""

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
    """Raise ``ValueError`` if it is no model, or is given unimodal predictors that it would never use."""
    if not isinstance(model, MultimodalModel) and (not callable(model) or isinstance(model, type)):
        kind = shown(model) if isinstance(model, type) else type(model).__name__
        hint = ": give the model itself, not its output" if isinstance(model, Tensor) else ""
        raise ValueError(f"The model is a FusionModel or a function of the modalities; got {kind}{hint}.")
    if not unimodal:
        return
    if isinstance(model, MultimodalModel):
        raise ValueError(
            f"unimodal= gives predictors to a plain callable, and {type(model).__name__} has its own: give it heads instead."
        )
    if not isinstance(unimodal, Mapping):
        raise ValueError(f"unimodal is a dict of modality → its own predictor; got {type(unimodal).__name__}.")
    unknown = [name for name in unimodal if isinstance(modalities, Mapping) and name not in modalities]
    if unknown:
        raise ValueError(
            f"unimodal has a predictor of {unknown[0]!r}; the modalities are {', '.join(map(repr, modalities))}."
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
    """Raise ``ValueError`` if a batch is not one; returns whether its values were looked at, and not only shapes and types.

    Args:
        modalities, target, examples, sample_weight, key: What the objective was called with.
        names: The model's modalities, if it has such.
        check: Look at values, or do not; by default where that does not mean to wait for a device.
    """
    check_modalities(modalities, names)
    name, first = next((name, x if isinstance(x, Tensor) else x.values) for name, x in modalities.items())
    rows = first.shape[0]
    if not isinstance(target, Tensor):
        check_tensor("The target", target)
    if target.shape[:1] != (rows,):
        raise ValueError(f"The target needs a row for each of {rows} examples; got shape {tuple(target.shape)}.")
    if target.device != first.device:
        raise ValueError(f"The target is on {target.device} and {name!r} on {first.device}: move one with .to(device).")
    if examples is not None and (
        examples.shape != (rows,) or examples.is_floating_point() or examples.dtype == torch.bool
    ):
        raise ValueError(
            f"examples are the row numbers in the training data of {rows} rows; got shape {tuple(examples.shape)} of "
            f"{examples.dtype}."
        )
    if sample_weight is not None and check_tensor("sample_weight", sample_weight).shape != (rows,):
        raise ValueError(
            f"sample_weight is one number for each of {rows} examples; got shape {tuple(sample_weight.shape)}."
        )
    if key is not None:
        check_key(key)
    look = first.device.type == "cpu" if check is None else check
    if look:
        check_finite(modalities)
        if sample_weight is not None and not (sample_weight.isfinite().all() and (sample_weight >= 0).all()):
            raise ValueError("sample_weight is finite and at least 0.")
    return look


def check_modalities(modalities: Mapping[str, Modality], names: Sequence[str] | None = None) -> None:
    """Raise ``ValueError`` if the modalities are not at least two batches of one size, with the names expected."""
    if not isinstance(modalities, Mapping):
        raise ValueError(f"Modalities are a dict of name → tensor; got {type(modalities).__name__}.")
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
            raise ValueError(f"Modality {name!r} is a tensor or synib.Tokens; got {type(x).__name__}.")
        elif x.ndim < 2:
            raise ValueError(f"Modality {name!r} is (batch, ...) with at least 2 dimensions; got {tuple(x.shape)}.")
    tensors = {name: x if isinstance(x, Tensor) else x.values for name, x in modalities.items()}
    sizes = {x.shape[0] for x in tensors.values()}
    if len(sizes) > 1:
        listed = ", ".join(f"{name!r} {x.shape[0]}" for name, x in tensors.items())
        raise ValueError(f"All modalities need the same batch size; got {listed}.")
    if 0 in sizes:
        raise ValueError("The batch is empty: every modality has 0 rows.")
    if len({x.device for x in tensors.values()}) > 1:
        listed = ", ".join(f"{name!r} is on {x.device}" for name, x in tensors.items())
        raise ValueError(f"All modalities are on one device; {listed}: move them with .to(device).")


def _check_tokens(name: str, x: Tokens) -> None:
    v, padding = x
    if not (isinstance(v, Tensor) and isinstance(padding, Tensor)):
        raise ValueError(
            f"Tokens are two tensors, values and padding; {name!r} has {type(v).__name__} and {type(padding).__name__}."
        )
    if padding.dtype != torch.bool or padding.shape != v.shape[:2]:
        raise ValueError(
            f"The padding of {name!r} is boolean, {tuple(v.shape[:2])}; got {padding.dtype}, {tuple(padding.shape)}."
        )
    if v.ndim != 3:
        raise ValueError(f"The tokens of {name!r} are (batch, tokens, width); got {tuple(v.shape)}: embed them first.")


def check_names(modalities: Mapping[str, Any], names: Sequence[str]) -> None:
    """Raise ``ValueError`` if a modality is unknown to the model, or missing."""
    if modalities.keys() != set(names):
        received = {str(name) for name in modalities}
        unknown, missing = sorted(received - set(names)), sorted(set(names) - received)
        wrong = [f"unknown: {', '.join(map(repr, unknown))}"] * bool(unknown)
        wrong += [f"missing: {', '.join(map(repr, missing))}"] * bool(missing)
        raise ValueError(f"The model's modalities are {', '.join(map(repr, names))}; {'; '.join(wrong)}.")


def check_finite(modalities: Mapping[str, Modality]) -> None:
    """Raise ``ValueError`` naming the modality, how many of its numbers are not finite, and in which rows."""
    for name, x in modalities.items():
        finite = (x if isinstance(x, Tensor) else x.values).isfinite()
        if not finite.all():
            rows = (~finite).flatten(1).any(1).nonzero().flatten().tolist()
            listed = ", ".join(map(str, rows[:5])) + (f" and {len(rows) - 5} more" if len(rows) > 5 else "")
            raise ValueError(
                f"Modality {name!r} holds {int((~finite).sum())} NaN or Inf of {finite.numel()} numbers, in "
                f"row{'s' * (len(rows) > 1)} {listed}; expected finite numbers."
            )


def explain(mistake: Exception, model: MultimodalModel, modalities: Mapping[str, Modality]) -> None:
    """Raise ``ValueError`` with the sentence for what torch has just refused, where the model and the batch tell the cause.

    Called when something went wrong, and only then: a model may do with its input what it likes.
    """
    if isinstance(mistake, TypeError) and not _takes_a_dict(model, modalities, mistake):
        arguments = ", ".join(f"m[{name!r}]" for name in modalities)
        plain = isinstance(model, BlackBoxModel)
        hint = f"wrap it, as in lambda m: model({arguments})" if plain else "use ConcatFusion"
        raise ValueError(
            f"The {'model' if plain else 'fusion'} is called with one dict of name → tensor, and takes something else: {hint}."
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
        sentence = f"{name!r} is synib.Tokens and its encoder takes a tensor."
    elif x.shape[-1] != weight.shape[1]:
        sentence = f"{name!r} is {x.shape[-1]} wide and its encoder takes {weight.shape[1]}."
    elif x.device != weight.device:
        sentence = f"{name!r} is on {x.device} and its encoder on {weight.device}: move one with .to(device)."
    elif x.dtype != weight.dtype and not torch.is_autocast_enabled(x.device.type):
        way = {torch.float32: "x.float()", torch.float64: "x.double()"}.get(weight.dtype, f"x.to({weight.dtype})")
        sentence = f"{name!r} is {x.dtype} and its encoder {weight.dtype}: use {way}."
    else:
        return
    raise ValueError(sentence) from mistake
