# mypy: ignore-errors
"""The Triton kernels. Imported only where Triton is installed."""

import triton
import triton.language as tl

from synib.keys.launch import OneAtATime


@OneAtATime
@triton.jit
def relu_dropout(
    x, bias, dropped, out, n, per, width, stride, scale,
    BIAS: tl.constexpr, DROPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """``per`` numbers share one vector of biases; neighbouring units are ``stride`` numbers apart."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    y = tl.load(x + at, mask=inside)
    if BIAS:
        y += tl.load(bias + (at // per) * width + (at // stride) % width, mask=inside)
    y = tl.where(y <= 0.0, 0.0, y)  # what is not a number stays so
    if DROPS:
        y = tl.where(tl.load(dropped + at, mask=inside) != 0, 0.0, y * scale)
    tl.store(out + at, y, mask=inside)


@OneAtATime
@triton.jit
def relu_dropout_backward(gradient, y, out, n, scale, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    gone = tl.load(y + at, mask=inside) <= 0.0
    tl.store(out + at, tl.where(gone, 0.0, tl.load(gradient + at, mask=inside) * scale), mask=inside)


@OneAtATime
@triton.jit
def transposed(x, out, height, width, down, across, BLOCK: tl.constexpr):
    """Matrices of ``down`` times ``across`` tiles, each the other way round."""
    tile = tl.program_id(0)
    row = (tile // across % down) * BLOCK + tl.arange(0, BLOCK)
    column = (tile % across) * BLOCK + tl.arange(0, BLOCK)
    first = (tile // (down * across)).to(tl.int64) * height * width
    inside = (row < height)[:, None] & (column < width)[None, :]
    block = tl.load(x + first + row[:, None] * width + column[None, :], mask=inside)
    inside = (column < width)[:, None] & (row < height)[None, :]
    tl.store(out + first + column[:, None] * height + row[None, :], tl.trans(block), mask=inside)


@OneAtATime
@triton.jit
def adam(
    parameter, gradient, first, second, lr, decay, corrections, per, blocks,
    BETA_1: tl.constexpr, BETA_2: tl.constexpr, EPSILON: tl.constexpr, ROUNDED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One step for ``per`` numbers of each model, with the model's learning rate and weight decay.

    ``corrections`` are those of the moments' biases, 1 - beta ** steps. Products and sums are not contracted, except
    where they are written as one: torch's kernel rounds the product of weight decay for one of four neighbours, number
    ``ROUNDED``.
    """
    model = (tl.program_id(0) // blocks).to(tl.int64)
    at = (tl.program_id(0) % blocks) * BLOCK + tl.arange(0, BLOCK)
    inside = at < per
    at = model * per + at
    beta_1, beta_2 = tl.full([1], BETA_1, tl.float32), tl.full([1], BETA_2, tl.float32)
    size = tl.div_rn(tl.load(lr + model), tl.load(corrections))
    root = tl.sqrt_rn(tl.load(corrections + 1))
    p = tl.load(parameter + at, mask=inside)
    g = tl.load(gradient + at, mask=inside)
    m = tl.load(first + at, mask=inside)
    v = tl.load(second + at, mask=inside)
    wd = tl.load(decay + model)
    g = tl.where(at % 4 == ROUNDED, p * wd + g, tl.fma(p, wd, g))
    squared = g * g
    m = tl.fma(beta_1, m, tl.fma(-beta_1, g, g))
    v = tl.fma(beta_2, v, tl.fma(-beta_2, squared, squared))
    p -= tl.div_rn(size * m, tl.div_rn(tl.sqrt_rn(v), root) + EPSILON)
    tl.store(parameter + at, p, mask=inside)
    tl.store(first + at, m, mask=inside)
    tl.store(second + at, v, mask=inside)


@OneAtATime
@triton.jit
def keep_finite(now, good, failed, per, blocks, BLOCK: tl.constexpr):
    """Restores the numbers of failed models, and remembers those of the others."""
    model = (tl.program_id(0) // blocks).to(tl.int64)
    at = (tl.program_id(0) % blocks) * BLOCK + tl.arange(0, BLOCK)
    inside = at < per
    at = model * per + at
    if tl.load(failed + model) != 0:
        tl.store(now + at, tl.load(good + at, mask=inside), mask=inside)
    else:
        tl.store(good + at, tl.load(now + at, mask=inside), mask=inside)
