"""What is known about the coordinates of each task, and how well a mask agrees with it."""

from typing import NamedTuple

import torch
from torch import Tensor

from synib import keys
from synib.data import Dataset
from synib.masks import Probe
from synib.masks.base import undisturbed
from synib.measure import auc
from synib.models import FusionModel
from synib.objective import SynIB
from synib.studies.digits.data import BANDS, FRAMES, SIDE, cue_coordinates

BATCH = 128  # examples whose masks are searched together; swapped values come from the same batch


class Region(NamedTuple):
    """Coordinates that a mask should treat alike.

    Args:
        modality: Whose coordinates they are.
        name: What they hold.
        kept: Whether the mask should keep them (a cue) or corrupt them (what only both modalities tell).
        rows: The examples that hold it there.
        coordinates: Which coordinates.
    """

    modality: str
    name: str
    kept: bool
    rows: Tensor
    coordinates: Tensor

    @property
    def label(self) -> str:
        """What tables call it."""
        return f"{self.modality}: {self.name}, {'kept' if self.kept else 'corrupted'}"

    @property
    def column(self) -> str:
        """The beginning of its columns in the results."""
        return f"{self.modality}_{self.name}"


class Picture(NamedTuple):
    """How often each coordinate is kept, as a picture.

    Args:
        modality: Whose coordinates are shown.
        name: Which examples.
        rows: Those examples.
        height, width: Size of the picture in coordinates.
        pool: Height and width of the tiles that are averaged.
    """

    modality: str
    name: str
    rows: Tensor
    height: int
    width: int
    pool: tuple[int, int] = (1, 1)

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width in tiles."""
        return self.height // self.pool[0], self.width // self.pool[1]

    def tiles(self, numbers: Tensor) -> Tensor:
        """Means of the tiles."""
        (rows, columns), (high, wide) = self.shape, self.pool
        return numbers.float().view(rows, high, columns, wide).mean((1, 3))

    def column(self, row: int, column: int) -> str:
        """The name of a tile's column in the results."""
        return f"kept_{self.modality}_{self.name}_{row:02d}_{column:02d}"


def regions(task: str, data: Dataset) -> list[Region]:
    """The known regions of a task, and the validation examples in which they count."""
    split, widths = data.validation, data.widths
    every = torch.ones(len(split), dtype=torch.bool)

    def block(modality: str, name: str, kept: bool, rows: Tensor = every) -> Region:
        coordinates = torch.zeros(widths[modality], dtype=torch.bool)
        coordinates[list(data.blocks[modality][name])] = True
        return Region(modality, name, kept, rows, coordinates)

    if task == "spurious-xor":
        return [block("x1", "shortcut", True), *(block(x, "signal", False) for x in ("x1", "x2"))]
    of = {name: rows.bool() for name, rows in split.groups.items()}
    if task == "pid-xor":
        return [
            block("x1", "unique", True, of["U1"]),
            *(block(x, "redundant", True, of["R"]) for x in ("x1", "x2")),
            *(block(x, "synergy", False, of["S"]) for x in ("x1", "x2")),
        ]
    cues = cue_coordinates()
    return [
        Region("audio", "tone", True, of["U1"] | of["R"], cues["audio"]),
        Region("image", "bar", True, of["R"], cues["image"]),
        Region("audio", "digit", False, every, ~cues["audio"]),
        Region("image", "digit", False, every, ~cues["image"]),
    ]


def pictures(task: str, data: Dataset) -> list[Picture]:
    """What is drawn of a task's masks."""
    split, widths = data.validation, data.widths
    of = {name: rows.bool() for name, rows in split.groups.items()}
    if task == "spurious-xor":
        every = torch.ones(len(split), dtype=torch.bool)
        return [Picture(x, "all", every, 1, widths[x]) for x in ("x1", "x2")]
    if task == "pid-xor":
        return [Picture(x, source, of[source], 1, widths[x]) for x in ("x1", "x2") for source in ("U1", "R", "S")]
    return [
        Picture("audio", "tone", of["U1"] | of["R"], BANDS, FRAMES, (1, 3)),
        Picture("image", "bar", of["R"], SIDE, SIDE, (2, 2)),
    ]


def kept_by(method: SynIB, model: FusionModel, data: Dataset, modality: str, seed: int) -> Tensor:
    """Which coordinates the mask keeps in each validation example: it corrupts all others."""
    split, kept = data.validation, []
    values = split.modalities[modality]
    assert isinstance(values, Tensor)
    for number, rows in enumerate(torch.arange(len(split)).split(BATCH)):
        x, target = values[rows], split.target[rows]

        def fill(key: Tensor, x: Tensor = x) -> Tensor:
            return method.noise.fill(x, key, modality)

        def loss(v: Tensor, target: Tensor = target) -> Tensor:
            return method.family.nll(model.head(modality, model.encode(modality, v), through=True), target)

        key = keys.fold(keys.key(seed), "mask-recovery", modality, number)
        with undisturbed(model.unimodal_modules(modality)):
            kept.append(~method.mask(x, key, Probe(modality, fill, loss)))
    return torch.cat(kept)


def agreement(region: Region, kept: Tensor) -> dict[str, float]:
    """How well masks agree with a region.

    ``precision`` and ``recall`` of the coordinates that are treated as the region's should be; ``auroc`` of how often each
    coordinate is, the region's against all others; ``chance``: the precision of a mask that ignores the data.

    Args:
        region: The region.
        kept: Which coordinates are kept, for all validation examples.
    """
    chosen = (kept if region.kept else ~kept)[region.rows]
    found = chosen[:, region.coordinates].sum().item()
    return {
        "precision": found / max(chosen.sum().item(), 1),
        "recall": found / max(len(chosen) * int(region.coordinates.sum()), 1),
        "auroc": auc(chosen.float().mean(0), region.coordinates),
        "chance": region.coordinates.float().mean().item(),
    }
