"""The items of some rows, read and decoded once; texts are kept in memory, images and sounds in a file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from synib.data.media import BrokenFile, resample
from synib.own.raw.embed import STEP, Embedded, decoded, decoding_pool, item_blocks
from synib.own.raw.encoders.pretrained import Pretrained

SECONDS = 30  # length of a sound used for training, at most
Kept = str | np.ndarray[Any, Any]


class RawRows:
    """The inputs of a transformers network for each row.

    Images are stored preprocessed, in half precision; of sounds the first 30 seconds are stored.

    Args:
        embedded: The file.
        name: The modality.
        encoder: The network.
        rows: Row numbers of the file, which are renumbered from 0.
        folder: Folder for images and sounds.
    """

    def __init__(self, embedded: Embedded, name: str, encoder: Pretrained, rows: Sequence[int], folder: Path) -> None:
        self.encoder, self._texts = encoder, {}
        self._spans: dict[int, tuple[int, tuple[int, ...]]] = {}  # place → its offset in the file, and its shape
        self._dtype = np.dtype(np.float16 if encoder.kind == "image" else np.float32)
        modality, place = embedded.modalities[name], {int(row): k for k, row in enumerate(rows)}
        path, end = folder / f"{len(list(folder.iterdir()))}.raw", 0
        with path.open("wb") as file, decoding_pool(modality) as pool:
            for start, items in item_blocks(embedded.base, modality, STEP[modality.kind], 0):
                needed = [k for k, item in enumerate(items) if item is not None and start + k in place]

                def kept(k: int, items: Sequence[Any] = items) -> Kept | None:
                    try:
                        return self._kept(decoded(items[k], modality, embedded.files))
                    except BrokenFile:  # reported when it was embedded; the row lacks the modality
                        return None

                for k, item in zip(needed, map(kept, needed) if pool is None else pool.map(kept, needed), strict=True):
                    if isinstance(item, str):
                        self._texts[place[start + k]] = item
                    elif item is not None:
                        self._spans[place[start + k]] = end, item.shape
                        file.write(item.astype(self._dtype).tobytes())
                        end += item.size
        self._values = np.memmap(path, self._dtype, "r") if end else np.zeros(0, self._dtype)

    def inputs(self, places: Sequence[int]) -> dict[str, Tensor]:
        """The network's inputs for some rows."""
        if self.encoder.kind == "text":
            return self.encoder.inputs([self._texts[k] for k in places])
        arrays = [self._array(k) for k in places]
        if self.encoder.kind == "image":
            return {"pixel_values": torch.from_numpy(np.stack(arrays)).float()}
        return self.encoder.inputs(arrays)

    def _array(self, place: int) -> np.ndarray[Any, Any]:
        start, shape = self._spans[place]
        return np.array(self._values[start : start + int(np.prod(shape))]).reshape(shape)

    def _kept(self, item: Any) -> Kept:
        if self.encoder.kind == "text":
            return str(item)
        if self.encoder.kind == "image":
            return self.encoder.inputs([item])["pixel_values"][0].numpy()
        rate = self.encoder.reader_rate
        return resample(item.samples, item.rate, rate)[: SECONDS * rate]
