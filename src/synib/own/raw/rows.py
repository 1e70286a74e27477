"""The items of some rows, read and decoded once: texts in memory, images and sounds in a file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from synib.data.media import BrokenFile, resample
from synib.own.raw.embed import STEP, Embedded, decoded, decoding_pool, item_blocks
from synib.own.raw.encoders.pretrained import Pretrained

SECONDS = 30  # of a sound that are trained on
Kept = str | np.ndarray[Any, Any]


class RawRows:
    """What a network of transformers takes of each row.

    Images are kept as the network takes them, in half precision; of sounds the first 30 seconds.

    Args:
        embedded: The file.
        name: The modality.
        encoder: The network.
        rows: Numbers of rows of the file, which are counted from 0 here.
        folder: Where images and sounds are kept.
    """

    def __init__(self, embedded: Embedded, name: str, encoder: Pretrained, rows: Sequence[int], folder: Path) -> None:
        self.encoder, self._texts = encoder, {}
        self._spans: dict[int, tuple[int, tuple[int, ...]]] = {}  # place → where it begins in the file, and its shape
        self._dtype = np.dtype(np.float16 if encoder.kind == "image" else np.float32)
        modality, place = embedded.modalities[name], {int(row): k for k, row in enumerate(rows)}
        path, end = folder / f"{len(list(folder.iterdir()))}.raw", 0
        with path.open("wb") as file, decoding_pool(modality) as pool:
            for start, items in item_blocks(embedded.base, modality, STEP[modality.kind], 0):
                wanted = [k for k, item in enumerate(items) if item is not None and start + k in place]

                def kept(k: int, items: Sequence[Any] = items) -> Kept | None:
                    try:
                        return self._kept(decoded(items[k], modality, embedded.files))
                    except BrokenFile:  # said when it was embedded, where the row lost the modality
                        return None

                for k, item in zip(wanted, map(kept, wanted) if pool is None else pool.map(kept, wanted), strict=True):
                    if isinstance(item, str):
                        self._texts[place[start + k]] = item
                    elif item is not None:
                        self._spans[place[start + k]] = end, item.shape
                        file.write(item.astype(self._dtype).tobytes())
                        end += item.size
        self._values = np.memmap(path, self._dtype, "r") if end else np.zeros(0, self._dtype)

    def inputs(self, places: Sequence[int]) -> dict[str, Tensor]:
        """What the network takes of some rows."""
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
