"""Oracle masking: the coordinates to corrupt are known, as in synthetic data."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from synib.checks import shown
from synib.masks.base import Mask, Probe
from synib.tokens import Modality, values


class OracleMask(Mask):
    r"""Oracle masking, :math:`M^\star_j = \mathbf 1[j \in S_\mathrm{syn}]` (App. "Masking Operator Instantiations").

    Args:
        coordinates: Modality → indices to corrupt, or a boolean tensor over its last dimension.
        only: Which training examples to corrupt, one boolean each; all by default. If given, pass the indices of each
            batch to the objective (``examples=``).

    Example:
        >>> import synib
        >>> synib.OracleMask({"x1": range(4), "x2": range(4)})
        OracleMask(x1: 4 coordinates, x2: 4 coordinates)
    """

    only: Tensor

    def __init__(
        self, coordinates: Mapping[str, Sequence[int] | Tensor], only: Sequence[bool] | Tensor | None = None
    ) -> None:
        super().__init__()
        self.selects = only is not None
        if only is not None:
            chosen_rows = _tensor(only)
            if chosen_rows is None or chosen_rows.ndim != 1 or chosen_rows.dtype != torch.bool:
                raise ValueError(f"only must be one boolean for each training example; got {shown(only)}.")
            self.register_buffer("only", chosen_rows, persistent=False)
        if not isinstance(coordinates, Mapping):
            raise ValueError(
                "coordinates must be a dict of modality → indices, such as {'image': [0, 1]}; got "
                f"{shown(coordinates)}."
            )
        self.indices: dict[str, list[int]] = {}
        self.widths: dict[str, int | None] = {}
        for name, chosen in coordinates.items():
            indices = _tensor(chosen)
            if indices is None or indices.ndim != 1 or (len(indices) and indices.is_floating_point()):
                got = shown(chosen) if indices is None or indices.ndim == 1 else tuple(indices.shape)
                raise ValueError(
                    f"The coordinates of {name!r} must be a 1-dimensional sequence of indices or booleans; got {got}."
                )
            is_flags = indices.dtype == torch.bool
            self.widths[name] = len(indices) if is_flags else None
            self.indices[name] = (indices.nonzero().flatten() if is_flags else indices).tolist()
            if not self.indices[name]:
                raise ValueError(
                    f"OracleMask has no coordinates to corrupt in {name!r}: give at least one, or leave this modality "
                    "out of the penalty with corrupt=[...]."
                )
            if min(self.indices[name]) < 0:
                raise ValueError(f"OracleMask counts coordinates from 0; got {min(self.indices[name])} for {name!r}.")
            self.register_buffer(f"at_{name}", torch.tensor(self.indices[name]), persistent=False)

    def check_examples(self, examples: Tensor) -> None:
        if not self.selects:
            return
        first, last = int(examples.min()), int(examples.max())
        if first < 0 or last >= len(self.only):
            raise ValueError(
                f"OracleMask(only=...) covers training examples 0 to {len(self.only) - 1}, but the batch contains "
                f"{first} to {last}."
            )

    def forward(self, x: Modality, key: Tensor, probe: Probe, draws: int = 1) -> Tensor:
        v = values(x)
        if probe.modality not in self.indices:
            raise ValueError(
                f"OracleMask has coordinates for {', '.join(map(repr, self.indices))}; got modality {probe.modality!r}."
            )
        chosen, width = self.indices[probe.modality], self.widths[probe.modality]
        if width not in (None, v.shape[-1]) or max(chosen) >= v.shape[-1]:
            expected = f"has width {width}" if width is not None else f"contains coordinate {max(chosen)}"
            raise ValueError(
                f"The oracle mask of {probe.modality!r} {expected}, but the modality has width {v.shape[-1]}."
            )
        # An index tensor made here would have to travel to the device, and the host to wait for it.
        where: Tensor = getattr(self, f"at_{probe.modality}").to(v.device)
        mask = torch.zeros(v.shape[-1], dtype=torch.bool, device=v.device).scatter(0, where, True)
        mask = mask.view((1,) * (v.ndim - 1) + (-1,))
        if not self.selects:
            return mask
        if probe.examples is None:
            raise ValueError(
                "OracleMask(only=...) needs to know which training examples are in the batch: pass "
                "examples=<their indices> to the objective."
            )
        return mask & self.only.to(v.device)[probe.examples].view(-1, *(1,) * (v.ndim - 1))

    def extra_repr(self) -> str:
        return ", ".join(f"{name}: {len(chosen)} coordinates" for name, chosen in self.indices.items())


def _tensor(values: object) -> Tensor | None:
    """The value as a tensor, or ``None`` if it cannot be converted."""
    try:
        return torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError):
        return None
