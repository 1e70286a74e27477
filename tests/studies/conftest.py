"""Data sets in files that the tests make, for the experiments on them."""

import csv
import pickle
import shutil

import numpy as np
import pytest

from synib.studies.irony.ravdess import EMOTIONS, FOLDS
from synib.studies.irony.voices import BANDS, CACHE, FRAMES


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


@pytest.fixture(scope="session")
def voices_root(takes_root, tmp_path_factory):
    """The same clips, with spectrograms of the recordings whose first half shows a little of the emotion."""
    root = tmp_path_factory.mktemp("voices")
    shutil.copytree(takes_root / "ravdess", root / "ravdess")
    with np.load(root / "ravdess" / "features.npz") as features:
        names, label = features["id"], features["label"]
    rng = np.random.default_rng(0)
    log_mel = rng.normal(0, 1, (len(names), FRAMES, BANDS)).astype(np.float16)
    log_mel[:, : FRAMES // 2] += rng.normal(0, 1, (8, 1, BANDS)).astype(np.float16)[label]
    np.savez(root / "ravdess" / CACHE, id=names, log_mel=log_mel)
    return root


@pytest.fixture(scope="session")
def digits_root(tmp_path_factory, write_spoken):
    """A folder with digits/: five speakers say every digit twice, between silences; 200 and 120 images, no two the same.

    What is heard is a low tone for each digit and speaker under noise, what is seen noise away from the edges.
    """
    root, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    for k, speaker in enumerate(("anna", "b_o", "carl", "dora", "emil")):
        for digit in range(10):
            for take in range(2):
                time = np.arange(int(rng.integers(800, 2400))) / 8000
                said = 0.5 * np.sin(2 * np.pi * (300 + 100 * digit + 15 * k) * time) + 0.02 * rng.normal(size=len(time))
                write_spoken(
                    root / "digits" / "recordings" / f"{digit}_{speaker}_{take}.wav", np.pad(said.clip(-1, 1), 400)
                )
    for name, n in (("valid", 200), ("test", 120)):
        images = np.zeros((n, 28, 28), np.float16)
        images[:, 4:24, 4:24] = rng.uniform(0, 0.996, (n, 20, 20))
        np.savez_compressed(
            root / "digits" / f"mnist-{name}.npz",
            inputs=images.reshape(n, 784),
            targets=rng.integers(0, 10, n).astype(np.int8),
        )
    return root


@pytest.fixture(scope="session")
def affect_root(tmp_path_factory):
    """A folder with mosi and mustard as features and all three data sets as sequences; the label shows a little everywhere."""
    root, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)

    def shown(label, *shape):
        middle = 0.5 * label.reshape(-1, *[1] * len(shape))
        return (middle + rng.normal(0, 1, (len(label), *shape))).astype(np.float32)

    n = 200
    label = rng.integers(0, 2, n)
    video = np.array([f"v{i // 5:02}" for i in range(n)])
    split = np.where(np.arange(n) // 5 < 26, "train", np.where(np.arange(n) // 5 < 30, "valid", "test"))
    names = np.array([f"e{i}" for i in range(n)])
    mosi = {"minilm": shown(label, 4), "text": shown(label, 3), "audio": shown(label, 2), "video": shown(label, 5)}
    mosi |= {"id": names, "video_id": video, "transcript": names, "label": label, "split": split}
    show = np.array(["BBT", "FRIENDS", "GOLDENGIRLS", "FRIENDS"])[np.arange(n) % 4]
    mustard = {
        "text": shown(label, 4), "context": shown(label, 4), "audio": shown(label, 3), "audio_logmel": shown(label, 2),
        "video": np.repeat(shown(label, 1, 5), 8, axis=1), "label": label, "id": names, "show": show,
        "speaker": np.array([f"S{i // 4 % 11}" for i in range(n)]),
        # The size of a frame tells the label but for one clip in ten.
        "frame_size": np.where(label ^ (rng.random(n) < 0.1), "624x352", "1280x720"),
        "fps": np.where(np.arange(n) % 2, 23.976, 25.0).astype(np.float32),
        "audio_level": shown(label), "duration_s": shown(label),
        "fold": (np.arange(n) // 4 % 5).astype(np.int8), "si_test": (show == "FRIENDS").astype(np.int8),
    }  # fmt: skip
    for name, columns in (("mosi", mosi), ("mustard", mustard)):
        (root / name).mkdir()
        np.savez_compressed(root / name / "features.npz", **columns)
    (root / "ur-funny").mkdir()
    parts = {}
    for name, size in (("train", 20), ("valid", 12), ("test", 14)):
        y = rng.integers(0, 2, size)
        x = {m: shown(y, 6, w) for m, w in (("vision", 4), ("audio", 3), ("text", 5))}
        x["text"][:, :2] = 0  # what is said begins later
        parts[name] = {**x, "labels": 2.0 * y[:, None] - 1, "id": [f"{name}{i}" for i in range(size)]}
    for file in ("mosi/mosi_raw.pkl", "mustard/sarcasm.pkl", "ur-funny/humor.pkl"):
        (root / file).write_bytes(pickle.dumps(parts))
    return root


@pytest.fixture(scope="session")
def crema_votes_root(tmp_path_factory):
    """A folder with crema-d/tabulatedVotes.csv: fifteen actors, 24 clips each.

    The face shows the emotion, the voice in half of the clips another; both together are mostly judged as the face is.
    """
    root, rng, number = tmp_path_factory.mktemp("data"), np.random.default_rng(0), 0
    each = [f"mean{emotion}Resp" for emotion in ("Anger", "Disgust", "Fear", "Happy", "Neutral", "Sad")]
    rows = [["", *"ADFHNS", "fileName", "meanEmoResp", *each]]
    for actor in range(1001, 1016):
        for clip in range(24):
            number, emotion = number + 1, clip % 6
            named = ("ANG", "DIS", "FEA", "HAP", "NEU", "SAD")[emotion]
            name = f"{actor}_{'IEO' if clip < 12 else 'TIE'}_{named}_{('LO', 'MD', 'HI', 'XX')[clip % 4]}"
            heard, both = (emotion if rng.random() < share else int(rng.integers(6)) for share in (0.5, 0.8))
            level = float(rng.uniform(20, 90))
            for condition, (shown, given) in enumerate([(heard, level), (emotion, 80.0), (both, level)], 1):
                counts = rng.multinomial(4, [1 / 6] * 6)
                counts[shown] += 6
                levels = [given if count else -1 for count in counts]
                rows.append([f"{condition}{number:05}", *counts, name, given, *levels])
    (root / "crema-d").mkdir()
    with (root / "crema-d" / "tabulatedVotes.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return root
