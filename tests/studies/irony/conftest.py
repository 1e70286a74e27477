"""A small irony experiment on features with its finished run, and CREMA-D's files."""

import pytest

from synib.files import read_csv
from synib.report import build
from synib.studies import IronyRates
from synib.studies.irony.crema_d import EMOTIONS
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
