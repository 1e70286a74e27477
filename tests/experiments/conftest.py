"""Data sets in files that the tests make, for the experiments on them."""

import wave

import numpy as np
import pytest

from synib.data.ravdess import EMOTIONS, FOLDS


@pytest.fixture(scope="session")
def ravdess_root(tmp_path_factory):
    """A folder with ravdess/features.npz: 24 actors, each twice with every emotion, which both modalities show in part."""
    actor = np.repeat(np.arange(1, 25), 2 * len(EMOTIONS))
    label = np.tile(np.repeat(np.arange(len(EMOTIONS)), 2), 24)
    rng = np.random.default_rng(0)

    def shown(width):
        # Every actor has a level of the actor's own.
        return (rng.normal(0, 2, (8, width))[label] + rng.normal(0, 1, (len(label), width)) + actor[:, None]).astype(
            np.float32
        )

    n = len(label)
    columns = {
        "id": np.array([f"03-01-{i:04}" for i in rng.permutation(n)]),
        "audio": shown(6), "audio_logmel": shown(2), "visual": shown(5), "label": label, "actor": actor,
        "fold": np.array([next(k for k, people in enumerate(FOLDS) if a in people) for a in actor], np.int8),
        "intensity": np.ones(n, int), "statement": np.ones(n, int), "repetition": np.arange(n) % 2 + 1,
        "duration_s": np.ones(n, np.float32),
    }  # fmt: skip
    root = tmp_path_factory.mktemp("data")
    (root / "ravdess").mkdir()
    np.savez_compressed(root / "ravdess" / "features.npz", **columns)
    return root


@pytest.fixture(scope="session")
def digits_root(tmp_path_factory):
    """A folder with digits/: four speakers say every digit once, and 60 images of noise in each file."""
    rng = np.random.default_rng(0)
    home = tmp_path_factory.mktemp("data") / "digits"
    (home / "recordings").mkdir(parents=True)
    for name in (f"{digit}_{who}_0.wav" for digit in range(10) for who in ("anna", "bo", "carl", "dora")):
        with wave.open(str(home / "recordings" / name), "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", "not compressed"))
            file.writeframes(rng.integers(-9000, 9000, 600).astype("<i2").tobytes())
    for name in ("valid", "test"):
        images = {"inputs": rng.uniform(0, 0.5, (60, 784)).astype(np.float16), "targets": rng.integers(0, 10, 60)}
        np.savez(home / f"mnist-{name}.npz", **images)
    return home.parent
