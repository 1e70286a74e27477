"""What benchmarks/fuzz.py runs: for every command and reader, an input that is damaged or odd, and where it may write."""

import hashlib
import json
import pickle
import random
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_inputs import FORMATS, ODD_TEXTS, json_bytes, own_arrays, pickle_bytes, spoil_folder, write_own

Made = tuple[list[str] | Callable[[], Any], list[Path]]  # what to run, and where it may write


def prepare(home: Path) -> None:
    """Valid folders to spoil: a finished run, a model, data sets that ``synib data check`` knows."""
    import torch

    from synib.own.fit import fit
    from synib.own.table import read
    from synib.studies import SpuriousXOR, run
    from synib.training import checkpoints

    home.mkdir(parents=True)
    run(SpuriousXOR(seeds=1, beta=(1.0,), methods=("vanilla",), epochs=1), home / "run", device="cpu")
    np.savez(home / "data.npz", **own_arrays(random.Random(0), 0))
    fit(read(home / "data.npz"), "vanilla", budget=1, epochs=1, device="cpu").save(home / "model")
    rng = np.random.default_rng(0)
    parts = {}
    for name in ("train", "valid", "test"):
        x: dict[str, Any] = {m: rng.normal(size=(4, 6, 3)).astype(np.float32) for m in ("vision", "audio", "text")}
        parts[name] = x | {"labels": rng.normal(size=(4, 1)), "id": [f"{name}{i}" for i in range(4)]}
    mosi, memes = home / "data" / "mosi", home / "data" / "hateful-memes"
    mosi.mkdir(parents=True)
    (mosi / "mosi_raw.pkl").write_bytes(pickle.dumps(parts))
    np.savez(mosi / "features.npz", label=np.arange(4) % 2, minilm=rng.normal(size=(4, 3)))
    (memes / "img").mkdir(parents=True)
    (memes / "img" / "1.png").write_bytes(b"no picture")
    for name in ("train", "dev_unseen", "test_seen"):
        line = {"id": 1, "img": "img/1.png", "text": "words", "label": 1}
        (memes / f"{name}.jsonl").write_text(json.dumps(line))
    content = {"synib": {}, "weights": {"w": torch.zeros(3)}, "epoch": 1}
    checkpoints.AtomicCheckpoints().save_checkpoint(content, home / "checkpoint.ckpt")


