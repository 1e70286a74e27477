"""The examples of many models side by side, and the batches of an epoch."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import torch
from torch import Tensor

from synib.data import Split
from synib.tokens import Modality, move, stack, take, values
from synib.training.lazy_rows import LazyRows, StackedRows

# Bytes of an epoch's examples up to which they are put in order at once, which saves a kernel in each step.
ORDERED = 1 << 28


def side_by_side(each: Sequence[Modality | LazyRows], device: torch.device) -> Modality:
    """A modality of several models. Lazy rows stay lazy on a CPU; any other device gets all of them."""
    lazy = [x for x in each if isinstance(x, LazyRows)]
    if lazy and device.type == "cpu":
        return cast(Modality, StackedRows(lazy))
    read = {id(x): x[:] if isinstance(x, LazyRows) else x for x in each}
    if len(read) == len(each) or device.type == "cpu":
        return move(stack([read[id(x)] for x in each]), device)
    place = {key: i for i, key in enumerate(read)}
    return shared(list(read.values()), [place[id(x)] for x in each], device)


def shared(different: Sequence[Modality], places: Sequence[int], device: torch.device) -> Modality:
    """The same where models share examples, which are moved once and repeated on the device."""
    return take(move(stack(different), device), torch.tensor(places, device=device))


def batches(modalities: Mapping[str, Modality], order: Tensor, size: int) -> Iterator[dict[str, Modality]]:
    """The batches of an epoch; the last may be smaller. Lazy rows are read while the batch before is trained on.

    Args:
        modalities: Name → the examples of all models, the models in front.
        order: The order of each model's examples, ``(models, examples)``.
        size: Examples in a batch.
    """
    model = torch.arange(len(order), device=order.device)[:, None]
    pieces = order.split(size, 1)

    def batch(rows: Tensor) -> dict[str, Modality]:
        return {name: take(x, (model, rows)) for name, x in modalities.items()}

    if any(isinstance(x, StackedRows) for x in modalities.values()):
        with ThreadPoolExecutor(1) as pool:
            coming = pool.submit(batch, pieces[0])
            for rows in pieces[1:]:
                current, coming = coming, pool.submit(batch, rows)
                yield current.result()
            yield coming.result()
    elif sum(values(x).nbytes for x in modalities.values()) <= ORDERED:
        ordered = batch(order)
        for start in range(0, order.shape[1], size):
            yield {name: take(x, (slice(None), slice(start, start + size))) for name, x in ordered.items()}
    else:
        yield from map(batch, pieces)


def whole(split: Split) -> dict[str, Modality]:
    """All examples in memory, for methods that look at all of them at once."""
    return {name: take(x, (slice(None), slice(None))) for name, x in split.modalities.items()}
