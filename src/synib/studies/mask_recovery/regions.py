"""What is known about the coordinates of each task, and how well a mask agrees with it."""

from typing import NamedTuple

import torch
from torch import Tensor

from synib import keys
from synib.data import Dataset, Split
from synib.masks.base import undisturbed
from synib.measure import auc
from synib.models import FusionModel
from synib.objective import SynIB
from synib.objective.probes import unimodal_probe
from synib.studies.digits.data import BANDS, FRAMES, SIDE, cue_coordinates
from synib.studies.pid_xor import data as pid_xor
from synib.studies.spurious_xor import data as spurious_xor

BATCH = 128  # examples whose masks are searched together; swapped values come from the same batch


def members(split: Split, sources: tuple[str, ...]) -> Tensor:
    """Which examples have one of the sources; all of them where none is named."""
    if not sources:
        return torch.ones(len(split), dtype=torch.bool)
    return torch.stack([split.groups[source].bool() for source in sources]).any(0)


class Region(NamedTuple):
    """Coordinates that a mask should treat alike.

    Args:
        modality: Whose coordinates they are.
        name: What they hold.
        kept: Whether the mask should keep them (a cue) or corrupt them (what only both modalities tell).
        coordinates: Which coordinates.
        sources: The examples that hold it there: those with one of these sources, or all.
    """

    modality: str
    name: str
    kept: bool
    coordinates: Tensor
    sources: tuple[str, ...] = ()

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
        name: Which examples, in the names of columns.
        label: Which examples, in words.
        height, width: Size of the picture in coordinates.
        marked: Which coordinates to outline.
        sources: The examples that count, as in :class:`Region`.
        pool: Height and width of the tiles that are averaged.
    """

    modality: str
    name: str
    label: str
    height: int
    width: int
    marked: Tensor
    sources: tuple[str, ...] = ()
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


def _block(width: int, *ranges: range) -> Tensor:
    return torch.tensor([any(i in block for block in ranges) for i in range(width)])


def regions(task: str) -> list[Region]:
    """The known regions of a task."""
    both = ("x1", "x2")
    if task == "spurious-xor":
        signal = _block(spurious_xor.WIDTH, spurious_xor.SIGNAL)
        shortcut = Region("x1", "shortcut", True, _block(spurious_xor.WIDTH, spurious_xor.SHORTCUT))
        return [shortcut, *(Region(x, "signal", False, signal) for x in both)]
    if task == "pid-xor":
        blocks = {name: _block(pid_xor.WIDTH, block) for name, block in pid_xor.BLOCKS.items()}
        return [
            Region("x1", "unique", True, blocks["unique"], ("U1",)),
            *(Region(x, "redundant", True, blocks["redundant"], ("R",)) for x in both),
            *(Region(x, "synergy", False, blocks["synergy"], ("S",)) for x in both),
        ]
    cues = cue_coordinates()
    return [
        Region("audio", "tone", True, cues["audio"], ("U1", "R")),
        Region("image", "bar", True, cues["image"], ("R",)),
        Region("audio", "digit", False, ~cues["audio"]),
        Region("image", "digit", False, ~cues["image"]),
    ]


def pictures(task: str) -> list[Picture]:
    """What is drawn of a task's masks."""
    if task == "spurious-xor":
        blocks = {"x1": _block(spurious_xor.WIDTH, spurious_xor.SHORTCUT), "x2": _block(spurious_xor.WIDTH)}
        return [Picture(x, "all", x, 1, spurious_xor.WIDTH, marked) for x, marked in blocks.items()]
    if task == "pid-xor":
        cues = {"U1": pid_xor.BLOCKS["unique"], "R": pid_xor.BLOCKS["redundant"]}
        return [
            Picture(
                x,
                source,
                f"{x}, {source} examples",
                1,
                pid_xor.WIDTH,
                _block(pid_xor.WIDTH, *([cues[source]] if source in cues and (x, source) != ("x2", "U1") else [])),
                (source,),
            )
            for x in ("x1", "x2")
            for source in ("U1", "R", "S")
        ]
    cued = cue_coordinates()
    return [
        Picture(
            "audio",
            "tone",
            "Spectrogram, examples with a tone",
            BANDS,
            FRAMES,
            cued["audio"],
            ("U1", "R"),
            (1, 3),
        ),
        Picture("image", "bar", "Image, examples with a bar", SIDE, SIDE, cued["image"], ("R",), (2, 2)),
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

        def nll(prediction: Tensor, target: Tensor = target) -> Tensor:
            return method.family.nll(prediction, target)

        key = keys.fold(keys.key(seed), "mask-recovery", modality, number)
        with undisturbed(model.unimodal_modules(modality)):
            kept.append(~method.mask(x, key, unimodal_probe(model, modality, x, fill, nll)))
    return torch.cat(kept)


def agreement(region: Region, kept: Tensor, split: Split) -> dict[str, float]:
    """How well masks agree with a region.

    ``precision`` and ``recall`` of the coordinates that are treated as the region's should be; ``auroc`` of how often each
    coordinate is, the region's against all others; ``chance``: the precision of a mask that ignores the data.

    Args:
        region: The region.
        kept: Which coordinates are kept in each example.
        split: The examples.
    """
    chosen = (kept if region.kept else ~kept)[members(split, region.sources)]
    found = chosen[:, region.coordinates].sum().item()
    return {
        "precision": found / max(chosen.sum().item(), 1),
        "recall": found / max(len(chosen) * int(region.coordinates.sum()), 1),
        "auroc": auc(chosen.float().mean(0), region.coordinates),
        "chance": region.coordinates.float().mean().item(),
    }