def options(rng: random.Random, known: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Some options of a command with values that are right, odd, or missing."""
    arguments: list[str] = []
    while rng.random() < 0.6:
        name = rng.choice([*known, "--nothing"] if rng.random() < 0.1 else list(known))
        right = known.get(name, ())
        value = rng.choice(right) if right and rng.random() < 0.6 else rng.choice(ODD_TEXTS).replace("\x00", "")
        arguments += [name] if rng.random() < 0.05 or right == ("",) else [name, value]
    return arguments


OWN = {
    "--target": ("label", "speaker", "image"), "--modality": ("image=image", "text=text", "image=label"), "--split": ("split",),
    "--group": ("speaker",),
}  # fmt: skip


def own(command: str, kind: str) -> Callable[[random.Random, Path, Path], Made]:
    def make(rng: random.Random, home: Path, box: Path) -> Made:
        path = write_own(rng, box / "in", kind)
        out = ["--out", str(box / "out" / ("p.csv" if command == "predict" else ""))]
        if command == "predict":
            (box / "out").mkdir()
            return [
                "predict",
                str(home / "model"),
                str(path),
                *options(rng, {"--modality": OWN["--modality"]}),
                *out,
            ], []
        more = {"--nuisance": ("speaker",), "--task": ("classification", "regression"), "--quick": ("",)}
        fits = {"--method": ("synib", "vanilla"), "--seeds": ("1",), "--budget": ("1", "99"), "--quick": ("",)}
        return [command, str(path), *options(rng, OWN | (more if command == "audit" else fits)), *out], []

    return make


def model_folder(rng: random.Random, home: Path, box: Path) -> Made:
    spoil_folder(rng, home / "model", box / "in" / "model")
    plain, tensors = box / "in" / "model" / "model.json", box / "in" / "model" / "model.safetensors"
    if (
        rng.random() < 0.7 and plain.is_file() and tensors.is_file()
    ):  # a checksum that is right, so that more is looked at
        try:
            content = json.loads(plain.read_text())
            content["sha256"] = hashlib.sha256(tensors.read_bytes()).hexdigest()
            plain.write_text(json.dumps(content))
        except (ValueError, TypeError, RecursionError):
            pass
    (box / "out").mkdir()
    return ["predict", str(box / "in" / "model"), str(home / "data.npz"), "--out", str(box / "out" / "p.csv")], []


def results(command: str) -> Callable[[random.Random, Path, Path], Made]:
    def make(rng: random.Random, home: Path, box: Path) -> Made:
        folder = box / "in" / "run"
        spoil_folder(rng, home / "run", folder)
        if command == "report":
            return ["report", str(folder), "--static"], [folder]
        if command == "continue":
            return ["reproduce", "spurious-xor", "--config", str(home / "run" / "config.json"), "--out", str(folder)], [
                folder
            ]
        known = {
            "--share": ("0.5",),
            "--cells": ("1",),
            "--seed": ("1",),
            "--tolerance": ("0.1",),
            "--device": ("cpu",),
        }
        return ["verify", str(folder), *options(rng, known)], []

    return make


def config(rng: random.Random, home: Path, box: Path) -> Made:
    data = (home / "run" / "config.json").read_bytes()
    (box / "in" / "config.json").write_bytes(json_bytes(rng, data) if rng.random() < 0.8 else data)
    known = {
        "--seeds": ("1",), "--beta": ("1", "0.5"), "--method": ("vanilla",), "--set": ("vanilla.lr=0.1",), "--epochs": ("1",),
        "--together": ("1",), "--engine": ("fleet",), "--precision": ("float32",), "--device": ("cpu",), "--quick": ("",),
    }  # fmt: skip
    config = ["--config", str(box / "in" / "config.json")] if rng.random() < 0.8 else []
    return ["reproduce", "spurious-xor", *config, *options(rng, known), "--out", str(box / "out")], []


def data_check(rng: random.Random, home: Path, box: Path) -> Made:
    root = box / "in" / "data"
    spoil_folder(rng, home / "data", root)
    name = rng.choice(["mosi-pickles", "mosi", "hateful-memes", "mustard", *ODD_TEXTS]).replace("\x00", "")
    return ["data", "check", name, *options(rng, {"--root": (str(root),)}), "--root", str(root)], []


def words(rng: random.Random, home: Path, box: Path) -> Made:
    names = [
        "audit",
        "fit",
        "predict",
        "report",
        "verify",
        "data",
        "check",
        "list",
        "reproduce",
        "search",
        "--help",
        "--version",
    ]
    return [rng.choice([*names, *ODD_TEXTS]).replace("\x00", "") for _ in range(rng.randint(0, 4))], [box / "work"]


def direct(reader: str) -> Callable[[random.Random, Path, Path], Made]:
    """A reader without a command around it."""

    def make(rng: random.Random, home: Path, box: Path) -> Made:
        from synib.data.pickles import read_pickle
        from synib.own.from_arrays import read_npz
        from synib.studies.hateful_memes import files as hateful_memes
        from synib.training import checkpoints

        folder = box / "in" / "data"
        if reader == "checkpoint":
            folder.mkdir()
            (folder / "checkpoint.ckpt").write_bytes(pickle_bytes(rng, (home / "checkpoint.ckpt").read_bytes()))
            return lambda: checkpoints.load(folder / "checkpoint.ckpt"), []
        if reader == "memes":
            shutil.copytree(home / "data" / "hateful-memes", folder)
            line = json_bytes(rng, (folder / "train.jsonl").read_bytes())
            (folder / "train.jsonl").write_bytes(line)
            return lambda: hateful_memes.load(folder, skip_broken=rng.random() < 0.5), []
        if reader == "npz":
            path = write_own(rng, box / "in", "npz")
            return lambda: read_npz(path, ["image", "label"]), []
        folder.mkdir()
        (folder / "some.pkl").write_bytes(pickle_bytes(rng, (home / "data" / "mosi" / "mosi_raw.pkl").read_bytes()))
        return lambda: read_pickle(folder / "some.pkl"), []

    return make


TARGETS: dict[str, Callable[[random.Random, Path, Path], Made]] = {
    **{f"{command} FILE.{kind}": own(command, kind) for kind in FORMATS for command in ("audit", "fit", "predict")},
    "predict MODEL": model_folder,
    **{f"{command} FOLDER": results(command) for command in ("report", "verify", "continue")},
    "reproduce --config": config,
    "data check": data_check,
    "words": words,
    **{f"read {reader}": direct(reader) for reader in ("pickle", "npz", "memes", "checkpoint")},
}
