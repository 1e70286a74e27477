"""The draws on a CPU, block by block in its cache: NumPy knows unsigned integers, whose shifts need no masks."""

import math
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from synib.keys.chain import ANGLE, GOLDEN, MIX_1, MIX_2, UNIT, box_muller

Array = np.ndarray[Any, Any]

BLOCK = 1 << 14  # words that are mixed at a time: 128 kB, twice
WORD = (1 << 64) - 1
_GOLDEN, _MIX_1, _MIX_2 = (np.uint64(constant & WORD) for constant in (GOLDEN, MIX_1, MIX_2))
_UNIT, _ANGLE, _HALF = np.float32(UNIT), np.float32(ANGLE), np.float32(0.5)
_24_BITS, _8 = np.uint32(0xFFFFFF), np.uint32(8)
_27, _30, _31, _40 = (np.uint64(shift) for shift in (27, 30, 31, 40))


def bits(key: Tensor, n: int) -> Tensor:
    """``n`` words of 64 bits for each key."""
    out = np.empty((key.numel(), n), np.uint64)
    for rows, columns, words in _blocks(key, n):
        out[rows, columns] = words
    return _as_tensor(out.view(np.int64), key)


def uniform(key: Tensor, n: int) -> Tensor:
    """Uniform draws on [0, 1)."""
    out, half = np.empty((key.numel(), n), np.float32), (n + 1) // 2
    for rows, columns, words in _blocks(key, half):
        high, low = _halves(words)
        np.multiply(high, _UNIT, out=out[rows, columns], dtype=np.float32, casting="unsafe")
        place = out[rows, half + columns.start : min(half + columns.stop, n)]
        np.multiply(low[:, : place.shape[1]], _UNIT, out=place, dtype=np.float32, casting="unsafe")
    return _as_tensor(out, key)


def bernoulli(key: Tensor, p: float, n: int) -> Tensor:
    """True where the uniform draw is below ``p``."""
    # k 2^-24 < p, for the float32 that is next to p, as torch compares: k < least, whose bits are the upper ones of a word.
    least = math.ceil(float(np.float32(p)) / UNIT)
    out = np.empty((key.numel(), n), np.bool_)
    if not 0 < least < 1 << 24:
        out[:] = least > 0
        return _as_tensor(out, key)
    bound, half = np.uint64(least << 40), (n + 1) // 2
    for rows, columns, words in _blocks(key, half):
        np.less(words, bound, out=out[rows, columns])
        place = out[rows, half + columns.start : min(half + columns.stop, n)]
        np.less(np.left_shift(words, _40, out=words)[:, : place.shape[1]], bound, out=place)
    return _as_tensor(out, key)


def normal(key: Tensor, n: int) -> Tensor:
    """Standard normal draws; by torch's logarithm and cosine, since those of NumPy have other digits."""
    half = (n + 1) // 2
    u, angle = np.empty((2, key.numel(), half), np.float32)
    for rows, columns, words in _blocks(key, half):
        high, low = _halves(words)
        np.add(high, _HALF, out=u[rows, columns], dtype=np.float32, casting="unsafe")
        np.multiply(low, _ANGLE, out=angle[rows, columns], dtype=np.float32, casting="unsafe")
    return box_muller(_as_tensor(u, key).mul_(UNIT), _as_tensor(angle, key), n)


def permutation(key: Tensor, n: int) -> Tensor:
    """A random permutation of ``range(n)`` for each key."""
    return bits(key, n).argsort()


def fold(key: Tensor, labels: Sequence[int]) -> Tensor:
    """A new key for each sequence of labels."""
    if not key.ndim:
        word = int(key)
        for label in labels:
            word = mix(((word ^ label if label else word or MIX_2) + GOLDEN) & WORD)
        return torch.tensor(word - (word >> 63 << 64))
    words = key.numpy().view(np.uint64)
    spare = np.empty_like(words)
    for label in labels:
        words = words ^ np.uint64(label & WORD) if label else np.where(words == 0, _MIX_2, words)
        words += _GOLDEN
        _mix(words, spare)
    return torch.from_numpy(words.view(np.int64))


def mix(word: int) -> int:
    """The mixing function of SplitMix64 for one word."""
    word = (word ^ word >> 30) * MIX_1 & WORD
    word = (word ^ word >> 27) * MIX_2 & WORD
    return word ^ word >> 31


def _blocks(key: Tensor, words: int) -> Iterator[tuple[slice, slice, Array]]:
    """The words of all keys, a block of rows and columns at a time; the next block overwrites it."""
    if not words or not key.numel():
        return
    states = key.reshape(-1, 1).numpy().view(np.uint64)
    width = min(words, BLOCK)
    height = min(BLOCK // width, len(states))
    counter = _counter(1 << (width - 1).bit_length())[:width]
    mixed, spare = np.empty((2, height, width), np.uint64)
    for top in range(0, len(states), height):
        state = states[top : top + height]
        for left in range(0, words, width):
            z, t = (a[: len(state), : min(width, words - left)] for a in (mixed, spare))
            np.add(counter[: z.shape[1]], state + np.uint64(left * GOLDEN & WORD) if left else state, out=z)
            _mix(z, t)
            yield slice(top, top + len(state)), slice(left, left + z.shape[1]), z


@lru_cache(maxsize=BLOCK.bit_length() + 1)
def _counter(n: int) -> Array:
    return np.arange(1, n + 1, dtype=np.uint64) * _GOLDEN


def _mix(z: Array, spare: Array) -> None:
    np.right_shift(z, _30, out=spare)
    np.bitwise_xor(z, spare, out=z)
    np.multiply(z, _MIX_1, out=z)
    np.right_shift(z, _27, out=spare)
    np.bitwise_xor(z, spare, out=z)
    np.multiply(z, _MIX_2, out=z)
    np.right_shift(z, _31, out=spare)
    np.bitwise_xor(z, spare, out=z)


def _halves(words: Array) -> tuple[Array, Array]:
    """The upper and the lower 24 bits of each word."""
    halves = words.view(np.uint32)
    low, high = (halves[:, side::2] for side in ((0, 1) if sys.byteorder == "little" else (1, 0)))
    return (high >> _8).view(np.int32), (low & _24_BITS).view(np.int32)


def _as_tensor(drawn: Array, key: Tensor) -> Tensor:
    return torch.from_numpy(drawn).view(*key.shape, drawn.shape[1])
