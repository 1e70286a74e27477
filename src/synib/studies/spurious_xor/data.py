"""n bits in n modalities, the label their parity, and a shortcut that exists only in training."""

from typing import Literal

import torch
from torch import Tensor

from synib.checks import check_choice, check_whole, is_number, shown
from synib.data.dataset import Dataset, Split, check_sizes, generator

WIDTH, SIGNAL, SHORTCUT = 64, range(0, 4), range(4, 10)
SHIFT, SPREAD, SHORTCUT_SCALE = 2.2, 0.55, 1.3

TestShortcut = Literal["independent", "constant"]


def parity(
    modalities: int = 3,
    beta: float = 1.0,
    seed: int = 0,
    *,
    train: int = 1000,
    validation: int = 120,
    test: int = 30_000,
    test_shortcut: TestShortcut = "independent",
) -> Dataset:
    r"""The parity task: no proper subset of the modalities carries information about the label.

    Modality *m* is 64 wide: its bit :math:`b_m` in coordinates 0-3 as :math:`2.2\,(2 b_m - 1) + 0.55\,\varepsilon`, noise
    elsewhere. The first modality also carries in coordinates 4-9 the shortcut
    :math:`1.3\,[\beta\,(2y - 1) + \sqrt{\max(0, 1 - \beta^2)}\,\varepsilon]`. With two modalities this is Spurious XOR
    (App. "Spurious XOR").

    Args:
        modalities: n.
        beta: Strength of the shortcut in training and validation.
        seed: Determines all draws; each split has an independent stream.
        train, validation, test: Numbers of examples.
        test_shortcut: At test the shortcut is ``"independent"`` of the label (β = 0, pure noise, as in the paper's
            published numbers) or ``"constant"`` (y_eff = 0, as in the paper's text).
    """
    check_whole("modalities", modalities, least=2)
    if not is_number(beta) or beta < 0:
        raise ValueError(f"beta must be a finite number of at least 0; got {shown(beta)}.")
    check_sizes(train=train, validation=validation, test=test)
    check_choice("test_shortcut", test_shortcut, TestShortcut)

    def draw(name: str, n: int) -> Split:
        g = generator(seed, f"parity-{modalities}-{name}")
        bits = torch.stack([torch.randint(2, (n,), generator=g) for _ in range(modalities)])
        target = bits.sum(0) % 2
        x = [torch.randn(n, WIDTH, generator=g) for _ in range(modalities)]
        for m, bit in enumerate(bits):
            noise = torch.randn(n, len(SIGNAL), generator=g)
            x[m][:, SIGNAL.start : SIGNAL.stop] = SHIFT * _sign(bit) + SPREAD * noise
        strength, label = beta, target
        if name == "test":
            strength, label = (0.0, target) if test_shortcut == "independent" else (beta, torch.zeros_like(target))
        noise = max(0.0, 1 - strength**2) ** 0.5 * torch.randn(n, len(SHORTCUT), generator=g)
        x[0][:, SHORTCUT.start : SHORTCUT.stop] = SHORTCUT_SCALE * (strength * _sign(label) + noise)
        return Split({f"x{m + 1}": v for m, v in enumerate(x)}, target)

    blocks = {f"x{m + 1}": {"signal": SIGNAL, "noise": range(SIGNAL.stop, WIDTH)} for m in range(modalities)}
    blocks["x1"] |= {"shortcut": SHORTCUT, "noise": range(SHORTCUT.stop, WIDTH)}
    return Dataset(draw("train", train), draw("validation", validation), draw("test", test), blocks)


def _sign(bit: Tensor) -> Tensor:
    return (2.0 * bit - 1.0)[:, None]


def spurious_xor(
    beta: float = 1.0,
    seed: int = 0,
    *,
    train: int = 300,
    validation: int = 120,
    test: int = 30_000,
    test_shortcut: TestShortcut = "independent",
) -> Dataset:
    """The paper's Spurious XOR (App. "Spurious XOR"): :func:`parity` of two modalities, 300 training examples.

    Example:
        >>> from synib.studies.spurious_xor.data import spurious_xor
        >>> data = spurious_xor(beta=1.0, seed=0)
        >>> data.train.modalities["x1"].shape, data.blocks["x1"]["shortcut"]
        (torch.Size([300, 64]), range(4, 10))
    """
    return parity(2, beta, seed, train=train, validation=validation, test=test, test_shortcut=test_shortcut)
