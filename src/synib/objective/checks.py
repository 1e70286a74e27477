"""Mistakes in a batch, each answered by one sentence."""

from collections.abc import Mapping, Sequence

import torch

from synib.tokens import Modality, Tokens, values


def check_modalities(modalities: Mapping[str, Modality], names: Sequence[str] | None = None) -> None:
    """Raise ``ValueError`` if the modalities are not at least two batches of one size, with the names expected."""
    if not isinstance(modalities, Mapping):
        raise ValueError(f"Modalities are a dict of name → tensor; got {type(modalities).__name__}.")
    if len(modalities) < 2:
        raise ValueError(
            f"Synergy needs at least two modalities; got {len(modalities)} ({', '.join(map(repr, modalities)) or 'none'})."
        )
    if names is not None and set(modalities) != set(names):
        unknown, missing = sorted(set(modalities) - set(names)), sorted(set(names) - set(modalities))
        wrong = [f"unknown: {', '.join(map(repr, unknown))}"] * bool(unknown)
        wrong += [f"missing: {', '.join(map(repr, missing))}"] * bool(missing)
        raise ValueError(f"The model's modalities are {', '.join(map(repr, names))}; {'; '.join(wrong)}.")
    for name, x in modalities.items():
        if not isinstance(name, str) or not name or "." in name:
            raise ValueError(f"A modality's name is a text without a dot in it; got {name!r}.")
        if not isinstance(x, torch.Tensor | Tokens):
            raise ValueError(f"Modality {name!r} is a tensor or synib.Tokens; got {type(x).__name__}.")
        if values(x).ndim < 2:
            raise ValueError(
                f"Modality {name!r} is (batch, ...) with at least 2 dimensions; got {tuple(values(x).shape)}."
            )
        if isinstance(x, Tokens) and (x.padding.shape != x.values.shape[:2] or x.padding.dtype != torch.bool):
            raise ValueError(
                f"The padding of {name!r} is boolean, {tuple(x.values.shape[:2])}; got {x.padding.dtype}, "
                f"{tuple(x.padding.shape)}."
            )
    sizes = {name: values(x).shape[0] for name, x in modalities.items()}
    if len(set(sizes.values())) > 1:
        raise ValueError(
            f"All modalities need the same batch size; got {', '.join(f'{name!r} {n}' for name, n in sizes.items())}."
        )
    if 0 in sizes.values():
        raise ValueError("The batch is empty: every modality has 0 rows.")


def check_finite(modalities: Mapping[str, Modality]) -> None:
    """Raise ``ValueError`` naming the modality, how many of its numbers are not finite, and in which rows."""
    for name, x in modalities.items():
        v = values(x)
        bad = ~v.isfinite()
        if bad.any():
            rows = bad.flatten(1).any(1).nonzero().flatten().tolist()
            listed = ", ".join(map(str, rows[:5])) + (f" and {len(rows) - 5} more" if len(rows) > 5 else "")
            raise ValueError(
                f"Modality {name!r} holds {int(bad.sum())} NaN or Inf of {v.numel()} numbers, in row{'s' * (len(rows) > 1)} "
                f"{listed}; expected finite numbers."
            )
