"""Spurious XOR: two bits, their XOR, and a shortcut in the first modality."""

from synib.data.dataset import Dataset
from synib.data.parity import TestShortcut, parity


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
        >>> from synib.data import spurious_xor
        >>> data = spurious_xor(beta=1.0, seed=0)
        >>> data.train.modalities["x1"].shape, data.blocks["x1"]["shortcut"]
        (torch.Size([300, 64]), range(4, 10))
    """
    return parity(2, beta, seed, train=train, validation=validation, test=test, test_shortcut=test_shortcut)
