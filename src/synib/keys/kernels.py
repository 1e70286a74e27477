# mypy: ignore-errors
"""The draws as Triton kernels: one kernel makes a draw of many keys. Imported only where Triton is installed.

``key`` is a pointer with a stride, or a number if the key is on the host (``HOST``).
"""

import math

import triton
import triton.language as tl
from triton.language.extra import libdevice

from synib.keys.launch import OneAtATime

GOLDEN = tl.constexpr(0x9E3779B97F4A7C15)
MIX_1 = tl.constexpr(0xBF58476D1CE4E5B9)
MIX_2 = tl.constexpr(0x94D049BB133111EB)
UNIT = tl.constexpr(2.0**-24)
ANGLE = tl.constexpr(2.0 * math.pi * 2.0**-24)


@triton.jit
def _mix(z):
    z = (z ^ (z >> 30)) * MIX_1
    z = (z ^ (z >> 27)) * MIX_2
    return z ^ (z >> 31)


@triton.jit
def _state(key, stride, row, HOST: tl.constexpr):
    return (key if HOST else tl.load(key + row * stride)).to(tl.uint64)


@triton.jit
def _words(state, at):
    return _mix((at + 1).to(tl.uint64) * GOLDEN + state)


@triton.jit
def _box_muller(high, low):
    radius = tl.sqrt_rn(-2.0 * libdevice.log((high + 0.5) * UNIT))
    angle = low * ANGLE
    return radius, libdevice.cos(angle), libdevice.sin(angle)


@OneAtATime
@triton.jit(do_not_specialize=["key", "stride", "blocks", "p"])
def draw(
    key, stride, out, angles, n, words, blocks, p, HOST: tl.constexpr, KIND: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """A draw of each key. ``KIND`` "polar" writes the arguments of logarithm and cosine, for torch to go on from."""
    row = (tl.program_id(0) // blocks).to(tl.int64)
    at = (tl.program_id(0) % blocks) * BLOCK + tl.arange(0, BLOCK)
    z = _words(_state(key, stride, row, HOST), at)
    first, second = at < words, at < n - words
    if KIND == "bits":
        tl.store(out + row * n + at, z.to(tl.int64), mask=first)
    else:
        high, low = (z >> 40).to(tl.int32).to(tl.float32), (z & 0xFFFFFF).to(tl.int32).to(tl.float32)
        if KIND == "polar":
            tl.store(out + row * words + at, (high + 0.5) * UNIT, mask=first)
            tl.store(angles + row * words + at, low * ANGLE, mask=first)
        else:
            out += row * n
            if KIND == "uniform":
                one, other = high * UNIT, low * UNIT
            elif KIND == "bernoulli":
                one, other = (high * UNIT < p).to(tl.uint8), (low * UNIT < p).to(tl.uint8)
            else:
                radius, cosine, sine = _box_muller(high, low)
                one, other = radius * cosine, radius * sine
            tl.store(out + at, one, mask=first)
            tl.store(out + words + at, other, mask=second)


@OneAtATime
@triton.jit
def polar(start, radius, cosine, sine, BLOCK: tl.constexpr):
    """What a normal draw computes from the 24-bit integers from ``start`` on, to compare with torch."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    number = (start + at).to(tl.float32)
    r, c, s = _box_muller(number, number)
    tl.store(radius + at, r)
    tl.store(cosine + at, c)
    tl.store(sine + at, s)


@OneAtATime
@triton.jit(do_not_specialize=["key", "stride"])
def permutation(key, stride, out, n, HOST: tl.constexpr, BLOCKS: tl.constexpr, BLOCK: tl.constexpr):
    """Counts how many words are smaller than each: its place in the sorted order."""
    row = (tl.program_id(0) // BLOCKS).to(tl.int64)
    at = (tl.program_id(0) % BLOCKS) * BLOCK + tl.arange(0, BLOCK)
    state = _state(key, stride, row, HOST)
    mine = _words(state, at).to(tl.int64)
    place = tl.zeros([BLOCK], tl.int32)
    for block in range(BLOCKS):
        others = block * BLOCK + tl.arange(0, BLOCK)
        theirs = _words(state, others).to(tl.int64)
        smaller = (theirs[None, :] < mine[:, None]) & (others < n)[None, :]
        place += tl.sum(smaller.to(tl.int32), 1)
    tl.store(out + row * n + place, at.to(tl.int64), mask=at < n)


@OneAtATime
@triton.jit(do_not_specialize=["stride", "n", "one", "two", "three", "four"])
def fold(key, stride, out, n, one, two, three, four, LABELS: tl.constexpr, BLOCK: tl.constexpr):
    """Folds up to four labels into each key."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    z = tl.load(key + at.to(tl.int64) * stride, mask=at < n, other=0).to(tl.uint64)
    z = _folded(z, one)
    if LABELS > 1:
        z = _folded(z, two)
    if LABELS > 2:
        z = _folded(z, three)
    if LABELS > 3:
        z = _folded(z, four)
    tl.store(out + at, z.to(tl.int64), mask=at < n)


@triton.jit
def _folded(z, label):
    number = label.to(tl.uint64)
    z = tl.where((number == 0) & (z == 0), MIX_2, z ^ number)
    return _mix(z + GOLDEN)
