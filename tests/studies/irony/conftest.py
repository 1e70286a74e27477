"""A small irony experiment on features with its finished run, and CREMA-D's files."""

import numpy as np
import pytest

from synib.files import read_csv
from synib.report import build
from synib.studies import IronyRates
from synib.studies.irony.crema_d import EMOTIONS
from synib.studies.irony.ravdess import FOLDS
from synib.training.folder import Folder
from synib.training.sweep import sweep


@pytest.fixture(scope="session")
def small(ravdess_root):
    return IronyRates(
        root=str(ravdess_root), methods=("vanilla", "synib-marginal"), alpha=(0.5, 2.0), fold=(0, 1, 2), epochs=2
    )


@pytest.fixture(scope="session")
def finished(small, tmp_path_factory):
    path = tmp_path_factory.mktemp("irony")
    sweep(small, small.cells(), Folder(path, small.config()))
    return build(path), read_csv(path / "results.csv"), path


@pytest.fixture(scope="session")
def crema_d_root(tmp_path_factory, write_sound, write_video):
    """CREMA-D's folders: five actors, six emotions, two clips of each."""
    folder = tmp_path_factory.mktemp("media") / "crema-d"
    for actor in range(1001, 1006):
        for k, emotion in enumerate(EMOTIONS):
            for sentence in ("DFA", "IEO"):
                name = f"{actor}_{sentence}_{emotion}_XX"
                tone = 2.0 * actor + 100 * k + 50 * (sentence == "IEO")
                write_sound(folder / "AudioWAV" / f"{name}.wav", 0.1, 22_050, tone=tone)
                kind = "mp4" if k == 0 else "flv"
                write_video(folder / "VideoFlash" / f"{name}.{kind}", (20 * k, 30 * k), fps=2, size=(32, 32))
    return folder


@pytest.fixture(scope="session")
def takes_root(tmp_path_factory):
    """A folder with ravdess/features.npz: 60 clips of each actor, as in RAVDESS, whose emotion both modalities show in part."""
    clips = [
        (actor, statement, intensity, take, k)
        for actor in range(1, 25)
        for statement in (1, 2)
        for intensity in (1, 2)
        for k in range(8)
        for take in (1, 2)
        if k or intensity == 1  # neutral has one intensity only
    ]
    actor, statement, intensity, take, label = np.array(clips).T
    rng = np.random.default_rng(0)

    def shown(width):
        return (rng.normal(0, 2, (8, width))[label] + rng.normal(0, 1, (len(label), width))).astype(np.float32)

    columns = {
        "id": np.array([f"03-01-{i:04}" for i in rng.permutation(len(label))]),
        "audio": shown(6), "audio_logmel": shown(2), "visual": shown(5), "label": label, "actor": actor,
        "fold": np.array([next(k for k, people in enumerate(FOLDS) if a in people) for a in actor], np.int8),
        "intensity": intensity, "statement": statement, "repetition": take,
        "duration_s": np.ones(len(label), np.float32),
    }  # fmt: skip
    root = tmp_path_factory.mktemp("takes")
    (root / "ravdess").mkdir()
    np.savez_compressed(root / "ravdess" / "features.npz", **columns)
    return root
